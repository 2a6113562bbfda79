//! What takes part, and what is there at the beginning; the promises, and the rules that keep them.

use groupage_core::domain::stream::{Life, Options, Page, Trace, Watermark};
use groupage_core::domain::tracker::{Mark, WORD_BITS};
use groupage_core::steps::stream::Event;

use crate::prelude::*;

/// What somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Feeds events, call by call, from a number up to another. Refused as behind, it goes on from the watermark.
    Feeds {
        /// The calls.
        calls: &'static [(u64, u64)],
        /// What the events hold. [`REJECTED`] can never be a task.
        content: u8,
        /// Whether it ends the stream then.
        ends: bool,
    },
    /// Settles events once they are sent, from a number up to another.
    Acks(u64, u64, Outcome),
}

/// What is no task.
pub const REJECTED: u8 = 0;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is about.
    pub name: &'static str,
    /// Events that are settled and committed at the beginning.
    pub done: u64,
    /// Events that are fed at the beginning.
    pub fed: u64,
    /// Those who take part.
    pub who: &'static [Does],
    /// The shortest time between two commits; every process but sweep comes at one time.
    pub commit_ms: u64,
    /// Whether people are told.
    pub told: bool,
}

const GROUP: u64 = GROUP_SIZE as u64;
/// Where a group's last word begins.
const LAST_WORD: u64 = GROUP - WORD_BITS as u64;

const fn source(calls: &'static [(u64, u64)]) -> Does {
    Does::Feeds { calls, content: 1, ends: true }
}

const fn rejected(calls: &'static [(u64, u64)]) -> Does {
    Does::Feeds { calls, content: REJECTED, ends: true }
}

const fn feeds(calls: &'static [(u64, u64)], content: u8) -> Does {
    Does::Feeds { calls, content, ends: false }
}

const fn acks(number: u64) -> Does {
    Does::Acks(number, number + 1, Outcome::Succeeded)
}

const fn fails(number: u64) -> Does {
    Does::Acks(number, number + 1, Outcome::Failed)
}

const fn of(name: &'static str, (done, fed): (u64, u64), who: &'static [Does]) -> Run<Setting> {
    Run::of(Setting { name, done, fed, who, commit_ms: 0, told: false })
}

impl Run<Setting> {
    /// The same, with somebody who is told of commits.
    pub const fn telling(self) -> Self {
        Self { of: Setting { told: true, ..self.of }, ..self }
    }
}

/// A source alone.
pub const ALONE: Run<Setting> = of("a source alone", (0, 0), &[source(&[(0, 2)])]);
/// A source of two events, which are settled at once.
pub const TWO: Run<Setting> = of("two events", (0, 0), &[source(&[(0, 2)]), acks(0), fails(1)]);
/// A source of two events, fed one after the other.
pub const ONE_BY_ONE: Run<Setting> =
    of("two events one by one", (0, 0), &[source(&[(0, 1), (1, 2)]), acks(0), acks(1)]);
/// A call that feeds comes twice.
pub const FED_TWICE: Run<Setting> = of(
    "two events, fed twice",
    (0, 0),
    &[source(&[(0, 1), (1, 2)]), feeds(&[(0, 2)], 1), Does::Acks(0, 2, Outcome::Succeeded)],
);
/// An ack comes twice, with another outcome.
pub const ACKED_TWICE: Run<Setting> = of("an event acked twice", (0, 1), &[source(&[]), acks(0), fails(0)]);
/// Another source has other content under the same number.
pub const RIVALS: Run<Setting> =
    of("two sources that differ", (0, 0), &[source(&[(0, 2)]), feeds(&[(0, 1)], 2), acks(0)]);
/// Somebody feeds more while the source ends. Nobody dies: an ended stream takes no repeats, so what one has numbered
/// and not sent is never sent once another has ended the stream.
pub const LATE: Run<Setting> = of("feeding beside the end", (0, 0), &[source(&[(0, 1)]), feeds(&[(0, 2)], 1), acks(0)]);
/// More is fed to a stream that sweep was about to lose sight of. Nobody but sweep commits.
pub const IDLE: Run<Setting> = {
    let run = of("sweep alone commits", (1, 1), &[feeds(&[(1, 2), (2, 3)], 1), acks(1), acks(2)]);
    Run { of: Setting { commit_ms: 1_000, ..run.of }, ..run }
};
/// An event that can never be a task, fed twice.
pub const REJECTS: Run<Setting> =
    of("an event that is rejected, fed twice", (0, 0), &[rejected(&[(0, 1)]), rejected(&[(0, 1)])]);
/// The last event of a group and the first of the next.
pub const BORDER: Run<Setting> = of("a group's end", (GROUP - 1, GROUP + 1), &[fails(GROUP - 1), acks(GROUP)]);
/// A group's last event is settled twice.
pub const BORDER_TWICE: Run<Setting> =
    of("a group's end, acked twice", (GROUP - 1, GROUP + 1), &[acks(GROUP - 1), fails(GROUP - 1)]);
/// The event after a group's last stays unsettled.
pub const STANDS: Run<Setting> =
    of("a group's end, and one that hangs", (GROUP - 1, GROUP + 2), &[acks(GROUP - 1), acks(GROUP + 1)]);
/// A group's last word is written by one, and its last bit by another, who may be so late that it makes the group anew.
pub const ANEW: Run<Setting> =
    of("a group made anew", (LAST_WORD, GROUP), &[Does::Acks(LAST_WORD, GROUP, Outcome::Succeeded), acks(GROUP - 1)]);

promises! {
    /// A number is one event's, and no event's number changes.
    OneEvent: "a number is two events'",
    /// The watermark and what is counted with it never fall, and a stream that is over stays so.
    NeverBack: "a watermark falls",
    /// The watermark passes only what is settled.
    OnlySettled: "a watermark passes an event that is not settled",
    /// A completed stream's events are settled, all of them.
    CompleteIsComplete: "a stream is completed too early",
    /// No more is counted as settled or failed than is so.
    CountsSettled: "more is counted than is settled",
    /// A watermark is committed with the offset of the event before it, and that is never lost.
    OffsetKnown: "a watermark's offset is lost",
    /// Bits are never cleared, and only what the bits above say is dropped.
    BitsStay: "a settled event is so no more",
    /// When all processes have ended, all that was fed was sent, the watermark lies behind all that can be behind it,
    /// every settled event is counted, people are told, and a stream that was ended is complete.
    NobodyLost: "an event is lost",
}

rules! { Run<Setting>;
    /// A commit is made only if the stream is at the revision that was read.
    CommitAsRead: TWO => NeverBack,
    /// Numbers are given only if those before them are given, and they are not.
    FedAsRead: RIVALS => OneEvent,
    /// Only an open stream is fed.
    OpenIsFed: LATE => CompleteIsComplete,
    /// Sweep takes a stream out of its sight only if nothing was fed since it looked.
    NothingFedSince: IDLE.swept() => NobodyLost,
    /// What tells a repeat is written with the numbers.
    TracesWithNumbers: ALONE.dying(1) => NobodyLost,
    /// What was fed under a number is compared with what comes again.
    TracesCompared: RIVALS => OneEvent,
    /// A node's word is written only if it is as it was read.
    WordsAsRead: TWO => BitsStay,
    /// A full group is dropped after its bit upstairs is set.
    BitAboveFirst: BORDER_TWICE => BitsStay,
    /// A process that reads a group asks the nodes above it first.
    AsksAbove: ANEW => NobodyLost,
    /// A dropped group's page stays if the watermark may come to lie at its end or in it.
    PageStays: STANDS => OffsetKnown,
}

impl Setting {
    pub(super) fn stream(&self) -> Stream {
        let notify = if self.told { NotificationQueue::Default } else { NotificationQueue::None };
        let options = Options { commit_ms: self.commit_ms, notify, ..Options::default() };
        let before = |number: u64| Some(offset(number.checked_sub(1)?));
        let watermark =
            Watermark { number: self.done, offset: before(self.done), settled: self.done, failed: 0, at: Timestamp(0) };
        let due = (self.fed > 0).then_some(Timestamp(0));
        let stream = Stream::open(StreamId::new(NAME), options, Timestamp(0));
        Stream { next: self.fed, last: before(self.fed), watermark, due, ..stream }
    }

    pub(super) fn nodes(&self) -> Option<Node> {
        let empty = Node::empty(NodeId::group(0));
        let bits = (0..GROUP_SIZE).take_while(|bit| u64::from(*bit) < self.done);
        let marks: Vec<Mark> = bits.map(|bit| Mark { bit, failures: 0 }).collect();
        empty.marking(&marks).map(|change| empty.clone().changed(&change))
    }

    pub(super) fn page(&self) -> Option<Page> {
        let traces: Vec<Trace> = (self.done..self.fed).map(|number| trace(number, 1)).collect();
        (!traces.is_empty()).then_some(Page { start: self.done, traces })
    }
}

const NAME: &str = "s";

/// The stream.
pub(super) fn life() -> Life {
    Life { id: StreamId::new(NAME), opened_at: Timestamp(0) }
}

/// An event's id.
pub(super) fn id(number: u64) -> EventId {
    EventId { life: life(), number }
}

/// Where an event is in its source.
pub(super) fn offset(number: u64) -> Offset {
    Offset::parse(&format!("at {number}")).unwrap_or_else(|why| unreachable!("{why}"))
}

/// An event as its source has it.
pub(super) fn event(number: u64, content: u8) -> Event {
    let body =
        if content == REJECTED { String::from("no task") } else { format!(r#"{{"payload":{{"c":{content}}}}}"#) };
    Event { offset: offset(number), body }
}

/// What a fed event leaves.
pub(super) fn trace(number: u64, content: u8) -> Trace {
    let Event { offset, body } = event(number, content);
    Trace::of(offset, &body)
}
