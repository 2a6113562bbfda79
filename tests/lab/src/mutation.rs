//! One rule of the protocol broken at a time, to show that the promises are really looked at.

use groupage_core::domain::batch::{Assumes, Batch, FollowUp, Status};

macro_rules! mutations {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A rule that is not kept. Each must be caught.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutation { $($(#[$doc])+ $name,)+ }

        impl Mutation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

mutations! {
    /// A batch is written whatever revision it has.
    WritesBatchesUnconditionally,
    /// The outcome is recorded whatever revision the batch has: a late worker's, too.
    SettlesWithoutTheClaim,
    /// A task joins a batch in whatever round it waits.
    JoinsInAnyRound,
    /// A member goes back to waiting from whatever batch it is in.
    PutsBackFromAnyBatch,
    /// A batch is frozen with all its candidates, whether they joined it or not.
    FreezesWithoutDriving,
    /// An open batch that gets candidates drops the earlier ones, whatever became of them.
    DropsCandidates,
    /// A leader names its next batch even when it leads no more.
    AdvancesWithoutTheFence,
    /// Every bid for a lock gets it.
    AcquiresHeldLocks,
    /// The pause that a downstream asked for is not written down.
    DropsPauses,
    /// A leader gives its lock up although somebody has signalled since it last looked.
    ReleasesWithoutLookingAtSignals,
    /// A loser does not ask the leader to look again.
    LosersDoNotSignal,
    /// Nobody asks whether the session that has claimed a batch lives.
    TakesOverFromTheLiving,
    /// Taking a batch over from a worker that is lost does not count as a call.
    TakeoversDoNotCount,
    /// How far a batch that lost its workers is taken apart is not written down.
    ForgetsParts,
    /// A gate is written whatever revision it has.
    WritesGatesUnconditionally,
    /// A write that does not see the whole limiter says for how long it is kept, also if a person has paused it.
    PartialWritesShortenPauses,
    /// A batch with a ticket does not look before its time whether its limit was raised.
    WaitsOutItsTicket,
    /// A task that has expired is taken for one that has not ended.
    TakesExpiredForUnended,
    /// The write that admits a call reserves no start.
    ReservesNoStart,
    /// A batch that was named but never written is passed over without a void in its place.
    LeavesNoVoid,
    /// A batch of tasks that arrive together is written with all of them, also with those that were there before.
    WritesExpressWithRepeats,
    /// A process that finds that such a batch was never written passes it over without a void in its place.
    LeavesNoExpressVoid,
    /// A task that names such a batch, which was never written, counts as done.
    TakesUnwrittenForDone,
    /// A task that names such a batch, which was written without it, stays with it.
    KeepsOutsiders,
    /// A settled batch leaves the index at once, before its follow-up.
    MarksAsDoneFirst,
    /// A message is deleted before its step has run.
    AcknowledgesFirst,
    /// Sweep never runs.
    NeverSweeps,
    /// An open tracker whose items so far are all done is taken for a sealed one.
    TakesOpenForSealed,
    /// A group is reported when its items so far are done, although it may still grow.
    ReportsGroupsThatGrow,
    /// A word of bits is written over whatever it is by then.
    MarksUnconditionally,
    /// A process that seals a tracker does not look whether all its items are done already.
    SealsWithoutLooking,
    /// Items are added without looking whether that was done under their key.
    AddsWithoutItsKey,
    /// A tracker is written whatever revision it has.
    WritesTrackersUnconditionally,
    /// A stream's watermark is committed whatever revision the stream has.
    CommitsUnconditionally,
    /// A word of events' bits is written over whatever it is by then.
    MarksEventsUnconditionally,
    /// A lane is written whatever revision it has.
    WritesLanesUnconditionally,
    /// Tasks come to their lane whatever has become of it since it was read.
    LinesUpUnconditionally,
    /// Tasks are put behind a list's tail whatever revision that has.
    PutsUnconditionally,
    /// Tasks are put without looking whether that was done under their key.
    PutsWithoutItsKey,
    /// Tokens are taken whether they are given yet or not.
    TakesPastTheTail,
    /// A taking that saw an older head than what was forgotten since is made all the same.
    AdmitsLateCopies,
    /// Nobody remembers under which key a release was made, once its tasks are on their way.
    ForgetsKeys,
    /// A reservation leaves the head at once, before it is worked off.
    ForgetsAtOnce,
    /// Tasks leave their list before they are sent.
    RemovesBeforeSending,
    /// A released task that is not to be seen counts as sent.
    TakesMissingForDone,
    /// A list is not closed, and its owner is told that it is.
    DropsClosings,
    /// A retried task's lane takes a late copy of its earlier outcome for the outcome of the retry.
    ForgetsRetriesOfLanes,
    /// A home's leader gathers from the home alone.
    OverlooksShards,
}

impl Mutation {
    /// What becomes of a batch's write: `None` if it is not made.
    pub(crate) fn of_store(self, batch: &Batch, assumes: Assumes, old: Option<&Batch>) -> Option<(Batch, Assumes)> {
        let is_outcome = matches!(batch.status, Status::Settled { follow_up: FollowUp::Pending, .. });
        let anyway = || old.map_or(Assumes::Absent, |old| Assumes::At(old.revision));
        match (self, assumes) {
            (Self::FreezesWithoutDriving, Assumes::At(_)) if batch.status == Status::Frozen => {
                let candidates = old.map_or_else(Vec::new, |old| old.members.clone());
                Some((Batch { members: candidates, ..batch.clone() }, assumes))
            }
            (Self::DropsCandidates, Assumes::At(_)) if matches!(batch.status, Status::Open { .. }) => {
                let was_there = |member| old.is_some_and(|old| old.members.contains(member));
                let members = batch.members.iter().filter(|member| !was_there(member)).cloned().collect();
                Some((Batch { members, ..batch.clone() }, assumes))
            }
            (Self::WritesBatchesUnconditionally, Assumes::At(_)) => Some((batch.clone(), anyway())),
            (Self::SettlesWithoutTheClaim, Assumes::At(_)) if is_outcome => Some((batch.clone(), anyway())),
            (Self::TakeoversDoNotCount, Assumes::At(_)) if batch.claimed_by().is_some() => {
                let attempts = old.filter(|old| old.claimed_by().is_some()).map_or(batch.attempts, |old| old.attempts);
                Some((Batch { attempts, ..batch.clone() }, assumes))
            }
            (Self::ForgetsParts, _) => Some((Batch { apart: None, ..batch.clone() }, assumes)),
            (Self::LeavesNoVoid, Assumes::Absent) if batch.status == Status::Void => None,
            (Self::MarksAsDoneFirst, _) if is_outcome => {
                Some((Batch { revision: batch.revision, ..batch.followed_up() }, assumes))
            }
            _ => Some((batch.clone(), assumes)),
        }
    }
}
