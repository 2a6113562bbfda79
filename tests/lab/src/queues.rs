//! Queues in memory by the virtual clock, which may lose a message or deliver it twice, or make it one of a version to
//! come.

use std::sync::{Mutex, PoisonError};

use groupage_core::ports::Result;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::prelude::*;

/// The queues of a world.
#[derive(Debug)]
pub struct Queues {
    inner: MemoryQueues,
    env: TestEnv,
    loss: f64,
    newer: f64,
    /// Dice of their own, so that the rest of a seed stays what it is.
    newer_dice: TestEnv,
    lost: Mutex<Vec<Outgoing>>,
    changed: Notify,
}

impl Queues {
    /// Empty queues that lose a message between the steps with this chance, as if it had ended in a dead-letter queue.
    /// Another has as great a chance as `newer` to be sent by a function of the next version.
    pub fn new(env: TestEnv, loss: f64, newer: f64) -> Self {
        let (inner, newer_dice) = (MemoryQueues::new(), env.with_seed(0x4E37));
        Self { inner, env, loss, newer, newer_dice, lost: Mutex::default(), changed: Notify::new() }
    }

    /// The queues themselves, at the present time.
    pub fn now(&self) -> &MemoryQueues {
        self.inner.set_now(self.env.now());
        &self.inner
    }

    /// Receives a message for a step.
    pub fn receive(&self, visibility_ms: u64) -> Option<Delivery> {
        self.now().receive(visibility_ms)
    }

    /// Receives messages for one step, as many at once as it takes.
    pub fn receive_together(&self, most: impl Fn(&Destination) -> usize, visibility_ms: u64) -> Vec<Delivery> {
        self.now().receive_together(most, visibility_ms)
    }

    /// Waits until a message came or was postponed since the last time.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Loses every message for a step, in hand or not, as queues in memory do when their process dies.
    pub fn lose_everything(&self) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(self.now().lose_everything());
    }

    /// What was lost so far.
    pub fn lost(&self) -> Vec<Outgoing> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Outbox for Queues {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        self.changed.notify_one();
        let mut answers = Vec::new();
        for message in messages {
            let between_steps = match message.to {
                Destination::Elect | Destination::Group | Destination::Handle | Destination::LongHandle => true,
                // What is on a task queue is in no table yet: a queue keeps it, as it keeps a sender's message.
                Destination::Tasks
                | Destination::InOrder(_)
                | Destination::Gather(_)
                | Destination::Rejected
                | Destination::Notification(_) => false,
            };
            if between_steps && self.loss > 0.0 && self.env.chance(self.loss) {
                self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(message);
                answers.push(Ok(()));
            } else {
                let is_newer = between_steps && self.newer > 0.0 && self.newer_dice.chance(self.newer);
                let message = if is_newer { of_next_version(message) } else { message };
                answers.extend(self.now().send(vec![message]).await);
            }
        }
        answers
    }
}

/// A message between steps as a version to come may write it: each of its structures has one more field.
fn of_next_version(mut message: Outgoing) -> Outgoing {
    let Ok(mut body) = serde_json::from_str::<Value>(&message.body) else { return message };
    match (&message.to, &mut body) {
        // The only field says which message it is: another one would be another message.
        (Destination::Elect | Destination::Group, Value::Object(kind)) => kind.values_mut().for_each(add_field),
        (_, body) => add_field(body),
    }
    message.body = body.to_string();
    message
}

fn add_field(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(add_field);
            fields.insert("of_next_version".to_owned(), json!({ "any": ["thing"] }));
        }
        Value::Array(values) => values.iter_mut().for_each(add_field),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl Inbox for Queues {
    async fn postpone(&self, from: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        self.changed.notify_one();
        self.now().postpone(from, receipts, delay_ms).await
    }
}
