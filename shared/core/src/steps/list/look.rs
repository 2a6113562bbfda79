//! Looking at a list: how far it is, and what waits next.

use super::{Listing, Outcome, Refused};
use crate::domain::id::{ListId, Token};
use crate::domain::list::{List, Purpose, Slot, State};
use crate::ports::{Env, Lists, Outbox, Trackers};

/// This many tasks are looked at at once, at most.
pub const MAX_PEEKED: usize = 100;

/// How far a list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Both its ends.
    pub list: List,
    /// Tasks put so far.
    pub put: u64,
    /// Tasks that wait.
    pub waiting: u64,
    /// Tasks fed on.
    pub released: u64,
    /// Tasks of releases that are under way: fed on in part, or left by somebody who died.
    pub releasing: u64,
    /// Tasks discarded, or about to be.
    pub discarded: u64,
}

/// Tasks that wait next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peeked {
    /// The tasks, in the order in which they will be released.
    pub slots: Vec<Slot>,
    /// Where to go on, if there are more.
    pub next: Option<Token>,
}

impl<S: Lists + Trackers, Q: Outbox, E: Env> Listing<'_, S, Q, E> {
    /// How far a list is; two small reads, however long it is.
    pub async fn progress(&self, id: &ListId) -> Outcome<Progress> {
        let Some(list) = self.shown(id).await? else { return Ok(Err(Refused::Unknown(id.clone()))) };
        let releases = list.head.reservations.values().filter(|reservation| !reservation.purpose.is_discard());
        let releasing = releases.map(|reservation| reservation.count).sum();
        let discarded = list.head.discarded;
        Ok(Ok(Progress {
            put: list.tail.given.0.max(list.head.taken.0),
            waiting: list.waiting(),
            released: list.head.taken.0.saturating_sub(discarded + releasing),
            releasing,
            discarded,
            list,
        }))
    }

    /// Looks at the next tasks without taking them, from a token on or from the first that waits.
    pub async fn peek(&self, id: &ListId, from: Option<Token>, limit: usize) -> Outcome<Peeked> {
        if !(1..=MAX_PEEKED).contains(&limit) {
            return Ok(Err(Refused::BadLimit));
        }
        let Some(list) = self.shown(id).await? else { return Ok(Err(Refused::Unknown(id.clone()))) };
        let mut from = from.unwrap_or_default().max(list.head.taken);
        let mut slots = Vec::new();
        while slots.len() < limit {
            let page = self.store.slots(&list.tail.life, from, list.tail.given, limit - slots.len()).await?;
            let Some(last) = page.last() else { break };
            from = last.token.next();
            slots.extend(page);
        }
        let next = (slots.len() == limit && from < list.tail.given).then_some(from);
        Ok(Ok(Peeked { slots, next }))
    }

    async fn shown(&self, id: &ListId) -> Result<Option<List>, crate::steps::Error> {
        Ok(self.store.list(id).await?.filter(|list| list.tail.state != State::Removing))
    }
}

impl Progress {
    /// What is under way, by its callers' keys: the purpose, and how many tasks.
    pub fn under_way(&self) -> impl Iterator<Item = (&str, Purpose, u64)> {
        let reservations = self.list.head.reservations.iter();
        reservations.map(|(key, reservation)| (key.as_str(), reservation.purpose, reservation.count))
    }
}
