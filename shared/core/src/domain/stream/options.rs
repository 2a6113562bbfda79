//! What a stream is opened with, and within which bounds.

use crate::domain::destination::NotificationQueue;

/// Windows, in unsettled events.
pub const WINDOW: std::ops::RangeInclusive<u64> = 1..=1_000_000;

/// The longest time between two commits, in milliseconds.
pub const MAX_COMMIT_MS: u64 = 60 * 60 * 1_000;

/// What a stream is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The shortest time between two commits, in milliseconds, unless this many events were settled.
    pub commit_ms: u64,
    /// This many events settled make a commit, whenever the last one was.
    pub commit_events: Option<u64>,
    /// The most unsettled events.
    pub window: u64,
    /// Who is told of commits.
    pub notify: NotificationQueue,
}

impl Default for Options {
    /// A commit each second, ten thousand unsettled events, nobody told.
    fn default() -> Self {
        Self { commit_ms: 1_000, commit_events: None, window: 10_000, notify: NotificationQueue::None }
    }
}

impl Options {
    /// Checks what came from outside.
    ///
    /// # Errors
    /// Says what is out of its range.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.commit_ms > MAX_COMMIT_MS {
            return Err("commits are at most an hour apart: 0 to 3600000 milliseconds");
        }
        if self.commit_events == Some(0) {
            return Err("a commit takes one settled event at least");
        }
        if !WINDOW.contains(&self.window) {
            return Err("a window holds 1 to 1000000 unsettled events");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_its_range_is_refused() {
        let check = |options: Options| options.check().is_ok();
        assert!(check(Options::default()));
        assert!(check(Options { commit_ms: 60 * 60_000, ..Options::default() }), "an hour");
        assert!(!check(Options { commit_ms: 60 * 60_000 + 1, ..Options::default() }));
        assert!(!check(Options { commit_events: Some(0), ..Options::default() }));
        assert!(!check(Options { window: 0, ..Options::default() }));
        assert!(!check(Options { window: 1_000_001, ..Options::default() }));
    }
}
