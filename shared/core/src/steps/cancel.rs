//! Ending tasks that wait, before any call.
//!
//! One write ends a task. It leaves the task in the index of those that wait, as one of which others must hear: its
//! tracker, its stream, the next of its lane, and the queue for notices of failures. When all of them have heard, it
//! leaves the index. If the process dies in between, sweep makes up for it, and hearing twice changes nothing.
//!
//! What is in a batch whose call has not begun ends by one write of the batch, for all that are named of it at once. If
//! the process dies before all have heard, or the batch still takes tasks, the batch's own worker tells them, before
//! its next look at the gates.

use std::collections::{BTreeMap, HashMap};

use std::collections::VecDeque;

use futures::{StreamExt, stream};

use super::admit::Gatekeeper;
use super::cas::{Outcome, Tries, handle};
use super::lane::{Ordering, Over};
use super::notices::{Notified, Refused as Refusal, send_notices};
use super::process::{follow_up, tell_of_omitted};
use super::{CONCURRENCY, Error, observers, track};
use crate::domain::batch::{Assumes, Batch, Status};
use crate::domain::cancelled::{Cancels, Leaves, Refused};
use crate::domain::ended::Ended as How;
use crate::domain::failed::Failure;
use crate::domain::id::{BatchId, Round, Target, TaskId, TrackerId};
use crate::domain::lane::OnFailure;
use crate::domain::notice::{self, NotificationQueue};
use crate::domain::outcome::{Reason, Results};
use crate::domain::task::{self, Candidate, Task, Ties};
use crate::domain::time::Timestamp;
use crate::domain::trace::TraceParent;
use crate::domain::tracker;
use crate::ports::{
    self, Batches, Destination, Env, Freshness, Gates, Lanes, Locks, Outbox, Outgoing, PassedOver, Sought, Stored,
    Streams, Tasks, Trackers, Waiting,
};
use crate::routes::Routes;

handle! {
    /// Tasks that end while they wait, over their ports, and those of all that must hear of them.
    Cancelling
}

/// What became of those of a tracker's tasks that were looked at.
#[derive(Clone, Debug)]
pub struct OfTracker {
    /// Each that was not settled.
    pub each: Each,
    /// Where to go on: behind this task. `None` if all have been looked at.
    pub next: Option<TaskId>,
}

/// Tasks of the table that are looked at in one page for those of a tracker, or for older versions.
const PAGE: usize = 500;
/// This many tasks that were found end one call.
const ENOUGH: usize = 1_000;

/// A batch, and a task that is in it.
type InBatch = (BatchId, Task);

/// What became of each task that was named.
pub type Each = Vec<(TaskId, Outcome<(), Refused>)>;

/// What is left to look through for the tasks that wait for a batch of one Target, or are in one that takes more: shard
/// by shard, page by page.
#[derive(Clone, Debug)]
pub struct Waits<C> {
    shards: VecDeque<Target>,
    after: Option<C>,
    /// Whether the open batch of the first shard was looked at.
    has_open: bool,
}

impl<C> Waits<C> {
    /// All that wait for this Target. Tasks that wait for their turn are not among them.
    pub fn of(routes: &Routes, target: &Target) -> Self {
        let shards = routes.get(&target.route()).map_or(1, |route| route.shards);
        Self { shards: target.whole().shards(shards).collect(), after: None, has_open: false }
    }

    /// The next of them, up to `limit`; `None` if there are no more. A page may be empty.
    ///
    /// # Errors
    /// A table did not answer; the same call may be made again.
    pub async fn next<S: Tasks<Cursor = C> + Locks + Batches>(
        &mut self,
        store: &S,
        limit: usize,
    ) -> Result<Option<Vec<TaskId>>, Error> {
        let Some(shard) = self.shards.front() else { return Ok(None) };
        if !std::mem::replace(&mut self.has_open, true)
            && let Some(open) = store.lock(shard).await?.and_then(|lock| lock.open)
            && let Some(batch) = store.batch(&open).await?
            && matches!(batch.status, Status::Open { .. })
        {
            return Ok(Some(batch.members.into_iter().map(|member| member.id).take(limit).collect()));
        }
        let page = store.waiting(shard, self.after.as_ref(), limit).await?;
        self.after = page.next;
        if self.after.is_none() {
            self.shards.pop_front();
            self.has_open = false;
        }
        Ok(Some(page.candidates.into_iter().map(|waits| waits.id).collect()))
    }
}

/// A task that has ended.
struct Ended<'a> {
    id: &'a TaskId,
    round: Round,
    target: &'a Target,
    reason: &'a Reason,
    ties: Ties,
    at: Timestamp,
    trace: Option<TraceParent>,
}

impl<S: Tasks + Batches + Gates + Lanes + Trackers + Streams, Q: Outbox, E: Env> Cancelling<'_, S, Q, E> {
    /// Cancels tasks, each for itself; the answers are in the order of the ids. May be repeated.
    pub async fn cancel(&self, routes: &Routes, ids: &[TaskId]) -> Each {
        let found = match self.store.read(ids, Freshness::Latest).await {
            Ok(found) => found,
            Err(error) => return ids.iter().map(|id| (id.clone(), Err(error.clone().into()))).collect(),
        };
        let (mut alone, mut in_batches): (Vec<TaskId>, BTreeMap<BatchId, Vec<Task>>) = (Vec::new(), BTreeMap::new());
        let unknown = ids.iter().filter(|id| found.iter().all(|task| task.id != **id)).cloned().collect::<Vec<_>>();
        for task in found {
            match task.cancels() {
                Ok(Cancels::AsItsBatchSays(batch)) => in_batches.entry(batch).or_default().push(task),
                Ok(Cancels::Now | Cancels::Before) | Err(_) => alone.push(task.id),
            }
        }
        let ending = alone.into_iter().chain(unknown).map(|id| async move {
            let outcome = self.cancel_one(routes, &id).await;
            vec![(id, outcome)]
        });
        let leaving = in_batches.into_iter().map(|(batch, tasks)| self.leave_out(routes, batch, tasks));
        let ending = stream::iter(ending.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).collect::<Vec<_>>();
        let leaving = stream::iter(leaving.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).collect::<Vec<_>>();
        let (ended, left) = futures::join!(ending, leaving);
        let all: HashMap<TaskId, Outcome<(), Refused>> = ended.into_iter().chain(left).flatten().collect();
        ids.iter().filter_map(|id| Some((id.clone(), all.get(id)?.clone()))).collect()
    }

    /// Cancels those tasks with an item of this tracker that wait, behind `after`, until the time is over or many were
    /// found. May be repeated: a tracker does not know its tasks, so it reads the task table.
    pub async fn cancel_of(
        &self,
        routes: &Routes,
        tracker: &TrackerId,
        after: Option<&TaskId>,
        until: Timestamp,
    ) -> Outcome<OfTracker, track::Refused> {
        if self.store.look(tracker, &[], Freshness::Latest).await?.tracker.is_none() {
            return Ok(Err(track::Refused::Unknown(tracker.clone())));
        }
        let mut came = OfTracker { each: Vec::new(), next: after.cloned() };
        loop {
            let Sought { found, next } = self.store.unsettled_of(tracker, came.next.as_ref(), PAGE).await?;
            came.each.extend(self.cancel(routes, &found).await);
            came.next = next;
            if came.next.is_none() || came.each.len() >= ENOUGH || self.env.now() >= until {
                return Ok(Ok(came));
            }
        }
    }

    async fn cancel_one(&self, routes: &Routes, id: &TaskId) -> Outcome<(), Refused> {
        let in_batch = match self.end_waiting(routes, id).await? {
            Ok(None) => return Ok(Ok(())),
            Ok(Some(in_batch)) => in_batch,
            Err(refused) => return Ok(Err(refused)),
        };
        let left = self.leave_out(routes, in_batch.0, vec![in_batch.1]).await.pop();
        left.map_or(Ok(Err(Refused::Unknown)), |(_, outcome)| outcome)
    }

    /// Leaves tasks out of the call of the batch that they name.
    async fn leave_out(&self, routes: &Routes, id: BatchId, tasks: Vec<Task>) -> Each {
        let mut tries = Tries::of("leaving tasks out of a batch", self.env);
        let all = |outcome: Outcome<(), Refused>| {
            tasks.iter().map(|task| (task.id.clone(), outcome.clone())).collect::<Each>()
        };
        loop {
            let batch = match self.store.batch(&id).await {
                Ok(Some(batch)) => batch,
                // An express writer has put its tasks, and is about to write it.
                Ok(None) => return all(Ok(Err(Refused::OnItsWay(id)))),
                Err(error) => return all(Err(error.into())),
            };
            let fates: Vec<(&Task, Result<Leaves, Refused>)> =
                tasks.iter().map(|task| (task, batch.cancels(task))).collect();
            let leaving: Vec<(usize, u32)> = fates
                .iter()
                .filter_map(|(task, fate)| match fate {
                    Ok(Leaves::Now(position)) => Some((*position, task.attempts)),
                    Ok(Leaves::Before) | Err(_) => None,
                })
                .collect();
            match self.write_without(routes, batch, leaving).await {
                Ok(Stored::Yes) => {
                    let outcome = |fate: &Result<Leaves, Refused>| Ok(fate.clone().map(|_| ()));
                    return fates.iter().map(|(task, fate)| (task.id.clone(), outcome(fate))).collect();
                }
                Ok(Stored::Conflict) => {
                    if let Err(error) = tries.give_way().await {
                        return all(Err(error));
                    }
                }
                Err(error) => return all(Err(error)),
            }
        }
    }

    /// Notes that a batch is called without these members, and tells all that must hear of it. If nobody is left, that
    /// is its outcome.
    async fn write_without(&self, routes: &Routes, batch: Batch, leaving: Vec<(usize, u32)>) -> Result<Stored, Error> {
        let Self { store, outbox, env } = *self;
        let name = batch.target.route();
        let route = routes.get(&name).ok_or(Error::UnknownRoute(name))?;
        let (before, now) = (batch.revision, env.now());
        let batch = match leaving.is_empty() {
            true => batch,
            false => {
                let without = batch.leaving_out(leaving, How::Cancelled, now);
                let next = if without.omits_all() { without.settled(Results::new(), now) } else { without.noted() };
                if store.store(&next, Assumes::At(before)).await? == Stored::Conflict {
                    return Ok(Stored::Conflict);
                }
                next
            }
        };
        match &batch.status {
            Status::Frozen | Status::Paused { .. } => {
                // What of this cannot be noted, the batch's follow-up does once more.
                let _: Batch = tell_of_omitted(store, outbox, env, route, batch).await?;
            }
            Status::Settled { .. } => {
                // It may have waited with a ticket, and kept a place.
                Gatekeeper { store, env }.clear(route, &batch).await?;
                follow_up(store, outbox, env, route, &batch, None).await?;
            }
            // A write would take the claim of its worker away.
            Status::InProgress { .. } | Status::Open { .. } | Status::Closing | Status::Empty | Status::Void => {}
        }
        Ok(Stored::Yes)
    }
}

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Cancelling<'_, S, Q, E> {
    /// Cancels a task unless it is in a batch: then the batch comes back, with the task.
    pub(super) async fn end_waiting(&self, routes: &Routes, id: &TaskId) -> Outcome<Option<InBatch>, Refused> {
        let mut tries = Tries::of("cancelling a task", self.env);
        loop {
            let found = self.store.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next();
            let Some(task) = found else { return Ok(Err(Refused::Unknown)) };
            match task.cancels() {
                Ok(Cancels::Now) => {}
                Ok(Cancels::AsItsBatchSays(batch)) => return Ok(Ok(Some((batch, task)))),
                // All that must hear of it hear from the process that cancelled it, or from sweep.
                Ok(Cancels::Before) => return Ok(Ok(None)),
                Err(refused) => return Ok(Err(refused)),
            }
            let target = target(routes, &task);
            // First: nobody would end them if this process died behind the newest.
            for older in self.older(&task).await? {
                self.end(routes, (&older.id, older.round), &target, 0).await?;
            }
            if self.end(routes, (id, task.round), &target, task.attempts).await? {
                return Ok(Ok(None));
            }
            // It has moved on since it was read.
            tries.give_way().await?;
        }
    }

    /// Ends a task that waits, and tells all that must hear of it; says whether it waited.
    async fn end(
        &self,
        routes: &Routes,
        (id, round): (&TaskId, Round),
        target: &Target,
        attempts: u32,
    ) -> Result<bool, Error> {
        let (target, reason) = (target.clone(), How::Cancelled.reason());
        let ending = Failure { target, reason, attempts, answer: None, keep_ms: 0 };
        let Some(ended) = self.store.end(id, round, &ending, self.env.now()).await? else { return Ok(false) };
        let Failure { target, reason, .. } = &ending;
        let PassedOver { ties, at, trace } = ended;
        // A queue that refuses its notice is not the person's affair.
        let _: Option<_> = self.tell(routes, Ended { id, round, target, reason, ties, at, trace }).await?;
        Ok(true)
    }

    /// The older versions that wait beside a task with a collapse key: it would be called in their place.
    async fn older(&self, task: &Task) -> Result<Vec<Candidate>, Error> {
        let (mut older, mut after) = (Vec::new(), None);
        let (Some(newest), task::Status::Created { target }) = (task.traits.collapse, &task.status) else {
            return Ok(older);
        };
        loop {
            let page = self.store.waiting(target, after.as_ref(), PAGE).await?;
            older.extend(
                page.candidates.into_iter().filter(|other| {
                    other.traits.collapse.is_some_and(|of| newest.replaces(&task.id, (&of, &other.id)))
                }),
            );
            after = page.next;
            if after.is_none() {
                return Ok(older);
            }
        }
    }

    /// Tells once more of a task that ended while it waited.
    pub(super) async fn tell_again(&self, routes: &Routes, entry: Waiting) -> Result<(), Error> {
        let Waiting { target, candidate, since: at } = entry;
        let found = self.store.read(std::slice::from_ref(&candidate.id), Freshness::Latest).await?.into_iter().next();
        let Some(task) = found.filter(|task| task.round == candidate.round) else { return Ok(()) };
        let task::Status::Failed { batch: None, reason } = &task.status else { return Ok(()) };
        let (id, round, ties, trace) = (&task.id, task.round, task.ties(), task.trace);
        let told = self.tell(routes, Ended { id, round, target: &target, reason, ties, at, trace }).await?;
        told.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Tells all that must hear of it, each whatever becomes of the others. A notice that was refused comes back as
    /// why: sweep sends it again.
    async fn tell(&self, routes: &Routes, ended: Ended<'_>) -> Result<Option<ports::Error>, Error> {
        let Self { store, outbox, env } = *self;
        let Ended { id, round, target, reason, ties, at, trace } = ended;
        let notify = routes.get(&target.route()).map(|route| route.notify.clone()).unwrap_or_default();
        let heard = observers::observe(store, outbox, env, vec![(ties.clone(), tracker::Outcome::Failed)]).await.all();
        // A task that need not run holds back none of those after it.
        let over = ties.lane.map(|lane| Over { task: id.clone(), round, lane, outcome: tracker::Outcome::Failed });
        let over: Vec<Over> = over.into_iter().collect();
        let handed = Ordering { store, outbox, env }.hand_over(&over, OnFailure::Skip, &notify).await;
        let failure = notice::Failure { reason: reason.clone(), attempts: 0 };
        let settled = notice::Settled { task: id, target, batch: None, round, superseded_by: None, output: None };
        let event = notice::of_task(settled, Some(&failure), at);
        let to = Destination::Notification(notify.failure.clone());
        let notice =
            (notify.failure != NotificationQueue::None).then(|| (at, Outgoing::json(to, &event, 0).traced(trace)));
        let mut refusals = send_notices((outbox, env), notice.into_iter().collect(), Refusal::ComesAgain).await;
        heard?;
        handed?;
        let refusal = refusals.pop().and_then(Notified::refusal);
        if refusal.is_none() {
            store.heard_of(id, round).await?;
        }
        Ok(refusal)
    }
}

/// What a task is grouped by, or would have been.
fn target(routes: &Routes, task: &Task) -> Target {
    match &task.status {
        task::Status::Scheduled { target, .. } | task::Status::Created { target } => target.whole(),
        task::Status::Queued
        | task::Status::Batched { .. }
        | task::Status::Succeeded { .. }
        | task::Status::Failed { .. } => {
            let of_route = routes.assign(&task.payload).map(|assigned| assigned.target);
            // A route that is gone: its lane still says which it was.
            let of_lane = || task.lane.as_ref().map(|lane| Target::of(&lane.route(), lane.key()));
            of_route.ok().or_else(of_lane).unwrap_or_else(|| Target::new(String::new()))
        }
    }
}
