//! The downstream batch APIs.

use crate::domain::answer::{Answer, NoAnswer};
use crate::domain::id::{BatchId, Fence, Target};
use crate::domain::trace::CallTrace;
use crate::routes;

/// One call to a downstream.
#[derive(Debug)]
pub struct Call<'a> {
    /// Where to and how.
    pub downstream: &'a routes::Downstream,
    /// `Idempotency-Key`: the batch.
    pub batch: &'a BatchId,
    /// What its tasks are grouped by.
    pub target: &'a Target,
    /// The fence of the leader that made the batch; the time in milliseconds if it needed none.
    pub fence: Fence,
    /// Calls made for this batch, this one included.
    pub attempt: u32,
    /// The body, without its secrets.
    pub body: String,
    /// The places of its secrets: only a call over HTTP has some.
    pub secrets: Vec<routes::SecretPlace>,
    /// What it belongs to, if anybody asks.
    pub trace: Option<CallTrace>,
    /// Set for a look at the job that an earlier call has begun: a read of this URL, without a body.
    pub look: Option<&'a str>,
}

/// The downstream batch APIs.
pub trait Downstream: Sync {
    /// Makes one call.
    fn call(&self, call: &Call<'_>) -> impl Future<Output = std::result::Result<Answer, NoAnswer>> + Send;

    /// Whether the traces of its calls are collected, also those of tasks whose senders gave none.
    fn is_collected(&self) -> bool {
        false
    }
}
