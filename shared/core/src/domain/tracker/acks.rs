//! What one call acks, group by group.

use std::collections::BTreeMap;

use super::{ItemRange, Mark, NoItem, NodeId, Place};
use crate::domain::id::TrackerId;

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Succeeded,
    /// It failed for good.
    Failed,
}

/// Items of one tracker with what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    groups: BTreeMap<u32, BTreeMap<u16, Outcome>>,
}

impl Acks {
    /// Collects ranges of a tracker's items. The same item may be named twice, with one outcome.
    ///
    /// # Errors
    /// [`NoItem`] with the position of the first range that cannot be acked here.
    pub fn collect<'a>(
        tracker: &TrackerId,
        ranges: impl IntoIterator<Item = (&'a ItemRange, Outcome)>,
    ) -> Result<Self, (usize, NoItem)> {
        let mut acks = Self::default();
        for (position, (range, outcome)) in ranges.into_iter().enumerate() {
            if range.tracker != *tracker {
                return Err((position, NoItem("is an item of another tracker")));
            }
            for place in range.places() {
                if acks.add(place, outcome) != outcome {
                    return Err((position, NoItem("is named as succeeded and as failed")));
                }
            }
        }
        Ok(acks)
    }

    /// Adds an item; the first outcome of it counts, and is returned.
    pub fn add(&mut self, place: Place, outcome: Outcome) -> Outcome {
        *self.groups.entry(place.group).or_default().entry(place.index).or_insert(outcome)
    }

    /// Leaves out the items from `items` on, and says how many these were.
    pub fn truncate(&mut self, items: u64) -> u64 {
        let before = self.len();
        for (group, indexes) in &mut self.groups {
            indexes.retain(|index, _| Place { group: *group, index: *index }.number() < items);
        }
        self.groups.retain(|_, indexes| !indexes.is_empty());
        before - self.len()
    }

    /// How many items they are.
    pub fn len(&self) -> u64 {
        self.groups.values().map(|indexes| indexes.len() as u64).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The last item. A tracker that has it has them all.
    pub fn last(&self) -> Option<Place> {
        let (group, indexes) = self.groups.last_key_value()?;
        indexes.last_key_value().map(|(index, _)| Place { group: *group, index: *index })
    }

    /// What is to be marked, group by group.
    pub fn marks(&self) -> impl Iterator<Item = (NodeId, Vec<Mark>)> {
        self.groups.iter().map(|(group, indexes)| {
            let mark =
                |(bit, outcome): (&u16, &Outcome)| Mark { bit: *bit, failures: u64::from(*outcome == Outcome::Failed) };
            (NodeId::group(*group), indexes.iter().map(mark).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> ItemRange {
        ItemRange::parse(text).unwrap()
    }

    #[test]
    fn an_item_cannot_have_both_outcomes() {
        let tracker = TrackerId::new("t");
        let ranges = [range("t:0:0-9"), range("t:1:3"), range("t:0:9")];
        let all = |last| ranges.iter().zip([Outcome::Succeeded, Outcome::Failed, last]);
        let acks = Acks::collect(&tracker, all(Outcome::Succeeded)).unwrap();
        assert_eq!((acks.len(), acks.last()), (11, Some(Place { group: 1, index: 3 })));
        assert_eq!(Acks::collect(&tracker, all(Outcome::Failed)).unwrap_err().0, 2);
        assert_eq!(Acks::collect(&TrackerId::new("u"), all(Outcome::Failed)).unwrap_err().0, 0);
    }

    #[test]
    fn items_beyond_the_last_are_left_out() {
        let ranges = [range("t:0:7160-7167"), range("t:1:0-4")];
        let mut acks =
            Acks::collect(&TrackerId::new("t"), ranges.iter().map(|range| (range, Outcome::Failed))).unwrap();
        assert_eq!(acks.truncate(7_170), 3);
        assert_eq!(acks.last(), Some(Place { group: 1, index: 1 }));
        assert_eq!(acks.truncate(0), 10);
        assert!(acks.is_empty());
    }
    #[test]
    fn marks_say_of_each_item_whether_it_failed() {
        let ranges = [range("t:0:3-4"), range("t:1:0")];
        let outcomes = [Outcome::Failed, Outcome::Succeeded];
        let acks = Acks::collect(&TrackerId::new("t"), ranges.iter().zip(outcomes)).unwrap();
        let marks: Vec<(u32, u16, u64)> = acks
            .marks()
            .flat_map(|(node, marks)| marks.into_iter().map(move |mark| (node.index, mark.bit, mark.failures)))
            .collect();
        assert_eq!(marks, [(0, 3, 1), (0, 4, 1), (1, 0, 0)]);
    }
}
