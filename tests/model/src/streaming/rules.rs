//! The rules that keep the promises, and the promises.

/// A rule that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A commit is made only if the stream is at the revision that was read.
    CommitAsRead,
    /// Numbers are given only if those before them are given, and they are not.
    FedAsRead,
    /// Only an open stream is fed.
    OpenIsFed,
    /// Sweep takes a stream out of its sight only if nothing was fed since it looked.
    NothingFedSince,
    /// What tells a repeat is written with the numbers.
    TracesWithNumbers,
    /// What was fed under a number is compared with what comes again.
    TracesCompared,
    /// A node's word is written only if it is as it was read.
    WordsAsRead,
    /// A full group is dropped after its bit upstairs is set.
    BitAboveFirst,
    /// Whoever reads a group asks the nodes above it first.
    AsksAbove,
    /// A dropped group's page stays if the watermark may come to lie at its end or in it.
    PageStays,
}

/// Every rule.
pub const ALL: [Rule; 10] = [
    Rule::CommitAsRead,
    Rule::FedAsRead,
    Rule::OpenIsFed,
    Rule::NothingFedSince,
    Rule::TracesWithNumbers,
    Rule::TracesCompared,
    Rule::WordsAsRead,
    Rule::BitAboveFirst,
    Rule::AsksAbove,
    Rule::PageStays,
];

/// What must hold. The first promise that a run breaks is kept in the state.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Promise {
    /// A number is one event's, and no event's number changes.
    OneEvent,
    /// The watermark and what is counted with it never fall, and a stream that is over stays so.
    NeverBack,
    /// The watermark passes only what is settled.
    OnlySettled,
    /// A completed stream's events are settled, all of them.
    CompleteIsComplete,
    /// No more is counted as settled or failed than is so.
    CountsSettled,
    /// A watermark is committed with the offset of the event before it, and that is never lost.
    OffsetKnown,
    /// Bits are never cleared, and only what the bits above say is dropped.
    BitsStay,
    /// When all processes have ended, all that was fed was sent, the watermark lies behind all that can be behind it, every
    /// settled event is counted, people are told, and a stream that was ended is complete.
    NobodyLost,
}

impl Promise {
    /// What a run that breaks it has done.
    #[must_use]
    pub const fn broken(self) -> &'static str {
        match self {
            Self::OneEvent => "a number is two events'",
            Self::NeverBack => "a watermark falls",
            Self::OnlySettled => "a watermark passes an event that is not settled",
            Self::CompleteIsComplete => "a stream is completed too early",
            Self::CountsSettled => "more is counted than is settled",
            Self::OffsetKnown => "a watermark's offset is lost",
            Self::BitsStay => "a settled event is so no more",
            Self::NobodyLost => "an event is lost",
        }
    }
}
