//! What a batch comes to whose worker is lost: killed, or out of touch for so long that its session is over.
//!
//! Its claim was the last thing before its call, so the call may have been made, and counts. It is made again while the
//! batch has attempts left. After that nobody makes the same call again, since it may be what kills the workers: the
//! batch is taken apart where its route says so, or else all its members fail. None of them goes round again in another
//! batch: under another key the downstream could not know that it may have carried them out already.

use std::collections::BTreeMap;

use super::Batch;
use super::bisection::Bisection;
use crate::domain::id::TaskId;
use crate::domain::outcome::{Reason, Said, WORKER_LOST};

/// What to do with a batch whose worker is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Lost {
    /// Claim it and make the same call again.
    CallAgain,
    /// Claim it and call the next of its parts.
    TakeApart(Bisection),
    /// Record an outcome: nothing is left to call. This is known of its members.
    Settle(BTreeMap<TaskId, Said>),
}

impl Batch {
    /// What this batch comes to, whose worker is lost. `bisects` says whether its route takes batches apart.
    pub fn lost(&self, max_attempts: u32, bisects: bool) -> Lost {
        let reason = Reason::new(WORKER_LOST);
        let apart = match &self.apart {
            None if self.counted() < max_attempts => return Lost::CallAgain,
            None => Bisection::of(self.members.len(), self.counted(), &reason, true),
            Some(apart) => {
                let mut apart = Bisection::clone(apart);
                // The part whose call was under way, if one was.
                apart.unanswered();
                apart.refused(&reason);
                apart
            }
        };
        if bisects && !apart.is_over() {
            Lost::TakeApart(apart)
        } else {
            Lost::Settle(apart.given_up(&self.members, &reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::Claim;
    use crate::domain::id::{BatchId, Fence, Round, RouteName, SessionId, Target};
    use crate::domain::task::Candidate;
    use crate::domain::time::Timestamp;
    use crate::domain::traits::Traits;

    const ATTEMPTS: u32 = 2;

    fn claim() -> Claim {
        Claim { session: SessionId::new("#handlers-1/s") }
    }

    fn frozen(members: u32) -> Batch {
        let traits = Traits::default();
        let candidate = |n| Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes: 4, traits };
        let candidates: Vec<Candidate> = (0..members).map(candidate).collect();
        let target = Target::of(&RouteName::new("r"), "t");
        Batch { fence: Fence(1), ..Batch::express(BatchId::new("b"), target, &candidates, Timestamp(0)) }
    }

    /// Claimed as often as its route allows.
    fn exhausted(members: u32) -> Batch {
        (0..ATTEMPTS).fold(frozen(members), |batch, _| batch.claimed(claim()))
    }

    fn lost_worker() -> Said {
        Said::Failed(Reason::new(WORKER_LOST))
    }

    fn taken_apart(batch: &Batch) -> Batch {
        match batch.lost(ATTEMPTS, true) {
            Lost::TakeApart(apart) => Batch { apart: Some(Box::new(apart)), ..batch.clone() }.claimed(claim()),
            other => panic!("it is taken apart: {other:?}"),
        }
    }

    #[test]
    fn a_lost_call_is_made_again_until_the_batch_has_no_attempt_left() {
        let once = frozen(3).claimed(claim());
        assert_eq!(once.lost(ATTEMPTS, false), Lost::CallAgain);
        assert_eq!(once.lost(ATTEMPTS, true), Lost::CallAgain);
        let Lost::Settle(said) = once.claimed(claim()).lost(ATTEMPTS, false) else { panic!("it ends") };
        assert_eq!(said.into_values().collect::<Vec<_>>(), vec![lost_worker(); 3]);
    }

    #[test]
    fn a_batch_of_one_is_not_taken_apart() {
        let Lost::Settle(said) = exhausted(1).lost(ATTEMPTS, true) else { panic!("it ends") };
        assert_eq!(said, [(TaskId::new("t0"), lost_worker())].into());
    }

    #[test]
    fn a_nudge_gives_no_attempt_back() {
        let nudged = exhausted(2).nudged(Timestamp(9));
        assert!(matches!(nudged.lost(ATTEMPTS, false), Lost::Settle(_)));
    }

    /// Every worker that calls the poison member is lost, and each time another takes the batch over.
    #[test]
    fn a_member_that_kills_its_workers_is_found_and_its_neighbours_succeed() {
        for poison in 0..8 {
            let (mut batch, mut lost_workers) = (exhausted(8), ATTEMPTS);
            let said = loop {
                batch = match batch.lost(ATTEMPTS, true) {
                    Lost::CallAgain => panic!("the whole batch is called no more"),
                    Lost::Settle(said) => break said,
                    Lost::TakeApart(apart) => Batch { apart: Some(Box::new(apart)), ..batch }.claimed(claim()),
                };
                // Parts without it are answered; the one with it is never.
                let mut apart = *batch.apart.clone().expect("it is taken apart");
                while let Some(part) = apart.calling().cloned()
                    && !part.contains(&poison)
                {
                    let said = batch.members[part].iter().map(|member| (member.id.clone(), Said::Succeeded)).collect();
                    apart.answered(&batch.members, said);
                    apart.begin();
                }
                if apart.is_over() {
                    break apart.finished(&batch.members);
                }
                batch = batch.taken_apart(apart);
                lost_workers += 1;
            };
            for (n, member) in batch.members.iter().enumerate() {
                let expected = if n == poison { lost_worker() } else { Said::Succeeded };
                assert_eq!(said[&member.id], expected, "poison {poison}, member {n}");
            }
            assert!(lost_workers <= ATTEMPTS + 3, "{lost_workers} workers");
        }
    }

    #[test]
    fn calls_of_parts_count_as_one_attempt_however_many_workers_are_lost() {
        let batch = taken_apart(&taken_apart(&exhausted(4)));
        assert_eq!((batch.attempts, batch.calls_of_each()), (ATTEMPTS + 2, ATTEMPTS + 1));
    }

    #[test]
    fn a_worker_that_is_lost_between_two_parts_costs_nobody_anything() {
        let batch = taken_apart(&exhausted(2));
        let mut apart = *batch.apart.clone().expect("it is taken apart");
        apart.answered(&batch.members, [(TaskId::new("t0"), Said::Succeeded)].into());
        assert_eq!(batch.taken_apart(apart.clone()).lost(ATTEMPTS, true), Lost::TakeApart(apart));
    }

    #[test]
    fn a_route_that_takes_batches_apart_no_more_ends_one_that_was() {
        let batch = taken_apart(&exhausted(4));
        let mut apart = *batch.apart.clone().expect("it is taken apart");
        let first_two = [(TaskId::new("t0"), Said::Succeeded), (TaskId::new("t1"), Said::Succeeded)];
        apart.answered(&batch.members, first_two.into());
        let Lost::Settle(said) = batch.taken_apart(apart).lost(ATTEMPTS, false) else { panic!("it ends") };
        assert_eq!(
            said.into_values().collect::<Vec<_>>(),
            [Said::Succeeded, Said::Succeeded, lost_worker(), lost_worker()]
        );
    }
}
