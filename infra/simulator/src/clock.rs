//! Virtual time: tokio's paused clock, which moves on by itself when everybody waits, and numbers that follow from a
//! seed. The same seed gives the same run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groupage_core::domain::time::Timestamp;
use groupage_core::ports::Env;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

/// The virtual moment at which every run begins, in milliseconds.
pub(crate) const BEGINNING: u64 = 1_000_000_000;

/// Runs something on a runtime of its own whose clock is paused: the same every time.
///
/// # Panics
/// The runtime does not start.
#[allow(clippy::expect_used, reason = "a test's set-up")]
pub fn in_virtual_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(run)
}

/// A process's clock and its dice.
#[derive(Clone, Debug)]
pub struct TestEnv {
    begun: Instant,
    /// How far this process's clock is ahead of the truth, in milliseconds.
    ahead_ms: i64,
    random: Arc<Mutex<StdRng>>,
}

impl TestEnv {
    /// A true clock. Must be made on a runtime whose clock is paused.
    pub fn new(seed: u64) -> Self {
        let random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        Self { begun: Instant::now(), ahead_ms: 0, random }
    }

    /// The same dice and a clock that is ahead by so much.
    pub fn ahead_by(&self, ahead_ms: i64) -> Self {
        Self { ahead_ms, ..self.clone() }
    }

    /// The same time, and other dice.
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))), ..self.clone() }
    }

    /// A number from `range`.
    pub fn pick(&self, range: std::ops::RangeInclusive<u64>) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).random_range(range)
    }

    /// Whether something of this chance happens.
    pub fn chance(&self, chance: f64) -> bool {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).random_bool(chance)
    }

    /// What the true clock showed at that instant.
    pub fn moment(&self, instant: Instant) -> Timestamp {
        let elapsed = instant.saturating_duration_since(self.begun).as_millis();
        Timestamp(BEGINNING + u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// Waits until a true moment.
    pub async fn sleep_until(&self, moment: Timestamp) {
        tokio::time::sleep_until(self.begun + Duration::from_millis(moment.0.saturating_sub(BEGINNING))).await;
    }
}

impl Env for TestEnv {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp((BEGINNING + elapsed).saturating_add_signed(self.ahead_ms))
    }

    fn random(&self) -> f64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    fn fresh_id(&self) -> String {
        format!("{:032x}", self.random.lock().unwrap_or_else(PoisonError::into_inner).random::<u128>())
    }

    async fn sleep(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
