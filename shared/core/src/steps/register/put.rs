//! Writing new tasks down, within what the index of their Target bears.

use futures::{StreamExt, stream};

use super::came::{Parsed, message_of};
use super::plan::Plan;
use super::refused::{Refused, conflict};
use super::shard_router::ShardRouter;
use super::yielding::{self, Yields};
use super::{Named, Record, Register, Report};
use crate::domain::task::{Status, Task};
use crate::domain::{BatchId, Retryable, Target};
use crate::ports::{self, Env, Registered, Tasks, Waiting};
use crate::steps::drive_on::{Found, Next};
use crate::steps::{CONCURRENCY, Error};

/// How many shards a put leaves; if the next one does not take it either, its task or its record comes again.
const MOVES: usize = 3;
/// A put that has had no answer for so long, in milliseconds, is not tried in another shard, only those after it are:
/// there must be time left to say what failed. A throttled put is told so at once, the last one within some hundred
/// milliseconds.
const PATIENCE_MS: u64 = 3_000;

/// What became of a record's task.
pub(super) enum Put {
    New(Next),
    /// It names a batch that is written next.
    Batched(BatchId, Found),
    /// It was there, and is to be driven on.
    Repeated(Found),
    Refused(Refused),
    /// It is not put.
    Yields(Box<Parsed>, Yields),
}

impl<S: Tasks, Q, E: Env> Register<'_, S, Q, E> {
    pub(super) async fn put_each(
        &self,
        tasks: Vec<(Record, Parsed)>,
        router: &ShardRouter,
    ) -> Vec<(Record, Result<Put, Error>)> {
        for (target, times) in yielding::overloaded(&tasks) {
            self.rations.expect(target, times, self.env.now());
        }
        let putting = stream::iter(tasks).map(|(record, parsed)| async move {
            let put = self.put(parsed, router).await;
            (record, put)
        });
        putting.buffered(CONCURRENCY).collect().await
    }

    /// Puts a task, into another shard if one does not take it ([`ShardRouter`]).
    async fn put(&self, mut parsed: Parsed, router: &ShardRouter) -> Result<Put, Error> {
        let drawn = parsed.target.clone();
        let begun = self.env.now();
        let shards = self.routes.get(&drawn.route()).map_or(1, |route| route.shards);
        let waits = matches!(parsed.task.status, Status::Created { .. });
        let mut moves = 0;
        loop {
            if self.is_late() {
                let late = |parsed| Put::Yields(Box::new(parsed), Yields::Late);
                return if waits { Ok(late(parsed)) } else { Err(Error::NoTime) };
            }
            if waits && moves == 0 && !self.rations.take(&drawn, self.env.now()) {
                return Ok(Put::Yields(Box::new(parsed), Yields::Overload(None)));
            }
            let task = &mut parsed.task;
            let mut target = drawn.clone();
            // What names a batch is in no shard.
            if let Status::Created { target: waits_for } = &mut task.status {
                target = router.place(&drawn);
                waits_for.clone_from(&target);
            }
            // A repeat would take from a throttled partition what its leader needs to move tasks out.
            let put = match waits {
                true => self.store.try_register(task).await,
                false => self.store.register(task).await,
            };
            let registered = match put {
                // If it was written all the same, the next put finds it, wherever it waits.
                Err(error) if waits && error.retryable() == Retryable::Yes => {
                    // Whether or not this task moves: others need not try there.
                    let has_other = router.leave(&drawn, &target, shards, || self.env.random());
                    if has_other && moves < MOVES && self.env.now().since(begun) < PATIENCE_MS {
                        moves += 1;
                        continue;
                    }
                    if matches!(error, ports::Error::Throttled { .. }) {
                        let is_first = self.rations.throttled(&drawn, self.env.now());
                        let said = is_first.then(|| error.into());
                        return Ok(Put::Yields(Box::new(parsed), Yields::Overload(said)));
                    }
                    return Err(error.into());
                }
                registered => registered?,
            };
            let task = parsed.task;
            return Ok(match registered {
                Registered::New => match &task.status {
                    Status::Batched { batch } => Put::Batched(batch.clone(), (task, target)),
                    Status::Scheduled { due, .. } => Put::New(Next::Due(*due, Waiting::new(&task, &target))),
                    Status::Queued | Status::Created { .. } | Status::Succeeded { .. } | Status::Failed { .. } => {
                        Put::New(Next::Elect(Waiting::new(&task, &target)))
                    }
                },
                Registered::Existing(existing) => repeated(task, target, *existing),
            });
        }
    }
}

/// What was put or not, by what is next.
#[derive(Default)]
pub(super) struct Sorted {
    /// Tasks that name a batch which is to be written.
    pub(super) batched: Vec<Named>,
    /// Tasks that were there already.
    pub(super) found: Vec<(Record, Found)>,
    /// Tasks that are not put now.
    pub(super) yielded: Vec<(Record, Parsed, Yields)>,
}

pub(super) fn sort_out(done: Vec<(Record, Result<Put, Error>)>, plan: &mut Plan, report: &mut Report) -> Sorted {
    let Sorted { mut batched, mut found, mut yielded } = Sorted::default();
    for (record, put) in done {
        match put {
            Err(error) => report.failed.push((record.message_id, error)),
            Ok(Put::New(next)) => {
                report.registered += 1;
                report.traces.extend(plan.traced.remove(&record.message_id));
                plan.add(&record, next);
            }
            Ok(Put::Batched(batch, task)) => {
                report.registered += 1;
                report.traces.extend(plan.traced.remove(&record.message_id));
                batched.push((batch, record, task));
            }
            Ok(Put::Repeated(task)) => {
                report.repeated += 1;
                found.push((record, task));
            }
            Ok(Put::Refused(refused)) => plan.reject(&record, refused),
            Ok(Put::Yields(parsed, why)) => yielded.push((record, *parsed, why)),
        }
    }
    Sorted { batched, found, yielded }
}

/// What becomes of a task whose id is there already.
pub(super) fn repeated(task: Task, target: Target, existing: Task) -> Put {
    if existing.is_repeated_by(&task.digest) {
        return Put::Repeated((existing, target));
    }
    Put::Refused(Refused::of(conflict(), message_of(task)))
}
