//! Finishing a batch that its leader left: closes it to new candidates, drives *every* candidate to a known fate, and
//! freezes exactly those that name it. Finish, never trim: a candidate whose move might still be under way is moved
//! here, so that no late mover can leave a task naming a batch that does not have it.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::{CONCURRENCY, Error};
use crate::domain::batch::{Assumes, Batch, Member, Status};
use crate::domain::message::Handle;
use crate::domain::{BatchId, Target, Task, Timestamp};
use crate::ports::{Batches, Freshness, Joined, Outbox, Outgoing, Stored, Tasks, send_all};
use crate::routes::Routes;

/// Finishes a batch and hands it on, whatever state it was left in. May be repeated.
///
/// # Errors
/// A port did not answer, or somebody else wrote the batch meanwhile.
pub async fn finish<S: Tasks + Batches, Q: Outbox>(
    store: &S,
    outbox: &Q,
    routes: &Routes,
    id: &BatchId,
    target: &Target,
    now: Timestamp,
) -> Result<(), Error> {
    let batch = written(store, id, target, now).await?;
    let batch = match &batch.status {
        Status::Open { .. } => {
            let closing = batch.closing();
            stored(store.store(&closing, Assumes::At(batch.revision)).await?)?;
            freeze(store, routes, &closing, now).await?
        }
        Status::Closing => freeze(store, routes, &batch, now).await?,
        Status::Frozen
        | Status::InProgress { .. }
        | Status::Paused { .. }
        | Status::Settled { .. }
        | Status::Empty
        | Status::Void => batch,
    };
    hand_on(outbox, routes, &batch).await
}

/// A batch that is named, as it was written. If it never was, its writer may be dead or only asleep, so a void item
/// takes its place: then the sleeper's own write fails, and tasks that name it can go back to waiting.
///
/// # Errors
/// A port did not answer, or the batch was there a moment ago and is gone.
pub async fn written(store: &impl Batches, id: &BatchId, target: &Target, now: Timestamp) -> Result<Batch, Error> {
    if let Some(batch) = store.batch(id).await? {
        return Ok(batch);
    }
    let void = Batch::void(id.clone(), target.clone(), now);
    match store.store(&void, Assumes::Absent).await? {
        Stored::Yes => Ok(void),
        Stored::Conflict => store.batch(id).await?.ok_or(Error::Conflict("voiding a batch that appeared meanwhile")),
    }
}

/// Sends a frozen batch to the batch-handler; one that was claimed before has its message already, and one that is
/// pulled needs none.
pub async fn hand_on(outbox: &impl Outbox, routes: &Routes, batch: &Batch) -> Result<(), Error> {
    Ok(send_all(outbox, handing_on(routes, batch).into_iter().collect()).await?)
}

/// The message by which [`hand_on`] hands a batch on, if it needs one.
pub fn handing_on(routes: &Routes, batch: &Batch) -> Option<Outgoing> {
    let is_sent = batch.status == Status::Frozen && !routes.is_pulled(&batch.target);
    is_sent.then(|| Outgoing::handle(&Handle::about(batch), 0))
}

/// A batch with its final members as it is to be written.
pub fn frozen(batch: &Batch, members: Vec<Member>, routes: &Routes, now: Timestamp) -> Batch {
    offered(batch.frozen(members).collapsed(now), routes, now)
}

/// A frozen batch as it is to be written: one that is pulled may be claimed from now on.
pub fn offered(frozen: Batch, routes: &Routes, now: Timestamp) -> Batch {
    if routes.is_pulled(&frozen.target) { frozen.pulled_from(now) } else { frozen }
}

async fn freeze<S: Tasks + Batches>(store: &S, routes: &Routes, batch: &Batch, now: Timestamp) -> Result<Batch, Error> {
    let frozen = frozen(batch, drive(store, batch).await?, routes, now);
    stored(store.store(&frozen, Assumes::At(batch.revision)).await?)?;
    Ok(frozen)
}

/// Drives every candidate of a batch to a known fate; returns those that name it, in their order.
pub async fn drive<S: Tasks>(store: &S, batch: &Batch) -> Result<Vec<Member>, Error> {
    // Most have joined already: reading that costs a read each instead of a failed write.
    let ids: Vec<_> = batch.members.iter().map(|member| member.id.clone()).collect();
    let tasks = store.read(&ids, Freshness::Latest).await?;
    let by_id: HashMap<_, _> = tasks.iter().map(|task| (&task.id, task)).collect();
    let fates = batch.members.iter().map(|member| {
        let task = by_id.get(&member.id);
        let waits = task.is_some_and(|task| task.waits_in(member.round));
        let names_it = |task: &&&Task| task.round == member.round && task.status.batch() == Some(&batch.id);
        (member.clone(), waits, task.filter(names_it).is_some())
    });
    let members: Vec<Option<Member>> = stream::iter(fates.collect::<Vec<_>>())
        .map(|(member, waits, has_joined)| async move {
            let joins = waits && store.join(&member.id, member.round, &batch.id).await? == Joined::Yes;
            Ok::<_, Error>((joins || has_joined).then_some(member))
        })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    Ok(members.into_iter().flatten().collect())
}

/// Turns a lost race for a batch into the error that brings the message again.
///
/// # Errors
/// [`Error::Conflict`] if the batch was not as assumed.
pub const fn stored(outcome: Stored) -> Result<(), Error> {
    match outcome {
        Stored::Yes => Ok(()),
        Stored::Conflict => Err(Error::Conflict("writing a batch")),
    }
}
