//! The machine's own clock, randomness and ids.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use groupage_core::domain::time::Timestamp;
use groupage_core::ports::Env;
use tokio::runtime::{Handle, RuntimeFlavor};
use uuid::Uuid;

/// The real world, for mains; tests bring a clock of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Env for System {
    fn now(&self) -> Timestamp {
        // A clock before 1970 is no clock; zero lets leases run out rather than last for ever.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    fn random(&self) -> f64 {
        rand::random()
    }

    fn fresh_id(&self) -> String {
        Uuid::new_v4().simple().to_string()
    }

    async fn sleep(&self, ms: u64) {
        // The runtime's timer would take a millisecond for it, and every call waits for its start, mostly for nothing.
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }

    fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
            // A function has one thread.
            _ => work(),
        }
    }
}
