//! What follows from a recorded outcome: the members' own statuses, notifications, acks of the items that they are for,
//! the turns of those behind them, and the way back to waiting.
//!
//! All of it is derived from the settled batch, so it can be repeated: statuses are conditional on the batch, notices
//! carry derived ids, an item is acked once, a turn is handed over once, and a member that went back already has moved on.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::lane::{HandedOver, Ordering};
use super::ties;
use super::{CONCURRENCY, Error};
use crate::domain::batch::{Assumes, Batch, FollowUp, Member, Status};
use crate::domain::id::TaskId;
use crate::domain::message::{Elect, MAX_TASKS, Return, Returning};
use crate::domain::notice::{self, Failure, NotificationQueue};
use crate::domain::outcome::{Exception, Results};
use crate::domain::task::{self, Candidate, Ties};
use crate::domain::time::Timestamp;
use crate::domain::tracker;
use crate::ports::{
    Batches, Destination, Env, Freshness, Lanes, Outbox, Outgoing, Settlement, Stored, Streams, Tasks, Trackers,
    send_all,
};
use crate::routes::{Notify, Route};

/// What an outcome came to, counted in members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Succeeded.
    pub succeeded: usize,
    /// Failed for good.
    pub failed: usize,
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
}

/// Derives what follows from a settled batch, and at last marks it as done: until then sweep finds it. A batch with
/// members that return is done when they have: [`returned`].
///
/// # Errors
/// A port did not answer; the whole may be repeated.
pub async fn follow_up(
    store: &(impl Tasks + Batches + Lanes + Trackers + Streams),
    outbox: &impl Outbox,
    env: &impl Env,
    route: &Route,
    batch: &Batch,
) -> Result<Counts, Error> {
    let Status::Settled { at, results, follow_up } = &batch.status else {
        return Ok(Counts::default());
    };
    match follow_up {
        FollowUp::Pending => {}
        FollowUp::Returning => {
            if !returned(store, batch).await? {
                send_all(outbox, returns(batch, results)).await?;
            }
            return Ok(count(batch, results));
        }
        FollowUp::Done => return Ok(count(batch, results)),
    }
    let mut messages = returns(batch, results);
    messages.extend(notices(&route.notify, batch, results, *at));
    let sent = send_all(outbox, messages).await;

    // A notification queue that does not answer must not keep the members' statuses from being written.
    let settlements: Vec<(Member, Settlement)> =
        batch.members.iter().filter_map(|member| Some((member.clone(), settlement(results, member)?))).collect();
    let settle = |(member, settlement): (Member, Settlement)| async move {
        let ties = store.settle(&member, &batch.id, &settlement, *at).await?;
        Ok::<_, Error>((member.id, ties, outcome(&settlement)))
    };
    let settled: Vec<(TaskId, Ties, tracker::Outcome)> =
        stream::iter(settlements).map(settle).buffer_unordered(CONCURRENCY).try_collect().await?;
    let turn =
        |(task, ties, outcome): &(TaskId, Ties, tracker::Outcome)| Some((task.clone(), ties.lane.clone()?, *outcome));
    let turns: Vec<_> = settled.iter().filter_map(turn).collect();
    let handed = Ordering { store, outbox, env }.hand_over(&turns, route.on_failure(), &route.notify).await;
    let settled = settled.into_iter().map(|(_, ties, outcome)| (ties, outcome)).collect();
    let ties::Unknown { items: unknown_items, events: unknown_events } =
        ties::tell(store, outbox, env, settled).await.all()?;
    let HandedOver { stopped, passed_over } = handed?;
    sent?;
    mark(store, env, batch, last_return_ms(results).map(|delay_ms| at.plus_ms(delay_ms))).await?;
    Ok(Counts { unknown_items, unknown_events, lanes_stopped: stopped, passed_over, ..count(batch, results) })
}

/// Writes that all of this is done, or that it will be once the last member has returned. Whoever wrote the batch meanwhile
/// has done the same or sent a message for it.
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

/// Marks a batch that waits for members to return as done if all of them have; says whether it is.
///
/// # Errors
/// A port did not answer; it may be repeated.
pub async fn returned(store: &(impl Tasks + Batches), batch: &Batch) -> Result<bool, Error> {
    let Status::Settled { results, follow_up: FollowUp::Returning, .. } = &batch.status else { return Ok(false) };
    let is_returning = |member: &&Member| matches!(results.get(&member.id), Some(Exception::Returned { .. }));
    let returning: Vec<&Member> = batch.members.iter().filter(is_returning).collect();
    let ids: Vec<TaskId> = returning.iter().map(|member| member.id.clone()).collect();
    let tasks = store.read(&ids, Freshness::Latest).await?;
    let named = task::Status::Batched { batch: batch.id.clone() };
    let still_there = returning.iter().any(|member| {
        tasks.iter().any(|task| task.id == member.id && task.round == member.round && task.status == named)
    });
    if !still_there {
        store.store(&batch.followed_up(), Assumes::At(batch.revision)).await?;
    }
    Ok(!still_there)
}

/// When the last member returns, in milliseconds from the outcome; SQS delays for a quarter of an hour at most.
fn last_return_ms(results: &Results) -> Option<u64> {
    const MAX_DELAY_MS: u64 = 15 * 60 * 1000;
    let delays = results.values().filter_map(|exception| match exception {
        Exception::Returned { delay_ms, .. } => Some((*delay_ms).min(MAX_DELAY_MS)),
        Exception::Failed { .. } => None,
    });
    delays.max()
}

fn settlement(results: &Results, member: &Member) -> Option<Settlement> {
    match results.get(&member.id) {
        None => Some(Settlement::Succeeded),
        Some(Exception::Failed { reason, .. }) => Some(Settlement::Failed(reason.clone())),
        Some(Exception::Returned { .. }) => None,
    }
}

const fn outcome(settlement: &Settlement) -> tracker::Outcome {
    match settlement {
        Settlement::Succeeded => tracker::Outcome::Succeeded,
        Settlement::Failed(_) => tracker::Outcome::Failed,
    }
}

/// One message for each set of members with the same pause.
fn returns(batch: &Batch, results: &Results) -> Vec<Outgoing> {
    let mut by_delay: BTreeMap<u64, Vec<Returning>> = BTreeMap::new();
    for member in &batch.members {
        if let Some(Exception::Returned { attempts, delay_ms, bytes }) = results.get(&member.id) {
            let task = Candidate { id: member.id.clone(), round: member.round, bytes: *bytes };
            // Whole seconds, as SQS counts them: members that come back together can share a batch again.
            by_delay.entry(delay_ms.div_ceil(1_000)).or_default().push(Returning { task, attempts: *attempts });
        }
    }
    by_delay
        .into_iter()
        .flat_map(|(seconds, tasks)| {
            let chunks: Vec<Vec<Returning>> = tasks.chunks(MAX_TASKS).map(<[_]>::to_vec).collect();
            chunks.into_iter().map(move |tasks| (seconds, tasks))
        })
        .map(|(seconds, tasks)| {
            let message = Return { batch: batch.id.clone(), target: batch.target.clone(), tasks };
            Outgoing::elect(&Elect::Returning(message), seconds * 1_000)
        })
        .collect()
}

fn notices(notify: &Notify, batch: &Batch, results: &Results, at: Timestamp) -> Vec<Outgoing> {
    let notice = |member: &Member, queue: &NotificationQueue, failure: Option<&Failure>| {
        let settled = notice::Settled { task: &member.id, target: &batch.target, batch: Some(&batch.id) };
        let event = notice::of_task(settled, failure, at);
        (*queue != NotificationQueue::None).then(|| Outgoing::json(Destination::Notification(queue.clone()), &event, 0))
    };
    batch
        .members
        .iter()
        .filter_map(|member| match results.get(&member.id) {
            None => notice(member, &notify.success, None),
            Some(Exception::Failed { reason, attempts }) => {
                notice(member, &notify.failure, Some(&Failure { reason: reason.clone(), attempts: *attempts }))
            }
            Some(Exception::Returned { .. }) => None,
        })
        .collect()
}

fn count(batch: &Batch, results: &Results) -> Counts {
    let returned = results.values().filter(|exception| matches!(exception, Exception::Returned { .. })).count();
    let failed = results.len() - returned;
    Counts { succeeded: batch.members.len() - results.len(), failed, returned, ..Counts::default() }
}
