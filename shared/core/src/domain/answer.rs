//! What comes back from a downstream, before a route says what it means.

use super::outcome::Reason;

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
