//! Queues in memory, with delays and visibility timeouts, on a clock that the test turns.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::time::Timestamp;
use crate::ports::{Destination, Inbox, Outbox, Outgoing, Result};

/// Every queue's messages.
#[derive(Debug, Default)]
pub struct MemoryQueues {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    now: Timestamp,
    next: u64,
    /// What steps receive.
    messages: VecDeque<Message>,
    /// What nobody receives here: it stays, and there may be much of it.
    for_people: Vec<Outgoing>,
}

#[derive(Debug)]
struct Message {
    receipt: String,
    outgoing: Outgoing,
    visible_at: Timestamp,
    received: u32,
}

const fn is_for_a_step(to: &Destination) -> bool {
    match to {
        Destination::Tasks
        | Destination::InOrder(_)
        | Destination::Gather(_)
        | Destination::Elect
        | Destination::Group
        | Destination::Handle => true,
        Destination::Rejected | Destination::Notification(_) => false,
    }
}

/// A message in hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// For deleting or postponing it.
    pub receipt: String,
    /// The message.
    pub outgoing: Outgoing,
    /// How often it was received, this time included.
    pub received: u32,
}

impl MemoryQueues {
    /// Empty queues at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time that delays and timeouts are counted by.
    pub fn set_now(&self, now: Timestamp) {
        self.state().now = now;
    }

    /// Receives the first visible message of any step's queue and hides it for `visibility_ms`.
    #[must_use]
    pub fn receive(&self, visibility_ms: u64) -> Option<Delivery> {
        self.receive_if(|_| true, visibility_ms)
    }

    /// Receives the first visible message of one step's queue and hides it for `visibility_ms`.
    #[must_use]
    pub fn receive_from(&self, queue: &Destination, visibility_ms: u64) -> Option<Delivery> {
        self.receive_if(|to| to == queue, visibility_ms)
    }

    fn receive_if(&self, is_wanted: impl Fn(&Destination) -> bool, visibility_ms: u64) -> Option<Delivery> {
        let mut state = self.state();
        let now = state.now;
        let is_there = |message: &Message| message.visible_at <= now && is_wanted(&message.outgoing.to);
        let at = state.messages.iter().position(is_there)?;
        let mut message = state.messages.remove(at)?;
        message.visible_at = now.plus_ms(visibility_ms);
        message.received += 1;
        let delivery = Delivery {
            receipt: message.receipt.clone(),
            outgoing: message.outgoing.clone(),
            received: message.received,
        };
        state.messages.push_back(message);
        Some(delivery)
    }

    /// Deletes a message; one that is gone stays gone.
    pub fn delete(&self, receipt: &str) {
        self.state().messages.retain(|message| message.receipt != receipt);
    }

    /// Loses every message for a step, in hand or not, and says which.
    pub fn lose_everything(&self) -> Vec<Outgoing> {
        self.state().messages.drain(..).map(|message| message.outgoing).collect()
    }

    /// When the next message for a step becomes visible, if there is any.
    #[must_use]
    pub fn next_visible_at(&self) -> Option<Timestamp> {
        self.state().messages.iter().map(|message| message.visible_at).min()
    }

    /// All messages for one destination, in hand or not.
    #[must_use]
    pub fn messages(&self, to: &Destination) -> Vec<Outgoing> {
        let state = self.state();
        let of_steps = state.messages.iter().map(|message| &message.outgoing);
        of_steps.chain(&state.for_people).filter(|message| message.to == *to).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox for MemoryQueues {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut state = self.state();
        messages
            .into_iter()
            .map(|outgoing| {
                if !is_for_a_step(&outgoing.to) {
                    state.for_people.push(outgoing);
                    return Ok(());
                }
                state.next += 1;
                let receipt = format!("m{}", state.next);
                let visible_at = state.now.plus_ms(outgoing.delay_ms);
                state.messages.push_back(Message { receipt, outgoing, visible_at, received: 0 });
                Ok(())
            })
            .collect()
    }
}

impl Inbox for MemoryQueues {
    async fn postpone(&self, receipt: &str, delay_ms: u64) -> Result<()> {
        let mut state = self.state();
        let visible_at = state.now.plus_ms(delay_ms);
        if let Some(message) = state.messages.iter_mut().find(|message| message.receipt == receipt) {
            message.visible_at = visible_at;
        }
        Ok(())
    }
}
