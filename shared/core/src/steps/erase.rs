//! Erasing what tasks said, on somebody's request: what is left says only that their ids were used.
//!
//! A task that waits is cancelled first; one in a batch is refused until the batch is settled. Then one conditional
//! write takes the contents from the task, and one from its batch. If the process dies in between, the whole is
//! repeated, and each write finds that it was made. Nothing else depends on it, so nobody has to make up for it.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

use super::cancel::Cancelling;
use super::cas::{Outcome, Tries, handle};
use super::{CONCURRENCY, Error};
use crate::domain::batch::Assumes;
use crate::domain::erased::{Erases, Refused};
use crate::domain::{Batch, BatchId, Target, Task, TaskId, TrackerId};
use crate::ports::{Batches, Census, Env, Freshness, Lanes, Outbox, Stored, Streams, Tasks, Trackers};
use crate::routes::Routes;

handle! {
    /// Tasks that are erased, over their ports, and those of all that must hear of them.
    Erasing
}

/// What became of each task that was named.
pub type Each = Vec<(TaskId, Outcome<(), Refused>)>;

/// Whose tasks are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of a Target, as the routes in force compute it from the payload.
    Target(Target),
    /// Those that ack an item of a tracker.
    Tracker(TrackerId),
}

impl Whose {
    /// Whether a task is one of theirs, and has anything to erase.
    fn has(&self, routes: &Routes, task: &Task) -> bool {
        let is_theirs = match self {
            Self::Target(target) => routes.assign(&task.payload).is_ok_and(|of| of.target.whole() == target.whole()),
            Self::Tracker(tracker) => task.item.as_ref().is_some_and(|item| item.tracker == *tracker),
        };
        is_theirs && !task.is_erased()
    }
}

/// Finds tasks by whose they are; reads the whole task table.
pub async fn find(store: &impl Census, routes: &Routes, whose: &Whose) -> Result<Vec<TaskId>, Error> {
    Ok(store.tasks_that(&|task| whose.has(routes, task)).await?)
}

impl<S: Tasks + Batches + Lanes + Trackers + Streams, Q: Outbox, E: Env> Erasing<'_, S, Q, E> {
    /// Erases tasks, each for itself, and what their batches keep of them. May be repeated. An error says that a batch
    /// could not be written.
    pub async fn erase(&self, routes: &Routes, ids: &[TaskId]) -> Result<Each, Error> {
        let erasing = ids.iter().map(|id| async move { (id.clone(), self.erase_one(routes, id).await) });
        let tried: Vec<_> = stream::iter(erasing.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await;
        let (mut each, mut batches) = (Vec::with_capacity(tried.len()), BTreeMap::new());
        for (id, tried) in tried {
            let outcome = tried.map(|outcome| {
                outcome.map(|batch| {
                    batches.extend(batch.map(|batch| (batch.id.clone(), batch)));
                })
            });
            each.push((id, outcome));
        }
        for (_, batch) in batches {
            self.erase_batch(batch).await?;
        }
        Ok(each)
    }

    /// Erases a task; the batch that settled it comes back, if it is still there.
    async fn erase_one(&self, routes: &Routes, id: &TaskId) -> Outcome<Option<Batch>, Refused> {
        let mut tries = Tries::of("erasing a task", self.env);
        let mut refused_as = None;
        loop {
            let found = self.store.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next();
            let Some(task) = found else { return Ok(Err(Refused::Unknown)) };
            let batch = match task.status.batch() {
                Some(batch) => self.store.batch(batch).await?,
                None => None,
            };
            match task.erases(batch.as_ref()) {
                Err(refused) => return Ok(Err(refused)),
                Ok(Erases::Before) => {
                    self.erase_output(batch.as_ref(), id).await?;
                    return Ok(Ok(batch));
                }
                Ok(Erases::OnceCancelled) => {
                    let Self { store, outbox, env } = *self;
                    // Refused, or in a batch, means that it has moved on; the next look says where to.
                    let _ = (Cancelling { store, outbox, env }).end_waiting(routes, id).await?;
                }
                Ok(Erases::Now) => {
                    // Before the tombstone: who looks for the task by its Target finds it until then.
                    self.erase_output(batch.as_ref(), id).await?;
                    if self.store.erase(id, task.round).await? == Stored::Yes {
                        return Ok(Ok(batch));
                    }
                    if refused_as.as_ref() == Some(&task) {
                        // It is as it was: somebody has not heard of its end yet.
                        return Ok(Err(Refused::Untold));
                    }
                    refused_as = Some(task);
                }
            }
            tries.give_way_later().await?;
        }
    }

    /// Erases what the downstream said of a task beside its outcome.
    async fn erase_output(&self, batch: Option<&Batch>, id: &TaskId) -> Result<(), Error> {
        let Some((batch, (position, part))) = batch.and_then(|batch| Some((batch, batch.output_part(id)?))) else {
            return Ok(());
        };
        Ok(self.store.erase_output(&batch.id, part, position).await?)
    }

    /// Erases what a batch keeps of its members, as far as nobody else needs it.
    async fn erase_batch(&self, batch: Batch) -> Result<(), Error> {
        let mut tries = Tries::of("erasing a batch", self.env);
        let (id, mut found): (BatchId, _) = (batch.id.clone(), Some(batch));
        while let Some(batch) = found {
            let members: Vec<TaskId> = batch.members.iter().map(|member| member.id.clone()).collect();
            let tasks = self.store.read(&members, Freshness::Latest).await?;
            let Some(erased) = batch.erased(tasks.iter().all(Task::is_erased)) else { return Ok(()) };
            if self.store.store(&erased, Assumes::At(batch.revision)).await? == Stored::Yes {
                return Ok(());
            }
            tries.give_way_later().await?;
            found = self.store.batch(&id).await?;
        }
        Ok(())
    }
}
