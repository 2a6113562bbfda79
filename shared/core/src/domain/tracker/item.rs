//! The ids of items: `tracker:group:index`, made by the caller that added them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::GROUP_SIZE;
use crate::domain::id::{TrackerId, stored_as_text};

/// One item of a tracker. Its sender makes its id from what adding answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display)]
#[serde(try_from = "String", into = "String")]
#[display("{tracker}:{}:{}", at.group, at.index)]
pub struct ItemId {
    /// The tracker.
    pub tracker: TrackerId,
    /// Where it is in there.
    pub at: Place,
}

/// Where an item is: the group and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The group, counted from 0.
    pub group: u32,
    /// The position, below [`GROUP_SIZE`].
    pub index: u16,
}

/// Consecutive items of one group, as `tracker:group:first-last`; one item is a range, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ItemRange {
    /// The tracker.
    pub tracker: TrackerId,
    /// The group, counted from 0.
    pub group: u32,
    /// The first position.
    pub first: u16,
    /// The last position, this one included.
    pub last: u16,
}

/// A text is no item's id, or no range; says which rule it breaks, without repeating it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoItem(pub &'static str);

impl Place {
    /// The place of the `number`-th item of a tracker, counted from 0; `None` if no tracker has that many.
    pub fn of(number: u64) -> Option<Self> {
        let size = u64::from(GROUP_SIZE);
        Some(Self { group: u32::try_from(number / size).ok()?, index: u16::try_from(number % size).ok()? })
    }

    /// How many items come before it.
    pub fn number(self) -> u64 {
        u64::from(self.group) * u64::from(GROUP_SIZE) + u64::from(self.index)
    }
}

impl ItemId {
    /// Reads an item's id.
    pub fn parse(text: &str) -> Result<Self, NoItem> {
        let range = ItemRange::parse(text)?;
        if text.rsplit(':').next().is_some_and(|index| index.contains('-')) {
            return Err(NoItem("names a range, where one item is expected: tracker:group:index"));
        }
        Ok(Self { tracker: range.tracker, at: Place { group: range.group, index: range.first } })
    }
}

impl ItemRange {
    /// Reads a range of items, or one item.
    pub fn parse(text: &str) -> Result<Self, NoItem> {
        const SHAPE: NoItem = NoItem("an item's id is tracker:group:index, a range's tracker:group:first-last");
        let mut parts = text.split(':');
        let (Some(tracker), Some(group), Some(positions), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SHAPE);
        };
        let tracker = TrackerId::parse(tracker).map_err(NoItem)?;
        let (first, last) = positions.split_once('-').unwrap_or((positions, positions));
        // Digits alone: parsing would take a sign as well.
        let digits =
            |text: &str| !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
        if ![group, first, last].into_iter().all(digits) {
            return Err(SHAPE);
        }
        let group = group.parse().map_err(|_| NoItem("the group is beyond those that any tracker has"))?;
        let index = |text: &str| match text.parse::<u16>() {
            Ok(index) if index < GROUP_SIZE => Ok(index),
            Ok(_) | Err(_) => Err(NoItem("the index is beyond a group's 7168 items")),
        };
        let (first, last) = (index(first)?, index(last)?);
        if first > last {
            return Err(NoItem("the range ends before it begins"));
        }
        Ok(Self { tracker, group, first, last })
    }

    /// How many items it has.
    pub fn len(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Never: a range has one item at least.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The places of its items.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let group = self.group;
        (self.first..=self.last).map(move |index| Place { group, index })
    }
}

impl fmt::Display for ItemRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tracker, group, first, last } = self;
        if first == last {
            write!(f, "{tracker}:{group}:{first}")
        } else {
            write!(f, "{tracker}:{group}:{first}-{last}")
        }
    }
}

stored_as_text!(ItemId, NoItem);
stored_as_text!(ItemRange, NoItem);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_item_is_refused() {
        for text in [
            "",
            "t",
            "t:1",
            "t:1:2:3",
            "t::2",
            "t:1:",
            ":1:2",
            "t:-1:2",
            "t:1:+2",
            "t:1:7168",
            "t:1:65536",
            "t:4294967296:0",
            "t:9007199254740992:0",
            "t:1:5-3",
            "t:1:3-",
            "t:1:-3",
            "t:1:1-2-3",
            "ä:1:2",
            "t:00000000001:2",
            "a b:1:2",
        ] {
            assert!(ItemRange::parse(text).is_err(), "{text}");
            assert!(ItemId::parse(text).is_err(), "{text}");
        }
        assert!(ItemId::parse("t:1:2-3").is_err());
        assert!(ItemId::parse("catalog-2026_11:1:2").is_ok(), "a tracker's id may hold a dash");
    }

    proptest! {
        #[test]
        fn an_items_id_round_trips(tracker in "[A-Za-z0-9_-]{1,64}", number in 0..super::super::MAX_ITEMS) {
            let item = ItemId { tracker: TrackerId::new(tracker), at: Place::of(number).unwrap() };
            prop_assert_eq!(item.at.number(), number);
            prop_assert_eq!(ItemId::parse(&item.to_string()), Ok(item));
        }

        #[test]
        fn a_range_round_trips(first in 0..GROUP_SIZE, more in 0..GROUP_SIZE, group in any::<u32>()) {
            let last = (first + more).min(GROUP_SIZE - 1);
            let range = ItemRange { tracker: TrackerId::new("a-1"), group, first, last };
            prop_assert_eq!(range.places().count() as u64, range.len());
            prop_assert!(!range.is_empty());
            prop_assert_eq!(ItemRange::parse(&range.to_string()), Ok(range));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".*") {
            let _ = ItemRange::parse(&text);
        }
    }
}
