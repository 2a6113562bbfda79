//! The rules that can be taken away, to see which promise each of them keeps.

/// A rule of the protocol. Removing one changes what the tables or the queues do, never a step's code.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Rule {
    /// A leader names its next batch only if the lock is still held under its fence.
    FenceAtAdvance,
    /// A leader releases the lock only if it is still held under its fence.
    FenceAtRelease,
    /// Every write of a batch is conditional on its revision.
    Revision,
    /// Recording an outcome is conditional on the revision that the claim made.
    ClaimAtSettling,
    /// Candidates are written into the batch before any is moved.
    IntentFirst,
    /// Whoever finishes a batch moves candidates that still wait, instead of leaving them out.
    FinishNeverTrim,
    /// A move is conditional on the round in which the task was seen.
    Round,
    /// A release is conditional on no signal since the last look.
    SignalAtRelease,
    /// A release is conditional on the latest batch being the one that the leader has just handed on: another delivery
    /// of its message may have named the next one.
    ReleaseAtSeq,
    /// Whoever takes a lock over keeps the open batch named until it is finished.
    OpenBatchNamed,
    /// A batch that was named but never written is made void before it is passed over.
    Void,
    /// A batch that tasks name from the beginning, and that was never written, is made void before they go back to waiting.
    ExpressVoid,
    /// A task that names such a void goes back to waiting.
    VoidedReturn,
    /// A message is acknowledged only after the next one is durable.
    AcknowledgeLast,
    /// An acquisition is conditional on the lock being as it was seen.
    AcquireUnchanged,
    /// A signal is conditional on the holder and fence that were seen.
    SignalConditional,
    /// A task is put only if none has its id.
    PutIfAbsent,
    /// A return to waiting is conditional on the batch and the round.
    ReturnConditional,
    /// A session is ended only at the beat that was seen.
    BeatUnchanged,
    /// A workflow that loses an election comes back.
    LoserComesBack,
    /// Home's leader looks for tasks in every shard.
    EveryShard,
}

/// Every rule.
pub const ALL: [Rule; 21] = [
    Rule::FenceAtAdvance,
    Rule::FenceAtRelease,
    Rule::Revision,
    Rule::ClaimAtSettling,
    Rule::IntentFirst,
    Rule::FinishNeverTrim,
    Rule::Round,
    Rule::SignalAtRelease,
    Rule::ReleaseAtSeq,
    Rule::OpenBatchNamed,
    Rule::Void,
    Rule::ExpressVoid,
    Rule::VoidedReturn,
    Rule::AcknowledgeLast,
    Rule::AcquireUnchanged,
    Rule::SignalConditional,
    Rule::PutIfAbsent,
    Rule::ReturnConditional,
    Rule::BeatUnchanged,
    Rule::LoserComesBack,
    Rule::EveryShard,
];

/// A set of rules that are not kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Removed(u32);

impl Removed {
    /// All rules are kept.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(0)
    }

    /// All but one are kept.
    #[must_use]
    pub const fn only(rule: Rule) -> Self {
        Self(1 << rule as u32)
    }

    /// Whether a rule is kept.
    #[must_use]
    pub const fn keeps(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) == 0
    }
}
