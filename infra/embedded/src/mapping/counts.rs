//! What a mapping did, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A mapping's work so far. Each number is exact; together they are of slightly different moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Receive requests that were answered, empty ones included.
    pub receives: u64,
    /// Receive requests that brought no message.
    pub empty_receives: u64,
    /// Messages received; one that came twice counts twice.
    pub messages: u64,
    /// Handler calls.
    pub events: u64,
    /// Records whose handler failed, panicked or ran out of time.
    pub failed: u64,
    /// Delete requests, each of up to ten messages.
    pub deletes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    receives: AtomicU64,
    empty_receives: AtomicU64,
    messages: AtomicU64,
    events: AtomicU64,
    failed: AtomicU64,
    deletes: AtomicU64,
}

impl Counters {
    pub(super) fn received(&self, messages: usize) {
        add(&self.receives, 1);
        add(&self.messages, messages);
        if messages == 0 {
            add(&self.empty_receives, 1);
        }
    }

    pub(super) fn invoked(&self) {
        add(&self.events, 1);
    }

    pub(super) fn failed(&self, records: usize) {
        add(&self.failed, records);
    }

    pub(super) fn deleted(&self) {
        add(&self.deletes, 1);
    }

    pub(super) fn read(&self) -> Counts {
        Counts {
            receives: self.receives.load(Ordering::Relaxed),
            empty_receives: self.empty_receives.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            deletes: self.deletes.load(Ordering::Relaxed),
        }
    }
}

fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}
