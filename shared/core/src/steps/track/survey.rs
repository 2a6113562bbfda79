//! Reading a tracker's bits: how many are done, and which.

use std::borrow::Cow;
use std::ops::Range;

use super::ack::GROUPS;
use super::{Outcome, Tracking};
use crate::domain::id::TrackerId;
use crate::domain::tracker::{
    Ending, GROUP_SIZE, ItemId, ItemRange, Node, NodeId, Place, State, Survey, Tracker, Which,
};
use crate::ports::{Env, Freshness, Outbox, Trackers};
use crate::steps::Error;
use crate::steps::cas::unless_refused;

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

/// Some of a tracker's items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// The items, in order.
    pub items: Vec<ItemId>,
    /// Where to go on, if there may be more.
    pub next: Option<Place>,
}

/// A page of items that is being filled, group by group.
struct Page<'a> {
    tracker: &'a Tracker,
    which: Which,
    limit: usize,
    items: Vec<ItemId>,
    /// The first item that was not looked at yet.
    next: Option<Place>,
    full: bool,
}

impl<'a> Page<'a> {
    fn new(tracker: &'a Tracker, which: Which, from: Option<Place>, limit: usize) -> Self {
        Self { tracker, which, limit, items: Vec::new(), next: from.or(Place::of(0)), full: false }
    }

    /// Adds a group's items; groups come in order.
    fn add(&mut self, node: &Node) -> &Self {
        let group = node.id.index;
        let skipped = |index: &u16| self.next.is_some_and(|next| group == next.group && *index < next.index);
        for index in node.positions(self.which, self.tracker.size_of(node.id)).skip_while(skipped) {
            let at = Place { group, index };
            if self.items.len() == self.limit {
                (self.next, self.full) = (Some(at), true);
                break;
            }
            self.items.push(ItemId { tracker: self.tracker.id.clone(), at });
        }
        self
    }

    const fn is_full(&self) -> bool {
        self.full
    }

    fn items(self) -> Items {
        Items { next: self.next.filter(|next| self.tracker.has(*next)), items: self.items }
    }
}

/// Nodes of one page; DynamoDB answers with a megabyte at most.
pub(super) const PAGE: usize = 500;
/// One call for items looks at this many pages at most.
const PAGES: usize = 20;
/// This many ranges of missing items, and of failed ones, are kept of a tracker's end.
pub(super) const MAX_RANGES: usize = 20;

impl<S: Trackers, Q: Outbox, E: Env> Tracking<'_, S, Q, E> {
    /// How far a tracker is. Reads all its groups, half a read unit for every four of them, unless it has ended.
    pub async fn progress(&self, id: &TrackerId) -> Outcome<Progress> {
        let tracker = unless_refused!(self.tracker(id, Freshness::Latest).await?);
        let (done, failed) = match &tracker.state {
            State::Ended(end) => (tracker.items.saturating_sub(end.missing), end.failed),
            State::Open | State::Sealed => {
                let Survey { done, failed, .. } = self.survey(&tracker, 0, Freshness::Eventual).await?;
                // Items that were added and acked after the tracker was read are for the next look.
                (done.min(tracker.items), failed.min(done).min(tracker.items))
            }
        };
        Ok(Ok(Progress { succeeded: done - failed, failed, missing: tracker.items - done, tracker }))
    }

    /// Some of a tracker's items: up to `limit`, from `from` on. Reads ten thousand groups at most; what comes back may
    /// be less than was asked for, and even nothing, before the end.
    pub async fn items(
        &self,
        tracker: &Tracker,
        which: Which,
        from: Option<Place>,
        limit: usize,
    ) -> Result<Items, Error> {
        let is_completed = matches!(&tracker.state, State::Ended(end) if end.how == Ending::Completed);
        if which == Which::Failed && is_completed && tracker.groups() > 1 {
            return self.failed_items(tracker, from, limit).await;
        }
        let mut page = Page::new(tracker, which, from, limit);
        for _ in 0..PAGES {
            let Some(from) = page.next.filter(|next| tracker.has(*next)) else { break };
            let nodes = self.store.nodes(&tracker.id, NodeId::group(from.group), PAGE, Freshness::Latest).await?;
            // After the last page come groups that nobody wrote to.
            let end = nodes.last().map_or(tracker.groups(), |last| last.id.index + 1);
            if with_unwritten(from.group..end, &nodes).any(|node| page.add(&node).is_full()) {
                break;
            }
            page.next = Some(Place { group: end, index: 0 });
        }
        Ok(page.items())
    }

    /// Items of a completed tracker that failed. All its groups are reported to the level above, which says in which of
    /// them any did.
    async fn failed_items(&self, tracker: &Tracker, from: Option<Place>, limit: usize) -> Result<Items, Error> {
        let mut page = Page::new(tracker, Which::Failed, from, limit);
        let mut parent = page.next.and_then(|from| NodeId::group(from.group).parent()).map(|(parent, _)| parent);
        while let Some(from) = parent {
            let parents = self.store.nodes(&tracker.id, from, PAGE, Freshness::Latest).await?;
            let children = parents.iter().flat_map(|parent| {
                let failed = parent.positions(Which::Failed, GROUP_SIZE);
                failed.map(|bit| NodeId::group(parent.id.index * u32::from(GROUP_SIZE) + u32::from(bit)))
            });
            let groups: Vec<NodeId> =
                children.filter(|group| page.next.is_none_or(|from| group.index >= from.group)).collect();
            for groups in groups.chunks(GROUPS) {
                let mut nodes = self.store.look(&tracker.id, groups, Freshness::Latest).await?.nodes;
                nodes.sort_by_key(|node| node.id);
                if nodes.iter().any(|node| page.add(node).is_full()) {
                    return Ok(page.items());
                }
            }
            parent = parents.last().map(|last| NodeId { index: last.id.index + 1, ..last.id });
        }
        page.next = None;
        Ok(page.items())
    }

    /// Looks at all groups, page by page, and names this many ranges of those items that need a look.
    pub(super) async fn survey(&self, tracker: &Tracker, named: usize, freshness: Freshness) -> Result<Survey, Error> {
        let mut surveyor = Surveyor::new(tracker, named);
        while let Some(from) = surveyor.next {
            let nodes = self.store.nodes(&tracker.id, from, PAGE, freshness).await?;
            surveyor.add(&nodes);
        }
        Ok(surveyor.survey)
    }
}

/// The groups of these numbers, of which some were ever written and all others are empty.
fn with_unwritten(numbers: Range<u32>, written: &[Node]) -> impl Iterator<Item = Cow<'_, Node>> {
    let mut written = written.iter().peekable();
    numbers.map(NodeId::group).map(move |id| match written.next_if(|node| node.id == id) {
        Some(node) => Cow::Borrowed(node),
        None => Cow::Owned(Node::empty(id)),
    })
}

/// Counts the groups of a tracker, page by page.
pub(super) struct Surveyor<'a> {
    tracker: &'a Tracker,
    /// This many ranges of each kind are named.
    named: usize,
    /// The next page's first node; `None` at the end.
    pub(super) next: Option<NodeId>,
    pub(super) survey: Survey,
}

impl<'a> Surveyor<'a> {
    pub(super) fn new(tracker: &'a Tracker, named: usize) -> Self {
        Self { tracker, named, next: Some(NodeId::group(0)), survey: Survey::default() }
    }

    /// Counts a page. An empty one is the last.
    pub(super) fn add(&mut self, nodes: &[Node]) {
        let Some(from) = self.next else { return };
        let end = nodes.last().map_or(self.tracker.groups(), |last| last.id.index + 1);
        for node in nodes {
            self.survey.done += u64::from(node.count());
            self.survey.failed += node.failures;
            name(&mut self.survey.failed_items, self.named, self.tracker, node, Which::Failed);
        }
        for node in with_unwritten(from.index..end, nodes) {
            if self.survey.missing_items.len() == self.named {
                break;
            }
            name(&mut self.survey.missing_items, self.named, self.tracker, &node, Which::Missing);
        }
        self.next = (!nodes.is_empty() && end < self.tracker.groups()).then_some(NodeId::group(end));
    }
}

/// Names a group's items, as at most this many ranges.
fn name(ranges: &mut Vec<ItemRange>, most: usize, tracker: &Tracker, node: &Node, which: Which) {
    let group = node.id.index;
    for index in node.positions(which, tracker.size_of(node.id)) {
        let is_full = ranges.len() == most;
        let is_next = |range: &&mut ItemRange| range.group == group && range.last + 1 == index;
        match ranges.last_mut().filter(is_next) {
            Some(range) => range.last = index,
            None if is_full => return,
            None => ranges.push(ItemRange { tracker: tracker.id.clone(), group, first: index, last: index }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::tracker::{Mark, Options};
    use crate::domain::{NotificationQueue, Timestamp};

    proptest! {
        #[test]
        fn a_survey_counts_what_is_there_and_names_what_needs_a_look(
            items in 1..30_000_u64,
            done in prop::collection::btree_map(0..30_000_u64, any::<bool>(), 0..60),
            page in 1..3_usize,
        ) {
            let options = Options { deadline: None, notify: NotificationQueue::None };
            let tracker = Tracker { items, ..Tracker::open(TrackerId::new("t"), options, Timestamp(0)) };
            let done: BTreeMap<u64, bool> = done.into_iter().filter(|(number, _)| *number < items).collect();
            let nodes: Vec<Node> = (0..5)
                .filter_map(|group| {
                    let places = done.iter().filter_map(|(number, failed)| Some((Place::of(*number)?, *failed)));
                    let here = places.filter(|(place, _)| place.group == group);
                    let mark = |(place, failed): (Place, bool)| Mark { bit: place.index, failures: u64::from(failed) };
                    let marks: Vec<Mark> = here.map(mark).collect();
                    let empty = Node::empty(NodeId::group(group));
                    empty.marking(&marks).map(|change| empty.changed(&change))
                })
                .collect();
            let mut surveyor = Surveyor::new(&tracker, MAX_RANGES);
            while let Some(from) = surveyor.next {
                let page: Vec<Node> = nodes.iter().filter(|node| node.id >= from).take(page).cloned().collect();
                surveyor.add(&page);
            }
            let Survey { done: counted, failed, missing_items, failed_items } = surveyor.survey;
            let all_failed: Vec<u64> = done.iter().filter(|(_, failed)| **failed).map(|(number, _)| *number).collect();
            let missing: Vec<u64> = (0..items).filter(|number| !done.contains_key(number)).collect();
            prop_assert_eq!((counted, failed), (done.len() as u64, all_failed.len() as u64));
            for (ranges, all) in [(missing_items, missing), (failed_items, all_failed)] {
                let named: Vec<u64> = ranges.iter().flat_map(ItemRange::places).map(Place::number).collect();
                prop_assert!(all.starts_with(&named));
                prop_assert!(ranges.len() == MAX_RANGES || named.len() == all.len());
            }
        }
    }
}
