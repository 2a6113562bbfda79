//! The express path: tasks that fill batches by themselves become batches at once, without index, leader or election.
//!
//! ```text
//! records ──▶ carve ──▶ put each task, naming its batch ──▶ put the batch, frozen, with those that are new ──▶ hand on
//!               │                  │ was there: a repeat           │ somebody voided it
//!               ▼                  ▼                               ▼
//!        the rest gathers       drive on                  back to waiting: election
//! ```
//!
//! A task's record is done only when its batch is written and handed on, so until then the record is the message that
//! drives it on. An event with that record again finds a task that names a batch. If the batch was never written, a
//! void takes its place, so that a writer who only sleeps cannot write it any more; if it was written without the task,
//! its members never change. Either way the task goes back to waiting, in its next round
//! ([`drive_on`](super::drive_on)).

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

use super::{Named, Plan, Record, Register, Report};
use crate::domain::batch::{Assumes, Batch};
use crate::domain::{BatchId, Candidate};
use crate::ports::{Batches, Env, Stored};
use crate::steps::drive_on::Found;
use crate::steps::finish::{handing_on, offered};
use crate::steps::{CONCURRENCY, Error};

impl<S: Batches, Q: Sync, E: Env> Register<'_, S, Q, E> {
    /// Writes the batches that these new tasks name, and plans their messages. Returns the tasks of those that somebody
    /// voided meanwhile.
    pub(super) async fn write_batches(
        &self,
        tasks: Vec<Named>,
        plan: &mut Plan,
        report: &mut Report,
    ) -> Vec<(Record, Found)> {
        let mut by_batch: BTreeMap<BatchId, Vec<(Record, Found)>> = BTreeMap::new();
        for (batch, record, found) in tasks {
            by_batch.entry(batch).or_default().push((record, found));
        }
        let written: Vec<_> = stream::iter(by_batch)
            .map(|(id, tasks)| async move {
                let written = self.write(id, &tasks).await;
                (tasks, written)
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut voided = Vec::new();
        for (tasks, written) in written {
            match written {
                Ok(Some(batch)) => {
                    report.batches += 1;
                    report.members += batch.members.len();
                    if let Some(outgoing) = handing_on(self.routes, &batch) {
                        plan.send(tasks.into_iter().map(|(record, _)| record.message_id).collect(), outgoing);
                    }
                }
                Ok(None) => voided.extend(tasks),
                Err(error) => {
                    report.failed.extend(tasks.into_iter().map(|(record, _)| (record.message_id, error.clone())));
                }
            }
        }
        voided
    }

    /// Writes a batch with just these members; `None` if somebody found them naming it, and voided it.
    async fn write(&self, id: BatchId, tasks: &[(Record, Found)]) -> Result<Option<Batch>, Error> {
        let Some((_, (_, target))) = tasks.first() else { return Ok(None) };
        let members: Vec<Candidate> = tasks.iter().map(|(_, (task, _))| task.candidate()).collect();
        let now = self.env.now();
        let batch = offered(Batch::express(id, target.clone(), &members, now), self.routes, now);
        Ok(match self.store.store(&batch, Assumes::Absent).await? {
            Stored::Yes => Some(batch),
            Stored::Conflict => None,
        })
    }
}
