//! The messages that follow from an outcome, each with the positions of the members that it is about.

use std::collections::BTreeMap;

use crate::domain::batch::{Batch, Member, Positions};
use crate::domain::message::{Elect, MAX_TASKS, Return, Returning};
use crate::domain::notice::{self, Failure};
use crate::domain::outcome::{Exception, Results};
use crate::domain::task::Candidate;
use crate::domain::trace::Traces;
use crate::domain::{NotificationQueue, Timestamp};
use crate::ports::{Destination, Outgoing};
use crate::routes::Notify;

/// A message, and whom it is about.
pub(super) type About = (Vec<usize>, Outgoing);

/// The way back to waiting: one message for each set of these members with the same pause.
pub(super) fn returns(batch: &Batch, results: &Results, of: &Positions) -> Vec<About> {
    let mut by_delay: BTreeMap<u64, Vec<(usize, Returning)>> = BTreeMap::new();
    for (position, member) in batch.members.iter().enumerate().filter(|(position, _)| of.contain(*position)) {
        if let Some(Exception::Returned { attempts, delay_ms, bytes, traits }) = results.get(&member.id) {
            let (id, round, bytes, traits) = (member.id.clone(), member.round, *bytes, *traits);
            let task = Candidate { id, round, bytes, traits };
            let returning = (position, Returning { task, attempts: *attempts });
            // Whole seconds, as SQS counts them: members that come back together can share a batch again.
            by_delay.entry(delay_ms.div_ceil(1_000)).or_default().push(returning);
        }
    }
    let message = |seconds: u64, returning: &[(usize, Returning)]| {
        let (positions, tasks) = returning.iter().cloned().unzip();
        let message = Return { batch: batch.id.clone(), target: batch.target.clone(), tasks };
        (positions, Outgoing::elect(&Elect::Returning(message), seconds * 1_000))
    };
    let chunks = by_delay.iter().flat_map(|(seconds, all)| all.chunks(MAX_TASKS).map(|chunk| (*seconds, chunk)));
    chunks.map(|(seconds, chunk)| message(seconds, chunk)).collect()
}

/// A notice of each of these members that settles, if anybody wants to be told. It belongs to its member's trace, if
/// that is among these.
pub(super) fn notices(
    notify: &Notify,
    (batch, results, at): (&Batch, &Results, Timestamp),
    traces: &Traces,
    of: &Positions,
) -> Vec<About> {
    let notice = |position: usize, queue: &NotificationQueue, failure: Option<&Failure>| {
        let Member { id: task, round } = batch.members.get(position)?;
        let (target, superseded_by) = (&batch.target, batch.superseded_by(position));
        let settled = notice::Settled { task, target, batch: Some(&batch.id), round: *round, superseded_by };
        let at = batch.omission(position).map_or(at, |omission| omission.at);
        let event = notice::of_task(settled, failure, at);
        let wanted = *queue != NotificationQueue::None;
        let message = || Outgoing::json(Destination::Notification(queue.clone()), &event, 0);
        wanted.then(|| (vec![position], message().traced(traces.get(task).copied())))
    };
    let members = batch.members.iter().enumerate().filter(|(position, _)| of.contain(*position));
    members
        .filter_map(|(position, member)| match results.get(&member.id) {
            None => notice(position, &notify.success, None),
            Some(Exception::Failed { reason, attempts }) => {
                let failure = Failure { reason: reason.clone(), attempts: *attempts };
                notice(position, &notify.failure, Some(&failure))
            }
            Some(Exception::Returned { .. }) => None,
        })
        .collect()
}
