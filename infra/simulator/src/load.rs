//! What senders send, and when.

use std::time::Duration;

use groupage_core::domain::id::digest;
use groupage_core::ports::{Destination, Env, Outgoing};

use crate::clock::TestEnv;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// This many tasks at once, in tens, by sixteen senders.
    Burst {
        /// Tasks.
        tasks: usize,
        /// Targets among which they are dealt out in turn.
        targets: usize,
    },
    /// This many tasks of one Target at once, as a burst, and later one task of another.
    AndOne {
        /// Tasks of the one Target.
        tasks: usize,
        /// When the other's comes, in seconds.
        after_s: u64,
    },
    /// Single tasks at random moments.
    Trickle {
        /// Tasks a second, on average, to all Targets together.
        per_second: f64,
        /// For how long.
        seconds: u64,
        /// Targets of which each task takes one by chance.
        targets: usize,
    },
    /// Tens at random moments.
    Stream {
        /// Tasks a second, on average.
        per_second: f64,
        /// For how long.
        seconds: u64,
        /// Targets among which they are dealt out in turn.
        targets: usize,
    },
}

/// A request that a sender makes: its tasks' Targets, by number.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) at: Duration,
    pub(crate) targets: Vec<usize>,
}

impl Load {
    /// How many tasks it has, or about how many.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of tasks")]
    pub fn expected_tasks(self) -> u64 {
        match self {
            Self::Burst { tasks, .. } => tasks as u64,
            Self::AndOne { tasks, .. } => tasks as u64 + 1,
            Self::Trickle { per_second, seconds, .. } | Self::Stream { per_second, seconds, .. } => {
                (per_second * seconds as f64) as u64
            }
        }
    }

    /// The requests of each sender, in order.
    pub(crate) fn senders(self, dice: &TestEnv) -> Vec<Vec<Sending>> {
        const SENDERS: usize = 16;
        const TENS: usize = 10;
        match self {
            Self::Burst { tasks, targets } => {
                let mut senders = vec![Vec::new(); SENDERS];
                let all: Vec<usize> = (0..tasks).map(|n| n % targets.max(1)).collect();
                for (number, some) in all.chunks(TENS).enumerate() {
                    senders[number % SENDERS].push(Sending { at: Duration::ZERO, targets: some.to_vec() });
                }
                senders
            }
            Self::AndOne { tasks, after_s } => {
                let mut senders = Self::Burst { tasks, targets: 1 }.senders(dice);
                senders.push(vec![Sending { at: Duration::from_secs(after_s), targets: vec![1] }]);
                senders
            }
            Self::Trickle { per_second, seconds, targets } => {
                let target = || vec![usize::try_from(dice.pick(0..=targets as u64 - 1)).unwrap_or_default()];
                // Each is a sender of its own: none waits for another.
                moments(dice, per_second, seconds).map(|at| vec![Sending { at, targets: target() }]).collect()
            }
            Self::Stream { per_second, seconds, targets } => {
                let mut number = 0;
                let tens = moments(dice, per_second / TENS as f64, seconds).map(|at| {
                    number += TENS;
                    vec![Sending { at, targets: (number - TENS..number).map(|n| n % targets.max(1)).collect() }]
                });
                tens.collect()
            }
        }
    }
}

/// A Poisson process's moments.
fn moments(dice: &TestEnv, per_second: f64, seconds: u64) -> impl Iterator<Item = Duration> {
    let mut at = 0.0;
    std::iter::from_fn(move || {
        at -= (1.0 - dice.random()).ln() / per_second;
        (at < seconds as f64).then(|| Duration::from_secs_f64(at))
    })
}

/// Returns the cost of the task with this number where a budget of tokens holds: 1 to 8,000, spread evenly.
pub const fn tokens_of(number: u64) -> u64 {
    number * 4_793 % 8_000 + 1
}

/// A task's message: id and payload as the embedded stack's bursts have them, and its tokens where they count.
pub(crate) fn message(number: usize, target: usize, has_tokens: bool) -> (String, Outgoing) {
    // Random order, as of UUIDs.
    let id = digest(&["task", &number.to_string()]);
    let tokens = if has_tokens { format!(r#","tokens":{}"#, tokens_of(number as u64)) } else { String::new() };
    let body = format!(r#"{{"id":"{id}","payload":{{"truck":"t{target}","parcel":{number}{tokens}}}}}"#);
    (id, Outgoing { to: Destination::Tasks, body, delay_ms: 0, attributes: Vec::new(), tenant: None })
}

/// The id in a message that hands a batch on.
pub(crate) fn batch_of(body: &str) -> Option<&str> {
    body.strip_prefix(r#"{"batch":""#)?.split('"').next()
}

/// The id in a task's message.
pub(crate) fn task_of(body: &str) -> Option<&str> {
    body.strip_prefix(r#"{"id":""#)?.split('"').next()
}
