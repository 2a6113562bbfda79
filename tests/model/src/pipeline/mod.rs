//! The pipeline: every interleaving of the protocol's steps, for a few workflows, tasks and mishaps, all of one Target.
//!
//! What runs is the real steps. A step is a function of its message and of the answers it got, so a process is that
//! history, and its next I/O is found by running the step over it once more (`steps`). The tables, queues and
//! clocks around it are the model's. One action is one I/O of one process (`world`), or a mishap
//! ([`setting::Mishaps`]). A process dies after any write. A message comes twice. A process sleeps while its lease or
//! session is over, and goes on later. A read shows what was there before a task's latest write. stateright visits
//! every state that can be reached so, and looks for one that breaks a promise ([`promises`]).
//!
//! Each rule below can be removed (`rules`); then a promise is broken, and the checker tells how. A rule is removed in
//! the tables or queues, never in a step's code.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `FenceAtAdvance`, `OpenBatchNamed`, `Void`, `ReleaseAtSeq` | a candidate is added after a takeover |
//! | `Revision` | members change after the freeze |
//! | `IntentFirst`, `FinishNeverTrim`, `Round`, `VoidedReturn` | a task names a batch that does not have it |
//! | `ExpressVoid` | a batch is to be called with a task that is not in it |
//! | `PutIfAbsent`, `ReturnConditional` | a task is a member of two batches in one round |
//! | `ClaimAtSettling` | an outcome is recorded twice |
//! | `ClaimCounts`, `PartsNoted` | a batch is called more often than its route allows |
//! | `FenceAtRelease`, `AcquireUnchanged`, `SignalAtRelease`, `SignalConditional` | a signal is left to a timer |
//! | `BeatUnchanged` | a session is ended although it was renewed |
//! | `AcknowledgeLast`, `LoserComesBack` | a task is lost, or a lock stays held |
//!
//! To keep the space finite and small:
//!
//! * Time stands still, and what is over in time is so by an action. A message that would only go round until then
//!   waits for it, and counters that only stretch a delay are cut off.
//! * What commutes with everything that others do is done at once: sending, opening a session.
//! * In most settings calls begin when grouping has come to rest except for sleepers, one batch's after the other's,
//!   and workflows that are alike begin in their order ([`setting`] says which have it otherwise).
//! * An event comes again whole, beside itself, or its messages come again one by one; never in other company, and what
//!   of it is acknowledged is acknowledged when all of it is.
//!
//! Not covered:
//!
//! * Gates and sweep ([`crate::gates`] has both), pulled routes, and more than one Target.
//! * A downstream that refuses. Only a batch that lost its workers is taken apart.
//! * Ports that answer with an error. A lost answer is a crash after the write.
//! * Messages that might go round for ever. A run that stops before its end is found, one that never ends is not.
//!
//! A process dies only after a write; one that dies before its first is a message that comes twice. Two things are left
//! to others. That all members have returned may be marked late, by sweep. A leader that dies just when another
//! delivery of its message has found nothing to do holds its lock until the lease is over.

mod action;
mod choices;
pub mod model;
pub mod promises;
mod rules;
pub mod setting;
mod state;
mod tables;
mod turn;
mod world;
