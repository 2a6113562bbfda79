//! Finishing a batch that its leader left: closes it to new candidates, drives *every* candidate to a known fate, and
//! freezes exactly those that name it. Finish, never trim: a candidate whose move might still be under way is moved
//! here, so that no late mover can leave a task naming a batch that does not have it.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::{CONCURRENCY, Error};
use crate::domain::batch::{Assumes, Batch, Member, Status};
use crate::domain::id::{BatchId, Target};
use crate::domain::message::Handle;
use crate::domain::task;
use crate::domain::time::Timestamp;
use crate::ports::{Batches, Freshness, Joined, Outbox, Outgoing, Stored, Tasks, send_all};

/// Finishes a batch and hands it on, whatever state it was left in. May be repeated.
///
/// # Errors
/// A port did not answer, or somebody else wrote the batch meanwhile.
pub async fn finish<S: Tasks + Batches, Q: Outbox>(
    store: &S,
    outbox: &Q,
    id: &BatchId,
    target: &Target,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(batch) = store.batch(id).await? else {
        // Named but never written: its writer must not write it later.
        let void = Batch::void(id.clone(), target.clone(), now);
        return stored(store.store(&void, Assumes::Absent).await?);
    };
    let batch = match &batch.status {
        Status::Open { .. } => {
            let closing = batch.closing();
            stored(store.store(&closing, Assumes::At(batch.revision)).await?)?;
            freeze(store, &closing).await?
        }
        Status::Closing => freeze(store, &batch).await?,
        Status::Frozen | Status::InProgress { .. } | Status::Settled { .. } | Status::Empty | Status::Void => batch,
    };
    hand_on(outbox, &batch).await
}

/// Sends a frozen batch to the batch-handler; one that was claimed before has its message already.
///
/// # Errors
/// The queue did not answer.
pub async fn hand_on(outbox: &impl Outbox, batch: &Batch) -> Result<(), Error> {
    if batch.status == Status::Frozen {
        let message = Handle::new(batch.id.clone(), batch.target.clone());
        send_all(outbox, vec![Outgoing::handle(&message, 0)]).await?;
    }
    Ok(())
}

async fn freeze<S: Tasks + Batches>(store: &S, batch: &Batch) -> Result<Batch, Error> {
    let frozen = batch.frozen(drive(store, batch).await?);
    stored(store.store(&frozen, Assumes::At(batch.revision)).await?)?;
    Ok(frozen)
}

/// Drives every candidate of a batch to a known fate; returns those that name it, in their order.
///
/// # Errors
/// A port did not answer.
pub async fn drive<S: Tasks>(store: &S, batch: &Batch) -> Result<Vec<Member>, Error> {
    // Most have joined already: reading that costs a read each instead of a failed write.
    let ids: Vec<_> = batch.members.iter().map(|member| member.id.clone()).collect();
    let tasks = store.read(&ids, Freshness::Latest).await?;
    let by_id: HashMap<_, _> = tasks.iter().map(|task| (&task.id, task)).collect();
    let by_id = &by_id;
    let fates: Vec<Option<Member>> = stream::iter(&batch.members)
        .map(|member| async move {
            let joined = match by_id.get(&member.id) {
                Some(task) if task.waits_in(member.round) => {
                    store.join(&member.id, member.round, &batch.id).await? == Joined::Yes
                }
                Some(task) => task.round == member.round && names(task, &batch.id),
                None => false,
            };
            Ok::<_, Error>(joined.then(|| member.clone()))
        })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    Ok(fates.into_iter().flatten().collect())
}

fn names(task: &task::Task, batch: &BatchId) -> bool {
    matches!(&task.status, task::Status::Batched { batch: named } if named == batch)
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
