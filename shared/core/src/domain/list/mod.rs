//! Tasks that wait to be released, for ever if need be.
//!
//! ```text
//!   put ──▶ tail: tokens given        head: tokens taken ◀── release, discard
//!             │                          │
//!             ▼                          ▼
//!   [0]…[taken − 1]  fed on or discarded   [taken]…[given − 1]  wait
//! ```
//!
//! Tasks get sequential tokens in the order of their arrival. A call that puts tasks writes the *tail*, the tasks and
//! the caller's key in one transaction, so there are no holes. A call that takes tasks writes the *head* alone: one
//! conditional update takes a range of tokens and records who owes it ([`Reservation`]). Neither end's size depends on
//! how long the list is. Calls that put are never in the way of calls that take.
//!
//! A list's name may be used again after the list was removed. What belongs to one use carries its [`Life`], so that
//! nobody who slept meanwhile touches the next.

mod forgotten;
mod head;
mod reservation;

use super::id::{ListId, Revision, Token};
use super::time::Timestamp;
use super::tracker::ItemId;

pub use forgotten::{Forgotten, Strand};
pub use head::{Head, MAX_RESERVATIONS, Move, Reserve};
pub use reservation::{Purpose, Record, Reservation};

/// The most tasks that one transaction puts: with both ends and one key they are a hundred writes.
pub const MAX_PUT: usize = 97;

/// The most bytes of tasks that one transaction puts; DynamoDB takes four million, names and keys included.
pub const MAX_PUT_BYTES: usize = 3_000_000;

/// The most tasks that one release takes: its owner feeds them on within seconds.
pub const MAX_RELEASED: u64 = 10_000;

/// The longest key of a call that puts, releases or discards, in bytes.
pub const MAX_KEY_BYTES: usize = 128;

/// Times to live, in milliseconds: from a minute to ten years.
pub const TTL_MS: std::ops::RangeInclusive<u64> = 60_000..=3_650 * DAY_MS;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// One use of a list's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The name.
    pub id: ListId,
    /// When the list was opened. Between two uses of one name lies a time to live at least.
    pub opened_at: Timestamp,
}

/// A list as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Where tasks are put.
    pub tail: Tail,
    /// Where tasks are taken. It may be a moment younger or older than the tail.
    pub head: Head,
}

/// Where tasks are put: the list's own item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Which list.
    pub life: Life,
    /// Rises with every write.
    pub revision: Revision,
    /// Where it stands.
    pub state: State,
    /// Tokens given so far: the next task gets this one.
    pub given: Token,
    /// What it was opened with.
    pub options: Options,
    /// When tasks were put last.
    pub active_at: Timestamp,
    /// When sweep looks whether it is idle.
    pub due: Timestamp,
}

/// Where a list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Tasks are put and released. Its owner closes it.
    Open,
    /// Nothing is put or released; what waits can be discarded. Its owner opens it again.
    Closed,
    /// Its time to live is over: sweep discards what waits, and removes it. Final.
    Removing,
}

/// What a list is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How long nobody may put or take anything before the list is removed, with all that waits, in milliseconds.
    /// Without it tasks wait for ever, and only an empty list is removed.
    pub ttl_ms: Option<u64>,
}

/// Tasks put by one call: the caller's key makes a repeat find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The caller's.
    pub key: String,
    /// The first task's token.
    pub start: Token,
    /// How many tasks.
    pub count: u64,
    /// Tells a repeat from other tasks under the same key.
    pub digest: String,
    /// The tracker's item of a task that is put under its own id. Another message of that id is refused, and must not
    /// fail the item.
    pub item: Option<ItemId>,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its number.
    pub token: Token,
    /// The task message that it becomes: with an id, so that sending it twice makes one task.
    pub body: String,
}

/// Tasks to put on a list, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The tail, with their tokens given.
    pub tail: Tail,
    /// Whose they are.
    pub additions: Vec<Addition>,
    /// The tasks.
    pub slots: Vec<Slot>,
}

const FIRST: Revision = Revision(1);

/// Sweep first looks at a new list after this at the latest, in milliseconds; from then on only when it may be idle.
const FIRST_LOOK_MS: u64 = 60 * 60 * 1_000;

impl State {
    /// The word stored in the `State` attribute, and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Removing => "removing",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Open, Self::Closed, Self::Removing].into_iter().find(|state| state.word() == word)
    }
}

impl Put {
    /// Whether the list is made by this.
    pub fn is_new(&self) -> bool {
        self.tail.revision == FIRST
    }
}

impl Tail {
    /// The tail of a new list.
    pub fn open(life: Life, options: Options) -> Self {
        let active_at = life.opened_at;
        let due = active_at.plus_ms(options.ttl_ms.map_or(FIRST_LOOK_MS, |ttl_ms| ttl_ms.min(FIRST_LOOK_MS)));
        Self { life, revision: FIRST, state: State::Open, given: Token(0), options, active_at, due }
    }

    /// This tail with more tasks. A new list's keeps its revision: it was not written yet.
    #[must_use]
    pub fn grown(&self, count: u64, is_new: bool, now: Timestamp) -> Self {
        let next = if is_new { self.clone() } else { self.revised() };
        Self { given: self.given.plus(count), active_at: now, ..next }
    }

    /// This tail in another state.
    #[must_use]
    pub fn in_state(&self, state: State, now: Timestamp) -> Self {
        Self { state, active_at: now, ..self.revised() }
    }

    /// This tail, for sweep to look at again then.
    #[must_use]
    pub fn due_at(&self, due: Timestamp) -> Self {
        Self { due, ..self.revised() }
    }

    fn revised(&self) -> Self {
        Self { revision: self.revision.next(), ..self.clone() }
    }
}

impl List {
    /// How many tasks wait.
    pub const fn waiting(&self) -> u64 {
        self.tail.given.0.saturating_sub(self.head.taken.0)
    }

    /// When somebody last put or took anything.
    pub fn active_at(&self) -> Timestamp {
        self.tail.active_at.max(self.head.active_at)
    }

    /// Until when it may be idle: sweep removes it then, unless tasks wait for ever.
    pub fn idle_until(&self, idle_ms: u64) -> Timestamp {
        self.active_at().plus_ms(self.tail.options.ttl_ms.unwrap_or(idle_ms))
    }

    /// Whether sweep removes it now.
    pub fn is_over(&self, idle_ms: u64, now: Timestamp) -> bool {
        let may_go = self.tail.options.ttl_ms.is_some() || self.waiting() == 0;
        may_go && self.head.reservations.is_empty() && self.idle_until(idle_ms) <= now
    }

    /// The taking of the next tasks, as far as there are any; `None` if none waits.
    pub fn taking(&self, key: &str, purpose: Purpose, now: Timestamp) -> Option<Reserve> {
        let count = match purpose {
            Purpose::Release { asked } => asked.min(self.waiting()),
            Purpose::Discard => self.waiting(),
        };
        (count > 0).then(|| Reserve {
            key: key.to_owned(),
            purpose,
            count,
            at: now,
            // Tokens given are never taken back, so an older view of the tail is safe.
            most_taken: Token(self.tail.given.0 - count),
            seen: self.head.taken,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(given: u64, ttl_ms: Option<u64>) -> List {
        let life = Life { id: ListId::new("l"), opened_at: Timestamp(1_000) };
        let tail = Tail::open(life.clone(), Options { ttl_ms });
        List { tail: Tail { given: Token(given), ..tail }, head: Head::open(life) }
    }

    #[test]
    fn every_state_has_a_word_of_its_own() {
        for state in [State::Open, State::Closed, State::Removing] {
            assert_eq!(State::parse(state.word()), Some(state));
        }
        assert_eq!(State::parse("melted"), None);
    }

    #[test]
    fn only_an_empty_list_or_one_that_asked_for_it_is_removed_when_idle() {
        assert!(!list(1, None).is_over(5_000, Timestamp(u64::MAX)), "tasks wait for ever");
        assert!(list(0, None).is_over(5_000, Timestamp(6_000)));
        assert!(!list(0, None).is_over(5_000, Timestamp(5_999)));
        assert!(list(1, Some(60_000)).is_over(5_000, Timestamp(61_000)));
        assert!(!list(1, Some(60_000)).is_over(5_000, Timestamp(60_999)));
    }

    #[test]
    fn no_more_is_taken_than_waits() {
        let taking = |asked| list(7, None).taking("k", Purpose::Release { asked }, Timestamp(9));
        assert_eq!(taking(5).map(|reserve| (reserve.count, reserve.most_taken)), Some((5, Token(2))));
        assert_eq!(taking(50).map(|reserve| (reserve.count, reserve.most_taken)), Some((7, Token(0))));
        assert_eq!(list(0, None).taking("k", Purpose::Discard, Timestamp(9)), None);
    }
    #[test]
    fn a_list_is_busy_until_the_last_taking_is_worked_off_and_idle_from_its_last_use_on() {
        let mut used = list(0, None);
        used.head.active_at = Timestamp(4_000);
        assert_eq!(used.active_at(), Timestamp(4_000));
        assert!(used.is_over(5_000, Timestamp(9_000)) && !used.is_over(5_000, Timestamp(8_999)));
        used.tail.active_at = Timestamp(4_001);
        assert!(!used.is_over(5_000, Timestamp(9_000)));
        let reservation = Reservation { start: Token(0), count: 1, purpose: Purpose::Discard, at: Timestamp(1_000) };
        used.head.reservations.insert("k".to_owned(), reservation);
        assert!(!used.is_over(5_000, Timestamp(u64::MAX)), "somebody owes a task");
    }

    #[test]
    fn each_write_of_a_tail_but_its_first_raises_the_revision() {
        let (empty, now) = (list(0, None).tail, Timestamp(2_000));
        let is_new = |tail: &Tail| Put { tail: tail.clone(), additions: Vec::new(), slots: Vec::new() }.is_new();
        let made = empty.grown(3, true, now);
        assert_eq!((made.revision, made.given, made.active_at), (empty.revision, Token(3), now));
        let grown = made.grown(2, false, now.plus_ms(1));
        assert_eq!((grown.given, grown.active_at), (Token(5), now.plus_ms(1)));
        let closed = made.in_state(State::Closed, now.plus_ms(1));
        assert_eq!((closed.state, closed.active_at), (State::Closed, now.plus_ms(1)));
        let later = made.due_at(Timestamp(9_000));
        assert_eq!((later.due, later.active_at), (Timestamp(9_000), now), "a look of sweep's is no use of the list");
        assert!(is_new(&made));
        for next in [grown, closed, later] {
            assert!(next.revision > made.revision && !is_new(&next));
        }
    }

    #[test]
    fn sweep_first_looks_at_a_new_list_within_an_hour_or_its_time_to_live() {
        let first_look = |ttl| list(0, ttl).tail.due.since(Timestamp(1_000));
        assert_eq!([None, Some(60_000), Some(99_999_999)].map(first_look), [3_600_000, 60_000, 3_600_000]);
    }

    #[test]
    fn a_time_to_live_is_a_minute_at_least_and_ten_years_at_most() {
        let ms = |text| u64::try_from(humantime::parse_duration(text).unwrap().as_millis()).unwrap();
        assert_eq!(TTL_MS, ms("1min")..=ms("3650days"));
    }
}
