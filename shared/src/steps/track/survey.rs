//! Reading a tracker's bits: how many are done, and which.

use super::{Outcome, Tracking};
use crate::domain::id::TrackerId;
use crate::domain::tracker::{GROUP_SIZE, ItemId, ItemRange, Node, NodeId, Place, State, Survey, Tracker};
use crate::ports::{Env, Freshness, Outbox, Trackers};
use crate::steps::Error;

/// A tracker and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The tracker.
    pub tracker: Tracker,
    /// Items that succeeded.
    pub succeeded: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items that nobody has acked.
    pub missing: u64,
}

/// Which items are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that succeeded.
    Succeeded,
    /// Those that failed.
    Failed,
    /// Those that nobody has acked.
    Missing,
}

/// Some of a tracker's items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// The items, in order.
    pub items: Vec<ItemId>,
    /// Where to go on, if there may be more.
    pub next: Option<Place>,
}

/// Nodes of one page; DynamoDB answers with a megabyte at most.
const PAGE: usize = 500;
/// One call looks at so many pages at most.
const PAGES: usize = 20;
/// So many ranges of missing items are kept of a tracker's end.
const MAX_RANGES: usize = 20;

impl<S: Trackers, Q: Outbox, E: Env> Tracking<'_, S, Q, E> {
    /// How far a tracker is. Reads all its groups, half a read unit for every four of them, unless it has ended.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn progress(&self, id: &TrackerId) -> Outcome<Progress> {
        let tracker = match self.tracker(id, Freshness::Latest).await? {
            Ok(tracker) => tracker,
            Err(refused) => return Ok(Err(refused)),
        };
        let (done, failed) = match &tracker.state {
            State::Ended(end) => (tracker.items - end.missing, end.failed),
            State::Open | State::Sealed => {
                let Survey { done, failed, .. } = self.survey(&tracker, Freshness::Eventual).await?;
                (done, failed)
            }
        };
        let missing = tracker.items.saturating_sub(done);
        Ok(Ok(Progress { succeeded: done - failed, failed, missing, tracker }))
    }

    /// Some of a tracker's items: up to `limit`, from `from` on.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn items(
        &self,
        tracker: &Tracker,
        which: Which,
        from: Option<Place>,
        limit: usize,
    ) -> Result<Items, Error> {
        let mut found = Items { items: Vec::new(), next: from.or(Place::of(0)) };
        for _ in 0..PAGES {
            let Some(from) = found.next.filter(|next| tracker.has(*next)) else {
                found.next = None;
                break;
            };
            let nodes = self.store.nodes(&tracker.id, NodeId::group(from.group), PAGE, Freshness::Latest).await?;
            // Groups that nobody wrote to lie between those that were read, and after the last page.
            let end = nodes.last().map_or(tracker.items, |last| (u64::from(last.id.index) + 1) * u64::from(GROUP_SIZE));
            let mut nodes = nodes.into_iter().peekable();
            found.next = None;
            let mut number = from.number();
            while number < end.min(tracker.items) {
                let Some(at) = Place::of(number) else { break };
                while nodes.next_if(|node| node.id.index < at.group).is_some() {}
                let written = nodes.peek();
                let node = written.filter(|node| node.id.index == at.group);
                if node.is_none() && which != Which::Missing {
                    // Nothing is done there, and there may be millions of such groups.
                    number = written.map_or(end, |next| u64::from(next.id.index) * u64::from(GROUP_SIZE));
                    continue;
                }
                if is(which, node, at.index) {
                    if found.items.len() == limit {
                        found.next = Some(at);
                        return Ok(found);
                    }
                    found.items.push(ItemId { tracker: tracker.id.clone(), at });
                }
                number += 1;
            }
            found.next = Place::of(end).filter(|next| tracker.has(*next));
        }
        Ok(found)
    }

    /// Looks at all groups, page by page.
    pub(super) async fn survey(&self, tracker: &Tracker, freshness: Freshness) -> Result<Survey, Error> {
        let mut surveyor = Surveyor::new(tracker);
        while let Some(from) = surveyor.next {
            let nodes = self.store.nodes(&tracker.id, from, PAGE, freshness).await?;
            surveyor.add(&nodes);
        }
        Ok(surveyor.survey)
    }
}

fn is(which: Which, node: Option<&Node>, index: u16) -> bool {
    let done = node.is_some_and(|node| node.is_done(index));
    let failed = node.is_some_and(|node| node.has_failed(index));
    match which {
        Which::Succeeded => done && !failed,
        Which::Failed => failed,
        Which::Missing => !done,
    }
}

/// Counts the groups of a tracker, page by page.
pub(super) struct Surveyor<'a> {
    tracker: &'a Tracker,
    /// The next page's first node; `None` at the end.
    pub(super) next: Option<NodeId>,
    pub(super) survey: Survey,
}

impl<'a> Surveyor<'a> {
    pub(super) fn new(tracker: &'a Tracker) -> Self {
        Self { tracker, next: Some(NodeId::group(0)), survey: Survey::default() }
    }

    /// Counts a page. An empty one is the last.
    pub(super) fn add(&mut self, nodes: &[Node]) {
        let Some(mut expected) = self.next else { return };
        for node in nodes {
            self.missing_groups(expected, Some(node.id));
            self.survey.done += u64::from(node.count());
            self.survey.failed += node.failures;
            self.missing_in(node.id, Some(node));
            expected = NodeId::group(node.id.index + 1);
        }
        if nodes.is_empty() {
            self.missing_groups(expected, None);
        }
        self.next = (!nodes.is_empty() && self.tracker.size_of(expected) > 0).then_some(expected);
    }

    /// Groups that nobody wrote to, up to another, or to the last.
    fn missing_groups(&mut self, from: NodeId, to: Option<NodeId>) {
        let mut node = from;
        while Some(node) != to && self.tracker.size_of(node) > 0 && self.survey.missing_items.len() < MAX_RANGES {
            self.missing_in(node, None);
            node = NodeId::group(node.index + 1);
        }
    }

    fn missing_in(&mut self, id: NodeId, node: Option<&Node>) {
        let size = self.tracker.size_of(id);
        if node.is_some_and(|node| node.count() >= size) {
            return;
        }
        let mut first = None;
        for index in 0..=size {
            let missing = index < size && is(Which::Missing, node, index);
            match (first, missing) {
                (None, true) => first = Some(index),
                (Some(begin), false) => {
                    first = None;
                    if self.survey.missing_items.len() < MAX_RANGES {
                        let (tracker, group) = (self.tracker.id.clone(), id.index);
                        self.survey.missing_items.push(ItemRange { tracker, group, first: begin, last: index - 1 });
                    }
                }
                (None, false) | (Some(_), true) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::notice::NotificationQueue;
    use crate::domain::time::Timestamp;
    use crate::domain::tracker::{Mark, Options};

    proptest! {
        #[test]
        fn a_survey_counts_what_is_there_and_names_what_is_missing(
            items in 1..30_000_u64,
            done in prop::collection::btree_set(0..30_000_u64, 0..30),
            page in 1..3_usize,
        ) {
            let options = Options { deadline: None, notify: NotificationQueue::None };
            let tracker = Tracker { items, ..Tracker::open(TrackerId::new("t"), options, Timestamp(0)) };
            let done: BTreeSet<u64> = done.into_iter().filter(|number| *number < items).collect();
            let nodes: Vec<Node> = (0..5)
                .filter_map(|group| {
                    let here = done.iter().filter_map(|number| Place::of(*number)).filter(|place| place.group == group);
                    let marks: Vec<Mark> = here.map(|place| Mark { bit: place.index, failures: 0 }).collect();
                    let empty = Node::empty(NodeId::group(group));
                    empty.marking(&marks).map(|change| empty.changed(&change))
                })
                .collect();
            let mut surveyor = Surveyor::new(&tracker);
            while let Some(from) = surveyor.next {
                let page: Vec<Node> = nodes.iter().filter(|node| node.id >= from).take(page).cloned().collect();
                surveyor.add(&page);
            }
            prop_assert_eq!(surveyor.survey.done, done.len() as u64);
            let named: Vec<u64> =
                surveyor.survey.missing_items.iter().flat_map(ItemRange::places).map(Place::number).collect();
            let missing = (0..items).filter(|number| !done.contains(number));
            prop_assert!(named.iter().copied().eq(missing.take(named.len())));
            prop_assert!(surveyor.survey.missing_items.len() == MAX_RANGES || named.len() + done.len() == items as usize);
        }
    }
}
