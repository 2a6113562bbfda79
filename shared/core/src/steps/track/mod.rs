//! Trackers: opened, filled, sealed, acked, and ended once.
//!
//! Every call may be repeated: opening and adding go by the caller's id and key, sealing and acking by what is there.
//! Two facts make a tracker complete, that it is sealed and that its last bit is set, and a process that makes one of
//! them true looks for the other *afterwards*, with a read that sees every answered write. So the later of the two
//! finds both, and one conditional write decides who completes it. What a process that dies in between left undone is
//! done by a repeat, or by sweep ([`look_after`](Tracking::look_after)).

mod ack;
mod climb;
mod look_after;
mod survey;

use super::Error;
use super::cas::{self, Tries, handle, is_key, unless_refused};
use crate::domain::id::TrackerId;
use crate::domain::tracker::{
    Addition, Ending, MAX_ADDED, MAX_KEY_BYTES, NoItem, NodeId, Options, Place, State, Tracker,
};
use crate::ports::{Added, Env, Freshness, Opened, Outbox, Stored, Trackers};

pub use ack::Acked;
pub use look_after::{Lifetimes, Report};
use survey::MAX_RANGES;
pub use survey::{Items, Progress};

handle! {
    /// Trackers, over their ports.
    Tracking
}

/// A call that can never succeed as things are. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such tracker (any more).
    #[error("no tracker `{0}` is known; ended ones are forgotten after their retention time")]
    Unknown(TrackerId),
    /// The tracker has ended.
    #[error("the tracker is {} already", .0.word())]
    Over(Ending),
    /// A sealed tracker takes no more items.
    #[error("the tracker is sealed: it takes no more items")]
    Sealed,
    /// A tracker with this id was opened with another deadline or queue.
    #[error("a tracker with this id was opened with another deadline or notification queue")]
    OpenedOtherwise,
    /// Another call has added another number of items under this key.
    #[error("another number of items was added under this key")]
    KeyUsed,
    /// The key is empty or too long.
    #[error("a key has 1 to {MAX_KEY_BYTES} visible ASCII characters")]
    BadKey,
    /// None, or too many at once.
    #[error("1 to {MAX_ADDED} items can be added at once")]
    BadCount,
    /// The tracker would have too many.
    #[error("a tracker has at most {} items", crate::domain::tracker::MAX_ITEMS)]
    TooMany,
    /// One of the items cannot be acked here.
    #[error("the item {why}")]
    NotAnItem {
        /// Its position among those of the call.
        position: usize,
        /// Why.
        why: NoItem,
    },
}

/// The outcome of a call.
pub type Outcome<T> = cas::Outcome<T, Refused>;

impl<S: Trackers, Q: Outbox, E: Env> Tracking<'_, S, Q, E> {
    /// Opens a tracker, or finds it if it was opened like this before; says whether it is new.
    pub async fn open(&self, id: TrackerId, options: Options) -> Outcome<(Tracker, bool)> {
        let tracker = Tracker::open(id, options, self.env.now());
        Ok(match self.store.open_tracker(&tracker).await? {
            Opened::New => Ok((tracker, true)),
            Opened::Existing(before) if before.options() == tracker.options() => Ok((before, false)),
            Opened::Existing(_) => Err(Refused::OpenedOtherwise),
        })
    }

    /// Adds items. A repeat under the same key finds what was added; says whether it was by this call.
    pub async fn add(&self, id: &TrackerId, key: &str, count: u64) -> Outcome<(Addition, bool)> {
        if !is_key(key, MAX_KEY_BYTES) {
            return Ok(Err(Refused::BadKey));
        }
        if !(1..=MAX_ADDED).contains(&count) {
            return Ok(Err(Refused::BadCount));
        }
        let same = |before: Addition| if before.count == count { Ok((before, false)) } else { Err(Refused::KeyUsed) };
        let mut tries = Tries::of("adding items", self.env);
        loop {
            let tracker = unless_refused!(self.tracker(id, Freshness::Latest).await?);
            let refused = match &tracker.state {
                State::Open => match tracker.grown(key, count, self.env.now()) {
                    Some((grown, addition)) => match self.store.add(&grown, &addition).await? {
                        Added::Yes => return Ok(Ok((addition, true))),
                        Added::Before(before) => return Ok(same(before)),
                        Added::Conflict => {
                            tries.give_way().await?;
                            continue;
                        }
                    },
                    None => Refused::TooMany,
                },
                State::Sealed => Refused::Sealed,
                State::Ended(end) => Refused::Over(end.how),
            };
            // An earlier call may have added them, whose answer was lost.
            return Ok(match self.store.addition(id, key).await? {
                Some(before) => same(before),
                None => Err(refused),
            });
        }
    }

    /// Seals a tracker; one whose items are all acked is complete with that.
    pub async fn seal(&self, id: &TrackerId) -> Outcome<Tracker> {
        let mut tries = Tries::of("sealing a tracker", self.env);
        loop {
            let tracker = unless_refused!(self.tracker(id, Freshness::Latest).await?);
            let sealed = match &tracker.state {
                State::Open => {
                    let sealed = tracker.sealed(self.env.now());
                    if self.store.store_tracker(&sealed).await? == Stored::Conflict {
                        tries.give_way().await?;
                        continue;
                    }
                    sealed
                }
                // Who sealed it may have died before it looked whether all is done.
                State::Sealed => tracker,
                State::Ended(end) if end.how == Ending::Completed => return self.ended(tracker).await.map(Ok),
                State::Ended(end) => return Ok(Err(Refused::Over(end.how))),
            };
            return self.check(sealed).await.map(Ok);
        }
    }

    /// Gives a tracker up. What was added and not acked counts as missing.
    pub async fn abandon(&self, id: &TrackerId) -> Outcome<Tracker> {
        let mut tries = Tries::of("abandoning a tracker", self.env);
        loop {
            let tracker = unless_refused!(self.tracker(id, Freshness::Latest).await?);
            match &tracker.state {
                State::Ended(end) if end.how == Ending::Abandoned => return self.ended(tracker).await.map(Ok),
                State::Ended(end) => return Ok(Err(Refused::Over(end.how))),
                State::Open | State::Sealed => {}
            }
            let survey = self.survey(&tracker, MAX_RANGES, Freshness::Latest).await?;
            let abandoned = tracker.ended(Ending::Abandoned, survey, self.env.now());
            if self.store.store_tracker(&abandoned).await? == Stored::Yes {
                return self.ended(abandoned).await.map(Ok);
            }
            tries.give_way().await?;
        }
    }

    /// Looks whether a tracker that has just been sealed is complete: only its last group could not be reported before.
    async fn check(&self, sealed: Tracker) -> Result<Tracker, Error> {
        let Some(last) = sealed.items.checked_sub(1).and_then(Place::of) else { return self.complete(sealed, 0).await };
        let id = sealed.id.clone();
        let looked = self.store.look(&id, &[NodeId::group(last.group)], Freshness::Latest).await?;
        Ok(self.climb(&id, looked.nodes).await?.unwrap_or(sealed))
    }

    async fn tracker(&self, id: &TrackerId, freshness: Freshness) -> Outcome<Tracker> {
        let looked = self.store.look(id, &[], freshness).await?;
        Ok(looked.tracker.ok_or_else(|| Refused::Unknown(id.clone())))
    }
}
