//! A state of the whole: tables, messages, processes, and what may still go wrong.

use std::sync::Arc;

use groupage_core::domain::batch::Status;
use groupage_core::domain::message::Lead;

use crate::harness::histories;
use crate::pipeline::setting::Mishaps;
use crate::pipeline::tables::after_waiting;
use crate::pipeline::world::World;
use crate::prelude::*;
use crate::steps::io::Body;
use crate::steps::process::{Process, Steps};

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    /// The tables.
    pub world: World,
    /// Messages that wait in the queues, in a fixed order.
    pub messages: Vec<Message>,
    /// Processes, in a fixed order; the message of each is in flight.
    pub running: Vec<Running>,
    /// What may still go wrong.
    pub left: Mishaps,
    /// Leases and sessions that may be over although others have something to do: one for each sleep.
    pub passes: u8,
    /// A process has died whose message another delivery had acknowledged. If it held the lock, nobody knows: the lock
    /// is free for the next workflow when its lease is over.
    pub orphaned: bool,
    /// Fresh names of events. A batch may have its id of one, which does not show it, so none is given again.
    pub burnt: Names,
}

/// Whom a loser signalled: by which shard's lock that one leads, and its fence.
pub type Lost = (Shard, Fence);

/// What orders messages that say the same.
type Rank = (bool, Option<Lost>, u8);

/// A message in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// What it says.
    pub body: Kept<Body>,
    /// Whether it may have been handled before.
    pub redelivered: bool,
    /// It was delayed for a loser, who signalled the holder of this shard's lock with this fence.
    pub lost_to: Option<Lost>,
    /// Deliveries with the same number, other than 0, are of one message: acknowledged by one of them, it is gone.
    pub shared: u8,
}

/// A process, with its message.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Running {
    /// The message that it handles.
    pub message: Message,
    /// Where it stands.
    pub process: histories::Running<Steps>,
    /// It sleeps, for as long as others may take over what it holds.
    pub asleep: bool,
    /// Its message was acknowledged by another delivery, and does not come again.
    pub deleted: bool,
}

impl Message {
    /// A message that was never delivered.
    pub fn new(body: Body) -> Self {
        Self { body: Kept::new(body), redelivered: false, lost_to: None, shared: 0 }
    }

    /// This message, as it comes after a delivery that did not end well.
    pub fn again(self) -> Self {
        Self { redelivered: true, ..self }
    }

    const fn rank(&self) -> Rank {
        (self.redelivered, self.lost_to, self.shared)
    }
}

impl Running {
    /// The process that a message begins, or that goes on.
    pub const fn new(message: Message, process: Arc<Process>) -> Self {
        let process = histories::Running(process);
        Self { message, process, asleep: false, deleted: false }
    }

    fn rank(&self) -> (u64, Rank, bool, bool) {
        (self.process.fingerprint, self.message.rank(), self.asleep, self.deleted)
    }
}

impl State {
    /// Puts a message into its queue.
    pub fn put(&mut self, message: Message) {
        let key = |message: &Message| (message.body.fingerprint(), message.rank());
        let at = self.messages.partition_point(|other| key(other) < key(&message));
        self.messages.insert(at, message);
    }

    /// Adds a process.
    pub fn run(&mut self, running: Running) {
        let at = self.running.partition_point(|other| other.rank() < running.rank());
        self.running.insert(at, running);
    }

    /// A process is gone that has not acknowledged its message.
    pub fn give_back(&mut self, running: Running) {
        let shared = running.message.shared;
        self.orphaned |= running.deleted;
        let waits = shared != 0 && self.messages.iter().any(|message| message.shared == shared);
        if !running.deleted && !waits {
            self.come_again(running.message);
        }
        if shared != 0 {
            self.forget_lonely();
        }
    }

    /// A message is given back. The queue knows nothing of events: what came in one comes again alone.
    fn come_again(&mut self, message: Message) {
        match &*message.body {
            Body::Register(numbers) if message.shared == 0 && numbers.len() > 1 => {
                for n in numbers {
                    self.put(Message::new(Body::Register(vec![*n])).again());
                }
            }
            _ => self.put(message.again()),
        }
    }

    /// Whether the message that registers a task is still there.
    pub fn registers(&self, n: u8) -> bool {
        let all = self.messages.iter().chain(self.running.iter().map(|running| &running.message));
        all.map(|message| &*message.body)
            .any(|body| matches!(body, Body::Register(numbers) | Body::Rest(numbers, _) if numbers.contains(&n)))
    }

    /// A process is gone that has acknowledged its message, for every delivery of it.
    pub fn acknowledge(&mut self, message: &Message) {
        if message.shared != 0 {
            self.messages.retain(|other| other.shared != message.shared);
            for running in &mut self.running {
                running.deleted |= running.message.shared == message.shared;
            }
            self.forget_lonely();
        }
    }

    /// A delivery that shares its message with no other is one like any other.
    fn forget_lonely(&mut self) {
        let all = self.messages.iter().chain(self.running.iter().map(|running| &running.message));
        let shared: Vec<u8> = all.map(|message| message.shared).filter(|shared| *shared != 0).collect();
        let is_lonely = |number: u8| shared.iter().filter(|other| **other == number).count() == 1;
        let messages = self.messages.iter_mut().chain(self.running.iter_mut().map(|running| &mut running.message));
        for message in messages.filter(|message| is_lonely(message.shared)) {
            message.shared = 0;
        }
        self.messages.sort_by_key(|message| (message.body.fingerprint(), message.rank()));
        self.running.sort_by_key(Running::rank);
    }

    /// Whether a message may be delivered. One that only waits for a time is not, before that time has come: until then
    /// it would go round unchanged.
    pub fn is_due(&self, message: &Message) -> bool {
        let tables = &self.world.tables;
        match &*message.body {
            Body::Register(_) | Body::Rest(..) | Body::Sweep => true,
            Body::Elect(elect) => message.lost_to.is_none_or(|(shard, fence)| {
                let led = tables.locks.get(usize::from(shard.0)).filter(|led| led.lives());
                // A workflow that lost to home's leader may lead its own shard once that leader needs help.
                let may_help = |lock: &Lock| {
                    matches!(elect, Elect::Waiting(election) if election.target.shard() != shard)
                        && lock.needs_help(Timestamp(0))
                };
                led.and_then(|led| led.lock.as_ref()).is_none_or(|lock| lock.fence != fence || may_help(lock))
            }),
            Body::Group(Group::Lead(Lead { term, resume: Some(resume), .. })) => {
                let waits = tables.batch(&resume.batch).is_some_and(|batch| after_waiting(batch).is_some());
                !waits || tables.led(&term.target).is_some_and(|led| led.unseen != 0)
            }
            Body::Group(Group::Lead(_)) => true,
            Body::Group(Group::Finish(finish)) => {
                let led = tables.led(&finish.target).filter(|led| led.lives());
                led.and_then(|led| led.lock.as_ref()?.open.as_ref()) != Some(&finish.batch)
            }
            Body::Handle(handle) => tables.batch(&handle.batch).is_none_or(|batch| match batch.status {
                Status::Paused { .. } => after_waiting(batch).is_none(),
                Status::InProgress { .. } => handle.waits == 0 || !tables.claim_lives(batch),
                _ => true,
            }),
        }
    }

    /// Whether a step before the call has something to do and does not sleep.
    pub fn is_grouping(&self) -> bool {
        let calls = |message: &Message| matches!(&*message.body, Body::Handle(_));
        self.running.iter().any(|running| !running.asleep && !calls(&running.message))
            || self.messages.iter().any(|message| !calls(message) && self.is_due(message))
    }

    /// Whether another batch than this message's comes first to be called: they have nothing in common, so their order
    /// makes no difference.
    pub fn is_calling_before(&self, message: &Message, batch: &BatchId) -> bool {
        let other = |message: &Message| matches!(&*message.body, Body::Handle(handle) if handle.batch != *batch);
        let first = |earlier: &Message| earlier.body.fingerprint() < message.body.fingerprint() && self.is_due(earlier);
        self.running.iter().any(|running| !running.asleep && other(&running.message))
            || self.messages.iter().any(|earlier| other(earlier) && first(earlier))
    }

    /// Whether a lease or a session may be over now: somebody slept for as long, or nobody else has anything to do.
    pub fn time_passes(&self) -> bool {
        let awake = self.running.iter().any(|running| !running.asleep);
        self.passes > 0 || (!awake && !self.messages.iter().any(|message| self.is_due(message)))
    }

    /// The fresh names in use.
    pub fn names(&self) -> Names {
        let messages = self.messages.iter().map(|message| message.body.names());
        let running = self.running.iter().map(|running| running.process.learnt.names);
        messages.chain(running).fold(self.burnt | self.world.tables.names(), |all, names| all | names)
    }
}
