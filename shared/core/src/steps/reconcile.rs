//! Reconciles tables that were restored to moments which lie some milliseconds apart.
//!
//! Each table of a running stack is copied at a moment of its own. So one may say what another does not know yet:
//!
//! | the copy of the batches | has | and so |
//! |---|---|---|
//! | is later than that of the tasks | an outcome that is followed up, and members without a status | it is followed up once more |
//! | | final members that still wait | they are moved in |
//! | is earlier | final members that have moved on since | the batch is given up; those that name it wait again |
//! | | an open batch without some that have joined it | these wait again |
//! | | an open batch of which some are settled already | it is given up likewise |
//! | | no batch that tasks name | they wait again |
//!
//! For the last two `drive_on` is enough. Nothing that was called under a batch's key is called under it with others: a
//! batch goes on with just its members, or not at all. What is open in the copy of the tasks may be called again, and
//! only that: the copies of locks, gates and sessions decide about no task.
//!
//! It is for tables that nobody works on. While a stack runs, tasks and batches agree by the order of its writes.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};

use super::finish::{drive, stored};
use super::{CONCURRENCY, Error};
use crate::domain::batch::{Assumes, Batch, Status};
use crate::domain::id::{BatchId, Part, RouteName, TaskId};
use crate::domain::shelf::Position;
use crate::domain::task::{self, Task};
use crate::domain::time::Timestamp;
use crate::ports::{Batches, Census, Freshness, Look, Tasks};
use crate::routes::Routes;

/// Reconciles batches and tasks. May be repeated.
///
/// # Errors
/// A port did not answer, or somebody is at work on the tables.
pub async fn reconcile<S: Tasks + Batches + Census>(store: &S, routes: &Routes) -> Result<(), Error> {
    let unsettled = store.unsettled_tasks().await?;
    let mut batches: BTreeSet<BatchId> = unsettled.iter().filter_map(|task| task.status.batch().cloned()).collect();
    for route in routes.iter() {
        for part in Part::all().flat_map(|part| [part, part.pulled()]) {
            unfinished(store, &route.name, part, &mut batches).await?;
        }
    }
    stream::iter(batches)
        .map(|id| async move {
            match store.batch(&id).await? {
                Some(batch) => reconcile_one(store, &batch).await,
                None => Ok(()),
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

async fn reconcile_one(store: &(impl Tasks + Batches), batch: &Batch) -> Result<(), Error> {
    let next = match &batch.status {
        Status::Frozen | Status::InProgress { .. } | Status::Paused { .. } => {
            drive(store, batch).await?;
            let tasks = candidates(store, batch).await?;
            let are_there = batch.members.len() == tasks.iter().filter(|task| is_in(batch, task)).count();
            (!are_there).then(|| batch.given_up_for_others())
        }
        Status::Open { .. } | Status::Closing => {
            // Its finisher moves those in that wait. It has been called if some that joined it are settled.
            let was_called = |task: &Task| task.status.is_settled() && task.status.batch() == Some(&batch.id);
            candidates(store, batch).await?.iter().any(was_called).then(|| batch.given_up_for_others())
        }
        Status::Settled { .. } => {
            // Those that still wait have an outcome, too.
            drive(store, batch).await?;
            let is_forgotten = |task: &Task| is_in(batch, task) && batch.takes_for_done(task);
            candidates(store, batch).await?.iter().any(is_forgotten).then(|| batch.followed_up_again())
        }
        Status::Empty | Status::Void => None,
    };
    match next {
        Some(next) => stored(store.store(&next, Assumes::At(batch.revision)).await?),
        None => Ok(()),
    }
}

/// The tasks of a batch's candidates or members as they are now.
async fn candidates(store: &impl Tasks, batch: &Batch) -> Result<Vec<Task>, Error> {
    let ids: Vec<TaskId> = batch.members.iter().map(|member| member.id.clone()).collect();
    Ok(store.read(&ids, Freshness::Latest).await?)
}

/// Whether a member is in its batch and has no status of its own yet.
fn is_in(batch: &Batch, task: &Task) -> bool {
    batch.has(task) && task.status == task::Status::Batched { batch: batch.id.clone() }
}

/// All unfinished batches of one part of a route.
async fn unfinished(
    store: &impl Batches,
    route: &RouteName,
    part: Part,
    found: &mut BTreeSet<BatchId>,
) -> Result<(), Error> {
    let mut after: Option<Position> = None;
    loop {
        let look = Look::at(part, Timestamp(u64::MAX), PAGE).behind(after.as_ref());
        let page = store.unfinished(route, look).await?;
        after = page.found.last().map(|entry| entry.at.clone());
        let is_last = page.are_last || after.is_none();
        found.extend(page.all());
        if is_last {
            return Ok(());
        }
    }
}

/// Batches that are looked for at once.
const PAGE: usize = 1_000;
