//! A state of the whole: tables, messages, processes, and what may still go wrong.

use std::sync::Arc;

use super::setting::{BEGINS_MS, Mishaps, number};
use super::world::World;
use crate::harness::histories;
use crate::harness::kept::{Kept, Names};
use crate::steps::io::{Body, Op};
use crate::steps::process::{Process, SWEEP_MS, Steps};

/// A state.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    /// The tables.
    pub world: World,
    /// Messages in their queue, in a fixed order.
    pub messages: Vec<Message>,
    /// Processes, in a fixed order; the message of each is in flight.
    pub running: Vec<Running>,
    /// What may still go wrong.
    pub left: Mishaps,
    /// Sweeps that have begun.
    pub sweeps: u8,
}

/// A message to batch-handler.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Message {
    /// What it says.
    pub body: Kept<Body>,
    /// It is not delivered before, in milliseconds.
    pub at: u64,
}

/// A process.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Running {
    /// Where it stands.
    pub process: histories::Running<Steps>,
    /// It stands still until then, in milliseconds.
    pub still: u64,
    /// It has stood still between its last look and its call.
    pub is_late: bool,
}

impl Message {
    /// The number of its batch.
    pub(super) fn batch(&self) -> u8 {
        self.body.handled().map(number).unwrap_or_default()
    }

    fn rank(&self) -> (u64, u64) {
        (self.at, self.body.fingerprint())
    }
}

impl Running {
    pub(super) const fn new(process: Arc<Process>) -> Self {
        Self { process: histories::Running(process), still: 0, is_late: false }
    }

    /// The number of the batch that it handles; none if it is sweep.
    pub(super) fn batch(&self) -> Option<u8> {
        self.process.role.body.handled().map(number)
    }

    /// Until when it does nothing, in milliseconds.
    pub(super) fn rests_until(&self) -> u64 {
        match self.process.next_io() {
            Some((_, Op::Sleep(until))) => self.still.max(*until),
            _ => self.still,
        }
    }

    fn rank(&self) -> (u64, u64, bool) {
        (self.process.fingerprint, self.still, self.is_late)
    }
}

impl State {
    pub(super) fn put(&mut self, message: Message) {
        let at = self.messages.partition_point(|other| other.rank() < message.rank());
        self.messages.insert(at, message);
    }

    pub(super) fn run(&mut self, running: Running) {
        let at = self.running.partition_point(|other| other.rank() < running.rank());
        self.running.insert(at, running);
    }

    /// Whether a message is delivered now.
    pub(super) const fn is_due(&self, message: &Message) -> bool {
        message.at <= self.world.now
    }

    /// How many deliveries of a batch may act now, and sweep.
    pub(super) fn about(&self, batch: Option<u8>) -> usize {
        let is_about = |other: Option<u8>| batch.is_none() || other.is_none() || other == batch;
        let running = self.running.iter().filter(|running| is_about(running.batch())).count();
        running + self.messages.iter().filter(|message| self.is_due(message) && is_about(Some(message.batch()))).count()
    }

    /// When the next thing happens, in milliseconds.
    pub(super) fn next_ms(&self, sweeps: u8) -> Option<u64> {
        let running = self.running.iter().map(Running::rests_until);
        let messages = self.messages.iter().map(|message| message.at);
        let sweep = (self.sweeps < sweeps).then(|| BEGINS_MS + SWEEP_MS * (u64::from(self.sweeps) + 1));
        running.chain(messages).chain(sweep).min()
    }

    /// The fresh names in use.
    pub(super) fn names(&self) -> Names {
        self.running.iter().fold(self.world.names(), |all, running| all | running.process.learnt.names)
    }
}
