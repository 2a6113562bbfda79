//! Clocks for tests.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::Timestamp;
use crate::ports::Env;

/// A clock that stands still; its sleeps end at once.
pub(in crate::steps) struct Still(pub(in crate::steps) u64);

impl Env for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0)
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        "fresh".to_owned()
    }

    async fn sleep(&self, _: u64) {}
}

/// A clock that goes on only while somebody sleeps.
pub(in crate::steps) struct Turned(AtomicU64);

impl Turned {
    pub(in crate::steps) const fn at(now: Timestamp) -> Self {
        Self(AtomicU64::new(now.0))
    }
}

impl Env for Turned {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        "fresh".to_owned()
    }

    async fn sleep(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}
