//! How often sweep runs in one process: each second while events come, and every five while none does.
//!
//! What is sent by message moves on without sweep. So a process at rest finds what falls due, and what another process
//! has lost, up to five seconds after its time.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often sweep runs here while events come, in milliseconds: on AWS a schedule calls it once a minute.
pub(crate) const BUSY_MS: u64 = 1_000;
/// How often it runs while none does, in milliseconds.
pub(crate) const RESTING_MS: u64 = 5_000;

/// The events that were handed to the steps.
#[derive(Debug, Default)]
pub(crate) struct Events {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Events {
    /// An event is in hand until what is returned is dropped.
    pub(crate) fn begin(&self) -> InHand<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        InHand(self)
    }

    /// How many there were, if none is in hand.
    pub(crate) fn settled(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == ended).then_some(ended)
    }
}

/// An event that is handled; cut off or not, it ends.
#[derive(Debug)]
pub(crate) struct InHand<'a>(&'a Events);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// The latest sweep.
#[derive(Debug)]
pub(crate) struct Pace {
    resting_ms: u64,
    at_ms: u64,
    events: Option<u64>,
}

impl Pace {
    /// As if one had run at `at_ms` of a clock that only goes on.
    pub(crate) const fn from(resting_ms: u64, at_ms: u64) -> Self {
        Self { resting_ms, at_ms, events: None }
    }

    /// Returns how long ago the latest sweep began, if it is time for the next one, which then is the latest.
    pub(crate) fn next(&mut self, events: Option<u64>, now_ms: u64) -> Option<u64> {
        let since_ms = now_ms.saturating_sub(self.at_ms);
        let rests = events.is_some() && events == self.events;
        if rests && since_ms < self.resting_ms {
            return None;
        }
        (self.at_ms, self.events) = (now_ms, events);
        Some(since_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_comes_each_second_while_events_come_and_every_five_at_rest() {
        let (events, mut pace) = (Events::default(), Pace::from(RESTING_MS, 0));
        let mut seconds = |count: u64, from: u64| -> Vec<Option<u64>> {
            (from..from + count).map(|second| pace.next(events.settled(), second * 1_000)).collect()
        };
        // The first, after which nothing happens.
        assert_eq!(seconds(6, 1), [Some(1_000), None, None, None, None, Some(5_000)]);
        let in_hand = events.begin();
        assert_eq!(seconds(3, 7), [Some(1_000); 3], "an event is in hand");
        drop(in_hand);
        assert_eq!(seconds(2, 10), [Some(1_000), None], "a sweep follows the last event");
    }
}
