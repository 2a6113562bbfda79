//! Finding the members for which a downstream refuses a whole batch, whose call kills its worker, or which make its
//! body too large, by halving it.
//!
//! A refused call of more than one member is made again for each half, until only single members are refused. Members
//! keep their order and halves follow from it, so a repeat makes the same calls under the same keys. One poison
//! member among n costs about 2·log2(n) calls more, k of them at most k times that.
//!
//! It knows members by their positions. So a batch whose search takes more than one claim carries it: the worker that
//! claims that batch next goes on from there. Such are those that lost their workers, where the part whose call was
//! under way counts as refused; those that failed too often while others were answered; and those whose downstream went
//! away meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Member;
use crate::domain::id::{BatchId, TaskId};
use crate::domain::outcome::{NO_RESULT, Reason, Said};

/// A batch on its way to being taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Bisection {
    /// Calls that were made of the whole batch before. All calls of its parts together count as one more.
    whole: u32,
    /// The part whose call has begun and is not answered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calling: Option<Range<usize>>,
    /// Parts to call, the next one last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending: Vec<Range<usize>>,
    /// What was said of the members of answered parts, by position, unless they succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    said: Vec<(usize, Said)>,
    /// Parts of which a call may have been carried out, though it was not answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unsure: Vec<Range<usize>>,
}

impl Bisection {
    /// Begins with a batch of this many members, called as a whole this many times and refused for `reason`. Says
    /// whether one of these calls `may_be_done`: carried out, though it was not answered.
    pub fn of(members: usize, whole: u32, reason: &Reason, may_be_done: bool) -> Self {
        let calling = Some(0..members);
        let mut bisection = Self { whole, calling, pending: Vec::new(), said: Vec::new(), unsure: Vec::new() };
        if may_be_done {
            bisection.unanswered();
        }
        bisection.refused(reason);
        bisection
    }

    /// How many calls each member was part of in this batch, all those of parts counted as one.
    pub const fn attempts(&self) -> u32 {
        self.whole + 1
    }

    /// Whether no call is left to make, and none is under way.
    pub const fn is_over(&self) -> bool {
        self.calling.is_none() && self.pending.is_empty()
    }

    /// The part whose call is under way.
    pub const fn calling(&self) -> Option<&Range<usize>> {
        self.calling.as_ref()
    }

    /// Begins the next part's call, unless one is under way.
    pub fn begin(&mut self) {
        if self.calling.is_none() {
            self.calling = self.pending.pop();
        }
    }

    /// Notes that the call under way may have been carried out, though it was not answered.
    pub fn unanswered(&mut self) {
        if !self.may_be_done() {
            self.unsure.extend(self.calling.clone());
        }
    }

    /// Returns whether an earlier call of the members of the part under way may have been carried out.
    pub fn may_be_done(&self) -> bool {
        let within = |part: &Range<usize>, of: &Range<usize>| of.start <= part.start && part.end <= of.end;
        self.calling.as_ref().is_some_and(|part| self.unsure.iter().any(|of| within(part, of)))
    }

    /// Returns whether a call of this member may have been carried out, though it was not answered.
    pub fn is_unsure_of(&self, position: usize) -> bool {
        self.unsure.iter().any(|part| part.contains(&position))
    }

    /// The part under way was refused as a whole, or its worker was lost: a single member has failed, more are halved.
    pub fn refused(&mut self, reason: &Reason) {
        let Some(part) = self.calling.take() else { return };
        if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            self.pending.extend([middle..part.end, part.start..middle]);
        } else {
            self.calling = Some(part);
            self.failed(reason);
        }
    }

    /// The part under way was refused as a whole, and its halves are not called: its members have failed.
    pub fn failed(&mut self, reason: &Reason) {
        let part = self.calling.take().unwrap_or_default();
        self.said.extend(part.map(|position| (position, Said::Failed(reason.clone()))));
    }

    /// The downstream answered for the members of the part under way. One that it passed over goes round again.
    pub fn answered(&mut self, members: &[Member], mut answer: BTreeMap<TaskId, Said>) {
        let part = self.calling.take().unwrap_or_default();
        let said = part.clone().zip(members.get(part).unwrap_or_default()).filter_map(|(position, member)| {
            let said = answer.remove(&member.id).unwrap_or_else(|| Said::again(Reason::new(NO_RESULT)));
            (said != Said::Succeeded).then_some((position, said))
        });
        self.said.extend(said);
    }

    /// The call under way failed for now: the members of its part go round again for `reason`.
    pub fn failed_for_now(&mut self, reason: &Reason) {
        let part = self.calling.take().unwrap_or_default();
        self.said.extend(part.map(|position| (position, Said::again(reason.clone()))));
    }

    /// The call under way failed, and that need not be about its part: it is called again, after all the others.
    pub fn put_back(&mut self) {
        let part = self.calling.take();
        self.pending.splice(0..0, part);
    }

    /// Whether there is more than one part to call.
    pub const fn has_others(&self) -> bool {
        self.pending.len() > 1
    }

    /// What was said of each of the members, once it is over.
    pub fn finished(&self, members: &[Member]) -> BTreeMap<TaskId, Said> {
        self.given_up(members, &Reason::new(NO_RESULT))
    }

    /// What was said of each of the members. Those of parts that are not called any more fail for `reason`.
    pub fn given_up(&self, members: &[Member], reason: &Reason) -> BTreeMap<TaskId, Said> {
        let rest = Said::Failed(reason.clone());
        let mut said: BTreeMap<usize, &Said> = self.said.iter().map(|(position, said)| (*position, said)).collect();
        said.extend(self.calling.iter().chain(&self.pending).cloned().flatten().map(|position| (position, &rest)));
        let of = |position| said.get(&position).map_or(Said::Succeeded, |said| (*said).clone());
        members.iter().enumerate().map(|(position, member)| (member.id.clone(), of(position))).collect()
    }
}

/// The `Idempotency-Key` of a part's call: the batch and the positions, counted from 1.
pub fn key(batch: &BatchId, part: &Range<usize>) -> BatchId {
    BatchId::new(format!("{batch}.{}-{}", part.start + 1, part.end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::Round;
    use crate::domain::outcome::WORKER_LOST;

    fn members(count: usize) -> Vec<Member> {
        (0..count).map(|n| Member { id: TaskId::new(format!("t{n:03}")), round: Round(0) }).collect()
    }

    /// The next part, whose call begins.
    fn next(bisection: &mut Bisection) -> Option<Range<usize>> {
        bisection.begin();
        bisection.calling().cloned()
    }

    fn succeeded(members: &[Member], part: Range<usize>) -> BTreeMap<TaskId, Said> {
        members[part].iter().map(|member| (member.id.clone(), Said::Succeeded)).collect()
    }

    proptest! {
        #[test]
        fn only_poison_fails_and_calls_stay_few(
            count in 1_usize..200, poison in proptest::collection::btree_set(0_usize..200, 0..4),
        ) {
            let members = members(count);
            let poison: Vec<_> = poison.into_iter().filter(|n| *n < count).collect();
            prop_assume!(!poison.is_empty());
            let reason = Reason::new("http_400");
            let mut bisection = Bisection::of(count, 1, &reason, false);
            let mut calls = 0;
            while let Some(part) = next(&mut bisection) {
                calls += 1;
                if poison.iter().any(|n| part.contains(n)) {
                    bisection.refused(&reason);
                } else {
                    bisection.answered(&members, succeeded(&members, part));
                }
            }
            prop_assert!(bisection.is_over());
            let said = bisection.finished(&members);
            for (n, member) in members.iter().enumerate() {
                let expected = if poison.contains(&n) { Said::Failed(reason.clone()) } else { Said::Succeeded };
                prop_assert_eq!(&said[&member.id], &expected);
            }
            let depth = usize::try_from(count.next_power_of_two().ilog2()).unwrap_or_default();
            prop_assert!(calls <= 2 * depth * poison.len(), "{} calls", calls);
        }
    }

    #[test]
    fn a_part_that_is_put_back_is_called_after_all_the_others() {
        let members = members(4);
        let mut bisection = Bisection::of(4, 1, &Reason::new("http_400"), false);
        assert_eq!(next(&mut bisection), Some(0..2));
        bisection.put_back();
        assert_eq!(next(&mut bisection), Some(2..4));
        bisection.answered(&members, succeeded(&members, 2..4));
        assert_eq!(next(&mut bisection), Some(0..2));
        bisection.answered(&members, succeeded(&members, 0..2));
        assert!(bisection.is_over());
    }

    #[test]
    fn a_part_whose_halves_are_not_called_fails_as_a_whole() {
        let members = members(4);
        let mut bisection = Bisection::of(4, 1, &Reason::new("body_too_large"), false);
        next(&mut bisection).expect("two halves");
        bisection.failed(&Reason::new("http_400"));
        assert_eq!(next(&mut bisection), Some(2..4));
        assert_eq!(
            bisection.given_up(&members, &Reason::new(WORKER_LOST))[&members[1].id],
            Said::Failed(Reason::new("http_400"))
        );
    }

    #[test]
    fn a_member_that_its_parts_answer_passes_over_goes_round_again() {
        let members = members(4);
        let mut bisection = Bisection::of(4, 1, &Reason::new("http_400"), false);
        next(&mut bisection).expect("two halves");
        bisection.answered(&members, succeeded(&members, 0..1));
        let said = bisection.given_up(&members, &Reason::new(WORKER_LOST));
        assert_eq!(said[&members[0].id], Said::Succeeded);
        assert_eq!(said[&members[1].id], Said::again(Reason::new(NO_RESULT)));
    }

    #[test]
    fn a_call_under_way_is_not_begun_again_and_its_members_are_not_known() {
        let members = members(2);
        let mut bisection = Bisection::of(2, 1, &Reason::new("http_400"), false);
        assert_eq!(next(&mut bisection), Some(0..1));
        assert_eq!(next(&mut bisection), Some(0..1));
        assert!(!bisection.is_over());
        assert_eq!(
            bisection.given_up(&members, &Reason::new(WORKER_LOST))[&members[0].id],
            Said::Failed(Reason::new(WORKER_LOST))
        );
        bisection.answered(&members, succeeded(&members, 0..1));
        assert_eq!(next(&mut bisection), Some(1..2));
    }

    #[test]
    fn a_part_may_be_done_once_a_call_of_all_its_members_was_not_answered() {
        let reason = Reason::new("http_400");
        let mut bisection = Bisection::of(8, 1, &reason, false);
        assert_eq!((next(&mut bisection), bisection.may_be_done()), (Some(0..4), false));
        bisection.unanswered();
        bisection.refused(&reason);
        assert_eq!((next(&mut bisection), bisection.may_be_done()), (Some(0..2), true), "half of what may be done");
        bisection.put_back();
        assert_eq!((next(&mut bisection), bisection.may_be_done()), (Some(2..4), true));
        bisection.failed(&reason);
        assert_eq!((next(&mut bisection), bisection.may_be_done()), (Some(4..8), false), "it was never called");
        bisection.unanswered();
        bisection.put_back();
        assert_eq!(next(&mut bisection), Some(0..2));
        bisection.failed(&reason);
        assert_eq!((next(&mut bisection), bisection.may_be_done()), (Some(4..8), true));
        let mut after_a_lost_call = Bisection::of(2, 2, &reason, true);
        assert_eq!((next(&mut after_a_lost_call), after_a_lost_call.may_be_done()), (Some(0..1), true));
    }

    #[test]
    fn a_parts_key_says_where_it_lies() {
        assert_eq!(key(&BatchId::new("b"), &(0..50)).as_str(), "b.1-50");
    }
}
