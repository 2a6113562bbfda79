//! Compare-and-swap retry: how calls about trackers, lists, lanes and streams write.
//!
//! Each kind has a handle (`handle!`): the ports over which its calls go. A call reads, decides purely, and writes on
//! condition that what it read still holds; if somebody else wrote in between, it does so again (`Tries`). It is
//! answered by an [`Outcome`]: what can never succeed as things are is refused, and only what may be repeated is an
//! error. Sweep looks after what is due of each kind, and says what came of it in counts that add up.

use futures::{StreamExt, stream};

use super::{CONCURRENCY, Error, let_others_go_first};
use crate::ports::Env;

/// The outcome of a call: to be refused is no error.
pub type Outcome<T, R> = Result<Result<T, R>, Error>;

/// A write that meets others is tried this many times.
pub(super) const TRIES: u32 = 64;

/// The tries of one write, each on what was read just before it. After the last one it is a conflict.
pub(super) struct Tries<'a, E> {
    env: &'a E,
    doing: &'static str,
    used: u32,
}

impl<'a, E: Env> Tries<'a, E> {
    /// Those of a write that does this.
    pub(super) const fn of(doing: &'static str, env: &'a E) -> Self {
        Self { env, doing, used: 0 }
    }

    /// Lets the writer that came between go first, for longer each time.
    pub(super) async fn give_way(&mut self) -> Result<(), Error> {
        let_others_go_first(self.env, self.used).await;
        self.again()
    }

    /// The same, but the first of two writers goes on at once: it has just seen what the other wrote.
    pub(super) async fn give_way_later(&mut self) -> Result<(), Error> {
        if self.used == 0 { self.again() } else { self.give_way().await }
    }

    /// Goes on at once.
    pub(super) const fn again(&mut self) -> Result<(), Error> {
        self.used += 1;
        if self.used < TRIES { Ok(()) } else { Err(Error::Conflict(self.doing)) }
    }
}

/// What telling trackers, or streams, of settled tasks came to.
#[derive(Debug)]
pub struct Settled<Id> {
    /// Items or events that none of them knows (any more).
    pub unknown: usize,
    /// Those that did not answer: whether they have heard is unknown.
    pub unanswered: Vec<(Id, Error)>,
}

impl<Id> Settled<Id> {
    /// Tells each for itself; `tell` says how much it does not know.
    pub(super) async fn telling<T, F: Future<Output = (Id, Result<usize, Error>)>>(
        each: impl IntoIterator<Item = T>,
        tell: impl FnMut(T) -> F,
    ) -> Self {
        let telling: Vec<F> = each.into_iter().map(tell).collect();
        let mut all = Self { unknown: 0, unanswered: Vec::new() };
        for (id, told) in stream::iter(telling).buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await {
            match told {
                Ok(unknown) => all.unknown += unknown,
                Err(error) => all.unanswered.push((id, error)),
            }
        }
        all
    }

    /// How much is unknown, if all others have heard.
    pub fn all(self) -> Result<usize, Error> {
        self.unanswered.into_iter().next().map_or(Ok(self.unknown), |(_, error)| Err(error))
    }
}

/// Whether a caller may name what it asks for by this key, to repeat it.
pub(super) fn is_key(key: &str, max_bytes: usize) -> bool {
    (1..=max_bytes).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The struct that calls about one kind of things are made by.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'a, S, Q, E> {
            /// The tables.
            pub store: &'a S,
            /// Where messages and notices go.
            pub outbox: &'a Q,
            /// Time and randomness.
            pub env: &'a E,
        }

        impl<S, Q, E> Clone for $name<'_, S, Q, E> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<S, Q, E> Copy for $name<'_, S, Q, E> {}
    };
}

/// What was asked for; a refusal is the outcome of the call that asks.
macro_rules! unless_refused {
    ($outcome:expr) => {
        match $outcome {
            Ok(found) => found,
            Err(refused) => return Ok(Err(refused)),
        }
    };
}

pub(super) use {handle, unless_refused};
