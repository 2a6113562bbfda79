//! register-task: writes each new task down, then asks for a leader once per Target.
//!
//! Records are judged one by one: a bad one goes to the rejected queue with its reason and its neighbours go on. A
//! record counts as done when its task *and* the message that drives it on are durable; a crash in between brings the
//! record again, which finds its task and drives it on from where it stands. Tasks that fill batches by themselves need
//! no leader (module `express`), nor do those that the rests of several events have together (module `gather`).
//!
//! An event may be more than one invocation gets through (module `parts`). What is not begun when the time is up goes
//! back. What comes again is worked through in smaller parts, each to its end before the next one begins.

mod ack;
mod asked;
mod came;
mod carry_out;
mod express;
mod gather;
mod line_up;
mod parts;
mod plan;
mod put;
mod rations;
mod refused;
mod report;
mod shard_router;
mod sort;
mod yielding;

use futures::future::join;
use futures::{StreamExt, stream};

use super::CONCURRENCY;
use super::drive_on::{Found, drive_on};
use crate::domain::sender::Sender;
use crate::domain::trace::TraceParent;
use crate::domain::{BatchId, Timestamp};
use crate::ports::{Batches, Env, Inbox, Lanes, Lists, Locks, Outbox, Streams, Tasks, Trackers};
use crate::routes::Routes;
use gather::Carved;
use line_up::account_for;
use plan::Plan;
use put::{Sorted, sort_out};
use refused::Refused;
use shard_router::ShardRouter;
use sort::Coming;

pub use asked::Asked;
pub use gather::FULL_EVENT;
pub use rations::Rations;
pub use report::Report;

/// One message of the task queue.
#[derive(Clone, Debug)]
pub struct Record {
    /// SQS's id for it.
    pub message_id: String,
    /// Its receipt handle.
    pub receipt: String,
    /// How often it was received, this time included.
    pub received: u32,
    /// Who sent it.
    pub sender: Sender,
    /// Its body as it came.
    pub body: String,
    /// What an attribute of it says that it belongs to.
    pub trace: Option<TraceParent>,
}

/// register-task, over its ports.
#[derive(Debug)]
pub struct Register<'a, S, Q, E> {
    /// Tasks and batches.
    pub store: &'a S,
    /// Where messages go, and where the records are from.
    pub queues: &'a Q,
    /// Time and ids.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// When this invocation should begin nothing more: what it has begun must still be sent on in time.
    pub deadline: Timestamp,
    /// What its process may put for Targets that were throttled, in this event and in those after it.
    pub rations: &'a Rations,
    /// For which Targets its process has lately asked for a leader.
    pub asked: &'a Asked,
}

/// A task that names a batch, and its record.
type Named = (BatchId, Record, Found);

impl<S: Tasks + Locks + Batches + Lanes + Trackers + Lists + Streams, Q: Outbox + Inbox, E: Env> Register<'_, S, Q, E> {
    /// Registers records. Every record is answered for: one that the report does not [keep](Report::kept) is done.
    pub async fn run(&self, records: Vec<Record>) -> Report {
        let mut all = Report::default();
        for part in parts::parts(records) {
            all.add(self.register(part).await);
        }
        all
    }

    /// Registers one part of an event.
    async fn register(&self, records: Vec<Record>) -> Report {
        let mut report = Report::default();
        let mut plan = Plan::default();
        let records_came = records.len();
        let sorted = self.env.compute(|| self.sort(records, &mut plan, &mut report));
        let Coming { to_put, to_list, to_lane, rests } = sorted;
        let Carved { to_put, to_send, to_hold } = self.carve(to_put, &rests, records_came);
        let router = ShardRouter::default();
        // At once: those of other events are on their way, too.
        let (mut done, missed) = join(self.put_each(to_put, &router), self.gather(to_send, to_hold, &mut report)).await;
        done.extend(self.put_each(missed, &router).await);
        let lists: Vec<_> = to_list.into_iter().map(|(list, arrived)| self.put_on_list(list, arrived)).collect();
        let listed: Vec<_> = stream::iter(lists).buffer_unordered(CONCURRENCY).collect().await;
        for (arrived, placed) in listed {
            account_for(arrived, placed, &mut plan, &mut report);
        }
        let lanes: Vec<_> =
            to_lane.into_iter().map(|(lane, (numbering, coming))| self.line_up(lane, numbering, coming)).collect();
        let lined_up: Vec<_> = stream::iter(lanes).buffer_unordered(CONCURRENCY).collect().await;
        done.extend(lined_up.into_iter().flatten());
        let Sorted { batched, mut found, yielded } = sort_out(done, &mut plan, &mut report);
        yielding::put_off(yielded, || self.env.random(), &mut plan, &mut report);
        found.extend(self.write_batches(batched, &mut plan, &mut report).await);
        let (records, found): (Vec<Record>, Vec<Found>) = found.into_iter().unzip();
        for (record, next) in records.iter().zip(drive_on(self.store, self.env, found).await) {
            match next {
                Ok(next) => plan.add(record, next),
                Err(error) => report.failed.push((record.message_id.clone(), error)),
            }
        }
        let twins = std::mem::take(&mut plan.twins);
        self.carry_out(plan, &mut report).await;
        report.fail_twins(twins);
        self.send_back(&rests, &mut report).await;
        report
    }
}
