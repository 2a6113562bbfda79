//! The tables of one tracker, with every version that there ever was, and what a write breaks.

use std::collections::BTreeMap;

use groupage_core::domain::tracker::{Addition, End, Ending, State};
use groupage_core::ports::Added;

use super::setting::{Promise, Rule, Setting};
use crate::prelude::*;

/// How many versions ago a read is; 0 shows what there is.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Ago {
    /// The tracker's.
    pub tracker: u8,
    pub nodes: u8,
}

/// The tables.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    trackers: Vec<Kept<Tracker>>,
    /// The first version of a node that was not there at the beginning is none.
    pub(super) nodes: BTreeMap<NodeId, Vec<Option<Kept<Node>>>>,
    pub(super) additions: Vec<Kept<Addition>>,
    pub(super) notice: Option<Kept<String>>,
}

impl World {
    pub(super) fn of(setting: &Setting) -> Self {
        let nodes = setting.nodes().into_iter().map(|node| (node.id, vec![Some(Kept::new(node))])).collect();
        let trackers = vec![Kept::new(setting.tracker())];
        Self { trackers, nodes, additions: Vec::new(), notice: None }
    }

    pub(super) fn tracker(&self) -> &Tracker {
        &self.trackers[self.trackers.len() - 1]
    }

    pub(super) fn node(&self, id: NodeId, ago: u8) -> Option<&Kept<Node>> {
        let versions = self.nodes.get(&id)?;
        versions[versions.len().saturating_sub(1 + usize::from(ago))].as_ref()
    }

    /// Whether the notice of the tracker's end is sent.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(&self.tracker().state, State::Ended(End { told: true, .. }))
    }

    /// Whether these bits of a group are set.
    pub(super) fn is_done(&self, group: u32, bits: std::ops::RangeInclusive<u16>) -> bool {
        let node = self.node(NodeId::group(group), 0);
        node.is_some_and(|node| bits.into_iter().all(|bit| node.is_done(bit)))
    }

    /// What a read may show: `stale` says that one which must not be old may be so for once.
    pub(super) fn shown_to(
        &self,
        nodes: &[NodeId],
        freshness: Freshness,
        removed: Option<Rule>,
        stale: bool,
    ) -> Vec<Ago> {
        let trackers = 0..u8::try_from(self.trackers.len()).unwrap_or(u8::MAX);
        let most = nodes.iter().filter_map(|node| self.nodes.get(node)).map(Vec::len).max().unwrap_or(1);
        let versions = 0..u8::try_from(most).unwrap_or(u8::MAX);
        match freshness {
            Freshness::Eventual => {
                let of = |tracker| versions.clone().map(move |nodes| Ago { tracker, nodes });
                trackers.filter(|ago| self.is_first_of_its_like(*ago)).flat_map(of).collect()
            }
            Freshness::Latest if nodes.is_empty() && removed == Some(Rule::LatestTracker) && stale => {
                trackers.map(|tracker| Ago { tracker, nodes: 0 }).collect()
            }
            Freshness::Latest
                if removed == Some(Rule::LatestParent) && stale && nodes.iter().any(|node| node.level > 0) =>
            {
                versions.map(|nodes| Ago { tracker: 0, nodes }).collect()
            }
            Freshness::Latest => vec![Ago::default()],
        }
    }

    /// Of an old tracker an acker looks only at how many items it has and whether it has ended: of those that are alike
    /// in this the oldest stands for all.
    fn is_first_of_its_like(&self, ago: u8) -> bool {
        let like = |tracker: &Tracker| match &tracker.state {
            State::Open | State::Sealed => (tracker.items, None),
            State::Ended(end) => (tracker.items, Some(end.told)),
        };
        let (older, newer) = self.trackers.split_at(self.trackers.len() - 1 - usize::from(ago));
        !older.iter().any(|tracker| like(tracker) == like(&newer[0]))
    }

    /// Forgets what nobody will read any more.
    pub(super) fn forget_versions(&mut self) {
        self.trackers.drain(..self.trackers.len() - 1);
        for versions in self.nodes.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }
}

impl Act<'_, Setting> {
    pub(super) fn look(&mut self, nodes: &[NodeId], freshness: Freshness) -> (Option<Kept<Tracker>>, Vec<Kept<Node>>) {
        let (ago, is_latest) = (self.shown, freshness == Freshness::Latest);
        if is_latest && ago != Ago::default() {
            self.left.lags = 0;
        }
        let version = self.trackers.len() - 1 - usize::from(ago.tracker).min(self.trackers.len() - 1);
        let mut tracker = self.trackers[version].clone();
        let mut found: Vec<_> = nodes.iter().filter_map(|node| self.node(*node, ago.nodes).cloned()).collect();
        if self.without(Rule::SealerLooks) && self.place() == Some(0) && is_latest {
            found.clear();
        }
        let is_climbing = self.place().is_some_and(|place| place > 0) && nodes.is_empty();
        if self.without(Rule::LooksForTheSeal) && is_climbing && tracker.state == State::Open {
            tracker = Kept::new(Tracker { state: State::Sealed, ..(*tracker).clone() });
        }
        (Some(tracker), found)
    }

    pub(super) fn add(&mut self, grown: &Kept<Tracker>, addition: &Addition) -> Added {
        let before = self.additions.iter().find(|before| before.key == addition.key);
        if let Some(before) = before.filter(|_| !self.without(Rule::KeyOnce)) {
            return Added::Before((**before).clone());
        }
        if self.tracker().revision.next() != grown.revision {
            return Added::Conflict;
        }
        self.trackers.push(grown.clone());
        self.additions.push(Kept::new(addition.clone()));
        Added::Yes
    }

    pub(super) fn store(&mut self, tracker: &Kept<Tracker>) -> Stored {
        let old = self.trackers[self.trackers.len() - 1].clone();
        if old == *tracker {
            return Stored::Yes;
        }
        let mut new = tracker.clone();
        if self.without(Rule::TrackerAsRead) {
            new = Kept::new(Tracker { revision: old.revision.next(), ..(**tracker).clone() });
        }
        if old.revision.next() != new.revision {
            return Stored::Conflict;
        }
        match (&old.state, &new.state) {
            (State::Ended(before), State::Ended(after)) => {
                let told = End { told: after.told, ..before.clone() };
                if told != *after || before.told && !after.told {
                    self.breaks(Promise::OneEnd);
                }
            }
            (State::Ended(_), State::Open | State::Sealed) => self.breaks(Promise::OneEnd),
            (_, State::Ended(end)) => self.ends(&old, end),
            (State::Open | State::Sealed, State::Open | State::Sealed) => {}
        }
        self.trackers.push(new);
        Stored::Yes
    }

    fn ends(&mut self, old: &Tracker, end: &End) {
        let groups: Vec<&Kept<Node>> =
            self.nodes.keys().filter(|id| id.level == 0).filter_map(|id| self.node(*id, 0)).collect();
        let done: u64 = groups.iter().map(|group| u64::from(group.count())).sum();
        let failed = |group: &&Kept<Node>| (0..GROUP_SIZE).filter(|bit| group.has_failed(*bit)).count() as u64;
        let failed: u64 = groups.iter().map(failed).sum();
        let is_whole = old.state == State::Sealed && done == old.items && end.failed == failed;
        if end.how != Ending::Completed || !is_whole {
            self.breaks(Promise::CompleteIsComplete);
        }
    }

    pub(super) fn mark(&mut self, change: &Change) -> Marked {
        let old = self.node(change.id, 0).map_or_else(|| Node::empty(change.id), |node| (**node).clone());
        if !self.without(Rule::WordsAsRead) && !old.is_as(change) {
            return Marked::Changed(old);
        }
        let new = old.clone().changed(change);
        let stays = |bit: u16| !old.is_done(bit) || new.is_done(bit) && new.has_failed(bit) == old.has_failed(bit);
        if !(0..GROUP_SIZE).all(stays) {
            self.breaks(Promise::BitsStay);
        }
        let child = |bit: u16| NodeId {
            level: new.id.level.saturating_sub(1),
            index: new.id.index * u32::from(GROUP_SIZE) + u32::from(bit),
        };
        let tracker = self.tracker();
        let size = |id| if tracker.state == State::Open { GROUP_SIZE } else { tracker.size_of(id) };
        let is_full = |id| self.node(id, 0).is_some_and(|node| node.leading() == Some(size(id)));
        let fresh = (0..GROUP_SIZE).filter(|bit| new.is_done(*bit) && !old.is_done(*bit));
        if new.id.level > 0 && !fresh.map(child).all(is_full) {
            self.breaks(Promise::FullIsFull);
        }
        let versions = self.nodes.entry(change.id).or_insert_with(|| vec![None]);
        versions.push(Some(Kept::new(new.clone())));
        Marked::Yes(new)
    }
}
