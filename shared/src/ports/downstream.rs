//! The downstream batch APIs.

use std::future::Future;

use crate::domain::id::{BatchId, Fence};
use crate::domain::outcome::Reason;
use crate::routes;

/// One call to a downstream.
#[derive(Debug)]
pub struct Call<'a> {
    /// Where to and how.
    pub downstream: &'a routes::Downstream,
    /// `Idempotency-Key`: the batch.
    pub batch: &'a BatchId,
    /// The fence of the leader that made the batch; the time in milliseconds if it needed none.
    pub fence: Fence,
    /// Calls made for this batch, this one included.
    pub attempt: u32,
    /// The body.
    pub body: String,
}

/// What a downstream answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP's status code; 200 for a Lambda function that returned.
    pub status: u16,
    /// What `Retry-After` asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The connection was refused or reset: worth one more try at once.
    Connection,
    /// No complete answer within the route's timeout.
    Timeout,
    /// The answer is larger than any answer may be.
    TooLarge,
    /// Anything else, for example a secret that could not be read.
    Other(Reason),
}

/// The largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The downstream batch APIs.
pub trait Downstream: Sync {
    /// Makes one call.
    fn call(&self, call: &Call<'_>) -> impl Future<Output = std::result::Result<Answer, NoAnswer>> + Send;
}
