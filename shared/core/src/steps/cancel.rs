//! Ending tasks that wait, before any call.
//!
//! One write ends a task. It leaves the task in the index of those that wait, as one of which others must hear: its
//! tracker, its stream, the queue for notices of failures, and the next of its lane. When all of them have heard, it
//! leaves the index. If the process dies in between, sweep makes up for it, and hearing twice changes nothing.

use std::collections::VecDeque;

use futures::{StreamExt, stream};

use super::lane::{Ordering, Over};
use super::shape::{Outcome, Tries, handle};
use super::{CONCURRENCY, Error, ties};
use crate::domain::cancelled::{Cancels, Refused};
use crate::domain::ended::Ended as How;
use crate::domain::failed::Failure;
use crate::domain::id::{Round, Target, TaskId};
use crate::domain::lane::OnFailure;
use crate::domain::notice::{self, NotificationQueue};
use crate::domain::outcome::Reason;
use crate::domain::task::{Status, Task, Ties};
use crate::domain::time::Timestamp;
use crate::domain::tracker;
use crate::ports::{Destination, Env, Freshness, Lanes, Outbox, Outgoing, Streams, Tasks, Trackers, Waiting, send_all};
use crate::routes::Routes;

handle! {
    /// Tasks that end while they wait, over their ports, and those of all that must hear of them.
    Cancelling
}

/// What became of each task that was named.
pub type Each = Vec<(TaskId, Outcome<(), Refused>)>;

/// What is left to look through for the tasks that wait for a batch of one Target: shard by shard, page by page.
#[derive(Clone, Debug)]
pub struct Waits<C> {
    shards: VecDeque<Target>,
    after: Option<C>,
}

impl<C> Waits<C> {
    /// All that wait for this Target. Tasks that wait for their turn are not among them.
    pub fn of(routes: &Routes, target: &Target) -> Self {
        let shards = routes.get(&target.route()).map_or(1, |route| route.shards);
        Self { shards: target.whole().shards(shards).collect(), after: None }
    }

    /// The next of them, up to `limit`; `None` if there are no more. A page may be empty.
    ///
    /// # Errors
    /// A table did not answer; the same call may be made again.
    pub async fn next<S: Tasks<Cursor = C>>(&mut self, store: &S, limit: usize) -> Result<Option<Vec<TaskId>>, Error> {
        let Some(shard) = self.shards.front() else { return Ok(None) };
        let page = store.waiting(shard, self.after.as_ref(), limit).await?;
        self.after = page.next;
        if self.after.is_none() {
            self.shards.pop_front();
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
}

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Cancelling<'_, S, Q, E> {
    /// Cancels tasks, each for itself. May be repeated.
    pub async fn cancel(&self, routes: &Routes, ids: &[TaskId]) -> Each {
        let cancelling = ids.iter().map(|id| async move { (id.clone(), self.cancel_one(routes, id).await) });
        stream::iter(cancelling.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await
    }

    async fn cancel_one(&self, routes: &Routes, id: &TaskId) -> Outcome<(), Refused> {
        let mut tries = Tries::of("cancelling a task", self.env);
        loop {
            let found = self.store.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next();
            let Some(task) = found else { return Ok(Err(Refused::Unknown)) };
            match task.cancels() {
                Ok(Cancels::Now) => {}
                // All that must hear of it hear from the process that cancelled it, or from sweep.
                Ok(Cancels::Before) => return Ok(Ok(())),
                Err(refused) => return Ok(Err(refused)),
            }
            let (target, reason) = (target(routes, &task), How::Cancelled.reason());
            let ending = Failure { target, reason, attempts: task.attempts, answer: None, keep_ms: 0 };
            if let Some(ended) = self.store.end(id, task.round, &ending, self.env.now()).await? {
                let Failure { target, reason, .. } = &ending;
                let (round, ties, at) = (task.round, ended.ties, ended.at);
                self.tell(routes, Ended { id, round, target, reason, ties, at }).await?;
                return Ok(Ok(()));
            }
            // It has moved on since it was read.
            tries.give_way().await?;
        }
    }

    /// Tells once more of a task that ended while it waited.
    pub(super) async fn tell_again(&self, routes: &Routes, entry: Waiting) -> Result<(), Error> {
        let Waiting { target, candidate, since: at } = entry;
        let found = self.store.read(std::slice::from_ref(&candidate.id), Freshness::Latest).await?.into_iter().next();
        let Some(task) = found.filter(|task| task.round == candidate.round) else { return Ok(()) };
        let Status::Failed { batch: None, reason } = &task.status else { return Ok(()) };
        let (id, round, ties) = (&task.id, task.round, task.ties());
        self.tell(routes, Ended { id, round, target: &target, reason, ties, at }).await
    }

    async fn tell(&self, routes: &Routes, ended: Ended<'_>) -> Result<(), Error> {
        let Self { store, outbox, env } = *self;
        let Ended { id, round, target, reason, ties, at } = ended;
        let notify = routes.get(&target.route()).map(|route| route.notify.clone()).unwrap_or_default();
        if notify.failure != NotificationQueue::None {
            let failure = notice::Failure { reason: reason.clone(), attempts: 0 };
            let settled = notice::Settled { task: id, target, batch: None, round };
            let event = notice::of_task(settled, Some(&failure), at);
            let to = Destination::Notification(notify.failure.clone());
            send_all(outbox, vec![Outgoing::json(to, &event, 0)]).await?;
        }
        ties::tell(store, outbox, env, vec![(ties.clone(), tracker::Outcome::Failed)]).await.all()?;
        if let Some(lane) = ties.lane {
            // A task that need not run holds back none of those after it.
            let over = Over { task: id.clone(), round, lane, outcome: tracker::Outcome::Failed };
            Ordering { store, outbox, env }.hand_over(&[over], OnFailure::Skip, &notify).await?;
        }
        Ok(store.heard_of(id, round).await?)
    }
}

/// What a task is grouped by, or would have been.
fn target(routes: &Routes, task: &Task) -> Target {
    match &task.status {
        Status::Created { target } => target.whole(),
        Status::Queued | Status::Batched { .. } | Status::Succeeded { .. } | Status::Failed { .. } => {
            let of_route = routes.assign(&task.payload).map(|assigned| assigned.target);
            // A route that is gone: its lane still says which it was.
            let of_lane = || task.lane.as_ref().map(|lane| Target::of(&lane.route(), lane.key()));
            of_route.ok().or_else(of_lane).unwrap_or_else(|| Target::new(String::new()))
        }
    }
}
