//! Members that a batch is called without: they ended after its members were final and before its first call.
//!
//! The members themselves never change once they are final, so they are named by their positions; before, a list of
//! members that changes takes their positions along. They are noted by a write of their own, or with the first claim.
//! From the first call on nobody is left out any more: the same call may have to be made again under the same key. What
//! is noted settles the member, whatever becomes of the call.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Batch, Member, Positions, Status};
use crate::domain::ended::Ended;
use crate::domain::id::TaskId;
use crate::domain::outcome::{Exception, Results};
use crate::domain::task::Task;
use crate::domain::time::Timestamp;

/// All that a batch is called without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Omitted(Vec<Omission>);

/// Members that ended alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Omission {
    /// Why.
    pub ended: Ended,
    /// When.
    pub at: Timestamp,
    /// Calls that each of them was part of in earlier rounds.
    pub attempts: u32,
    /// Which.
    pub members: Positions,
    /// The member that is called in their place, by its position, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<usize>,
    /// Whether all have heard of it. If not, the batch's follow-up tells them at the latest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told: bool,
}

/// A member that is to be left out: its position, and calls that it was part of in earlier rounds.
type Leaving = (usize, u32);

impl Omission {
    fn exception(&self) -> Exception {
        Exception::Failed { reason: self.ended.reason(), attempts: self.attempts }
    }
}

impl Batch {
    /// Whether members may still be left out of its call: none has begun.
    pub const fn is_uncalled(&self) -> bool {
        self.attempts == 0 && matches!(self.status, Status::Frozen | Status::Paused { .. })
    }

    /// How the member in this position ended, if the batch is called without it.
    pub fn omission(&self, position: usize) -> Option<&Omission> {
        self.omissions().find(|omission| omission.members.contain(position))
    }

    /// Where a member stands among the others.
    pub fn position(&self, member: &Member) -> Option<usize> {
        self.members.iter().position(|other| other == member)
    }

    /// The task that is called in the place of the member in this position, if one is.
    pub fn superseded_by(&self, position: usize) -> Option<&TaskId> {
        self.omission(position)?.by.and_then(|by| self.members.get(by)).map(|member| &member.id)
    }

    /// The newer task that is called in the place of this one, if one is.
    pub fn superseder(&self, task: &Task) -> Option<&TaskId> {
        self.superseded_by(self.position(&Member { id: task.id.clone(), round: task.round })?)
    }

    /// The ids of the members that the batch is called without.
    pub fn omitted_ids(&self) -> HashSet<&TaskId> {
        self.omitted_members().map(|(member, _)| &member.id).collect()
    }

    /// The ids of the members in whose place a newer one is called. They did not fail.
    pub fn superseded_ids(&self) -> HashSet<&TaskId> {
        let superseded = self.omitted_members().filter(|(_, omission)| omission.ended == Ended::Superseded);
        superseded.map(|(member, _)| &member.id).collect()
    }

    /// How many members the batch is called without.
    pub fn omits(&self) -> usize {
        self.omitted_members().count()
    }

    /// Whether nobody is left to be called.
    pub fn omits_all(&self) -> bool {
        self.omitted.is_some() && self.omits() == self.members.len()
    }

    /// The positions of those of whom somebody may not have heard that they ended.
    pub fn untold(&self) -> Positions {
        self.omissions().filter(|omission| !omission.told).flat_map(|omission| omission.members.iter()).collect()
    }

    /// The positions of those of whom all have heard that they ended.
    pub fn told(&self) -> Positions {
        self.omissions().filter(|omission| omission.told).flat_map(|omission| omission.members.iter()).collect()
    }

    /// The same batch, of whose omitted members all have heard; the next write keeps it.
    pub fn all_told(mut self) -> Self {
        for omission in self.omitted.iter_mut().flat_map(|omitted| &mut omitted.0) {
            omission.told = true;
        }
        self
    }

    /// The same batch with these members in place of its own, called without the same ones.
    pub(super) fn with_members(mut self, members: Vec<Member>) -> Self {
        if let Some(omitted) = &mut self.omitted {
            for omission in &mut omitted.0 {
                let kept = omission.members.iter().filter_map(|position| {
                    let member = self.members.get(position)?;
                    members.iter().position(|other| other == member)
                });
                omission.members = kept.collect();
            }
            omitted.0.retain(|omission| !omission.members.is_empty());
        }
        let omitted = self.omitted.take().filter(|omitted| !omitted.0.is_empty());
        Self { members, omitted, ..self }
    }

    /// The same batch without these members, which ended at `now`; the next write keeps it. Callers have looked whether
    /// it is filled or [uncalled](Self::is_uncalled).
    pub fn leaving_out(self, leaving: impl IntoIterator<Item = Leaving>, ended: Ended, now: Timestamp) -> Self {
        self.leaving_out_for(leaving, (ended, None), now)
    }

    /// The same, in whose place the member in the position `by` is called.
    pub(super) fn leaving_out_for(
        mut self,
        leaving: impl IntoIterator<Item = Leaving>,
        (ended, by): (Ended, Option<usize>),
        now: Timestamp,
    ) -> Self {
        let mut by_attempts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (position, attempts) in leaving.into_iter().filter(|(position, _)| self.omission(*position).is_none()) {
            by_attempts.entry(attempts).or_default().push(position);
        }
        let omissions = by_attempts.into_iter().map(|(attempts, members)| {
            let members = members.into_iter().collect();
            Omission { ended, at: now, attempts, members, by, told: false }
        });
        let mut omitted = self.omitted.take().map(|omitted| *omitted).unwrap_or_default();
        omitted.0.extend(omissions);
        self.omitted = (!omitted.0.is_empty()).then(|| Box::new(omitted));
        self
    }

    /// The same batch without those members that have expired, if no call of it has begun; the next write keeps it.
    pub fn without_expired(self, tasks: &HashMap<TaskId, Task>, now: Timestamp) -> Self {
        if !self.is_uncalled() {
            return self;
        }
        let expired = self.expired(tasks, now);
        self.leaving_out(expired, Ended::Expired, now)
    }

    /// Whether all members that are left to be called have expired. Then its call is made no more, even if it was made
    /// before without an answer: nobody wants it.
    pub fn has_expired(&self, tasks: &HashMap<TaskId, Task>, now: Timestamp) -> bool {
        let left = self.members.len() - self.omitted_members().count();
        left > 0 && self.expired(tasks, now).len() == left
    }

    /// Those that have expired, of those that are left to be called.
    fn expired(&self, tasks: &HashMap<TaskId, Task>, now: Timestamp) -> Vec<Leaving> {
        let expired = |(position, member): (usize, &Member)| {
            let task = tasks.get(&member.id).filter(|task| task.has_expired(now))?;
            self.omission(position).is_none().then_some((position, task.attempts))
        };
        self.members.iter().enumerate().filter_map(expired).collect()
    }

    /// What is recorded of the members that it is called without.
    pub(super) fn omission_results(&self) -> impl Iterator<Item = (TaskId, Exception)> {
        self.omitted_members().map(|(member, omission)| (member.id.clone(), omission.exception()))
    }

    /// The outcome of those of whom it is known before the call.
    pub fn known(&self) -> Results {
        self.omission_results().collect()
    }

    fn omissions(&self) -> impl Iterator<Item = &Omission> {
        self.omitted.iter().flat_map(|omitted| &omitted.0)
    }

    fn omitted_members(&self) -> impl Iterator<Item = (&Member, &Omission)> {
        let positions =
            self.omissions().flat_map(|omission| omission.members.iter().map(move |position| (position, omission)));
        positions.filter_map(|(position, omission)| Some((self.members.get(position)?, omission)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::{Claim, FollowUp};
    use crate::domain::id::{BatchId, Round, SessionId, Target};
    use crate::domain::task::Candidate;
    use crate::domain::traits::Traits;

    const NOW: Timestamp = Timestamp(9_000);

    fn candidate(n: u32) -> Candidate {
        Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes: 4, traits: Traits::default() }
    }

    fn frozen(members: u32) -> Batch {
        let candidates: Vec<Candidate> = (0..members).map(candidate).collect();
        Batch::express(BatchId::new("b"), Target::new("r:t"), &candidates, Timestamp(1))
    }

    fn tasks(expire: &[Option<u64>]) -> HashMap<TaskId, Task> {
        let task = |(n, at): (usize, &Option<u64>)| {
            let id = TaskId::new(format!("t{n}"));
            let task = Task::new(id.clone(), Target::new("r:t"), "{}".to_owned(), String::new(), Timestamp(1));
            (id, Task { attempts: 3, ..task.expiring(at.map(Timestamp)) })
        };
        expire.iter().enumerate().map(task).collect()
    }

    fn claimed(batch: &Batch) -> Batch {
        batch.claimed(Claim { session: SessionId::new("#handlers-1/s") })
    }

    #[test]
    fn the_expired_are_left_out_before_the_first_call_and_never_later() {
        let of = tasks(&[Some(9_001), Some(9_000), None]);
        let batch = frozen(3).without_expired(&of, NOW);
        assert_eq!([0, 1, 2].map(|n| batch.omission(n).is_some()), [false, true, false]);
        let called = claimed(&frozen(3));
        for late in [called.clone(), called.paused(NOW)] {
            assert_eq!(late.without_expired(&of, NOW).omitted, None);
        }
        assert!(
            frozen(3).paused(NOW).without_expired(&of, NOW).omitted.is_some(),
            "it stayed away, and was not called"
        );
    }

    #[test]
    fn what_is_noted_settles_a_member_whatever_becomes_of_the_call() {
        let of = tasks(&[Some(1), None]);
        let batch = claimed(&frozen(2).without_expired(&of, NOW));
        let refused = Exception::Failed { reason: crate::domain::Reason::new("http_400"), attempts: 1 };
        let all = |what: &Exception| batch.members.iter().map(|member| (member.id.clone(), what.clone())).collect();
        let returned =
            Exception::Returned { attempts: 1, is_unsure: false, delay_ms: 5, bytes: 4, traits: Traits::default() };
        for said in [Results::new(), all(&refused), all(&returned)] {
            let Status::Settled { results, follow_up: FollowUp::Pending, .. } = batch.settled(said.clone(), NOW).status
            else {
                panic!("it is settled")
            };
            let expired = Exception::Failed { reason: Ended::Expired.reason(), attempts: 3 };
            assert_eq!(results[&TaskId::new("t0")], expired);
            assert_eq!(results.get(&TaskId::new("t1")), said.get(&TaskId::new("t1")));
        }
    }

    #[test]
    fn who_is_cancelled_in_an_open_window_stays_so_whoever_else_comes_or_goes() {
        let open = Batch { status: Status::Open { until: NOW }, ..frozen(3) };
        let cancelled = open.leaving_out([(2, 0)], Ended::Cancelled, NOW);
        let left = |batch: &Batch| batch.omitted_ids().into_iter().cloned().collect::<Vec<_>>();
        let more = cancelled.with_candidates(&cancelled.members[1..], 8, &[candidate(7)]);
        assert_eq!((more.members.len(), left(&more)), (3, vec![TaskId::new("t2")]));
        assert_eq!(left(&more.frozen(more.members[1..].to_vec())), [TaskId::new("t2")]);
        assert_eq!(more.frozen(more.members[..1].to_vec()).omitted, None, "it was put elsewhere");
    }

    #[test]
    fn a_member_ends_once_and_a_batch_of_which_all_have_ended_has_nobody_to_call() {
        let batch = frozen(2).leaving_out([(0, 0)], Ended::Cancelled, Timestamp(5));
        let again = batch.clone().leaving_out([(0, 0)], Ended::Expired, NOW);
        assert_eq!((again.omitted.clone(), again.omits_all()), (batch.omitted.clone(), false));
        let both = batch.leaving_out([(0, 0), (1, 2)], Ended::Expired, NOW);
        assert!(both.omits_all() && !frozen(0).omits_all() && !frozen(2).omits_all());
        assert_eq!(both.omission(0).map(|omission| omission.ended), Some(Ended::Cancelled));
        assert_eq!(both.known().len(), 2);
    }

    #[test]
    fn who_was_told_early_is_not_told_again_and_who_ends_later_is() {
        let told = frozen(3).leaving_out([(1, 0)], Ended::Cancelled, NOW).all_told();
        assert_eq!((told.told(), told.untold()), ([1].into_iter().collect(), Positions::default()));
        let more = told.leaving_out([(2, 0)], Ended::Expired, NOW);
        assert_eq!((more.told(), more.untold()), ([1].into_iter().collect(), [2].into_iter().collect()));
    }

    #[test]
    fn a_call_that_nobody_wants_any_more_is_known_as_such() {
        let called = claimed(&frozen(2).leaving_out([(0, 0)], Ended::Cancelled, NOW)).paused(NOW);
        assert!(called.has_expired(&tasks(&[None, Some(2)]), NOW));
        assert!(!called.has_expired(&tasks(&[Some(2), None]), NOW));
        assert!(!frozen(2).has_expired(&tasks(&[Some(2), None]), NOW), "one still wants it");
        let all = frozen(1).leaving_out([(0, 0)], Ended::Cancelled, NOW);
        assert!(!all.has_expired(&tasks(&[Some(2)]), NOW), "nobody is left");
    }
}
