//! Driving on tasks that are in the tables already: what their lost or repeated messages should have done.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::finish::written;
use super::{CONCURRENCY, Error};
use crate::domain::WorkflowId;
use crate::domain::batch::{Batch, Status};
use crate::domain::copies::Copies;
use crate::domain::id::{BatchId, Target, digest};
use crate::domain::message::{Due, Elect, Election, Finish, Group, Handle};
use crate::domain::task::{self, Candidate, Task, Ties};
use crate::domain::time::Timestamp;
use crate::domain::tracker::Outcome;
use crate::ports::{Batches, Env, Outgoing, PutBack, Tasks, Waiting, WayBack};

/// A task as it was found, and the Target that its route computes for it.
pub type Found = (Task, Target);

/// What drives a task on.
#[derive(Debug)]
pub enum Next {
    /// A leader must be elected for it.
    Elect(Waiting),
    /// Its time comes then. Sweep finds it, and a delayed message makes that more precise.
    Due(Timestamp, Waiting),
    /// Its batch's own message.
    Send(Outgoing),
    /// The same, of a batch whose outcome is recorded: no call will be made of this task in it.
    FollowUp(Outgoing),
    /// It is settled: who must hear of it may not have. Its tracker may be a new one under an id used before.
    Ack(Ties, Outcome),
    /// It is settled, or somebody else is driving it.
    Nothing,
}

/// Decides for each task what drives it on, from where it stands. A batch that many of them name is looked at once.
///
/// Each task's error is its own: a port did not answer, or somebody else wrote meanwhile.
pub async fn drive_on<S: Tasks + Batches>(store: &S, env: &impl Env, found: Vec<Found>) -> Vec<Result<Next, Error>> {
    let named: BTreeMap<BatchId, Target> = found
        .iter()
        .filter(|(task, _)| !task.status.is_settled())
        .filter_map(|(task, target)| Some((task.status.batch()?.clone(), target.clone())))
        .collect();
    let batches: BTreeMap<BatchId, Result<Batch, Error>> = stream::iter(named)
        .map(|(id, target)| async move {
            let batch = written(store, &id, &target, env.now()).await;
            (id, batch)
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    let batches = &batches;
    stream::iter(found)
        .map(|(task, target)| async move {
            match &task.status {
                task::Status::Scheduled { target, due } => Ok(Next::Due(*due, Waiting::new(&task, target))),
                // The task before it drives it on.
                task::Status::Queued => Ok(Next::Nothing),
                task::Status::Created { target } => Ok(Next::Elect(Waiting::new(&task, target))),
                task::Status::Batched { batch } => match batches.get(batch) {
                    Some(Ok(batch)) => by_batch(store, env, &task, &target, batch).await,
                    Some(Err(error)) => Err(error.clone()),
                    None => Err(Error::Conflict("looking for a batch")),
                },
                task::Status::Succeeded { .. } | task::Status::Failed { .. } => {
                    Ok(task.status.outcome().map_or(Next::Nothing, |outcome| Next::Ack(task.ties(), outcome)))
                }
            }
        })
        .buffered(CONCURRENCY)
        .collect()
        .await
}

/// SQS delays a message for so long at most, in milliseconds. What is due later, sweep finds alone.
pub(super) const MAX_DELAY_MS: u64 = 15 * 60 * 1_000;

/// The message by which scheduled tasks of one Target wait for a batch when their time has come, at `at`; `None` if
/// that is too far ahead for a message.
pub fn due_message(target: &Target, tasks: Vec<Candidate>, at: Timestamp, now: Timestamp) -> Option<Outgoing> {
    let delay_ms = at.since(now);
    let due = Due { target: target.clone(), at, tasks };
    (delay_ms <= MAX_DELAY_MS).then(|| Outgoing::elect(&Elect::Due(due), delay_ms))
}

/// Lets scheduled tasks wait whose time has come. A repeat finds them waiting and elects again.
pub(super) async fn fall_due(store: &impl Tasks, env: &impl Env, due: Due) -> Result<Election, Error> {
    let Due { target, at, tasks } = due;
    let first = tasks.first().map_or("", |task| task.id.as_str());
    let workflow = WorkflowId::new(digest(&["due", target.as_str(), first]));
    // This clock may be behind that by which the message was delayed.
    let now = env.now().max(at);
    let falling = tasks.iter().map(|task| store.fall_due((&task.id, task.traits), &target, now)).collect::<Vec<_>>();
    let waiting: Vec<_> = stream::iter(falling).buffer_unordered(CONCURRENCY).try_collect().await?;
    let tasks = waiting.into_iter().flatten().map(|waiting| waiting.candidate).collect();
    Ok(Election { workflow, target, tasks, since: now, attempt: 0, signalled: None, copies: Copies::NONE })
}

async fn by_batch(
    store: &impl Tasks,
    env: &impl Env,
    task: &Task,
    target: &Target,
    batch: &Batch,
) -> Result<Next, Error> {
    Ok(match &batch.status {
        Status::Open { .. } | Status::Closing if batch.has(task) => {
            let (id, target) = (batch.id.clone(), batch.target.clone());
            let finish = Group::Finish(Finish { batch: id, target, copies: Copies::NONE });
            Next::Send(Outgoing::group(&finish, 0))
        }
        Status::Frozen | Status::InProgress { .. } | Status::Paused { .. } if batch.has(task) => {
            Next::Send(Outgoing::handle(&Handle::about(batch), 0))
        }
        Status::Settled { .. } if batch.has(task) => Next::FollowUp(Outgoing::handle(&Handle::about(batch), 0)),
        // It will never be a member: an express writer did not know that it was registered, or the batch is of an
        // earlier moment than the task.
        Status::Open { .. }
        | Status::Closing
        | Status::Frozen
        | Status::InProgress { .. }
        | Status::Paused { .. }
        | Status::Settled { .. }
        | Status::Void => return_from(store, env, task, target, &batch.id).await?,
        // An empty batch has no members: the task was read before it moved on.
        Status::Empty => Next::Nothing,
    })
}

async fn return_from(
    store: &impl Tasks,
    env: &impl Env,
    task: &Task,
    target: &Target,
    id: &BatchId,
) -> Result<Next, Error> {
    let member = task.candidate();
    let (attempts, is_unsure) = (task.attempts, task.is_unsure);
    let back = WayBack { member: &member, batch: id, target, attempts, is_unsure, at: env.now() };
    Ok(match store.put_back(back).await? {
        PutBack::Waits => {
            let candidate = Candidate { round: member.round.next(), ..member };
            Next::Elect(Waiting { target: target.clone(), candidate, since: env.now() })
        }
        PutBack::MovedOn | PutBack::Ended => Next::Nothing,
    })
}
