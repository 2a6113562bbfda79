//! In which order candidates fill a batch of a route with priorities.
//!
//! The more urgent ones go first. But of ten tasks one is the one that its leader has known longest, so that the rest
//! does not starve: whichever it is, a task with `n` others known before it is taken after ten times `n` at the latest.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::domain::task::Candidate;

/// This many places in a row go to the most urgent, and the next one to the oldest.
const IN_A_ROW: usize = 9;

/// Candidates in the order in which they fill a batch, each with its place among those that a leader knows. `passed`
/// says how many places have gone by urgency since the oldest had one.
pub fn in_turn(known: VecDeque<Candidate>, mut passed: usize) -> Vec<(usize, Candidate)> {
    let count = known.len();
    let mut left: Vec<Option<Candidate>> = known.into_iter().map(Some).collect();
    let priority = |place: &usize| left.get(*place).and_then(Option::as_ref).map(|known| known.traits.priority);
    let mut by_urgency: Vec<usize> = (0..count).collect();
    by_urgency.sort_by_key(|place| Reverse(priority(place)));
    let (mut urgent, mut oldest) = (by_urgency.into_iter(), 0..count);
    let mut turns = Vec::with_capacity(count);
    while turns.len() < count {
        let is_for_oldest = passed >= IN_A_ROW;
        passed = if is_for_oldest { 0 } else { passed + 1 };
        let next = if is_for_oldest { oldest.next() } else { urgent.next() };
        let taken = next.and_then(|place| Some((place, left.get_mut(place)?.take()?)));
        match taken {
            Some(turn) => turns.push(turn),
            // It had its turn the other way.
            None => passed = if is_for_oldest { IN_A_ROW } else { passed - 1 },
        }
    }
    turns
}

/// How many places have gone by urgency since the oldest had one, after `taken` more have.
pub const fn passed(before: usize, taken: usize) -> usize {
    (before + taken) % (IN_A_ROW + 1)
}

/// How many of so many places go to the oldest, at most.
pub const fn for_oldest(places: usize) -> usize {
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
        in_turn(known(priorities), passed).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn the_most_urgent_go_first_and_alike_ones_in_the_order_of_their_coming() {
        assert_eq!(places(&[0, 3, 0, 9, 3], 0), [3, 1, 4, 0, 2]);
        assert_eq!(places(&[0; 25], 0), (0..25).collect::<Vec<_>>());
    }

    #[test]
    fn one_place_in_ten_goes_to_the_oldest() {
        let mut priorities = [9; 40];
        priorities[0] = 0;
        priorities[1] = 0;
        let places = places(&priorities, 0);
        assert_eq!((places[9], places[19]), (0, 1));
        assert_eq!(self::places(&priorities, 9)[0], 0, "nine have gone before");
        assert_eq!((passed(0, 9), passed(9, 1), passed(3, 27)), (9, 0, 0));
    }

    proptest! {
        #[test]
        fn everybody_has_a_turn_within_ten_times_its_place(
            priorities in proptest::collection::vec(0_u8..4, 0..80), before in 0_usize..10,
        ) {
            let turns = in_turn(known(&priorities), before);
            let mut seen: Vec<usize> = turns.iter().map(|(place, _)| *place).collect();
            for (turn, place) in seen.iter().enumerate() {
                prop_assert!(turn < 10 * (place + 1), "the one in place {} has turn {}", place, turn);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..priorities.len()).collect::<Vec<_>>());
        }
    }
}
