//! One execution environment of a function: its calls take their time, and share its processor.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groupage_core::steps::register::{Asked, Rations};
use tokio::time::{Instant, sleep_until};

use crate::clock::TestEnv;
use crate::latency::Hop;

/// Memory that buys one whole virtual processor, in MB (Lambda developer guide, *Configure Lambda function memory*).
pub const MB_PER_CPU: f64 = 1_769.0;
/// What a call to a port costs a whole processor, the step's own work and the SDK's included. An estimate from the
/// embedded stack: a task took 1.0 ms of processor there, and half of that, the database's part apart, went into SDK
/// and steps, over three to four calls a task. A third more, for TLS and for the system's allocator, which functions
/// keep.
pub const CALL_CPU: Duration = Duration::from_micros(200);

/// An execution environment.
#[derive(Clone, Debug)]
pub struct Machine {
    dice: TestEnv,
    call_cpu: Duration,
    /// When its processor has done what it was given so far.
    free_at: Arc<Mutex<Instant>>,
    /// What is left of the SDK's budget for repeats.
    tokens: Arc<AtomicI64>,
    rations: Arc<Rations>,
    asked: Arc<Asked>,
}

/// The SDK's budget for repeats, what one costs, and what a request that needed none gives back (AWS SDKs and tools
/// reference guide, *Retry behavior*: standard mode).
const TOKENS: i64 = 500;
const REPEAT: i64 = 5;
const NO_REPEAT: i64 = 1;

impl Machine {
    /// A function's environment with this memory.
    pub fn of_memory(dice: TestEnv, memory_mb: u32) -> Self {
        Self::sharing(dice, (f64::from(memory_mb) / MB_PER_CPU).min(1.0))
    }

    fn sharing(dice: TestEnv, share: f64) -> Self {
        Self {
            dice,
            call_cpu: CALL_CPU.div_f64(share),
            free_at: Arc::new(Mutex::new(Instant::now())),
            tokens: Arc::new(AtomicI64::new(TOKENS)),
            rations: Arc::default(),
            asked: Arc::default(),
        }
    }

    /// What register-task remembers in it of Targets that were throttled.
    pub(crate) fn rations(&self) -> Arc<Rations> {
        Arc::clone(&self.rations)
    }

    /// And for which it has lately asked for a leader.
    pub(crate) fn asked(&self) -> Arc<Asked> {
        Arc::clone(&self.asked)
    }

    /// Whether the SDK tries a throttled request again.
    pub(crate) fn may_retry(&self) -> bool {
        let taken = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left >= REPEAT).then_some(left - REPEAT));
        taken.is_ok()
    }

    /// Notes that a request got through at this attempt.
    pub(crate) fn succeeded(&self, attempt: u32) {
        let back = if attempt == 1 { NO_REPEAT } else { REPEAT };
        let give = |left: i64| Some((left + back).min(TOKENS));
        // It always gives something back.
        let _ = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }

    /// Waits as long as a call takes: its turn on the processor, then the service.
    pub async fn call(&self, hop: Hop) {
        let worked = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            *free_at = (*free_at).max(Instant::now()) + self.call_cpu;
            *free_at
        };
        sleep_until(worked + hop.draw(&self.dice)).await;
    }
}
