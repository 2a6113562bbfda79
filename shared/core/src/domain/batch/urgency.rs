//! In which order candidates fill a batch of a route with priorities.
//!
//! The more urgent ones go first. But of ten places one is left for the others: those that are less urgent than the
//! most urgent candidate, in the order in which their leader came to know them. So nobody starves: one with `n` of
//! these before it is taken after at most ten times `n + 1` places, however many urgent ones come.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::domain::task::Candidate;

/// This many places in a row go by urgency, and the next one to the others.
const IN_A_ROW: usize = 9;

/// A candidate's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTurn {
    /// Whose.
    pub candidate: Candidate,
    /// Its place among those that the leader knows.
    pub place: usize,
    /// How many places have gone by urgency then since one was left for the others.
    pub passed: usize,
}

/// Candidates in the order in which they fill a batch, after `passed` places in a row have gone by urgency.
pub fn in_turn(known: VecDeque<Candidate>, mut passed: usize) -> Vec<InTurn> {
    let priorities: Vec<u8> = known.iter().map(|candidate| candidate.traits.priority).collect();
    let most = priorities.iter().max().copied().unwrap_or_default();
    let mut by_urgency: Vec<(usize, u8)> = priorities.iter().copied().enumerate().collect();
    let others: Vec<usize> = by_urgency.iter().filter(|(_, own)| *own < most).map(|(place, _)| *place).collect();
    by_urgency.sort_by_key(|(_, own)| Reverse(*own));
    let (mut urgent, mut others) = (by_urgency.into_iter().map(|(place, _)| place), others.into_iter());
    let mut left: Vec<Option<Candidate>> = known.into_iter().map(Some).collect();
    let mut turns = Vec::with_capacity(left.len());
    loop {
        let waits = |place: &usize| left.get(*place).is_some_and(Option::is_some);
        let is_left_for = if passed >= IN_A_ROW { others.find(waits) } else { None };
        passed = if is_left_for.is_some() { 0 } else { (passed + 1).min(IN_A_ROW) };
        let Some(place) = is_left_for.or_else(|| urgent.find(waits)) else { return turns };
        let candidate = left.get_mut(place).and_then(Option::take);
        turns.extend(candidate.map(|candidate| InTurn { candidate, place, passed }));
    }
}

/// How many of these places are left for the others, at most.
pub const fn for_others(places: usize) -> usize {
    places.div_ceil(IN_A_ROW + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::{Round, TaskId};
    use crate::domain::traits::Traits;

    fn known(priorities: &[u8]) -> VecDeque<Candidate> {
        let candidate = |(n, priority): (usize, &u8)| {
            let traits = Traits { priority: *priority, ..Traits::default() };
            Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes: 1, traits }
        };
        priorities.iter().enumerate().map(candidate).collect()
    }

    fn places(priorities: &[u8], passed: usize) -> Vec<usize> {
        in_turn(known(priorities), passed).into_iter().map(|turn| turn.place).collect()
    }

    #[test]
    fn the_most_urgent_go_first_and_alike_ones_in_the_order_of_their_coming() {
        assert_eq!(places(&[0, 3, 0, 9, 3], 0), [3, 1, 4, 0, 2]);
        assert_eq!(places(&[0; 25], 0), (0..25).collect::<Vec<_>>());
    }

    #[test]
    fn one_place_in_ten_is_left_for_the_others() {
        let mut priorities = [9; 40];
        (priorities[38], priorities[39]) = (0, 5);
        let of = |passed| places(&priorities, passed);
        assert_eq!((of(0)[9], of(0)[19]), (38, 39), "not for those that are known longest");
        assert_eq!(of(9)[0], 38, "nine have gone before");
        let passed = |passed| in_turn(known(&priorities), passed).into_iter().map(|turn| turn.passed);
        assert_eq!(passed(7).take(4).collect::<Vec<_>>(), [8, 9, 0, 1]);
        assert_eq!(in_turn(known(&[9; 12]), 5).last().map(|turn| turn.passed), Some(9), "there were no others");
    }

    proptest! {
        #[test]
        fn everybody_has_a_turn_and_the_others_one_in_ten(
            priorities in proptest::collection::vec(0_u8..4, 0..80), before in 0_usize..10,
        ) {
            let most = priorities.iter().max().copied().unwrap_or_default();
            let mut seen = places(&priorities, before);
            for (turn, place) in seen.iter().enumerate().filter(|(_, place)| priorities[**place] < most) {
                let others = priorities[..*place].iter().filter(|own| **own < most).count();
                prop_assert!(turn < 10 * (others + 1), "the one in place {} has turn {}", place, turn);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..priorities.len()).collect::<Vec<_>>());
        }
    }
}
