//! What of a follow-up could not be done. A batch carries it only then, so that a repeat does just that and nothing
//! twice.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What is left of a follow-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Left {
    /// Members whose status may not be written, or of whom somebody who must hear may not have heard.
    #[serde(default, skip_serializing_if = "Positions::is_empty")]
    pub unsettled: Positions,
    /// Members whose notice is not sent.
    #[serde(default, skip_serializing_if = "Positions::is_empty")]
    pub untold: Positions,
    /// Members that are not on their way back to waiting.
    #[serde(default, skip_serializing_if = "Positions::is_empty")]
    pub unreturned: Positions,
}

impl Left {
    /// All of it, for this many members but those of whom all have `heard`.
    pub fn all(members: usize, heard: &Positions) -> Self {
        let all: Positions = (0..members).filter(|position| !heard.contain(*position)).collect();
        Self { unsettled: all.clone(), untold: all.clone(), unreturned: all }
    }

    /// What is to be done of these members, which are settled.
    pub fn of_settled(members: Positions) -> Self {
        Self { unsettled: members.clone(), untold: members, unreturned: Positions::default() }
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.unsettled.is_empty() && self.untold.is_empty() && self.unreturned.is_empty()
    }
}

/// Some members of a batch by their positions, as ranges: those of a queue that refuses are mostly all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Positions(Vec<Range<usize>>);

impl Positions {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().cloned().flatten()
    }

    /// Whether this position is among them.
    pub fn contain(&self, position: usize) -> bool {
        let after = self.0.partition_point(|range| range.end <= position);
        self.0.get(after).is_some_and(|range| range.contains(&position))
    }
}

impl FromIterator<usize> for Positions {
    fn from_iter<T: IntoIterator<Item = usize>>(positions: T) -> Self {
        let mut sorted: Vec<usize> = positions.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for position in sorted {
            match ranges.last_mut() {
                Some(last) if last.end == position => last.end += 1,
                Some(_) | None => ranges.push(position..position + 1),
            }
        }
        Self(ranges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_are_what_they_were_made_of(of in proptest::collection::btree_set(0_usize..60, 0..60)) {
            let positions: Positions = of.iter().rev().copied().collect();
            let found: BTreeSet<usize> = (0..70).filter(|position| positions.contain(*position)).collect();
            prop_assert_eq!(positions.is_empty(), of.is_empty());
            prop_assert_eq!(positions.iter().collect::<BTreeSet<_>>(), of.clone());
            prop_assert_eq!(found, of);
            prop_assert!(positions.0.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", positions);
        }
    }

    #[test]
    fn nothing_is_left_only_when_no_member_is() {
        assert!(Left::default().is_empty());
        assert!(!Left::all(1, &Positions::default()).is_empty());
        assert!(Left::all(2, &(0..2).collect()).is_empty());
        for one in [
            Left { unsettled: [0].into_iter().collect(), ..Left::default() },
            Left { untold: [0].into_iter().collect(), ..Left::default() },
            Left { unreturned: [0].into_iter().collect(), ..Left::default() },
        ] {
            assert!(!one.is_empty());
        }
    }
}
