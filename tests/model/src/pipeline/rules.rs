//! The rules that can be taken away, to see which promise each of them keeps.

use crate::harness::claims::rules;
use crate::pipeline::promises::Promise;
use crate::pipeline::setting::{COPY, CRASH, Mishaps, NONE, SLEEP, Setting, apart, express, one, only, pair};

rules! { Setting;
    /// A leader names its next batch only if the lock is still held under its fence.
    FenceAtAdvance: Setting { max_items: 1, one_batch_each: false, ..pair(SLEEP) } => NoCandidateAfterTakeover,
    /// A leader releases the lock only if it is still held under its fence.
    FenceAtRelease: pair(SLEEP) => SignalsAnswered,
    /// Every write of a batch is conditional on its revision.
    Revision: pair(SLEEP) => MembersFixed,
    /// Recording an outcome is conditional on the revision that the claim made.
    ClaimAtSettling: one(Mishaps { sleeps: 1, ..COPY }) => OneOutcome,
    /// A claim counts as a call, also one that is taken over.
    ClaimCounts: only(CRASH) => CalledAsAllowed,
    /// How far a batch that lost its workers is taken apart is written down.
    PartsNoted: apart(Mishaps { crashes: 2, ..NONE }) => CalledAsAllowed,
    /// Candidates are written into the batch before any is moved.
    IntentFirst: pair(CRASH) => NamedIsMember,
    /// The process that finishes a batch moves candidates that still wait, instead of leaving them out.
    FinishNeverTrim: pair(CRASH) => NamedIsMember,
    /// A move is conditional on the round in which the task was seen.
    Round: pair(Mishaps { failures: 1, ..SLEEP }) => NamedIsMember,
    /// A release is conditional on no signal since the last look.
    SignalAtRelease: pair(NONE) => SignalsAnswered,
    /// A release is conditional on the latest batch being the one that the leader has just handed on: another delivery
    /// of its message may have named the next one.
    ReleaseAtSeq: pair(Mishaps { lags: 1, ..CRASH }) => NoCandidateAfterTakeover,
    /// A workflow that takes a lock over keeps the open batch named until it is finished.
    OpenBatchNamed: pair(SLEEP) => NoCandidateAfterTakeover,
    /// A batch that was named but never written is made void before it is passed over.
    Void: pair(SLEEP) => NoCandidateAfterTakeover,
    /// A batch that tasks name from the beginning, and that was never written, is made void before they go back to
    /// waiting.
    ExpressVoid: express(2, COPY) => MembersName,
    /// A task that names such a void goes back to waiting.
    VoidedReturn: express(2, CRASH) => NamedIsMember,
    /// A message is acknowledged only after the next one is durable.
    AcknowledgeLast: one(CRASH) => NothingLost,
    /// An acquisition is conditional on the lock being as it was seen.
    AcquireUnchanged: pair(Mishaps { sleeps: 1, ..CRASH }) => SignalsAnswered,
    /// A signal is conditional on the holder and fence that were seen.
    SignalConditional: pair(NONE) => SignalsAnswered,
    /// A task is put only if none has its id.
    PutIfAbsent: Setting { repeats: 1, ..pair(NONE) } => OneBatchARound,
    /// A return to waiting is conditional on the batch and the round.
    ReturnConditional: one(Mishaps { failures: 1, ..COPY }) => OneBatchARound,
    /// A session is ended only at the beat that was seen.
    BeatUnchanged: one(Mishaps { sleeps: 1, beats: 1, ..COPY }) => RenewedLives,
    /// A workflow that loses an election comes back.
    LoserComesBack: pair(Mishaps { lags: 1, ..NONE }) => NothingLost,
    /// Home's leader looks for tasks in every shard.
    EveryShard: Setting { shards: 2, ..pair(NONE) } => SignalsAnswered,
}
