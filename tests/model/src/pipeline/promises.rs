//! What must hold in every state, or at every write.

use groupage_core::domain::batch::{FollowUp, Status};

use crate::pipeline::tables::{Tables, is_express};
use crate::prelude::*;

promises! {
    /// One leader acts: nobody adds candidates under a term that was taken over, but to the open batch that its
    /// successor found and has not closed yet.
    NoCandidateAfterTakeover: "a candidate is added after a takeover",
    /// A task is a member of at most one batch in each round.
    OneBatchARound: "a task is a member of two batches in one round",
    /// Members never change once they are frozen.
    MembersFixed: "members change after the freeze",
    /// A task that names a batch whose members are fixed is one of them, or the message that registers it is still
    /// there.
    NamedIsMember: "a task names a batch that does not have it",
    /// A batch that no leader made is to be called only with tasks that name it.
    MembersName: "a batch is to be called with a task that is not in it",
    /// A call is made for a frozen batch, with just its members.
    CallsAsFrozen: "a call is not that of the frozen batch",
    /// A batch is called as often as its route allows, however many workers it loses, and each of its parts once.
    CalledAsAllowed: "a batch is called more often than its route allows",
    /// An outcome is recorded once, and never changed.
    OneOutcome: "an outcome is recorded twice",
    /// A task is settled only as its batch's recorded outcome says, and stays settled.
    SettledAsRecorded: "a task is settled other than its batch's outcome says",
    /// No signal is left to a timer: a lock is released only after a look that follows the last signal.
    SignalsAnswered: "a signal is left to a timer",
    /// A session that was renewed since it was seen to be over is not ended by others.
    RenewedLives: "a session is ended although it was renewed",
    /// No task is lost: when no message is left, every task is settled and the lock is free.
    NothingLost: "a task is lost, or a lock stays held",
}

/// Whether a batch's members are final.
pub const fn is_fixed(batch: &Batch) -> bool {
    match batch.status {
        Status::Open { .. } | Status::Closing => false,
        Status::Frozen
        | Status::InProgress { .. }
        | Status::Paused { .. }
        | Status::Settled { .. }
        | Status::Empty
        | Status::Void => true,
    }
}

/// What a write of a batch breaks.
pub fn broken_by_store(old: Option<&Batch>, new: &Batch) -> Option<Promise> {
    let old = old?;
    if is_fixed(old) && (!is_fixed(new) || old.members != new.members) {
        return Some(Promise::MembersFixed);
    }
    match (&old.status, &new.status) {
        // Marking how far the follow-up is leaves the recorded outcome as it is; the process that records one leaves it
        // to be done.
        (
            Status::Settled { at, results, follow_up },
            Status::Settled { at: new_at, results: new_results, follow_up: new_follow_up },
        ) if at == new_at && results == new_results && goes_on(*follow_up, *new_follow_up) => None,
        (Status::Settled { .. }, _) => Some(Promise::OneOutcome),
        _ => None,
    }
}

const fn goes_on(old: FollowUp, new: FollowUp) -> bool {
    matches!(
        (old, new),
        (FollowUp::Pending, FollowUp::Returning | FollowUp::Done) | (FollowUp::Returning, FollowUp::Done)
    )
}

/// What the tables by themselves show to be broken, given the tasks whose registration is not acknowledged yet.
pub fn broken_in(tables: &Tables, arriving: &[TaskId]) -> Option<Promise> {
    let fixed = |batch: &&Kept<Batch>| is_fixed(batch);
    for (n, batch) in tables.batches.iter().enumerate() {
        let others = tables.batches.iter().skip(n + 1).filter(fixed);
        if is_fixed(batch) && others.flat_map(|other| &other.members).any(|member| batch.members.contains(member)) {
            return Some(Promise::OneBatchARound);
        }
    }
    let names = |member: &Member, batch: &Batch| {
        tables.row(&member.id).is_some_and(|row| {
            row.now.round == member.round && row.now.status == (task::Status::Batched { batch: batch.id.clone() })
        })
    };
    let is_wrong = |batch: &&Kept<Batch>| {
        is_express(&batch.id) && batch.is_callable() && !batch.members.iter().all(|member| names(member, batch))
    };
    if tables.batches.iter().any(|batch| is_wrong(&batch)) {
        return Some(Promise::MembersName);
    }
    tables.tasks.iter().find_map(|row| {
        let task = &row.now;
        let me = Member { id: task.id.clone(), round: task.round };
        let found = task.status.batch().map(|id| tables.batches.iter().find(|batch| batch.id == *id));
        match (&task.status, found.flatten()) {
            (task::Status::Scheduled { .. } | task::Status::Queued | task::Status::Created { .. }, _)
            | (task::Status::Batched { .. }, None) => None,
            (task::Status::Batched { .. }, Some(batch)) => {
                (is_fixed(batch) && !batch.members.contains(&me) && !arriving.contains(&task.id))
                    .then_some(Promise::NamedIsMember)
            }
            (task::Status::Succeeded { .. } | task::Status::Failed { .. }, found) => {
                let failed = matches!(task.status, task::Status::Failed { .. });
                // What a batch leaves out is settled before its call.
                let is_left_out = found.is_some_and(|batch| batch.superseder(task).is_some());
                let says = found.is_some_and(|batch| match &batch.status {
                    _ if is_left_out => failed,
                    Status::Settled { results, .. } => {
                        batch.members.contains(&me) && results.contains_key(&task.id) == failed
                    }
                    _ => false,
                });
                (!says).then_some(Promise::SettledAsRecorded)
            }
        }
    })
}
