//! Finding the members for which a downstream refuses a whole batch, by halving it.
//!
//! A refused call of more than one member is made again for each half, until only single members are refused. Members
//! keep their order and halves follow from it, so a repeat makes the same calls under the same keys. One poison
//! member among n costs about 2·log2(n) calls more, k of them at most k times that.

use std::collections::BTreeMap;
use std::ops::Range;

use super::id::{BatchId, TaskId};
use super::outcome::{Reason, Said};

/// A batch on its way to being taken apart.
#[derive(Debug)]
pub struct Bisection {
    members: Vec<TaskId>,
    /// Parts to call, the next one last.
    pending: Vec<Range<usize>>,
    said: BTreeMap<TaskId, Said>,
}

impl Bisection {
    /// Begins with a batch that was refused as a whole for `reason`.
    #[must_use]
    pub fn of(members: Vec<TaskId>, reason: &Reason) -> Self {
        let all = 0..members.len();
        let mut bisection = Self { members, pending: Vec::new(), said: BTreeMap::new() };
        bisection.refused(&all, reason);
        bisection
    }

    /// The part to call next, by its members' positions; `None` when every member's fate is known.
    pub fn next_part(&mut self) -> Option<Range<usize>> {
        self.pending.pop()
    }

    /// The members of a part.
    #[must_use]
    pub fn members(&self, part: &Range<usize>) -> &[TaskId] {
        self.members.get(part.clone()).unwrap_or_default()
    }

    /// A part was refused as a whole: a single member has failed, more are halved.
    pub fn refused(&mut self, part: &Range<usize>, reason: &Reason) {
        if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            self.pending.extend([middle..part.end, part.start..middle]);
        } else {
            let failed = self.members(part).to_vec().into_iter().map(|id| (id, Said::Failed(reason.clone())));
            self.said.extend(failed);
        }
    }

    /// The downstream answered for each member of a part.
    pub fn answered(&mut self, said: BTreeMap<TaskId, Said>) {
        self.said.extend(said);
    }

    /// A part's call failed for now: its members go round again for `reason`.
    pub fn failed_for_now(&mut self, part: &Range<usize>, reason: &Reason) {
        let again = self.members(part).to_vec().into_iter().map(|id| (id, Said::Retry(reason.clone())));
        self.said.extend(again);
    }

    /// What was said of the members. Those of parts that were not called any more were not asked; whoever an answer
    /// passed over is missing.
    #[must_use]
    pub fn finished(mut self) -> BTreeMap<TaskId, Said> {
        while let Some(part) = self.next_part() {
            let not_asked = self.members(&part).to_vec().into_iter().map(|id| (id, Said::NotCalled));
            self.said.extend(not_asked);
        }
        self.said
    }
}

/// The `Idempotency-Key` of a part's call: the batch and the positions, counted from 1.
#[must_use]
pub fn key(batch: &BatchId, part: &Range<usize>) -> BatchId {
    BatchId::new(format!("{batch}.{}-{}", part.start + 1, part.end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_poison_fails_and_calls_stay_few(
            count in 1_usize..200, poison in proptest::collection::btree_set(0_usize..200, 0..4),
        ) {
            let members: Vec<_> = (0..count).map(|n| TaskId::new(format!("t{n:03}"))).collect();
            let poison: Vec<_> = poison.into_iter().filter(|n| *n < count).collect();
            prop_assume!(!poison.is_empty());
            let reason = Reason::new("http_400");
            let mut bisection = Bisection::of(members.clone(), &reason);
            let mut calls = 0;
            while let Some(part) = bisection.next_part() {
                calls += 1;
                if poison.iter().any(|n| part.contains(n)) {
                    bisection.refused(&part, &reason);
                } else {
                    let said = bisection.members(&part).iter().map(|id| (id.clone(), Said::Succeeded)).collect();
                    bisection.answered(said);
                }
            }
            let said = bisection.finished();
            for (n, id) in members.iter().enumerate() {
                let expected = if poison.contains(&n) { Said::Failed(reason.clone()) } else { Said::Succeeded };
                prop_assert_eq!(&said[id], &expected);
            }
            let depth = usize::try_from(count.next_power_of_two().ilog2()).unwrap_or_default();
            prop_assert!(calls <= 2 * depth * poison.len(), "{} calls", calls);
        }
    }

    #[test]
    fn whoever_was_not_reached_was_not_asked() {
        let members = vec![TaskId::new("a"), TaskId::new("b")];
        let mut bisection = Bisection::of(members.clone(), &Reason::new("http_400"));
        let part = bisection.next_part().expect("two halves");
        bisection.failed_for_now(&part, &Reason::new("http_503"));
        let said = bisection.finished();
        assert_eq!(said[&members[0]], Said::Retry(Reason::new("http_503")));
        assert_eq!(said[&members[1]], Said::NotCalled);
    }

    #[test]
    fn a_parts_key_says_where_it_lies() {
        assert_eq!(key(&BatchId::new("b"), &(0..50)).as_str(), "b.1-50");
    }
}
