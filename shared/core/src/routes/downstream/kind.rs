//! The questions that the core asks of a kind of downstream.

use crate::routes::answer::ResponseMapping;
use crate::routes::body::MAX_BODY_BYTES;
use crate::routes::limited::Limited;
use crate::routes::template::Template;

/// What the core asks of a kind of downstream that is called.
pub(super) trait Kind {
    /// What it is, and which one.
    fn named(&self) -> (&'static str, &str);

    /// How long one call may take, in milliseconds.
    fn timeout_ms(&self) -> u64;

    /// How its answers are read.
    fn response(&self) -> &ResponseMapping {
        &ResponseMapping::OWN
    }

    /// The body, if it is not the default JSON.
    fn body(&self) -> Option<&Template> {
        None
    }

    /// The largest body that it takes, in bytes.
    fn max_body_bytes(&self) -> usize {
        MAX_BODY_BYTES
    }

    /// Whether only AWS, or an emulator of it, has it: a laptop's own stack has queues, and reaches HTTP APIs.
    fn needs_aws(&self) -> bool {
        true
    }
}

/// The largest body of a message, an event or an event for a function that is not waited for, in bytes. AWS takes
/// 1 MiB, with the attributes and names beside the body.
pub const MAX_MESSAGE_BODY_BYTES: usize = 1_000_000;

/// The longest call that is usual, in milliseconds. A longer one is made by a function that has the time.
pub const USUAL_MS: u64 = 30_000;

/// How long one call may take, in milliseconds.
pub(super) type Timeout = Limited<1, USUAL_MS>;

/// The same of calls that may be long. Lambda ends a function after 900 s, and what is around the call needs time, too.
pub(super) type LongTimeout = Limited<1, 840_000>;

pub(super) const fn default_timeout() -> Timeout {
    Limited(10_000)
}

pub(super) const fn default_long_timeout() -> LongTimeout {
    Limited(10_000)
}
