//! The rules that keep the promises, and the promises.

/// A rule that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// After a mark or a seal the tracker is read as it is.
    LatestTracker,
    /// A parent is read as it is.
    LatestParent,
    /// Who seals looks whether all is done.
    SealerLooks,
    /// Who completes has seen the seal.
    LooksForTheSeal,
    /// A word is written over what was read.
    WordsAsRead,
    /// A tracker is written over what was read.
    TrackerAsRead,
    /// What was added under a key is not added again.
    KeyOnce,
}

/// Every rule.
pub const ALL: [Rule; 7] = [
    Rule::LatestTracker,
    Rule::LatestParent,
    Rule::SealerLooks,
    Rule::LooksForTheSeal,
    Rule::WordsAsRead,
    Rule::TrackerAsRead,
    Rule::KeyOnce,
];

/// What must hold. The first promise that a run breaks is kept in the state.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Promise {
    /// A tracker ends once; its end changes no more, but for the notice that is sent.
    OneEnd,
    /// A tracker is completed when it is sealed and all bits are set.
    CompleteIsComplete,
    /// A bit that is set stays so, with the outcome that it was set with.
    BitsStay,
    /// A parent has the bits of full children only.
    FullIsFull,
    /// The later of the seal and the last bit completes the tracker: it is not left to sweep if nobody died.
    CompleteAtOnce,
    /// When all processes have ended and sweep has run, the tracker is complete.
    NothingLost,
    /// All notices are one.
    OneNotice,
}

impl Promise {
    /// What a run that breaks it has done.
    #[must_use]
    pub const fn broken(self) -> &'static str {
        match self {
            Self::OneEnd => "a tracker ends twice",
            Self::CompleteIsComplete => "a tracker is completed that is not complete",
            Self::BitsStay => "a bit is changed that was set",
            Self::FullIsFull => "a node is reported that is not full",
            Self::CompleteAtOnce => "a complete tracker is left to sweep",
            Self::NothingLost => "a tracker is never completed",
            Self::OneNotice => "two notices differ",
        }
    }
}
