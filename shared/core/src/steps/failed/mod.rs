//! Failed tasks: found, run again, or taken out of the list.
//!
//! A retry is one write, conditional on the round in which the task failed; from then on the task waits for a batch as
//! any other does. Then a leader is asked for. If the process dies between the two, sweep finds the task among those
//! that wait. A second retry finds a task that has not failed: it changes nothing, and asks for a leader once more.

mod list;
mod search;

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

use super::cas::{Outcome, Tries, handle};
use super::election_messages::{election_messages, elections};
use super::{CONCURRENCY, Error};
use crate::domain::failed::Refused;
use crate::domain::{Candidate, Failed, Shard, Target, Task, TaskId};
use crate::ports::{Env, Failures, Freshness, Lanes, Outbox, Stored, Tasks, send_all};
use crate::routes::{Assigned, Routes};

pub use list::Page;
pub use search::{NoRoute, Search};

handle! {
    /// Failed tasks, over their ports.
    Failing
}

/// What became of each task that was named.
pub type Each = Vec<(TaskId, Outcome<(), Refused>)>;

/// What retrying one task came to.
struct Tried {
    outcome: Result<(), Refused>,
    /// Whether it waits now, and so needs a leader.
    waits: Option<(Target, Candidate)>,
}

impl<S: Tasks + Failures + Lanes, Q: Outbox, E: Env> Failing<'_, S, Q, E> {
    /// Runs failed tasks again, each for itself. May be repeated. An error says that the leaders of those that wait now
    /// could not be asked for; sweep asks for them, too.
    pub async fn retry(&self, routes: &Routes, ids: &[TaskId]) -> Result<Each, Error> {
        let retrying = ids.iter().map(|id| async move { (id.clone(), self.retry_one(routes, id).await) });
        let tried: Vec<_> = stream::iter(retrying.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await;
        let mut waiting: BTreeMap<Target, Vec<Candidate>> = BTreeMap::new();
        let mut each = Vec::with_capacity(tried.len());
        for (id, tried) in tried {
            let outcome = tried.map(|Tried { outcome, waits }| {
                if let Some((target, candidate)) = waits {
                    waiting.entry(target).or_default().push(candidate);
                }
                outcome
            });
            each.push((id, outcome));
        }
        // As if they had lost before: somebody may have come to them meanwhile.
        let ask = |(target, tasks): (Target, Vec<Candidate>)| elections(self.env, &target, &tasks, self.env.now(), 1);
        send_all(self.outbox, election_messages(waiting.into_iter().flat_map(ask))).await?;
        Ok(each)
    }

    /// Takes failed tasks out of the list: they need not run. May be repeated.
    pub async fn unfile(&self, ids: &[TaskId]) -> Each {
        let dropping = ids.iter().map(|id| async move { (id.clone(), self.unfile_one(id).await) });
        stream::iter(dropping.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await
    }

    /// What is kept of a task's failure.
    pub async fn show(&self, id: &TaskId) -> Outcome<Failed, Refused> {
        Ok(match self.store.failure(id).await? {
            Some(failed) => Ok(failed),
            None => Err(self.task(id).await?.map_or(Refused::Unknown, |task| Refused::NotFailed(task.status.word()))),
        })
    }

    async fn retry_one(&self, routes: &Routes, id: &TaskId) -> Result<Tried, Error> {
        let mut tries = Tries::of("retrying a failed task", self.env);
        loop {
            let refused = |refused| Ok(Tried { outcome: Err(refused), waits: None });
            let Some(task) = self.task(id).await? else { return refused(Refused::Unknown) };
            if task.is_erased() {
                return refused(Refused::Erased);
            }
            let target = match self.target(routes, &task) {
                Ok(target) => target,
                Err(why) => return refused(why),
            };
            let lane = match &task.lane {
                Some(lane) => self.store.lane(lane).await?,
                None => None,
            };
            let retry = match task.retried(target.clone(), lane.as_ref(), self.env.now()) {
                Ok(retry) => retry,
                Err(why) => {
                    // The process that retried it before may have died before it asked for a leader.
                    let waits = task.status.waits_for().map(|target| (target.clone(), task.candidate()));
                    return Ok(Tried { outcome: Err(why), waits });
                }
            };
            if self.store.retry(&retry).await? == Stored::Yes {
                let candidate = Candidate { round: retry.failed_in.next(), ..task.candidate() };
                return Ok(Tried { outcome: Ok(()), waits: Some((target, candidate)) });
            }
            tries.give_way().await?;
        }
    }

    /// What a task is grouped by now: its route may have been mended since it failed.
    fn target(&self, routes: &Routes, task: &Task) -> Result<Target, Refused> {
        let Assigned { route, target, .. } = routes.assign(&task.payload).map_err(Refused::NoRoute)?;
        Ok(target.in_shard(Shard::drawn(route.shards, self.env.random())))
    }

    async fn unfile_one(&self, id: &TaskId) -> Outcome<(), Refused> {
        if self.store.unfile(id).await? == Stored::Yes {
            return Ok(Ok(()));
        }
        Ok(Err(self.task(id).await?.map_or(Refused::Unknown, |task| Refused::NotFailed(task.status.word()))))
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, Error> {
        Ok(self.store.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next())
    }
}
