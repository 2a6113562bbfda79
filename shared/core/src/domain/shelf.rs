//! How far sweeps have come in what they look through.
//!
//! Sweep looks through *shelves*: indexes, each in parts. It visits a bounded number of a part's entries and leaves a
//! *bookmark* there, from which the next sweep goes on. Behind the last entry it begins again with the first. So each
//! entry is visited once in every round, however many before it cannot move, and whatever becomes of a single sweep:
//! one that dies leaves the bookmark where it was, and of two at once either one's counts. A part that one sweep gets
//! through has no bookmark.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// What is looked through as one, with its bookmarks in one item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shelf {
    /// The pools of sessions.
    Sessions,
    /// The index of waiting tasks.
    Waiting,
    /// The index of what is due.
    Due,
    /// The index of unfinished batches.
    Batches,
    /// The index of trackers.
    Trackers,
    /// The index of lists.
    Lists,
    /// The index of streams.
    Streams,
}

impl Shelf {
    /// The key that its bookmarks are stored under, beside the locks and gates: no Target begins so.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Sessions => "#sweep:sessions",
            Self::Waiting => "#sweep:waiting",
            Self::Due => "#sweep:due",
            Self::Batches => "#sweep:batches",
            Self::Trackers => "#sweep:trackers",
            Self::Lists => "#sweep:lists",
            Self::Streams => "#sweep:streams",
        }
    }
}

/// A position in an index, as its store writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position(pub String);

/// Where sweeps stand in one part of a shelf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[must_use]
pub struct Bookmark {
    /// Behind which entry the next sweep goes on; none begins with the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Position>,
    /// When the present round began.
    pub began: Timestamp,
    /// Every entry that was there then has been visited since.
    pub since: Timestamp,
}

/// The bookmarks of a shelf, by the names of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bookmarks(pub BTreeMap<String, Bookmark>);

impl Bookmark {
    /// Where a sweep that comes each `every_ms` begins. Without a bookmark the sweep before it visited everything.
    pub fn taken_up(kept: Option<&Self>, now: Timestamp, every_ms: u64) -> Self {
        match kept {
            None => Self { after: None, began: now, since: Timestamp(now.0.saturating_sub(every_ms)) },
            Some(kept) if kept.after.is_none() => Self { began: now, ..kept.clone() },
            Some(kept) => kept.clone(),
        }
    }

    /// All entries up to this one were visited.
    pub fn moved_to(self, visited: Position) -> Self {
        Self { after: Some(visited), ..self }
    }

    /// The last entry was visited, and the round is over.
    pub fn ended(self) -> Self {
        Self { after: None, since: self.began, ..self }
    }

    /// The index does not know the position (any more): a new round begins, and the old one has not ended.
    pub fn lost(self, now: Timestamp) -> Self {
        Self { after: None, began: now, ..self }
    }

    /// Whether the next sweep needs it, after one that began at `now`.
    pub fn is_needed(&self, now: Timestamp) -> bool {
        self.after.is_some() || self.since < now
    }

    /// For how long at most an entry was not visited, in milliseconds.
    pub const fn unvisited_ms(&self, now: Timestamp) -> u64 {
        now.since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERY_MS: u64 = 60_000;

    /// Sweeps a part of this many entries, `budget` of them a time, each minute; says when each entry was visited.
    fn visits(entries: usize, budget: usize, sweeps: u64, dies: impl Fn(u64) -> bool) -> (Vec<Vec<u64>>, Vec<u64>) {
        let (mut kept, mut visits, mut unvisited) = (None, vec![Vec::new(); entries], Vec::new());
        for sweep in 1..=sweeps {
            let now = Timestamp(sweep * EVERY_MS);
            let mut bookmark = Bookmark::taken_up(kept.as_ref(), now, EVERY_MS);
            let first = bookmark.after.as_ref().map_or(0, |after| after.0.parse::<usize>().unwrap() + 1);
            let last = (first + budget).min(entries);
            if dies(sweep) {
                visits[first..first + (last - first) / 2].iter_mut().for_each(|visited| visited.push(sweep));
                continue;
            }
            visits[first..last].iter_mut().for_each(|visited| visited.push(sweep));
            bookmark =
                if last == entries { bookmark.ended() } else { bookmark.moved_to(Position((last - 1).to_string())) };
            unvisited.push(bookmark.unvisited_ms(now));
            kept = bookmark.is_needed(now).then_some(bookmark);
        }
        (visits, unvisited)
    }

    #[test]
    fn a_part_that_one_sweep_gets_through_keeps_no_bookmark() {
        let now = Timestamp(EVERY_MS);
        let whole = Bookmark::taken_up(None, now, EVERY_MS).ended();
        assert!(!whole.is_needed(now));
        assert_eq!(whole.unvisited_ms(now), 0);
        // One that had no time for it needs one: the next must know.
        assert!(Bookmark::taken_up(None, now, EVERY_MS).is_needed(now));
    }

    #[test]
    fn a_position_that_is_lost_begins_a_round_and_ends_none() {
        let kept = Bookmark { after: Some(Position("x".to_owned())), began: Timestamp(5), since: Timestamp(3) };
        let lost = kept.lost(Timestamp(9));
        assert_eq!((lost.after, lost.began, lost.since), (None, Timestamp(9), Timestamp(3)));
    }

    proptest! {
        #[test]
        fn every_entry_is_visited_in_each_round_and_the_figure_says_how_long_that_takes(
            entries in 1_usize..200, budget in 1_usize..50, dead in proptest::collection::btree_set(1_u64..60, 0..9),
        ) {
            let round = entries.div_ceil(budget) as u64;
            let sweeps = 60 + 3 * round;
            let (visits, unvisited) = visits(entries, budget, sweeps, |sweep| dead.contains(&sweep));
            for visited in &visits {
                let gaps = visited.windows(2).map(|pair| pair[1] - pair[0]);
                prop_assert!(gaps.clone().max().unwrap_or(0) <= round + dead.len() as u64);
                prop_assert!(visited[0] <= round + dead.len() as u64);
            }
            prop_assert!(unvisited.iter().all(|ms| *ms <= (2 * round + dead.len() as u64) * EVERY_MS));
            let in_one_sweep = round == 1 && dead.is_empty();
            prop_assert_eq!(unvisited.iter().all(|ms| *ms == 0), in_one_sweep || round == 1);
        }
    }
}
