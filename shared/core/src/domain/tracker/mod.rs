//! A fan-out being counted, from its opening to the one moment at which all of it is done.
//!
//! ```text
//!          open             seal              the last item is acked, or was
//!  (none) ─────▶ open ─────────────▶ sealed ─────────────────────────────────▶ completed
//!                 │ ▲ add             │
//!                 │ └──┘              │   deadline
//!                 ├───────────────────┴──────────────▶ overdue
//!                 │                   │   nobody did anything for days, or its owner gives it up
//!                 └───────────────────┴──────────────▶ abandoned
//! ```
//!
//! Items are numbered in the order in which they are added, so adding any number of them is one small write. What is
//! done is bits ([`Node`]); this item is not written by an ack, except by the last. Every write of it is conditional on
//! the [`Revision`] its writer read, so it ends once. The item stays, with its end, until its retention is over.

mod acks;
mod item;
mod node;

use super::destination::NotificationQueue;
use super::id::{Revision, TrackerId};
use super::time::Timestamp;

pub use acks::{Acks, Outcome};
pub use item::{ItemId, ItemRange, NoItem, Place};
pub use node::{Change, MAX_LEVEL, Mark, Node, NodeId, WORD_BITS, WORDS, Word, WordChange};

/// Items of one group, and children of one node: as many bits as fit one write unit together with the longest id.
pub const GROUP_SIZE: u16 = 7_168;

/// The largest tracker, in items: a call that counts it reads all its groups, within the seconds that a request may
/// take.
pub const MAX_ITEMS: u64 = 2_000_000_000;

/// The most items that one call adds: a thousand groups.
pub const MAX_ADDED: u64 = 1_000 * GROUP_SIZE as u64;

/// The longest key of a call that adds items, in bytes.
pub const MAX_KEY_BYTES: usize = 128;

/// A tracker as its table holds it, except its bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// Its id.
    pub id: TrackerId,
    /// Rises with every write, from the time of its opening on: no two trackers that have an id one after the other are
    /// ever at the same.
    pub revision: Revision,
    /// Where it stands.
    pub state: State,
    /// Items added so far.
    pub items: u64,
    /// When it ends, complete or not.
    pub deadline: Option<Timestamp>,
    /// Who is told of its end.
    pub notify: NotificationQueue,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When somebody was last seen to do anything with it.
    pub active_at: Timestamp,
    /// Items that were done when sweep looked last.
    pub seen: u64,
    /// How often sweep has looked since its state changed.
    pub looks: u32,
    /// When sweep looks next.
    pub due: Timestamp,
}

/// Where a tracker stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its owner adds items; items are acked already. Its owner seals it.
    Open,
    /// No more items; the last ack completes it, or the sealing itself if that was before.
    Sealed,
    /// It is over, and this is what came of it. Final.
    Ended(End),
}

/// How a tracker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// How.
    pub how: Ending,
    /// When.
    pub at: Timestamp,
    /// Items that failed.
    pub failed: u64,
    /// Items that nobody acked.
    pub missing: u64,
    /// The first of them.
    pub missing_items: Vec<ItemRange>,
    /// The first that failed, unless it is complete: then its bits say it, and nothing changes them any more.
    pub failed_items: Vec<ItemRange>,
    /// Whether the notice is sent, or nobody wants one; sweep sends it otherwise.
    pub told: bool,
}

/// In which way a tracker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was sealed and all its items are acked.
    Completed,
    /// Its deadline came first.
    Overdue,
    /// Nobody did anything with it for days, or its owner gave it up.
    Abandoned,
}

/// What a tracker is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// When it ends, complete or not.
    pub deadline: Option<Timestamp>,
    /// Who is told of its end.
    pub notify: NotificationQueue,
}

/// How long nobody may do anything with a tracker before it counts as abandoned, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// With one that is open.
    pub open_ms: u64,
    /// With one that is sealed.
    pub sealed_ms: u64,
}

impl Default for Patience {
    /// A week, and thirty days.
    fn default() -> Self {
        const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
        Self { open_ms: 7 * DAY_MS, sealed_ms: 30 * DAY_MS }
    }
}

/// Items added by one call, consecutive: the caller's key makes a repeat find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The caller's.
    pub key: String,
    /// The number of its first item.
    pub start: u64,
    /// How many items.
    pub count: u64,
}

/// Items of an addition that lie in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group.
    pub group: u32,
    /// The first item's position in it.
    pub first: u16,
    /// How many of the addition's items lie in it.
    pub size: u16,
}

/// Which items are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that succeeded.
    Succeeded,
    /// Those that failed.
    Failed,
    /// Those that nobody has acked.
    Missing,
}

/// What a tracker's bits say, counted, with the first items of those that need a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Items acked.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
    /// The first that are missing.
    pub missing_items: Vec<ItemRange>,
    /// The first that failed.
    pub failed_items: Vec<ItemRange>,
}

/// How long the process at work on a tracker is left alone, in milliseconds.
pub const GRACE_MS: u64 = 60_000;
/// Sweep's looks at a tracker come at growing intervals, up to this, in milliseconds.
const MAX_LOOK_MS: u64 = 60 * 60 * 1_000;

impl State {
    /// The word stored in the `State` attribute, and shown.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sealed => "sealed",
            Self::Ended(End { how, .. }) => how.word(),
        }
    }
}

impl Ending {
    /// The word stored in the `State` attribute, and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Overdue => "overdue",
            Self::Abandoned => "abandoned",
        }
    }
}

impl Addition {
    /// Its items, group by group.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        let (start, end) = (self.start, self.start + self.count);
        let size = u64::from(GROUP_SIZE);
        (start / size..end.div_ceil(size)).filter_map(move |number| {
            let (first, last) = (start.max(number * size), end.min((number + 1) * size));
            let place = Place::of(first)?;
            let size = u16::try_from(last.checked_sub(first)?).ok().filter(|size| *size > 0)?;
            Some(Group { group: place.group, first: place.index, size })
        })
    }
}

impl Tracker {
    /// A new tracker without items.
    pub fn open(id: TrackerId, options: Options, now: Timestamp) -> Self {
        let Options { deadline, notify } = options;
        Self {
            id,
            revision: Revision(now.0),
            state: State::Open,
            items: 0,
            deadline,
            notify,
            opened_at: now,
            active_at: now,
            seen: 0,
            looks: 0,
            due: now,
        }
        .due_after(GRACE_MS, now)
    }

    /// What it was opened with.
    pub fn options(&self) -> Options {
        Options { deadline: self.deadline, notify: self.notify.clone() }
    }

    /// This tracker with more items, and which they are; `None` if they are too many. Only an open tracker takes any:
    /// callers check that first.
    pub fn grown(&self, key: &str, count: u64, now: Timestamp) -> Option<(Self, Addition)> {
        let items = self.items.checked_add(count).filter(|items| *items <= MAX_ITEMS)?;
        let addition = Addition { key: key.to_owned(), start: self.items, count };
        Some((Self { items, active_at: now, ..self.revised(State::Open) }, addition))
    }

    /// This tracker, taking no more items.
    #[must_use]
    pub fn sealed(&self, now: Timestamp) -> Self {
        Self { active_at: now, looks: 0, ..self.revised(State::Sealed) }.due_after(GRACE_MS, now)
    }

    /// This tracker at its end.
    #[must_use]
    pub fn completed(&self, failed: u64, now: Timestamp) -> Self {
        self.ended(Ending::Completed, Survey { done: self.items, failed, ..Survey::default() }, now)
    }

    /// This tracker at an end that is not completion, with what is missing.
    #[must_use]
    pub fn ended(&self, how: Ending, survey: Survey, now: Timestamp) -> Self {
        let Survey { done, failed, missing_items, failed_items } = survey;
        let missing = self.items.saturating_sub(done);
        let failed = failed.min(self.items - missing);
        let told = self.notify == NotificationQueue::None;
        let end = End { how, at: now, failed, missing, missing_items, failed_items, told };
        Self { looks: 0, due: now.plus_ms(GRACE_MS), ..self.revised(State::Ended(end)) }
    }

    /// This ended tracker with its notice sent. Any other stays as it is, except its revision.
    #[must_use]
    pub fn told(&self) -> Self {
        let mut told = self.revised(self.state.clone());
        if let State::Ended(end) = &mut told.state {
            end.told = true;
        }
        told
    }

    /// This ended tracker, to be removed at a time.
    #[must_use]
    pub fn kept_until(&self, due: Timestamp) -> Self {
        Self { due, ..self.revised(self.state.clone()) }
    }

    /// This tracker after a look of sweep's that found this many items done.
    #[must_use]
    pub fn looked_at(&self, done: u64, now: Timestamp) -> Self {
        let active_at = if done > self.seen { now } else { self.active_at };
        let next = Self { active_at, seen: done, ..self.revised(self.state.clone()) };
        next.with_look().due_after(self.pause_ms(), now)
    }

    /// This tracker, for sweep to look at again later: its notice could not be sent.
    #[must_use]
    pub fn postponed(&self, now: Timestamp) -> Self {
        self.kept_until(now.plus_ms(self.pause_ms())).with_look()
    }

    /// Whether it ends now without being complete, if only `done` of its items are done.
    pub fn is_over(&self, done: u64, patience: Patience, now: Timestamp) -> Option<Ending> {
        let patience_ms = match self.state {
            State::Open => patience.open_ms,
            State::Sealed => patience.sealed_ms,
            State::Ended(_) => return None,
        };
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(Ending::Overdue);
        }
        (done <= self.seen && now.since(self.active_at) >= patience_ms).then_some(Ending::Abandoned)
    }

    /// How many groups it has; the last one may still grow.
    pub fn groups(&self) -> u32 {
        u32::try_from(self.items.div_ceil(u64::from(GROUP_SIZE))).unwrap_or(u32::MAX)
    }

    /// How many children a node has.
    pub fn size_of(&self, node: NodeId) -> u16 {
        let size = u64::from(GROUP_SIZE);
        let children = self.items.div_ceil(size.pow(u32::from(node.level)));
        let here = children.saturating_sub(u64::from(node.index) * size).min(size);
        u16::try_from(here).unwrap_or(GROUP_SIZE)
    }

    /// Whether all items lie below a node.
    pub fn is_below(&self, node: NodeId) -> bool {
        node.index == 0 && self.items <= u64::from(GROUP_SIZE).pow(u32::from(node.level) + 1)
    }

    /// Whether an item was added.
    pub fn has(&self, place: Place) -> bool {
        place.number() < self.items
    }

    /// The time to sweep's next look: it doubles with each.
    fn pause_ms(&self) -> u64 {
        (GRACE_MS << self.looks.min(10)).min(MAX_LOOK_MS)
    }

    const fn with_look(mut self) -> Self {
        self.looks = self.looks.saturating_add(1);
        self
    }

    fn due_after(self, pause_ms: u64, now: Timestamp) -> Self {
        let look = now.plus_ms(pause_ms);
        Self { due: self.deadline.map_or(look, |deadline| look.min(deadline)), ..self }
    }

    fn revised(&self, state: State) -> Self {
        Self { state, revision: self.revision.next(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
