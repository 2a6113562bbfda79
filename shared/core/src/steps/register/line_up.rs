//! Tasks that come to an order key's lane or to a list, and what becomes of their records.

use super::came::{Parsed, message_of};
use super::plan::Plan;
use super::put::{Put, repeated};
use super::refused::{Refused, closed, conflict, other_numbering, too_far_ahead, used};
use super::{Record, Register, Report};
use crate::domain::lane::Numbering;
use crate::domain::{LaneId, ListId, TaskId, TaskMessage};
use crate::ports::{Batches, Env, Inbox, Lanes, Lists, Outbox, Streams, Tasks, Trackers, Waiting};
use crate::steps::Error;
use crate::steps::drive_on::Next;
use crate::steps::lane::{Arrival, Lined, Ordering};
use crate::steps::list::{Listing, Placed};

/// A task for a list, and its record.
pub(super) type Listed = (Record, TaskMessage);
/// What became of tasks that came to one list.
pub(super) type OnList = Result<Vec<(TaskId, Placed)>, Error>;

impl<S: Tasks + Batches + Lanes + Trackers + Lists + Streams, Q: Outbox + Inbox, E: Env> Register<'_, S, Q, E> {
    /// Lets tasks come to their lane, in the order of their records. If one cannot be written, those behind it must not
    /// be written before it: their records fail with it.
    pub(super) async fn line_up(
        &self,
        lane: LaneId,
        numbering: Numbering,
        coming: Vec<(Record, Parsed)>,
    ) -> Vec<(Record, Result<Put, Error>)> {
        let Self { store, queues: outbox, env, .. } = *self;
        let notify = self.routes.get(&lane.route()).map(|route| route.notify.clone()).unwrap_or_default();
        let (records, arrivals): (Vec<Record>, Vec<Arrival>) = coming
            .into_iter()
            .map(|(record, Parsed { task, target, order, .. })| {
                (record, Arrival { task, target, sequence: order.and_then(|order| order.sequence) })
            })
            .unzip();
        let lined = match self.is_late() {
            true => vec![Err(Error::NoTime)],
            false => (Ordering { store, outbox, env }).line_up(&lane, numbering, &arrivals, &notify).await,
        };
        let mut lined = lined.into_iter();
        let mut last = Error::Conflict("a task before it in its lane");
        let mut done = Vec::with_capacity(records.len());
        for (record, Arrival { task, target, .. }) in records.into_iter().zip(arrivals) {
            let put = match lined.next() {
                Some(Ok(Lined::First)) => Ok(Put::New(Next::Elect(Waiting::new(&task, &target)))),
                Some(Ok(Lined::Behind)) => Ok(Put::New(Next::Nothing)),
                Some(Ok(Lined::Existing(existing))) => Ok(repeated(task, target, *existing)),
                Some(Ok(Lined::Used)) => Ok(Put::Refused(Refused::of(used(), message_of(task)))),
                Some(Ok(Lined::TooFarAhead)) => Ok(Put::Refused(Refused::of(too_far_ahead(), message_of(task)))),
                Some(Ok(Lined::OtherNumbering)) => Ok(Put::Refused(Refused::of(other_numbering(), message_of(task)))),
                Some(Err(error)) => {
                    last = error;
                    Err(last.clone())
                }
                None => Err(last.clone()),
            };
            done.push((record, put));
        }
        done
    }

    /// Puts tasks on their list, each under its own id: a redelivered record finds what it put.
    pub(super) async fn put_on_list(&self, list: ListId, arrived: Vec<Listed>) -> (Vec<Listed>, OnList) {
        let Self { store, queues: outbox, env, .. } = *self;
        let (records, tasks): (Vec<Record>, Vec<TaskMessage>) = arrived.into_iter().unzip();
        let placed = match self.is_late() {
            true => Err(Error::NoTime),
            false => (Listing { store, outbox, env }).put_each(&list, &tasks).await,
        };
        (records.into_iter().zip(tasks).collect(), placed)
    }
}

/// Says what became of the records of tasks that came to a list.
pub(super) fn account_for(arrived: Vec<Listed>, placed: OnList, plan: &mut Plan, report: &mut Report) {
    let mut placed = match placed {
        Ok(placed) => placed,
        Err(error) => {
            report.failed.extend(arrived.into_iter().map(|(record, _)| (record.message_id, error.clone())));
            return;
        }
    };
    for (record, task) in arrived {
        let at = placed.iter().position(|(id, _)| *id == task.id);
        match at.map(|at| placed.remove(at).1) {
            Some(Placed::Now(_)) => report.listed += 1,
            Some(Placed::Before(_)) => report.repeated += 1,
            Some(Placed::KeyUsed) => plan.reject(&record, Refused::of(conflict(), task)),
            Some(Placed::Closed) => plan.reject(&record, Refused::of(closed(), task)),
            Some(Placed::TooLarge(why)) => plan.reject(&record, Refused::of(why, task)),
            None => report.failed.push((record.message_id, Error::Conflict("no answer of its list"))),
        }
    }
}
