//! Of the members with one collapse key only the newest is called; the batch is called without the others.
//!
//! It is decided with the write that makes the members final, over those that have joined. So a task is superseded only
//! by one that will be called in its place, in the same batch. A newer one that comes later is called as well. So one
//! of them is called or both, and neither only if a person cancels the newest: an older version is not called for it.

use std::collections::{HashMap, HashSet};

use super::{Batch, Member};
use crate::domain::ended::Ended;
use crate::domain::id::TaskId;
use crate::domain::time::Timestamp;
use crate::domain::traits::{Collapse, Traits};

impl Batch {
    /// The traits of one of its candidates, while it is filled.
    pub fn traits_of(&self, id: &TaskId) -> Traits {
        self.traits.as_ref().and_then(|traits| traits.get(id)).copied().unwrap_or_default()
    }

    /// This batch, whose members are final, called without those that another one of them replaces. What else is left
    /// of their traits is how urgent the most urgent is, and what they weigh.
    pub fn collapsed(self, now: Timestamp) -> Self {
        let mut newest: HashMap<u128, (usize, Collapse)> = HashMap::new();
        let keyed: Vec<(usize, Collapse)> = self
            .members
            .iter()
            .enumerate()
            .filter_map(|(position, member)| Some((position, self.traits_of(&member.id).collapse?)))
            .collect();
        for (position, collapse) in &keyed {
            let known = newest.entry(collapse.key).or_insert((*position, *collapse));
            let id = |position: usize| self.members.get(position).map(|Member { id, .. }| id);
            if let (Some(own), Some(other)) = (id(*position), id(known.0))
                && collapse.replaces(own, (&known.1, other))
            {
                *known = (*position, *collapse);
            }
        }
        let mut replaced: HashMap<usize, Vec<(usize, u32)>> = HashMap::new();
        for (position, collapse) in keyed {
            if let Some((by, _)) = newest.get(&collapse.key).filter(|(by, _)| *by != position) {
                // Each of its rounds before this one has ended with a call of it.
                let attempts = self.members.get(position).map_or(0, |member| member.round.0);
                replaced.entry(*by).or_default().push((position, attempts));
            }
        }
        let mut replaced: Vec<_> = replaced.into_iter().collect();
        replaced.sort_unstable();
        let priority = self.members.iter().map(|member| self.traits_of(&member.id).priority).max().unwrap_or_default();
        let left_out: HashSet<usize> = replaced.iter().flat_map(|(_, members)| members).map(|(of, _)| *of).collect();
        let weighs =
            |(n, member): (usize, &Member)| (!left_out.contains(&n)).then(|| self.traits_of(&member.id).weight);
        let weights: Vec<u64> = self.members.iter().enumerate().filter_map(weighs).map(u64::from).collect();
        let weight = weights.iter().any(|weight| *weight != 1).then(|| weights.iter().sum());
        let batch = Self { traits: None, priority, weight, ..self };
        replaced
            .into_iter()
            .fold(batch, |batch, (by, members)| batch.leaving_out_for(members, (Ended::Superseded, Some(by)), now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::gate::Unit;
    use crate::domain::id::{BatchId, Fence, Round, Target};
    use crate::domain::task::Candidate;

    const NOW: Timestamp = Timestamp(9_000);

    /// Candidates by their key and by when they came.
    fn candidates(of: &[(Option<u128>, u64)]) -> Vec<Candidate> {
        let candidate = |(n, (key, came)): (usize, &(Option<u128>, u64))| {
            let collapse = key.map(|key| Collapse { key, came: *came });
            let traits = Traits { collapse, ..Traits::default() };
            Candidate { id: TaskId::new(format!("t{n:03}")), round: Round(0), bytes: 1, traits }
        };
        of.iter().enumerate().map(candidate).collect()
    }

    fn open(of: &[(Option<u128>, u64)]) -> Batch {
        Batch::open(BatchId::new("b"), Target::new("r:t"), Fence(1), &candidates(of), NOW, 0)
    }

    fn replaced(batch: &Batch) -> Vec<Option<&str>> {
        (0..batch.members.len()).map(|position| batch.superseded_by(position).map(TaskId::as_str)).collect()
    }

    #[test]
    fn of_each_key_the_newest_member_is_called_and_named_by_the_others() {
        let open = open(&[(Some(7), 1), (None, 0), (Some(7), 3), (Some(8), 9), (Some(7), 2)]);
        let frozen = open.frozen(open.members.clone()).collapsed(NOW);
        assert_eq!([Unit::Calls, Unit::Items, Unit::Weight].map(|of| frozen.cost(of)), [1, 3, 3]);
        assert_eq!(replaced(&frozen), [Some("t002"), None, None, None, Some("t002")]);
        let omission = frozen.omission(4).unwrap();
        assert_eq!((omission.ended, omission.at, omission.told), (Ended::Superseded, NOW, false));
        assert_eq!((frozen.omits(), frozen.omits_all(), frozen.traits), (2, false, None));
    }

    #[test]
    fn a_batch_costs_what_those_of_its_members_weigh_that_are_called() {
        let mut all = candidates(&[(Some(7), 1), (None, 0), (Some(7), 3)]);
        for (candidate, weight) in all.iter_mut().zip([500, 20, 3]) {
            candidate.traits.weight = weight;
        }
        let batch = Batch::express(BatchId::new("b"), Target::new("r:t"), &all, NOW);
        let units = [Unit::Calls, Unit::Items, Unit::Bytes, Unit::Weight];
        assert_eq!(units.map(|of| batch.cost(of)), [1, 2, 3, 23], "bytes are those of all candidates");
    }

    #[test]
    fn a_task_is_superseded_only_by_one_that_joined() {
        let open = open(&[(Some(7), 1), (Some(7), 2), (Some(7), 3)]);
        let joined = open.members[..2].to_vec();
        let next = open.with_candidates(&joined, 2, &[]);
        assert_eq!(next.traits_of(&TaskId::new("t002")), Traits::default(), "it is elsewhere");
        for frozen in [open.frozen(joined.clone()), next.closing().frozen(joined)] {
            assert_eq!(replaced(&frozen.collapsed(NOW)), [Some("t001"), None]);
        }
    }

    #[test]
    fn an_express_batch_collapses_with_its_first_write() {
        let express =
            Batch::express(BatchId::new("b"), Target::new("r:t"), &candidates(&[(Some(1), 2), (Some(1), 1)]), NOW);
        assert_eq!(replaced(&express), [None, Some("t000")]);
    }

    proptest! {
        #[test]
        fn of_each_key_just_one_is_called_and_it_is_the_newest(
            of in proptest::collection::vec((proptest::option::of(0_u128..4), 0_u64..6), 1..40),
        ) {
            let open = open(&of);
            let frozen = open.frozen(open.members.clone()).collapsed(NOW);
            for (position, (key, came)) in of.iter().enumerate() {
                let Some(key) = key else {
                    prop_assert!(frozen.omission(position).is_none());
                    continue;
                };
                let same = || of.iter().enumerate().filter(|(_, (other, _))| *other == Some(*key));
                let called: Vec<usize> = same().map(|(n, _)| n).filter(|n| frozen.omission(*n).is_none()).collect();
                prop_assert_eq!(called.len(), 1);
                let (newest, _) = same().max_by_key(|(n, (_, came))| (*came, *n)).unwrap();
                prop_assert_eq!(called[0], newest);
                prop_assert!(position == newest || of[newest].1 >= *came);
            }
        }
    }
}
