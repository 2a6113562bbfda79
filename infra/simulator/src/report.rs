//! What a run came to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use groupage_aws::Usage;
use groupage_aws::entry::{Counts, Metric};
use tokio::time::Instant;

use crate::downstream::Seen;
use crate::lambda::Refused;
use crate::load::{batch_of, task_of};
use crate::message::{Message, Step};

/// What a function's invocations came to.
#[derive(Clone, Debug, Default)]
pub struct Invocations {
    /// How many there were.
    pub count: u64,
    /// Records in their events.
    pub records: u64,
    /// How long each took.
    pub took: Vec<Duration>,
    /// How long each message waited, from when it could be received to the invocation.
    pub waited: Vec<Duration>,
}

impl Invocations {
    /// All of them, as Lambda bills them: each rounded up to a millisecond.
    pub fn billed_ms(&self) -> u64 {
        billed_ms(&self.took)
    }
}

/// Of invocations that took so long, each rounded up to a millisecond.
pub(crate) fn billed_ms(took: &[Duration]) -> u64 {
    took.iter().map(|took| u64::try_from(took.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)).sum()
}

/// Requests for gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateRequests {
    /// Reads.
    pub reads: u64,
    /// Writes, those included that were refused.
    pub writes: u64,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Tasks sent.
    pub tasks: usize,
    /// From the first send to the last settled task.
    pub took: Duration,
    /// Units and requests, those of what ran on after the last settled task included.
    pub usage: Usage,
    /// Those of the requests that went to the FIFO queue.
    pub fifo_requests: u64,
    /// By function.
    pub functions: BTreeMap<Step, Invocations>,
    /// How long each of sweep's invocations took, which come whatever is sent.
    pub sweeps: Vec<Duration>,
    /// Every call.
    pub calls: Vec<Seen>,
    /// When each task was in the task queue, and when its event was cut, by the task's id.
    pub tasks_at: HashMap<String, (Instant, Option<Instant>)>,
    /// When each batch first came to batch-handler, by the batch's id.
    pub handed_on: HashMap<String, Instant>,
    /// Reads and writes of gates.
    pub gates: GateRequests,
    /// What the functions counted.
    pub counts: Counts,
    /// Requests that a partition refused.
    pub throttled: u64,
    /// What Lambda refused.
    pub refused: Refused,
    /// Messages in dead-letter queues.
    pub dead: BTreeMap<Step, usize>,
}

/// What is noted while a world runs.
#[derive(Debug, Default)]
pub(crate) struct Report {
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) functions: BTreeMap<Step, Invocations>,
    pub(crate) sweeps: Vec<Duration>,
    pub(crate) tasks_at: HashMap<String, (Instant, Option<Instant>)>,
    pub(crate) handed_on: HashMap<String, Instant>,
    pub(crate) counts: Counts,
}

impl Report {
    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task is in its queue.
    pub(crate) fn arrived(&self, task: String) {
        self.notes().tasks_at.insert(task, (Instant::now(), None));
    }

    /// An event is complete and goes to its function.
    pub(crate) fn cut(&self, step: Step, messages: &[Message], at: Instant) {
        let mut notes = self.notes();
        let waited = messages.iter().map(|message| at.saturating_duration_since(message.visible_at));
        notes.functions.entry(step).or_default().waited.extend(waited);
        if step == Step::BatchHandler {
            for batch in messages.iter().filter_map(|message| batch_of(&message.body)) {
                notes.handed_on.entry(batch.to_owned()).or_insert(at);
            }
        }
        if step == Step::RegisterTask {
            for task in messages.iter().filter_map(|message| task_of(&message.body)) {
                if let Some((_, cut)) = notes.tasks_at.get_mut(task) {
                    cut.get_or_insert(at);
                }
            }
        }
    }

    pub(crate) fn invoked(&self, step: Step, records: usize, took: Duration) {
        let mut notes = self.notes();
        let function = notes.functions.entry(step).or_default();
        function.count += 1;
        function.records += records as u64;
        function.took.push(took);
    }

    /// Tasks that have come to their end: called, or left out of a call for good.
    pub(crate) fn settled(&self) -> u64 {
        let notes = self.notes();
        notes.counts.get(Metric::TasksSucceeded) + notes.counts.get(Metric::TasksEnded)
    }
}
