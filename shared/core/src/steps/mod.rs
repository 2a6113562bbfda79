//! The protocol: one file for each step, over ports.
//!
//! A step is given one message and acknowledges it (`Ok`) only after the next state *and* the next message are durable.
//! An `Err` leaves the message where it is; it comes again. Every step may therefore be repeated from its beginning, at
//! any time, beside another delivery of the same message.

mod admit;
pub mod cancel;
pub mod cas;
mod drive_on;
pub mod elect;
pub mod election_messages;
pub mod erase;
pub mod failed;
mod fill;
mod finish;
pub mod group;
pub mod handle;
pub mod heartbeat;
pub mod hold;
pub mod lane;
pub mod list;
pub mod look;
mod notices;
mod observers;
pub mod process;
mod reconcile;
pub mod register;
pub mod revive;
#[cfg(test)]
mod still;
pub mod stream;
pub mod sweep;
pub mod track;
pub mod wake;
pub mod work;

use crate::domain::json::sendable;
use crate::domain::message::{Elect, Group, Handle};
use crate::domain::task::Status;
use crate::domain::{Candidate, Retryable, RouteName};
use crate::ports::{self, Destination, Env, Freshness, Outgoing, Tasks};

/// A step or a call could not finish: its message comes again, or it may be repeated. Mostly a port did not answer,
/// which the calls therefore do not say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A port did not answer.
    #[error(transparent)]
    Port(#[from] ports::Error),
    /// Another delivery wrote in between. It may die at any moment, so this message stays until the state says that
    /// nothing is left to do.
    #[error("{0}: another delivery is at work")]
    Conflict(&'static str),
    /// A task or batch names a route that the routes file does not have (any more).
    #[error("no route is named `{0}`: push a routes file that has it, then redrive")]
    UnknownRoute(RouteName),
    /// The invocation's time was up before its turn came.
    #[error("no time was left for it")]
    NoTime,
    /// A message between the steps does not parse.
    #[error("the message is not one of ours: {0}")]
    BadMessage(String),
}

impl Error {
    /// Whether the same message may succeed later without anybody's help.
    pub const fn retryable(&self) -> Retryable {
        match self {
            Self::Port(error) => error.retryable(),
            Self::Conflict(_) | Self::NoTime => Retryable::Yes,
            Self::UnknownRoute(_) | Self::BadMessage(_) => Retryable::No,
        }
    }
}

/// How many writes or reads a step has under way at once.
const CONCURRENCY: usize = 32;

/// Pauses after a write that met another: some milliseconds, and longer each time.
async fn let_others_go_first(env: &impl Env, tries: u32) {
    let most_ms = f64::from(5_u32 << tries.min(6));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred milliseconds at most")]
    env.sleep((env.random() * most_ms) as u64).await;
}

/// How long a leader is left alone beyond its batch's window, in milliseconds. Longer than any invocation works on one
/// batch; how long a Target whose leader died may stand still.
const LEASE_MARGIN_MS: u64 = 30_000;

/// The lease of a leader whose batches wait `wait_ms` for more.
const fn lease_ms(wait_ms: u64) -> u64 {
    wait_ms + LEASE_MARGIN_MS
}

impl Outgoing {
    /// A message to elect-leader.
    pub fn elect(message: &Elect, delay_ms: u64) -> Self {
        Self {
            tenant: message.target().map(|target| target.to_string()),
            ..Self::json(Destination::Elect, message, delay_ms)
        }
    }

    /// A message to group-batch.
    pub fn group(message: &Group, delay_ms: u64) -> Self {
        Self { tenant: Some(message.target().whole().to_string()), ..Self::json(Destination::Group, message, delay_ms) }
    }

    /// A message to batch-handler.
    pub fn handle(message: &Handle, delay_ms: u64) -> Self {
        Self { tenant: Some(message.target.whole().to_string()), ..Self::json(Destination::Handle, message, delay_ms) }
    }

    fn json(to: Destination, message: &impl serde::Serialize, delay_ms: u64) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "our messages are structs of strings and numbers; they have a JSON form"
        )]
        let body = serde_json::to_string(message).expect("a message serialises");
        Self { to, body: sendable(body), delay_ms, attributes: Vec::new(), tenant: None }
    }
}

/// Whether a task's turn, or its time, has not come.
const fn has_yet_to_wait(status: &Status) -> bool {
    matches!(status, Status::Queued | Status::Scheduled { .. })
}

/// Leaves only the candidates that still wait in their round. An eventual read that does not show a task, or shows it
/// in an earlier round or before its turn or its time had come, is older than what is known already: such a task is
/// kept.
async fn still_waiting(
    tasks: &impl Tasks,
    candidates: Vec<Candidate>,
    freshness: Freshness,
) -> Result<Vec<Candidate>, ports::Error> {
    let ids: Vec<_> = candidates.iter().map(|candidate| candidate.id.clone()).collect();
    let found = tasks.read(&ids, freshness).await?;
    let by_id: std::collections::HashMap<_, _> = found.iter().map(|task| (&task.id, task)).collect();
    Ok(candidates
        .into_iter()
        .filter(|candidate| match by_id.get(&candidate.id) {
            Some(task) if task.round < candidate.round || has_yet_to_wait(&task.status) => {
                freshness == Freshness::Eventual
            }
            Some(task) => task.waits_in(candidate.round),
            None => freshness == Freshness::Eventual,
        })
        .collect())
}
