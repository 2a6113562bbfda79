//! The queues, as senders use them, and the holder of a message in hand.

use super::Result;
use crate::domain::destination::Destination;
use crate::domain::trace::{TRACEPARENT, TraceParent};

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub to: Destination,
    /// The body: JSON, or a rejected message as it came.
    pub body: String,
    /// How long it stays hidden, in milliseconds; SQS counts whole seconds, so it is rounded up.
    pub delay_ms: u64,
    /// Message attributes, all strings.
    pub attributes: Vec<(&'static str, String)>,
    /// Its tenant: a Target, a list or a stream. A fair queue lets no tenant's thousands delay another's one.
    pub tenant: Option<String>,
}

impl Outgoing {
    /// The same message, of this trace.
    #[must_use]
    pub fn traced(mut self, trace: Option<TraceParent>) -> Self {
        self.attributes.extend(trace.map(|trace| (TRACEPARENT, trace.to_string())));
        self
    }
}

/// Sends messages.
pub trait Outbox: Sync {
    /// Sends messages, in tens where it can. The answers are in the order of the messages. Of those in order, none is
    /// sent before one that comes earlier for the same lane, and none after one that failed.
    fn send(&self, messages: Vec<Outgoing>) -> impl Future<Output = Vec<Result<()>>> + Send;
}

/// Postpones messages in hand.
pub trait Inbox: Sync {
    /// Makes messages of the queue `from`, which came with these receipts, come again in `delay_ms`, if they are not
    /// deleted before. Until then those of their groups do not come either. The answers are in the order of the
    /// receipts.
    fn postpone(
        &self,
        from: &Destination,
        receipts: Vec<String>,
        delay_ms: u64,
    ) -> impl Future<Output = Vec<Result<()>>> + Send;
}

/// Postpones one message.
pub async fn postpone_one(inbox: &impl Inbox, from: &Destination, receipt: &str, delay_ms: u64) -> Result<()> {
    inbox.postpone(from, vec![receipt.to_owned()], delay_ms).await.into_iter().collect()
}

/// Sends messages one and all, or says which error came first.
///
/// # Errors
/// The first error; some of the messages may have been sent.
pub async fn send_all(outbox: &impl Outbox, messages: Vec<Outgoing>) -> Result<()> {
    outbox.send(messages).await.into_iter().collect()
}
