//! An ordered source of tasks, and how far all of it is settled.
//!
//! ```text
//!   feed ──▶ next: numbers given                 bits: what is settled
//!              │                                   │
//!              ▼                                   ▼
//!   0 1 2 3 4 5 6 7 8 9                     1 1 1 1 0 1 1 0 1 0 …
//!                                                  ▲
//!                                                  watermark 4: all before it is settled
//!
//!          fed, settled                end               all is settled
//!  (none) ──────▶ open ──────────────────────▶ ended ───────────────────▶ completed
//!                  │   the source gives up
//!                  └─────────────────────────▶ failed
//! ```
//!
//! Events are numbered on the way in, in the source's order, whatever their opaque offsets mean. Which are settled is
//! bits ([`Bits`]). The watermark is the end of the leading run of ones, as it was committed last: it is what a source
//! that lost everything else begins from again. It never falls, since bits are never cleared and a commit is
//! conditional on the [`Revision`] its writer read.
//!
//! A stream's name may be used again after the stream was removed. What belongs to one use carries its [`Life`], so
//! nobody who slept meanwhile touches the next.

mod bits;
mod event;
mod options;
mod state;

use super::destination::NotificationQueue;
use super::id::{Revision, StreamId};
use super::time::Timestamp;
use super::tracker::GROUP_SIZE;

pub use bits::{Bits, Count, Run, first_below, path};
pub use event::{EventId, MAX_OFFSET_BYTES, NoEvent, Offset, Page, Trace};
pub use options::{MAX_COMMIT_MS, Options, WINDOW};
pub use state::{Ending, State};

/// The most events of one stream, for ever: as many as three levels of nodes hold.
pub const MAX_NUMBER: u64 = (GROUP_SIZE as u64).pow(3);

/// The most events that one call feeds.
pub const MAX_FED: usize = 500;

/// One use of a stream's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The name.
    pub id: StreamId,
    /// When the stream was opened. Between two uses of one name lies the retention at least.
    pub opened_at: Timestamp,
}

/// A stream as its own item says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Which one.
    pub life: Life,
    /// Rises with every write but those that feed.
    pub revision: Revision,
    /// Where it stands.
    pub state: State,
    /// What it was opened with.
    pub options: Options,
    /// Numbers given so far: the next event gets this one.
    pub next: u64,
    /// The offset of the last event.
    pub last: Option<Offset>,
    /// What was committed last.
    pub watermark: Watermark,
    /// Whether the last commit was told, or nobody wants to hear it; sweep tells it otherwise.
    pub is_told: bool,
    /// When events were last fed, or seen to be settled.
    pub active_at: Timestamp,
    /// How often sweep has looked since then.
    pub looks: u32,
    /// When sweep looks next; not at all at an open stream without unsettled events.
    pub due: Option<Timestamp>,
}

/// What a commit says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// All events before this number are settled.
    pub number: u64,
    /// The offset of the last of them; none before the first commit that has one.
    pub offset: Option<Offset>,
    /// Events settled, before the watermark and beyond it.
    pub settled: u64,
    /// Those that failed.
    pub failed: u64,
    /// When it was committed.
    pub at: Timestamp,
}

/// How long the process at work on a stream is left alone, in milliseconds.
const GRACE_MS: u64 = 1_000;
/// Sweep's looks at a stream that stands still come at growing intervals, up to this, in milliseconds.
const MAX_LOOK_MS: u64 = 60_000;

impl Stream {
    /// A new stream without events.
    pub fn open(id: StreamId, options: Options, now: Timestamp) -> Self {
        Self {
            life: Life { id, opened_at: now },
            revision: Revision(1),
            state: State::Open,
            options,
            next: 0,
            last: None,
            watermark: Watermark { at: now, ..Watermark::default() },
            is_told: true,
            active_at: now,
            looks: 0,
            due: None,
        }
    }

    /// Events that are not settled, as far as the last commit knows: there may be fewer.
    pub const fn unsettled(&self) -> u64 {
        self.next.saturating_sub(self.watermark.settled)
    }

    /// How many more events its window takes.
    pub const fn room(&self) -> u64 {
        self.options.window.saturating_sub(self.unsettled())
    }

    /// This stream with more events. Only an open one takes any, and as many as its window has room for: callers check
    /// that first.
    #[must_use]
    pub fn fed(&self, page: &Page, now: Timestamp) -> Self {
        let due = Some(now.plus_ms(GRACE_MS.max(self.options.commit_ms)));
        let last = page.traces.last().map(|trace| trace.offset.clone());
        Self { next: page.end(), last, active_at: now, due, ..self.clone() }
    }

    /// Whether the watermark may be committed now, if all before this number is settled.
    pub fn may_commit(&self, reached: u64, now: Timestamp) -> bool {
        let ahead = reached.saturating_sub(self.watermark.number);
        now.since(self.watermark.at) >= self.options.commit_ms
            || self.options.commit_events.is_some_and(|events| ahead >= events)
            // What a source waits for at its end is not kept back.
            || (self.state != State::Open && reached == self.next)
    }

    /// This stream with what was found to be settled; `None` if that is nothing new.
    pub fn reached(&self, found: Watermark) -> Option<Self> {
        let watermark = &self.watermark;
        if found.number < watermark.number {
            return None;
        }
        // Reads of many items may each be of another moment: what was settled once is so for ever.
        let settled = found.settled.max(watermark.settled).max(found.number);
        let found = Watermark { settled, failed: found.failed.max(watermark.failed), ..found };
        let state = match self.state {
            State::Ended if found.number == self.next => State::Completed,
            State::Open | State::Ended | State::Failed | State::Completed => self.state,
        };
        let is_farther = found.number > watermark.number || state != self.state;
        if !is_farther && found.settled == watermark.settled && found.failed == watermark.failed {
            return None;
        }
        let now = found.at;
        let is_told = if is_farther { self.options.notify == NotificationQueue::None } else { self.is_told };
        // Once more in any case: the process that commits may die before it has removed what is not needed any more.
        let due = Some(now.plus_ms(GRACE_MS.max(self.options.commit_ms)));
        Some(Self { state, watermark: found, is_told, active_at: now, looks: 0, due, ..self.revised() })
    }

    /// This open stream at its source's end.
    #[must_use]
    pub fn ended(&self, how: Ending, now: Timestamp) -> Self {
        let state = match how {
            Ending::Ended => State::Ended,
            Ending::Failed => State::Failed,
        };
        let due = Some(now.plus_ms(GRACE_MS));
        Self { state, active_at: now, looks: 0, due, ..self.revised() }
    }

    /// This stream with its last commit told.
    #[must_use]
    pub fn told(&self) -> Self {
        Self { is_told: true, ..self.revised() }
    }

    /// This stream, for sweep to look at again after a look that found nothing new.
    #[must_use]
    pub fn looked_at(&self, retention_ms: u64, now: Timestamp) -> Self {
        let next = Self { looks: self.looks.saturating_add(1), ..self.revised() };
        let due = match self.state {
            State::Open | State::Ended | State::Failed | State::Completed if self.waits() => {
                Some(now.plus_ms(self.pause_ms()))
            }
            State::Open => None,
            State::Ended | State::Failed | State::Completed => Some(self.active_at.plus_ms(retention_ms)),
        };
        Self { due, ..next }
    }

    /// Whether it is forgotten now: it is over, and nothing has become of it for its retention.
    pub fn is_forgotten(&self, retention_ms: u64, now: Timestamp) -> bool {
        self.state != State::Open && self.active_at.plus_ms(retention_ms) <= now
    }

    /// Whether sweep has something to wait for.
    const fn waits(&self) -> bool {
        self.watermark.number < self.next || !self.is_told
    }

    /// Twice as long each time.
    fn pause_ms(&self) -> u64 {
        (GRACE_MS << self.looks.min(10)).min(MAX_LOOK_MS)
    }

    fn revised(&self) -> Self {
        Self { revision: self.revision.next(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(next: u64) -> Stream {
        let options = Options { commit_ms: 100, commit_events: Some(50), window: 20, ..Options::default() };
        let stream = Stream::open(StreamId::new("s"), options, Timestamp(1_000));
        Stream { next, due: Some(Timestamp(2_000)), ..stream }
    }

    fn found(number: u64, settled: u64) -> Watermark {
        Watermark { number, offset: Offset::parse("o").ok(), settled, failed: 0, at: Timestamp(2_000) }
    }

    #[test]
    fn the_window_counts_unsettled_events_and_not_the_distance() {
        let far = stream(1_000_000).reached(found(3, 999_990)).unwrap();
        assert_eq!((far.unsettled(), far.room()), (10, 10));
    }

    #[test]
    fn a_commit_never_lowers_what_is_settled() {
        let stream = stream(20).reached(found(10, 12)).unwrap();
        assert_eq!(stream.reached(found(9, 12)), None);
        assert_eq!(stream.reached(found(10, 11)), None, "nothing new");
        assert_eq!(stream.reached(found(11, 11)).unwrap().watermark.settled, 12);
    }

    #[test]
    fn commits_are_as_rare_as_asked_but_for_the_last() {
        let stream = stream(60);
        assert!(!stream.may_commit(49, Timestamp(1_099)));
        assert!(stream.may_commit(49, Timestamp(1_100)), "the time is over");
        assert!(stream.may_commit(50, Timestamp(1_001)), "enough events were settled");
        let ended = self::stream(7).ended(Ending::Ended, Timestamp(1_000));
        assert!(ended.may_commit(7, Timestamp(1_001)) && !ended.may_commit(6, Timestamp(1_001)));
    }

    #[test]
    fn only_an_ended_stream_completes_and_only_when_all_is_settled() {
        assert_eq!(stream(9).reached(found(9, 9)).unwrap().state, State::Open);
        let ended = stream(9).ended(Ending::Ended, Timestamp(1_500));
        assert_eq!(ended.reached(found(8, 8)).unwrap().state, State::Ended);
        assert_eq!(ended.reached(found(9, 9)).unwrap().state, State::Completed);
        assert_eq!(stream(9).ended(Ending::Failed, Timestamp(1)).reached(found(9, 9)).unwrap().state, State::Failed);
        let done = stream(9).reached(found(9, 9)).unwrap().ended(Ending::Ended, Timestamp(3_000));
        assert_eq!(done.reached(found(9, 9)).unwrap().state, State::Completed, "it may be at its end already");
    }

    #[test]
    fn sweep_forgets_an_open_stream_only_when_nothing_of_it_waits() {
        let waits = stream(9);
        assert!(waits.due.is_some() && waits.looked_at(1, Timestamp(5_000)).due.is_some());
        let idle = waits.reached(found(9, 9)).unwrap();
        assert_eq!(idle.looked_at(1, Timestamp(9_000)).due, None);
        assert!(!idle.is_forgotten(0, Timestamp(u64::MAX)), "its watermark is its source's memory");
    }
    fn told_to_somebody(next: u64) -> Stream {
        let stream = stream(next);
        let options = Options { notify: NotificationQueue::Default, ..stream.options.clone() };
        Stream { options, ..stream }
    }

    #[test]
    fn events_are_numbered_on_from_the_last_and_sweep_looks_once_they_may_be_committed() {
        let trace = |offset| Trace::of(Offset::parse(offset).unwrap(), "{}");
        let page = Page { start: 9, traces: vec![trace("a"), trace("b")] };
        let (before, now) = (stream(9), Timestamp(5_000));
        let fed = before.fed(&page, now);
        assert_eq!((fed.next, fed.last.clone(), fed.active_at), (11, Offset::parse("b").ok(), now));
        assert_eq!(fed.due, Some(now.plus_ms(GRACE_MS)));
        assert_eq!(fed.revision, before.revision, "whoever commits does not mind");
        let slow = Stream { options: Options { commit_ms: 30_000, ..before.options.clone() }, ..before };
        assert_eq!(slow.fed(&page, now).due, Some(now.plus_ms(30_000)));
    }

    #[test]
    fn only_a_higher_watermark_is_told_and_only_if_somebody_wants_to_hear_it() {
        let stream = told_to_somebody(20);
        let first = stream.reached(found(5, 5)).unwrap();
        let told = first.told();
        assert!(!first.is_told && told.is_told && told.revision > first.revision);
        let behind = told.reached(found(5, 9)).unwrap();
        assert!(behind.is_told && behind.watermark.settled == 9);
        assert!(!first.reached(found(5, 9)).unwrap().is_told, "the first is still to be told");
        assert!(!behind.reached(found(6, 9)).unwrap().is_told);
        assert!(self::stream(20).reached(found(5, 5)).unwrap().is_told);
        let completed = told_to_somebody(5).reached(found(5, 5)).unwrap().told().ended(Ending::Ended, Timestamp(1));
        assert!(!completed.reached(found(5, 5)).unwrap().is_told, "its end is told");
    }

    #[test]
    fn failures_once_seen_stay_and_are_news_by_themselves() {
        let before = stream(20).reached(found(5, 5)).unwrap();
        let failed = before.reached(Watermark { failed: 2, ..found(5, 5) }).unwrap();
        assert_eq!(failed.watermark.failed, 2);
        assert_eq!(failed.reached(found(5, 5)), None, "a read of an earlier moment");
        assert_eq!(failed.reached(found(6, 6)).unwrap().watermark.failed, 2);
    }

    #[test]
    fn sweep_looks_at_what_stands_still_at_growing_intervals_and_anew_once_it_moves() {
        let (mut stream, mut pauses) = (stream(20), Vec::new());
        for _ in 0..8 {
            let now = stream.due.unwrap();
            stream = stream.looked_at(0, now);
            pauses.push(stream.due.unwrap().since(now) / 1_000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        let moved = [stream.reached(found(5, 5)).unwrap(), stream.ended(Ending::Ended, Timestamp(2_000))];
        for stream in moved {
            assert_eq!((stream.due, stream.active_at, stream.looks), (Some(Timestamp(3_000)), Timestamp(2_000), 0));
        }
    }

    #[test]
    fn a_stream_that_is_over_stays_until_its_end_is_told_and_then_for_its_retention() {
        let ended = told_to_somebody(5).ended(Ending::Ended, Timestamp(1_500));
        let completed = ended.reached(found(5, 5)).unwrap();
        let look = |stream: &Stream| stream.looked_at(100_000, Timestamp(9_000)).due.unwrap();
        assert_eq!(look(&ended), Timestamp(10_000), "events are to settle");
        assert_eq!(look(&completed), Timestamp(10_000), "it is to be told");
        let told = completed.told();
        assert_eq!(look(&told), Timestamp(102_000));
        assert!(told.is_forgotten(100_000, Timestamp(102_000)) && !told.is_forgotten(100_000, Timestamp(101_999)));
        let idle = told_to_somebody(0);
        assert!(Stream { is_told: false, ..idle.clone() }.looked_at(1, Timestamp(9_000)).due.is_some());
        assert_eq!(idle.looked_at(1, Timestamp(9_000)).due, None);
    }
}
