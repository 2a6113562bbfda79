//! The rules that keep the promises, and the promises.

/// A rule that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Tasks are put behind the tail that was read.
    TailAsRead,
    /// What was put under a key is not put again.
    PutOnce,
    /// No more is taken than is given.
    NotPastTheTail,
    /// What was taken under a key is remembered when it is worked off.
    RememberedKey,
    /// A taking that saw less taken than what was forgotten since is refused.
    LateCopyRefused,
    /// The write that takes tokens says who owes them.
    RecordsWhoOwes,
    /// Tasks leave the list after they are sent.
    SentBeforeRemoved,
    /// A task that is not to be seen is not done.
    MissingIsNotDone,
    /// Nothing is released from a closed list.
    ClosedToReleases,
}

/// Every rule.
pub const ALL: [Rule; 9] = [
    Rule::TailAsRead,
    Rule::PutOnce,
    Rule::NotPastTheTail,
    Rule::RememberedKey,
    Rule::LateCopyRefused,
    Rule::RecordsWhoOwes,
    Rule::SentBeforeRemoved,
    Rule::MissingIsNotDone,
    Rule::ClosedToReleases,
];

/// What must hold. The first promise that a run breaks is kept in the state.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Promise {
    /// A token is given to one task.
    OneTaskAToken,
    /// A task is put once.
    PutOnce,
    /// Only tokens that were given are taken.
    TakenOfGiven,
    /// One call takes once.
    TakenOnce,
    /// Nothing is released from a closed list.
    ClosedIsClosed,
    /// Only what is released is sent.
    OnlyReleased,
    /// When all processes have ended and sweep has run, what was released is sent, and nothing else has left the list.
    NothingLost,
}

impl Promise {
    /// What a run that breaks it has done.
    #[must_use]
    pub const fn broken(self) -> &'static str {
        match self {
            Self::OneTaskAToken => "two tasks have one token",
            Self::PutOnce => "a task is put twice",
            Self::TakenOfGiven => "a token is taken that was never given",
            Self::TakenOnce => "one call takes twice",
            Self::ClosedIsClosed => "a closed list is released",
            Self::OnlyReleased => "a task is sent that nobody released",
            Self::NothingLost => "a released task is lost",
        }
    }
}
