//! Which connections that have not brought the key stay open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Connections at a time that have not brought the key. Those of three listeners leave most of the 1,024 descriptors
/// that a process usually has.
pub(crate) const MOST_STRANGERS: usize = 64;
/// The same, if all have come a moment ago.
const MOST_YOUNG: usize = 256;

/// A connection that has not brought the key.
struct Stranger {
    since: Instant,
    is_owner: Arc<AtomicBool>,
    /// To drop it closes the connection.
    stays: oneshot::Sender<Infallible>,
}

/// The connections that have not brought the key, the oldest first.
#[derive(Default)]
pub(crate) struct Strangers(VecDeque<Stranger>);

impl Strangers {
    /// Counts another connection, and lets the oldest go if there are too many. What it returns resolves when that must
    /// go, or when it is none of these any more, as `is_owner` says.
    pub(crate) fn admit(&mut self, is_owner: Arc<AtomicBool>, young: Duration) -> oneshot::Receiver<Infallible> {
        self.0.retain(|one| !one.stays.is_closed() && !one.is_owner.load(Ordering::Relaxed));
        let is_too_many = |number, oldest: &Stranger| {
            number >= MOST_YOUNG || number >= MOST_STRANGERS && oldest.since.elapsed() >= young
        };
        while self.0.front().is_some_and(|oldest| is_too_many(self.0.len(), oldest)) {
            self.0.pop_front();
        }
        let (stays, must_go) = oneshot::channel();
        self.0.push_back(Stranger { since: Instant::now(), is_owner, stays });
        must_go
    }
}
