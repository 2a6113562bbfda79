//! How long a listener waits for those that it lets in.

use std::time::Duration;

/// How long clients may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From its beginning until a connection has brought the key.
    pub(crate) key: Duration,
    /// Until a connection that has not brought the key may be closed for another one. A burst of the owner's comes in
    /// less, and none of them has said anything yet.
    pub(crate) young: Duration,
    /// For a request's head, or between two requests. The SDK lets go of an idle connection after 90 seconds: one that
    /// it is about to use is not closed here.
    pub(crate) head: Duration,
    /// From a request's head to the head of its answer. API Gateway gives it 30 seconds.
    pub(crate) answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let [key, young, head, answer] = [20, 1, 120, 300].map(Duration::from_secs);
        Self { key, young, head, answer }
    }
}
