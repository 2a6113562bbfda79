//! Queues in memory, with delays and visibility timeouts, on a clock that the test turns.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
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
    /// Its message group, if its queue is a FIFO queue.
    group: Option<String>,
    visible_at: Timestamp,
    received: u32,
}

impl Message {
    /// Whether somebody has received it and has it still.
    fn is_in_hand(&self, now: Timestamp) -> bool {
        self.received > 0 && self.visible_at > now
    }

    /// Whether it does not wait for others of its group.
    fn is_free(&self, held: &HashSet<&str>) -> bool {
        self.group.as_deref().is_none_or(|group| !held.contains(group))
    }

    /// Whether one request may return both.
    const fn shares_queue(&self, to: &Destination) -> bool {
        use Destination::{Elect, Gather, Group, Handle, InOrder, LongHandle, Tasks};
        matches!(
            (&self.outgoing.to, to),
            (InOrder(_) | Gather(_), InOrder(_) | Gather(_))
                | (Tasks, Tasks)
                | (Elect, Elect)
                | (Group, Group)
                | (Handle, Handle)
                | (LongHandle, LongHandle)
        )
    }
}

impl State {
    /// The place of the first visible message of this kind. One whose group somebody has messages of waits behind them.
    fn first(&self, is_wanted: impl Fn(&Message) -> bool) -> Option<usize> {
        let held = self.held();
        let is_there =
            |message: &Message| message.visible_at <= self.now && is_wanted(message) && message.is_free(&held);
        self.messages.iter().position(is_there)
    }

    /// The groups of which somebody has messages in hand.
    fn held(&self) -> HashSet<&str> {
        let in_hand = self.messages.iter().filter(|message| message.is_in_hand(self.now));
        in_hand.filter_map(|message| message.group.as_deref()).collect()
    }

    fn take(&mut self, at: usize, visibility_ms: u64) -> Option<Delivery> {
        let mut message = self.messages.remove(at)?;
        message.visible_at = self.now.plus_ms(visibility_ms);
        message.received += 1;
        let Message { receipt, outgoing, received, .. } = &message;
        let delivery = Delivery { receipt: receipt.clone(), outgoing: outgoing.clone(), received: *received };
        // A group's keep their order.
        let place = if message.group.is_some() { at } else { self.messages.len() };
        self.messages.insert(place, message);
        Some(delivery)
    }
}

const fn is_for_a_step(to: &Destination) -> bool {
    match to {
        Destination::Tasks
        | Destination::InOrder(_)
        | Destination::Gather(_)
        | Destination::Elect
        | Destination::Group
        | Destination::Handle
        | Destination::LongHandle => true,
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
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time that delays and timeouts are counted by.
    pub fn set_now(&self, now: Timestamp) {
        self.state().now = now;
    }

    /// Receives the first visible message of any step's queue and hides it for `visibility_ms`.
    pub fn receive(&self, visibility_ms: u64) -> Option<Delivery> {
        self.receive_together(|_| 1, visibility_ms).pop()
    }

    /// Receives the first visible message of one step's queue and hides it for `visibility_ms`.
    pub fn receive_from(&self, queue: &Destination, visibility_ms: u64) -> Option<Delivery> {
        let mut state = self.state();
        let at = state.first(|message| message.outgoing.to == *queue)?;
        state.take(at, visibility_ms)
    }

    /// Receives the first visible message of any step's queue, and with it, as one request does, as many more from the
    /// same queue as `most` says that its reader takes at once, those of its own group first (SQS developer guide,
    /// *FIFO queue delivery logic*).
    pub fn receive_together(&self, most: impl Fn(&Destination) -> usize, visibility_ms: u64) -> Vec<Delivery> {
        let mut state = self.state();
        let Some(first) = state.first(|_| true) else { return Vec::new() };
        let Some(to) = state.messages.get(first).map(|message| message.outgoing.to.clone()) else { return Vec::new() };
        let (now, held) = (state.now, state.held());
        let is_one = |(_, message): &(usize, &Message)| {
            message.shares_queue(&to) && message.visible_at <= now && message.is_free(&held)
        };
        let messages = state.messages.iter().enumerate().skip(first).filter(is_one);
        let limit = most(&to).max(1);
        // As many of one group as there are, then those of the next.
        let looks_at = if to.group().is_some() { usize::MAX } else { limit };
        let mut first_of: HashMap<Option<&str>, usize> = HashMap::new();
        let mut by_group: Vec<(usize, usize)> = messages
            .map(|(at, message)| (*first_of.entry(message.group.as_deref()).or_insert(at), at))
            .take(looks_at)
            .collect();
        by_group.sort_unstable();
        let mut places: Vec<usize> = by_group.into_iter().map(|(_, at)| at).take(limit).collect();
        // From behind, so that the places of those before stay what they are.
        places.sort_unstable_by_key(|at| Reverse(*at));
        let mut taken: Vec<Delivery> = places.into_iter().filter_map(|at| state.take(at, visibility_ms)).collect();
        taken.reverse();
        taken
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
    pub fn next_visible_at(&self) -> Option<Timestamp> {
        let state = self.state();
        let held = state.held();
        let comes = |message: &&Message| message.is_in_hand(state.now) || message.is_free(&held);
        state.messages.iter().filter(comes).map(|message| message.visible_at).min()
    }

    /// All messages for one destination, in hand or not.
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
                let group = outgoing.to.group();
                state.messages.push_back(Message { receipt, outgoing, group, visible_at, received: 0 });
                Ok(())
            })
            .collect()
    }
}

impl Inbox for MemoryQueues {
    async fn postpone(&self, _: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        let mut state = self.state();
        let visible_at = state.now.plus_ms(delay_ms);
        for message in state.messages.iter_mut().filter(|message| receipts.contains(&message.receipt)) {
            message.visible_at = visible_at;
        }
        receipts.iter().map(|_| Ok(())).collect()
    }
}
