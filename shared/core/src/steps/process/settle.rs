//! Stage 5: settles a batch whose outcome is recorded: the members' own statuses, acks of the items that they are for,
//! the turns of those behind them, and the way back to waiting; with the notices of all that.
//!
//! All of it is derived from the settled batch, so it can be repeated. Statuses are conditional on the batch. Notices
//! carry derived ids. An item is acked once, a turn is handed over once. A member that went back already has moved on.
//!
//! Nothing of it keeps the rest from being done. If something could not be done, the batch remembers what, by one
//! write, and a repeat does just that. A notice that its queue refuses for a day goes to the rejected queue instead.
//! The batch is not done before all of it is, and what is not done never expires.

use futures::{StreamExt, stream};

use super::notify;
use super::returns::{self, last_return_ms, returned};
use crate::domain::batch::{Assumes, Batch, ByPosition, FollowUp, Left, Member, Omission, Positions, Status};
use crate::domain::lane::OnFailure;
use crate::domain::task::Ties;
use crate::domain::trace::{Followed, Traces};
use crate::domain::{Exception, Failure, Results, Timestamp, tracker};
use crate::ports::{self, Batches, Env, Lanes, Outbox, Settlement, Stored, Streams, Tasks, Trackers, send_all};
use crate::routes::Route;
use crate::steps::lane::{HandedOver, Ordering, Over};
use crate::steps::notices::{About, Notified, Refused, send_notices};
use crate::steps::observers::observe;
use crate::steps::{CONCURRENCY, Error};

/// What an outcome came to, counted in members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Succeeded.
    pub succeeded: usize,
    /// Failed for good.
    pub failed: usize,
    /// In no call: they were cancelled or expired before it.
    pub ended: usize,
    /// On their way back to waiting.
    pub returned: usize,
    /// Items of settled members that no tracker counts (any more).
    pub unknown_items: usize,
    /// Events of settled members that no stream knows (any more).
    pub unknown_events: usize,
    /// Lanes that a failed member stopped.
    pub lanes_stopped: usize,
    /// Tasks that failed because a member before them in their lane did.
    pub passed_over: usize,
    /// Members whose notice went to the rejected queue, since its own has refused it for a day.
    pub undeliverable: usize,
    /// Members, and tasks that failed with them, whose notice was refused; the batch remembers them.
    pub untold: usize,
    /// What the first queue that refused one said.
    pub refusal: Option<Box<str>>,
    /// What there is to tell a collector of traces; `None` if nothing was left to do.
    pub followed: Option<Box<Followed>>,
    /// The error that interrupted the follow-up of an outcome that this pass recorded: a repeat finishes it, and counts
    /// no member again.
    pub interrupted: Option<Box<Error>>,
}

impl Counts {
    /// Counts the members of a settled batch whose follow-up was interrupted.
    pub(super) fn interrupted(batch: &Batch, error: Error) -> Self {
        let counted = match &batch.status {
            Status::Settled { results, .. } => count(batch, results),
            _ => Self::default(),
        };
        Self { interrupted: Some(error.into()), ..counted }
    }
}

/// What one pass came to.
#[derive(Default)]
struct Came {
    /// What it leaves.
    left: Left,
    /// The first error that was no queue's refusal of a notice.
    failed: Option<Error>,
    counts: Counts,
}

impl Came {
    fn fail(&mut self, error: impl Into<Error>) {
        self.failed.get_or_insert_with(|| error.into());
    }
}

/// The settling of one batch, over its ports.
pub(super) struct Settling<'a, S, Q, E> {
    pub(super) store: &'a S,
    pub(super) outbox: &'a Q,
    pub(super) env: &'a E,
    pub(super) route: &'a Route,
    pub(super) batch: &'a Batch,
    pub(super) results: &'a Results,
    pub(super) at: Timestamp,
    /// The outputs of members of whom anybody is told.
    pub(super) outputs: Result<ByPosition, ports::Error>,
    pub(super) traces: Traces,
}

/// Derives what follows from a settled batch, and at last marks it as done: until then sweep finds it. A batch with
/// members that return is done when they have: `returned`. Notices that were refused are [counted](Counts::untold):
/// then it is not done, and the call is to be repeated.
///
/// `traces` are those of the members, if they are known; else they are read for the members that somebody is told of.
pub async fn follow_up(
    store: &(impl Tasks + Batches + Lanes + Trackers + Streams),
    outbox: &impl Outbox,
    env: &impl Env,
    route: &Route,
    batch: &Batch,
    traces: Option<Traces>,
) -> Result<Counts, Error> {
    let began = env.now();
    let Status::Settled { at, results, follow_up } = &batch.status else {
        return Ok(Counts::default());
    };
    match follow_up {
        FollowUp::Pending => {}
        FollowUp::Returning => {
            if !returned(store, batch).await? {
                let all = (0..batch.members.len()).collect();
                let returns = returns::messages(batch, results, &all).into_iter().map(|(_, message)| message);
                send_all(outbox, returns.collect()).await?;
            }
            return Ok(count(batch, results));
        }
        FollowUp::Done => return Ok(count(batch, results)),
    }
    let todo = batch.left.as_deref().cloned().unwrap_or_else(|| Left::all(batch.members.len(), &batch.told()));
    let outputs = notify::outputs_of(store, &route.notify, (batch, results), &todo.untold).await;
    let settling = Settling { store, outbox, env, route, batch, results, at: *at, outputs, traces: Traces::new() };
    let settling = settling.knowing(traces, &todo).await;
    let mut came = Came { counts: count(batch, results), ..Came::default() };
    settling.send(&todo, &mut came).await;
    // A notification queue that does not answer must not keep the members' statuses from being written.
    settling.settle(&todo.unsettled, &mut came).await;
    if came.left.is_empty() {
        mark(store, env, batch, last_return_ms(results).map(|delay_ms| at.plus_ms(delay_ms))).await?;
    } else if came.left != todo {
        // The process that wrote the batch meanwhile has done the same, or does it again.
        store.store(&batch.with_left(came.left.clone()), Assumes::At(batch.revision)).await?;
    }
    came.counts.followed = Some(Box::new(settling.followed(began, &todo, &came.left)));
    came.failed.map_or(Ok(came.counts), Err)
}

/// Settles the members that a batch is called without, tells all that must hear of them, and notes that. The batch may
/// wait for long yet. If that cannot be noted, its follow-up does the same once more.
pub(in crate::steps) async fn tell_of_omitted<S: Tasks + Batches + Lanes + Trackers + Streams>(
    store: &S,
    outbox: &impl Outbox,
    env: &impl Env,
    route: &Route,
    batch: Batch,
) -> Result<Batch, Error> {
    let todo = Left::of_settled(batch.untold());
    if todo.is_empty() {
        return Ok(batch);
    }
    let results = batch.known();
    let (at, traces) = (env.now(), Traces::new());
    let outputs = Ok(ByPosition::new());
    let settling = Settling { store, outbox, env, route, batch: &batch, results: &results, at, outputs, traces };
    let settling = settling.knowing(None, &todo).await;
    let mut came = Came::default();
    settling.send(&todo, &mut came).await;
    settling.settle(&todo.unsettled, &mut came).await;
    if let Some(error) = came.failed {
        return Err(error);
    }
    let next = batch.clone().all_told().noted();
    let is_told = came.left.is_empty() && store.store(&next, Assumes::At(batch.revision)).await? == Stored::Yes;
    Ok(if is_told { next } else { batch })
}

impl<S: Tasks + Batches + Lanes + Trackers + Streams, Q: Outbox, E: Env> Settling<'_, S, Q, E> {
    /// Sends members back to waiting, and notices.
    async fn send(&self, todo: &Left, came: &mut Came) {
        let (of_returns, returns): (Vec<_>, Vec<_>) =
            returns::messages(self.batch, self.results, &todo.unreturned).into_iter().unzip();
        let (can_tell, mut untold) = self.can_tell(&todo.untold, came);
        let (of_notices, notices): (Vec<_>, Vec<_>) = self.notices(&can_tell).into_iter().unzip();
        let notices = notices.into_iter().map(|notice| (self.at, notice)).collect();
        let notifying = send_notices((self.outbox, self.env), notices, Refused::ComesAgain);
        let (returned, notified) = futures::join!(self.outbox.send(returns), notifying);
        let mut unreturned = Vec::new();
        for (positions, answer) in of_returns.into_iter().zip(returned) {
            if let Err(error) = answer {
                unreturned.extend(positions);
                came.fail(error);
            }
        }
        for (positions, answer) in of_notices.into_iter().zip(notified) {
            let refusal = match answer {
                Notified::Yes => continue,
                Notified::Undeliverable(refusal) => {
                    came.counts.undeliverable += 1;
                    refusal
                }
                Notified::Refused(refusal) => {
                    came.counts.untold += 1;
                    untold.extend(positions);
                    refusal
                }
            };
            came.counts.refusal.get_or_insert_with(|| refusal.to_string().into());
        }
        came.left.unreturned = unreturned.into_iter().collect();
        came.left.untold = untold.into_iter().collect();
    }

    fn notices(&self, of: &Positions) -> Vec<About> {
        let (settled, none) = ((self.batch, self.results, self.at), ByPosition::new());
        let outputs = self.outputs.as_ref().unwrap_or(&none);
        notify::of_members(&self.route.notify, settled, outputs, &self.traces, of)
    }

    /// Divides members into those of whom others can be told, and those whose output could not be read for that.
    fn can_tell(&self, of: &Positions, came: &mut Came) -> (Positions, Vec<usize>) {
        let Err(error) = &self.outputs else { return (of.clone(), Vec::new()) };
        came.fail(error.clone());
        let has_output = |position: &usize| self.batch.outputs.iter().any(|part| part.of.contain(*position));
        let (unread, can_tell): (Vec<usize>, Vec<usize>) = of.iter().partition(has_output);
        (can_tell.into_iter().collect(), unread)
    }

    /// How a member is settled, if it is.
    pub(super) fn settlement(&self, position: usize, member: &Member) -> Option<Settlement> {
        if let Some(Omission { ended, attempts, .. }) = self.batch.omission(position) {
            return Some(Settlement::Ended { ended: *ended, attempts: *attempts });
        }
        match self.results.get(&member.id) {
            None => Some(Settlement::Succeeded),
            Some(Exception::Failed { reason, attempts }) => Some(Settlement::Failed(Failure {
                target: self.batch.target.whole(),
                answer: self.batch.answers.as_ref().and_then(|answers| answers.of(reason)).cloned(),
                reason: reason.clone(),
                attempts: *attempts,
                keep_ms: self.route.keep_failed_ms,
            })),
            Some(Exception::Returned { .. }) => None,
        }
    }

    /// Writes members' statuses, hands their turns over, and tells who must hear of them.
    async fn settle(&self, of: &Positions, came: &mut Came) {
        let members = self.batch.members.iter().enumerate().filter(|(position, _)| of.contain(*position));
        let settlements: Vec<(usize, Member, Settlement)> = members
            .filter_map(|(position, member)| Some((position, member.clone(), self.settlement(position, member)?)))
            .collect();
        let settle = |(position, member, settlement): (usize, Member, Settlement)| async move {
            let at = self.batch.omission(position).map_or(self.at, |omission| omission.at);
            let ties = self.store.settle(&member, &self.batch.id, &settlement, at).await;
            (position, member, ties, outcome(&settlement))
        };
        let writes: Vec<_> = settlements.into_iter().map(settle).collect();
        let mut writes = stream::iter(writes).buffer_unordered(CONCURRENCY);
        let (mut settled, mut unsettled) = (Vec::new(), Vec::new());
        while let Some((position, member, ties, outcome)) = writes.next().await {
            match ties {
                Ok(ties) => settled.push(Settled { position, member, ties, outcome }),
                Err(error) => {
                    came.fail(error);
                    unsettled.push(position);
                }
            }
        }
        unsettled.extend(self.tell(settled, came).await);
        came.left.unsettled = unsettled.into_iter().collect();
    }

    /// The positions of those of whom somebody may not have heard.
    async fn tell(&self, settled: Vec<Settled>, came: &mut Came) -> Vec<usize> {
        let Self { store, outbox, env, route, .. } = *self;
        let turn = |of: &Settled| {
            let Member { id: task, round } = of.member.clone();
            Some(Over { task, round, lane: of.ties.lane.clone()?, outcome: of.outcome })
        };
        // A task that need not run holds back none of those after it.
        let (skipped, turns): (Vec<&Settled>, Vec<&Settled>) =
            settled.iter().partition(|of| self.batch.omission(of.position).is_some());
        let [skipped, turns]: [Vec<Over>; 2] =
            [skipped, turns].map(|settled| settled.into_iter().filter_map(turn).collect());
        let ordering = Ordering { store, outbox, env };
        let handed = match ordering.hand_over(&skipped, OnFailure::Skip, &route.notify).await {
            Ok(_) => ordering.hand_over(&turns, route.on_failure(), &route.notify).await,
            Err(error) => Err(error),
        };
        let ties = settled.iter().map(|of| (of.ties.clone(), of.outcome)).collect();
        let heard = observe(store, outbox, env, ties).await;
        let mut unheard = Vec::new();
        for Settled { position, ties, .. } in &settled {
            let waits_for_its_turn = ties.lane.is_some() && handed.as_ref().map_or(true, |handed| handed.untold > 0);
            let error = heard.error(ties);
            if let Some(error) = error {
                came.fail(error.clone());
            }
            unheard.extend((waits_for_its_turn || error.is_some()).then_some(*position));
        }
        (came.counts.unknown_items, came.counts.unknown_events) = (heard.items.unknown, heard.events.unknown);
        match handed {
            Ok(HandedOver { stopped, passed_over, untold, refusal }) => {
                (came.counts.lanes_stopped, came.counts.passed_over) = (stopped, passed_over);
                came.counts.untold += untold;
                came.counts.refusal = came.counts.refusal.take().or(refusal.map(Into::into));
            }
            Err(error) => came.fail(error),
        }
        unheard
    }
}

/// A member whose status is written.
struct Settled {
    position: usize,
    member: Member,
    ties: Ties,
    outcome: tracker::Outcome,
}

/// Writes that all of this is done, or that it will be once the last member has returned. The process that wrote the
/// batch meanwhile has done the same or sent a message for it.
async fn mark(
    store: &(impl Tasks + Batches),
    env: &impl Env,
    batch: &Batch,
    last_return: Option<Timestamp>,
) -> Result<(), Error> {
    let next = last_return.map_or_else(|| batch.followed_up(), |at| batch.returning(at));
    let stored = store.store(&next, Assumes::At(batch.revision)).await?;
    // Members without a pause may have come back before this was written, and found nothing to mark.
    if stored == Stored::Yes && last_return.is_some_and(|at| at <= env.now()) {
        returned(store, &next).await?;
    }
    Ok(())
}

pub(super) const fn outcome(settlement: &Settlement) -> tracker::Outcome {
    match settlement {
        Settlement::Succeeded => tracker::Outcome::Succeeded,
        Settlement::Failed(_) | Settlement::Ended { .. } => tracker::Outcome::Failed,
    }
}

fn count(batch: &Batch, results: &Results) -> Counts {
    let returned = results.values().filter(|exception| matches!(exception, Exception::Returned { .. })).count();
    let ended = batch.omits();
    let failed = results.len() - returned - ended;
    Counts { succeeded: batch.members.len() - results.len(), failed, ended, returned, ..Counts::default() }
}
