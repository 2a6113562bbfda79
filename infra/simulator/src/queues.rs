//! SQS queues: delays in whole seconds, visibility timeouts, long polls, the message groups of the FIFO queue, and what
//! each request is billed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use groupage_aws::price::requests;
use groupage_aws::{Meter, REQUESTS_IN_FLIGHT, SqsRequest};
use groupage_core::ports::{Destination, Inbox, Outbox, Outgoing, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::clock::TestEnv;
use crate::fair::Fair;
use crate::latency::Hop;
use crate::machine::Machine;
pub use crate::message::{Chain, Message, Step};

/// SQS delays a message for 15 minutes at most.
const MAX_DELAY_S: u64 = 900;
/// A receive brings this many messages at most, and a delete takes as many.
pub const MESSAGES_AT_ONCE: usize = 10;

#[derive(Debug, Default)]
struct Queue {
    ready: VecDeque<Message>,
    /// Delayed, or in somebody's hands: by when they can be received (again).
    hidden: BTreeMap<(Instant, u64), Message>,
    /// Where those in somebody's hands are.
    in_hand: HashMap<u64, Instant>,
    /// How many are in its dead-letter queue.
    dead: usize,
    fair: Fair,
}

/// All queues.
#[derive(Debug)]
pub struct Queues {
    meter: Arc<Meter>,
    /// Requests to the FIFO queue, which are in the meter, too: they cost more.
    fifo_requests: AtomicU64,
    queues: Mutex<(u64, BTreeMap<Step, Queue>)>,
    changed: BTreeMap<Step, Notify>,
}

impl Queue {
    fn catch_up(&mut self, now: Instant) {
        while let Some(entry) = self.hidden.first_entry().filter(|entry| entry.key().0 <= now) {
            let message = entry.remove();
            if self.in_hand.remove(&message.receipt).is_some() {
                self.fair.given_back(&message);
            }
            // Lanes keep their order: what comes again comes before those that were sent after it.
            let before = |other: &Message| other.receipt > message.receipt;
            let behind = if message.keeps_order { self.ready.iter().position(before) } else { None };
            let behind = behind.unwrap_or(self.ready.len());
            self.ready.insert(behind, message);
        }
    }

    /// The groups of which somebody has messages in hand.
    fn held(&self) -> HashSet<&str> {
        let in_hand = |message: &&Message| self.in_hand.contains_key(&message.receipt);
        self.hidden.values().filter(in_hand).filter_map(|message| message.group.as_deref()).collect()
    }

    fn has_free(&self, step: Step) -> bool {
        if step != Step::RegisterInOrder {
            return !self.ready.is_empty();
        }
        let held = self.held();
        self.ready.iter().any(|message| message.group.as_deref().is_none_or(|group| !held.contains(group)))
    }

    /// Takes up to `most` messages from the front. On the FIFO queue none of a group that somebody has messages of, and
    /// one group after the other (developer guide, *FIFO queue delivery logic*: as many of one group as there are).
    fn take(&mut self, step: Step, most: usize) -> Vec<Message> {
        if step != Step::RegisterInOrder {
            return self.fair.take(&mut self.ready, most, self.in_hand.len());
        }
        let held = self.held();
        let groups = self.ready.iter().filter_map(|message| message.group.as_deref());
        let mut free: Vec<String> = Vec::new();
        for group in groups.filter(|group| !held.contains(group)) {
            if free.len() < most && free.iter().all(|other| other != group) {
                free.push(group.to_owned());
            }
        }
        let mut taken = Vec::new();
        for group in free {
            let mut at = 0;
            while taken.len() < most && at < self.ready.len() {
                let is_its = self.ready.get(at).is_some_and(|message| message.group.as_ref() == Some(&group));
                if is_its { taken.extend(self.ready.remove(at)) } else { at += 1 }
            }
        }
        taken
    }
}

impl Queues {
    /// Empty queues.
    pub fn new(meter: Arc<Meter>) -> Self {
        let changed = Step::ALL.into_iter().map(|step| (step, Notify::new())).collect();
        Self { meter, fifo_requests: AtomicU64::new(0), queues: Mutex::default(), changed }
    }

    /// Requests to the FIFO queue so far.
    pub fn fifo_requests(&self) -> u64 {
        self.fifo_requests.load(Ordering::Relaxed)
    }

    fn count(&self, step: Option<Step>, kind: SqsRequest, bytes: u64) {
        let billed = self.meter.count_sqs(kind, bytes);
        if step == Some(Step::RegisterInOrder) {
            self.fifo_requests.fetch_add(billed, Ordering::Relaxed);
        }
    }

    fn queues(&self) -> MutexGuard<'_, (u64, BTreeMap<Step, Queue>)> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is under way anywhere.
    pub fn are_empty(&self) -> bool {
        self.queues().1.values().all(|queue| queue.ready.is_empty() && queue.hidden.is_empty())
    }

    /// Whether messages wait that nobody has in hand and that could be received now.
    pub fn has_backlog(&self, step: Step) -> bool {
        let mut queues = self.queues();
        let queue = queues.1.entry(step).or_default();
        queue.catch_up(Instant::now());
        queue.has_free(step)
    }

    /// Messages in dead-letter queues, which nobody reads.
    pub fn dead(&self) -> BTreeMap<Step, usize> {
        self.queues().1.iter().filter(|(_, queue)| queue.dead > 0).map(|(step, queue)| (*step, queue.dead)).collect()
    }

    fn put(&self, message: Outgoing, chain: Chain) {
        // Nobody here reads the others.
        let Some(step) = Step::of(&message.to) else { return };
        let now = Instant::now();
        let visible_at = now + Duration::from_secs(message.delay_ms.div_ceil(1_000).min(MAX_DELAY_S));
        let mut queues = self.queues();
        queues.0 += 1;
        let receipt = queues.0;
        let queue = queues.1.entry(step).or_default();
        let keeps_order = step == Step::RegisterInOrder;
        let group = if keeps_order { message.to.group() } else { message.tenant };
        let message = Message { receipt, body: message.body, received: 0, visible_at, group, keeps_order, chain };
        if visible_at > now {
            queue.hidden.insert((visible_at, receipt), message);
        } else {
            queue.ready.push_back(message);
        }
        drop(queues);
        if let Some(changed) = self.changed.get(&step) {
            changed.notify_one();
        }
    }

    /// One receive that waits until `end` at most: up to `most` messages and ten at most, hidden for `visibility` from
    /// now on. Counts the request unless it came back empty: an idle mapping polls whatever is sent. Whether an empty
    /// one is due to what was sent, [`ended_empty`](Self::ended_empty), its caller knows.
    pub async fn receive(&self, step: Step, most: usize, end: Instant, visibility: Duration) -> Vec<Message> {
        loop {
            let next = {
                let mut queues = self.queues();
                let queue = queues.1.entry(step).or_default();
                queue.catch_up(Instant::now());
                let mut taken = queue.take(step, most.min(MESSAGES_AT_ONCE));
                let found = taken.len();
                taken.retain(|message| message.received < step.settings().max_receives);
                queue.dead += found - taken.len();
                if taken.is_empty() && found > 0 {
                    continue;
                }
                let until = Instant::now() + visibility;
                for message in &mut taken {
                    message.received += 1;
                    queue.fair.handed_out(message);
                    queue.hidden.insert((until, message.receipt), message.clone());
                    queue.in_hand.insert(message.receipt, until);
                }
                if !taken.is_empty() {
                    let bytes = taken.iter().map(|message| message.body.len() as u64).sum();
                    self.count(Some(step), SqsRequest::Receive, bytes);
                    // Others may have been woken for these.
                    if queue.has_free(step)
                        && let Some(changed) = self.changed.get(&step)
                    {
                        changed.notify_one();
                    }
                    return taken;
                }
                queue.hidden.keys().next().map_or(end, |(at, _)| (*at).min(end))
            };
            if Instant::now() >= end {
                return Vec::new();
            }
            if let Some(changed) = self.changed.get(&step) {
                // Either something came, or something is visible again: both are looked for anew.
                let _ = timeout_at(next, changed.notified()).await;
            }
        }
    }

    /// Counts a receive that came back empty.
    pub fn ended_empty(&self, step: Step) {
        self.count(Some(step), SqsRequest::Receive, 0);
    }

    /// Deletes messages, in tens.
    pub fn delete(&self, step: Step, receipts: &[u64]) {
        for some in receipts.chunks(MESSAGES_AT_ONCE) {
            self.count(Some(step), SqsRequest::Delete, 0);
            let mut queues = self.queues();
            let queue = queues.1.entry(step).or_default();
            for receipt in some {
                if let Some(until) = queue.in_hand.remove(receipt)
                    && let Some(message) = queue.hidden.remove(&(until, *receipt))
                {
                    queue.fair.given_back(&message);
                }
            }
        }
        // The rest of their groups can be received.
        if step == Step::RegisterInOrder
            && let Some(changed) = self.changed.get(&step)
        {
            changed.notify_one();
        }
    }

    /// Sends one request's messages as somebody outside does, who needs no processor of ours.
    pub async fn send_from_outside(&self, dice: &TestEnv, messages: Vec<Outgoing>) {
        for (messages, bytes) in requests(messages) {
            self.count(Some(Step::RegisterTask), SqsRequest::Send, bytes);
            sleep_until(Instant::now() + Hop::Request.draw(dice)).await;
            messages.into_iter().for_each(|message| self.put(message, Chain::default()));
        }
    }
}

/// The queues as one environment sees them.
#[derive(Clone, Debug)]
pub struct Wired {
    /// The queues.
    pub queues: Arc<Queues>,
    /// The environment.
    pub machine: Machine,
    /// That of its invocation.
    pub chain: Chain,
}

impl Outbox for Wired {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let count = messages.len();
        let mut by_queue: BTreeMap<Option<Step>, Vec<Outgoing>> = BTreeMap::new();
        for message in messages {
            by_queue.entry(Step::of(&message.to)).or_default().push(message);
        }
        let requests = by_queue.into_iter().flat_map(|(step, messages)| {
            requests(messages).into_iter().map(move |(messages, bytes)| (step, messages, bytes))
        });
        let sent = requests.map(|(step, messages, bytes)| async move {
            self.queues.count(step, SqsRequest::Send, bytes);
            self.machine.call(Hop::Request).await;
            messages.into_iter().for_each(|message| self.queues.put(message, self.chain));
        });
        stream::iter(sent).buffer_unordered(REQUESTS_IN_FLIGHT).collect::<()>().await;
        (0..count).map(|_| Ok(())).collect()
    }
}

impl Inbox for Wired {
    async fn postpone(&self, from: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        let Some(step) = Step::of(from) else { return receipts.iter().map(|_| Ok(())).collect() };
        for some in receipts.chunks(MESSAGES_AT_ONCE) {
            self.queues.count(Some(step), SqsRequest::ChangeVisibility, 0);
            self.machine.call(Hop::Request).await;
            let until = Instant::now() + Duration::from_secs(delay_ms.div_ceil(1_000));
            let mut queues = self.queues.queues();
            let queue = queues.1.entry(step).or_default();
            for receipt in some.iter().filter_map(|receipt| receipt.parse::<u64>().ok()) {
                if let Some(before) = queue.in_hand.get(&receipt).copied()
                    && let Some(mut message) = queue.hidden.remove(&(before, receipt))
                {
                    queue.in_hand.insert(receipt, until);
                    message.visible_at = until;
                    queue.hidden.insert((until, receipt), message);
                }
            }
            drop(queues);
            // Who waits for messages waits for these now.
            if let Some(changed) = self.queues.changed.get(&step) {
                changed.notify_one();
            }
        }
        receipts.iter().map(|_| Ok(())).collect()
    }
}
