//! Driving on a task that is in the tables already: what its lost or repeated message should have done.

use super::Error;
use crate::domain::batch::{Assumes, Batch, Status};
use crate::domain::id::{BatchId, Target};
use crate::domain::message::{Finish, Group, Handle};
use crate::domain::task::{self, Candidate, Task, Ties};
use crate::domain::tracker::Outcome;
use crate::ports::{Batches, Env, Outgoing, PutBack, Stored, Tasks};

/// What drives a task on.
#[derive(Debug)]
pub enum Next {
    /// A leader must be elected for it.
    Elect(Target, Candidate),
    /// Its batch's own message.
    Send(Outgoing),
    /// It is settled: who must hear of it may not have. Its tracker may be a new one under an id used before.
    Ack(Ties, Outcome),
    /// It is settled, or somebody else is driving it.
    Nothing,
}

/// Decides what drives a task on, from where it stands; `target` is what its route computes for it.
///
/// # Errors
/// A port did not answer, or somebody else wrote meanwhile.
pub async fn drive_on<S: Tasks + Batches>(
    store: &S,
    env: &impl Env,
    task: &Task,
    target: &Target,
) -> Result<Next, Error> {
    match &task.status {
        // The task before it drives it on.
        task::Status::Queued => Ok(Next::Nothing),
        task::Status::Created { target } => Ok(Next::Elect(target.clone(), task.candidate())),
        task::Status::Batched { batch } => match store.batch(batch).await? {
            Some(found) => by_batch(store, env, task, target, found).await,
            None => void(store, env, task, target, batch).await,
        },
        task::Status::Succeeded { .. } | task::Status::Failed { .. } => {
            Ok(task.status.outcome().map_or(Next::Nothing, |outcome| Next::Ack(task.ties(), outcome)))
        }
    }
}

async fn by_batch(
    store: &impl Tasks,
    env: &impl Env,
    task: &Task,
    target: &Target,
    batch: Batch,
) -> Result<Next, Error> {
    Ok(match &batch.status {
        Status::Open { .. } | Status::Closing => {
            let finish = Group::Finish(Finish { batch: batch.id, target: batch.target });
            Next::Send(Outgoing::group(&finish, 0))
        }
        Status::Frozen | Status::InProgress { .. } | Status::Paused { .. } | Status::Settled { .. } => {
            Next::Send(Outgoing::handle(&Handle::about(&batch), 0))
        }
        Status::Void => return_from(store, env, task, target, &batch.id).await?,
        // An empty batch has no members: the task was read before it moved on.
        Status::Empty => Next::Nothing,
    })
}

/// The batch was named but never written. Its writer may be dead or only asleep, so a void item takes its place first:
/// then the sleeper's own write fails, and the task can go back to waiting.
async fn void<S: Tasks + Batches>(
    store: &S,
    env: &impl Env,
    task: &Task,
    target: &Target,
    id: &BatchId,
) -> Result<Next, Error> {
    let void = Batch::void(id.clone(), target.clone(), env.now());
    match store.store(&void, Assumes::Absent).await? {
        Stored::Yes => return_from(store, env, task, target, id).await,
        Stored::Conflict => Err(Error::Conflict("voiding a batch that appeared meanwhile")),
    }
}

async fn return_from(
    store: &impl Tasks,
    env: &impl Env,
    task: &Task,
    target: &Target,
    id: &BatchId,
) -> Result<Next, Error> {
    let member = task.candidate();
    Ok(match store.put_back(&member, id, target, task.attempts, env.now()).await? {
        PutBack::Waits => Next::Elect(target.clone(), Candidate { round: member.round.next(), ..member }),
        PutBack::MovedOn => Next::Nothing,
    })
}
