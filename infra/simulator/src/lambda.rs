//! What Lambda refuses to invoke: more than may run at once, and chains of messages that seem to have no end.
//!
//! - All functions share the concurrent executions of their account (Lambda developer guide, *Understanding Lambda
//!   function scaling*). A mapping with a cap reads no more than the cap takes. A mapping without one goes on reading:
//!   what it may not invoke stays hidden for its visibility timeout, and has one receive more. AWS tries such an
//!   invocation again for a while; here the first refusal counts, which is worse for the message.
//! - The trace header of a message counts how often each function was invoked in its chain (*Use Lambda recursive loop
//!   detection*: "approximately 16 times"). AWS does not say which chain an event of several messages belongs to; here
//!   it is the longest.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::message::{Chain, Step};

/// Invocations of a function in one chain, after which Lambda refuses the next.
pub const MOST_IN_CHAIN: u32 = 16;

/// How many invocations a mapping has under way at most: `MaximumConcurrency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caps {
    /// As template.yaml says.
    Template,
    /// This many for each of them.
    Each(usize),
    /// As many as the mapping scales to by itself.
    None,
}

/// How Lambda is set.
#[derive(Clone, Copy, Debug)]
pub struct Lambda {
    /// The caps of the mappings.
    pub caps: Caps,
    /// Concurrent executions of the account.
    pub account: usize,
    /// Whether the functions may be invoked again in a chain of their own messages: `RecursiveLoop: Allow`.
    pub loops: bool,
}

impl Lambda {
    /// As template.yaml says, in an account with the default quota.
    pub const DEFAULT: Self = Self { caps: Caps::Template, account: 1_000, loops: true };
}

/// What Lambda refused, and how long chains became.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Invocations that found the account at its limit.
    pub throttled: u64,
    /// Invocations that would have been too many in their chain.
    pub cut: u64,
    /// The most invocations of one function in one chain.
    pub longest_chain: u32,
}

/// Lambda while it runs.
#[derive(Debug)]
pub(crate) struct Running {
    setting: Lambda,
    free: Semaphore,
    throttled: AtomicU64,
    cut: AtomicU64,
    longest_chain: AtomicU32,
}

/// An invocation that Lambda does not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The account is at its limit.
    Throttled,
    /// The chain has had its share.
    Cut,
}

impl Running {
    pub(crate) fn new(setting: Lambda) -> Self {
        Self {
            setting,
            free: Semaphore::new(setting.account.min(Semaphore::MAX_PERMITS)),
            throttled: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            longest_chain: AtomicU32::new(0),
        }
    }

    /// How many invocations a step's mapping may have under way.
    pub(crate) const fn cap(&self, step: Step) -> usize {
        match self.setting.caps {
            Caps::Template => step.settings().max_concurrency,
            Caps::Each(most) => most,
            Caps::None => usize::MAX,
        }
    }

    /// A place for any invocation.
    pub(crate) fn place(&self) -> Option<SemaphorePermit<'_>> {
        let place = self.free.try_acquire().ok();
        if place.is_none() {
            self.throttled.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    /// A place for an invocation in this chain.
    pub(crate) fn begin(&self, step: Step, mut chain: Chain) -> Result<SemaphorePermit<'_>, Refusal> {
        let count = *chain.count(step);
        if count > MOST_IN_CHAIN && !self.setting.loops {
            self.cut.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::Cut);
        }
        let place = self.place().ok_or(Refusal::Throttled)?;
        self.longest_chain.fetch_max(count, Ordering::Relaxed);
        Ok(place)
    }

    pub(crate) fn refused(&self) -> Refused {
        Refused {
            throttled: self.throttled.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
            longest_chain: self.longest_chain.load(Ordering::Relaxed),
        }
    }
}
