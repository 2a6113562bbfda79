//! Lists: tasks put to wait, and released, discarded, looked at, by any number of callers at once.
//!
//! Every call may be repeated under its caller's key: a repeat finds what the first did and goes on where that stopped.
//! A release or a discard takes its tokens first, by one write that says who owes them; what follows (`feed.rs`) can be
//! done by anybody: the caller, its repeat, or sweep ([`look_after`](Listing::look_after)).

mod feed;
mod look;
mod look_after;
mod put;
mod take;

use super::Error;
use super::cas::{self, Tries, handle};
use crate::domain::id::ListId;
use crate::domain::list::{
    Life, List, MAX_KEY_BYTES, MAX_PUT, MAX_PUT_BYTES, MAX_RELEASED, Options, Put, State, TTL_MS, Tail,
};
use crate::domain::task_message::Rejection;
use crate::ports::{Env, Lists, Outbox, PutOn, Stored, Trackers};

pub use look::{MAX_PEEKED, Peeked, Progress};
pub use look_after::Report;
pub use put::Placed;
pub use take::Taken;

handle! {
    /// Lists, over their ports, and those of the trackers of tasks that are discarded.
    Listing
}

/// A call that can never succeed as things are. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such list (any more).
    #[error("no list `{0}` is known: the first task that is put on it makes it")]
    Unknown(ListId),
    /// The list is closed.
    #[error("the list is closed: it takes and releases no tasks until it is opened again; what waits can be discarded")]
    Closed,
    /// A list of this name was opened with another time to live.
    #[error("a list of this name was opened with another time to live")]
    OpenedOtherwise,
    /// The time to live is out of range.
    #[error("a time to live is from a minute to ten years")]
    BadTtl,
    /// Another call did something else under this key.
    #[error("this key was used for something else")]
    KeyUsed,
    /// The key is empty or too long.
    #[error("a key has 1 to {MAX_KEY_BYTES} visible ASCII characters")]
    BadKey,
    /// Nothing, or too much at once, to release.
    #[error("1 to {MAX_RELEASED} tasks can be released at once")]
    BadCount,
    /// Nothing, or too much at once, to put.
    #[error("1 to {MAX_PUT} tasks of {MAX_PUT_BYTES} bytes in all can be put at once")]
    TooMany,
    /// Nothing, or too much at once, to look at.
    #[error("1 to {MAX_PEEKED} tasks can be looked at at once")]
    BadLimit,
    /// Too many releases are under way.
    #[error("too many releases of this list are under way: wait until some are done")]
    Busy,
    /// One of the tasks can never be registered.
    #[error("task {position}: {why}")]
    BadTask {
        /// Its position among those of the call, counted from 0.
        position: usize,
        /// Why.
        why: Rejection,
    },
}

/// The outcome of a call.
pub type Outcome<T> = cas::Outcome<T, Refused>;

impl<S: Lists + Trackers, Q: Outbox, E: Env> Listing<'_, S, Q, E> {
    /// Opens a list, or opens a closed one again, or finds it open; says whether it is new.
    ///
    /// # Errors
    /// A port did not answer, or the list is just being removed: the call may be repeated.
    pub async fn open(&self, id: &ListId, options: Options) -> Outcome<(List, bool)> {
        if options.ttl_ms.is_some_and(|ttl_ms| !TTL_MS.contains(&ttl_ms)) {
            return Ok(Err(Refused::BadTtl));
        }
        let mut opened = false;
        let mut tries = Tries::of("opening a list", self.env);
        loop {
            match self.store.list(id).await? {
                None => {
                    let life = Life { id: id.clone(), opened_at: self.env.now() };
                    let tail = Tail::open(life, options);
                    let put = Put { tail, additions: Vec::new(), slots: Vec::new() };
                    opened = self.store.put_on_list(&put).await? == PutOn::Yes;
                }
                Some(list) if list.tail.state != State::Removing && list.tail.options != options => {
                    return Ok(Err(Refused::OpenedOtherwise));
                }
                Some(list) => match list.tail.state {
                    State::Open => return Ok(Ok((list, opened))),
                    State::Closed => {
                        self.store.store_tail(&list.tail.in_state(State::Open, self.env.now())).await?;
                    }
                    State::Removing => return Err(Error::Conflict("opening a list that is being removed")),
                },
            }
            if opened {
                tries.again()?;
            } else {
                tries.give_way().await?;
            }
        }
    }

    /// Closes a list: from then on nothing is put on it or released from it. What is under way goes on.
    pub async fn close(&self, id: &ListId) -> Outcome<List> {
        let mut tries = Tries::of("closing a list", self.env);
        loop {
            let Some(list) = self.store.list(id).await? else { return Ok(Err(Refused::Unknown(id.clone()))) };
            match list.tail.state {
                State::Open => {}
                State::Closed => return Ok(Ok(list)),
                State::Removing => return Ok(Err(Refused::Unknown(id.clone()))),
            }
            let closed = list.tail.in_state(State::Closed, self.env.now());
            match self.store.store_tail(&closed).await? {
                Stored::Yes => tries.again()?,
                Stored::Conflict => tries.give_way().await?,
            }
        }
    }
}
