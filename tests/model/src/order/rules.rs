//! The rules that keep the promises, and the promises.

/// A rule that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A lane is written only if it is as it was read.
    LaneAsRead,
    /// Tasks come to their lane only if that is as it was read.
    LinedUpAsRead,
    /// Nobody is given a turn for which another waits.
    FreeTurn,
    /// A task that is there does not come again.
    NewTask,
    /// Only a queued task is let in.
    LetInOnce,
    /// Only the task that has the turn hands it over.
    OwnTurn,
    /// Those who fail with a task do so before the lane goes on.
    PassedOverFirst,
    /// Whoever comes to a lane that a failure stopped waits.
    StoppedForAll,
    /// That a task waited for its turn is forgotten after its message is sent.
    SentBeforeLeft,
    /// Nobody forgets for one task that another waits for a turn.
    LeavesItsOwn,
}

/// Every rule.
pub const ALL: [Rule; 10] = [
    Rule::LaneAsRead,
    Rule::LinedUpAsRead,
    Rule::FreeTurn,
    Rule::NewTask,
    Rule::LetInOnce,
    Rule::OwnTurn,
    Rule::PassedOverFirst,
    Rule::StoppedForAll,
    Rule::SentBeforeLeft,
    Rule::LeavesItsOwn,
];

/// What must hold. The first promise that a run breaks is kept in the state.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Promise {
    /// A turn is one task's.
    OneTaskATurn,
    /// A task has its turn once.
    TurnOnce,
    /// A task is let in only when all before it in its lane are settled.
    InOrder,
    /// Behind a failure nobody is let in until a person lets the lane go on.
    StoppedIsStopped,
    /// When all processes have ended, everybody whose turn can come had it, the others failed and people are told, and
    /// nobody waits in a lane who is not queued.
    NobodyLost,
}

impl Promise {
    /// What a run that breaks it has done.
    #[must_use]
    pub const fn broken(self) -> &'static str {
        match self {
            Self::OneTaskATurn => "two tasks have one turn",
            Self::TurnOnce => "a task has its turn twice",
            Self::InOrder => "a task is let in before one ahead of it is settled",
            Self::StoppedIsStopped => "a task is let in behind a failure",
            Self::NobodyLost => "a task is lost",
        }
    }
}
