//! Calls that failed for a reason that says nothing about the members: whether they count, and what their batch comes
//! to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Batch;
use super::bisection::Bisection;
use crate::domain::gate::FailureClass;
use crate::domain::id::TaskId;
use crate::domain::outcome::{Attempted, Reason, Said};
use crate::domain::retry::Policy;
use crate::domain::time::Timestamp;

/// Calls of a batch that use up no attempt of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Excused {
    /// How many.
    pub calls: u32,
    /// Since when the first of them failed.
    pub since: Timestamp,
    /// The pauses after them, all in all, in milliseconds.
    #[serde(default)]
    pub paused_ms: u64,
}

/// What a batch comes to whose call failed for a reason that says nothing about its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlucky {
    /// The same call is made again.
    CallAgain,
    /// It has failed too often while others were answered, so it is about some member: its parts are called instead.
    TakeApart(Bisection),
    /// The members that have used up their attempts fail, and the others go round again.
    Exhausted,
    /// The outage has lasted for as long as it is waited out.
    GiveUp,
}

impl Batch {
    /// This batch, whose call has just failed: it is excused, and earlier ones count that turned out to be its own
    /// fault.
    pub fn excused_by(self, class: FailureClass, policy: &Policy) -> Self {
        if !policy.waits_outages_out() {
            return self;
        }
        let before =
            self.excused.unwrap_or(Excused { calls: 0, since: class.since.max(self.created_at), paused_ms: 0 });
        let calls = (before.calls + 1).saturating_sub(class.is_own_fault.into());
        Self { excused: Some(Excused { calls, ..before }), ..self }
    }

    /// This batch, which pauses for so long after an excused failure, in milliseconds.
    pub fn pauses_for(mut self, pause_ms: u64) -> Self {
        if let Some(excused) = &mut self.excused {
            excused.paused_ms = excused.paused_ms.saturating_add(pause_ms);
        }
        self
    }

    /// Whether its outage has lasted for as long as it is waited out, if no call was answered since `silent_since`.
    ///
    /// A person's pause and a wait for a limit between two failures are no outage: `silent_since` is later then. Where
    /// others are answered all the time, the pauses after its own failures count instead, so that it ends.
    pub fn gives_up(&self, policy: &Policy, silent_since: Timestamp, now: Timestamp) -> bool {
        let Excused { since, paused_ms, .. } =
            self.excused.unwrap_or(Excused { calls: 0, since: self.created_at, paused_ms: 0 });
        policy.waits_outages_out() && now.since(silent_since.max(since)).max(paused_ms) >= policy.give_up_ms
    }

    /// What is recorded of each member of a batch that is called no more: those of which nothing is known fail for
    /// `reason`.
    pub fn given_up(&self, reason: &Reason) -> BTreeMap<TaskId, Said> {
        match &self.apart {
            Some(apart) => apart.given_up(&self.members, reason),
            None => self.members.iter().map(|member| (member.id.clone(), Said::Failed(reason.clone()))).collect(),
        }
    }

    /// Judges it once it is [excused](Self::excused_by).
    pub fn unlucky(
        &self,
        members: &[Attempted],
        policy: &Policy,
        bisects: bool,
        (class, reason): (FailureClass, &Reason),
        now: Timestamp,
    ) -> Unlucky {
        let is_exhausted = members.iter().any(|member| member.attempts >= policy.attempts);
        if self.gives_up(policy, class.since, now) {
            Unlucky::GiveUp
        } else if !is_exhausted || self.apart.is_some() {
            Unlucky::CallAgain
        } else if bisects && members.len() > 1 && policy.waits_outages_out() {
            Unlucky::TakeApart(Bisection::of(self.members.len(), self.counted(), reason, self.was_unanswered()))
        } else {
            Unlucky::Exhausted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::{Claim, Member};
    use crate::domain::id::{BatchId, Fence, Round, RouteName, SessionId, Target};
    use crate::domain::task::Candidate;
    use crate::domain::traits::Traits;

    const POLICY: Policy = Policy { attempts: 2, base_ms: 1, cap_ms: 1, give_up_ms: 1_000, longest_pause_ms: 1 };
    const NOW: Timestamp = Timestamp(50_000);

    fn frozen(members: u32) -> Batch {
        let traits = Traits::default();
        let candidate = |n| Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes: 4, traits };
        let candidates: Vec<Candidate> = (0..members).map(candidate).collect();
        let target = Target::of(&RouteName::new("r"), "t");
        Batch { fence: Fence(1), ..Batch::express(BatchId::new("b"), target, &candidates, NOW) }
    }

    fn called(batch: &Batch) -> Batch {
        batch.claimed(Claim { session: SessionId::new("#handlers-1/s") })
    }

    fn class(is_own_fault: bool) -> FailureClass {
        FailureClass { is_own_fault, ..FailureClass::unobserved(NOW) }
    }

    fn comes_to(batch: &Batch, bisects: bool, now: Timestamp) -> Unlucky {
        let attempted = |member: &Member| Attempted {
            id: member.id.clone(),
            attempts: batch.calls_of_each(),
            excused: 0,
            is_unsure: false,
            bytes: 4,
            traits: Traits::default(),
        };
        let members: Vec<Attempted> = batch.members.iter().map(attempted).collect();
        batch.unlucky(&members, &POLICY, bisects, (class(false), &Reason::new("http_503")), now)
    }

    #[test]
    fn an_outage_uses_up_no_attempt_and_ends_when_it_is_waited_out_no_longer() {
        let mut batch = frozen(3);
        for _ in 0..9 {
            batch = called(&batch).excused_by(class(false), &POLICY);
            assert_eq!((batch.counted(), comes_to(&batch, true, NOW)), (0, Unlucky::CallAgain));
        }
        assert_eq!(comes_to(&batch, true, NOW.plus_ms(999)), Unlucky::CallAgain);
        assert_eq!(comes_to(&batch, true, NOW.plus_ms(1_000)), Unlucky::GiveUp);
        assert_eq!(batch.excused, Some(Excused { calls: 9, since: NOW, paused_ms: 0 }));
    }

    #[test]
    fn what_was_its_own_fault_counts_and_in_the_end_it_is_taken_apart_or_fails() {
        let once = called(&called(&frozen(3)).excused_by(class(false), &POLICY)).excused_by(class(true), &POLICY);
        assert_eq!((once.counted(), comes_to(&once, true, NOW)), (1, Unlucky::CallAgain));
        let twice = called(&once).excused_by(class(true), &POLICY);
        assert_eq!(twice.counted(), 2);
        assert!(matches!(comes_to(&twice, true, NOW), Unlucky::TakeApart(_)));
        assert_eq!(comes_to(&twice, false, NOW), Unlucky::Exhausted);
        let [first, own] = [class(false), class(true)];
        let one = called(&frozen(1)).excused_by(first, &POLICY);
        let one = called(&called(&one).excused_by(own, &POLICY)).excused_by(own, &POLICY);
        assert_eq!(comes_to(&one, true, NOW), Unlucky::Exhausted, "one member has no parts");
    }

    #[test]
    fn neither_a_persons_pause_nor_a_wait_for_a_limit_counts_as_outage() {
        let failed = called(&frozen(1)).excused_by(class(false), &POLICY);
        let later = NOW.plus_ms(5_000);
        for (paused_ms, silent_since, gives_up) in
            [(0, NOW, true), (0, later, false), (999, later, false), (1_000, later, true)]
        {
            let paused = failed.clone().pauses_for(paused_ms);
            assert_eq!(paused.gives_up(&POLICY, silent_since, later), gives_up, "{paused_ms} {silent_since:?}");
        }
    }

    #[test]
    fn a_route_that_waits_no_outage_out_excuses_nothing() {
        let policy = Policy { give_up_ms: 0, ..POLICY };
        let batch = called(&frozen(2)).excused_by(class(false), &policy);
        assert_eq!((batch.counted(), batch.excused), (1, None));
        assert!(!batch.gives_up(&policy, Timestamp(0), NOW.plus_ms(u64::MAX / 2)));
    }

    #[test]
    fn a_batch_that_was_never_called_waits_from_when_it_was_made_or_its_outage_began() {
        let batch = frozen(1);
        let gives_up = |since: u64, now: u64| batch.gives_up(&POLICY, Timestamp(since), Timestamp(now));
        assert!(!gives_up(0, NOW.0 + 999) && gives_up(0, NOW.0 + 1_000));
        assert!(!gives_up(NOW.0 + 500, NOW.0 + 1_499) && gives_up(NOW.0 + 500, NOW.0 + 1_500));
    }
}
