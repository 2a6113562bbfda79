//! Trackers in memory.

use std::collections::BTreeMap;

use super::MemoryStore;
use super::due::due;
use super::nodes::Nodes;
use crate::domain::id::{Part, TrackerId};
use crate::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use crate::ports::{Added, Cleared, Entries, Freshness, Look, Looked, Marked, Opened, Result, Stored, Trackers};

/// Everything that has one tracker's id.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracked {
    pub(super) tracker: Option<Tracker>,
    nodes: Nodes,
    additions: BTreeMap<String, Addition>,
}

impl Tracked {
    fn is_before(&self, next: &Tracker) -> bool {
        self.tracker.as_ref().is_some_and(|tracker| tracker.revision.next() == next.revision)
    }
}

impl MemoryStore {
    /// All trackers, in the order of their ids.
    pub fn trackers(&self) -> Vec<Tracker> {
        self.tables().trackers.values().filter_map(|tracked| tracked.tracker.clone()).collect()
    }
}

impl Trackers for MemoryStore {
    async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened> {
        let mut tables = self.tables();
        let tracked = tables.trackers.entry(tracker.id.clone()).or_default();
        match &tracked.tracker {
            Some(old) if old == tracker => Ok(Opened::New),
            Some(old) => Ok(Opened::Existing(old.clone())),
            None => {
                tracked.tracker = Some(tracker.clone());
                Ok(Opened::New)
            }
        }
    }

    async fn look(&self, id: &TrackerId, nodes: &[NodeId], _: Freshness) -> Result<Looked> {
        let tables = self.tables();
        let Some(tracked) = tables.trackers.get(id) else { return Ok(Looked::default()) };
        Ok(Looked { tracker: tracked.tracker.clone(), nodes: tracked.nodes.some(nodes).collect() })
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let mut tables = self.tables();
        let tracked = tables.trackers.entry(tracker.id.clone()).or_default();
        let is_written = tracked.is_before(tracker) || tracked.tracker.as_ref() == Some(tracker);
        if is_written {
            tracked.tracker = Some(tracker.clone());
        }
        Ok(Stored::when(is_written))
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        let mut tables = self.tables();
        let tracked = tables.trackers.entry(grown.id.clone()).or_default();
        if let Some(before) = tracked.additions.get(&addition.key) {
            return Ok(Added::Before(before.clone()));
        }
        if !tracked.is_before(grown) {
            return Ok(Added::Conflict);
        }
        tracked.tracker = Some(grown.clone());
        tracked.additions.insert(addition.key.clone(), addition.clone());
        Ok(Added::Yes)
    }

    async fn addition(&self, id: &TrackerId, key: &str) -> Result<Option<Addition>> {
        Ok(self.tables().trackers.get(id).and_then(|tracked| tracked.additions.get(key).cloned()))
    }

    async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
        Ok(self.tables().trackers.entry(id.clone()).or_default().nodes.mark(change))
    }

    async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, _: Freshness) -> Result<Vec<Node>> {
        Ok(self.tables().trackers.get(id).map(|tracked| tracked.nodes.page(from, limit)).unwrap_or_default())
    }

    async fn due_trackers(&self, look: Look<'_>) -> Result<Entries<TrackerId>> {
        let tables = self.tables();
        let trackers = tables.trackers.values().filter_map(|tracked| tracked.tracker.as_ref());
        let of_part = trackers.filter(|tracker| Part::of_tracker(&tracker.id) == look.part);
        Ok(due(of_part.map(|tracker| (tracker.due, &tracker.id)), look))
    }

    async fn clear(&self, tracker: &Tracker) -> Result<Cleared> {
        let mut tables = self.tables();
        let Some(tracked) = tables.trackers.get_mut(&tracker.id) else { return Ok(Cleared::All) };
        if tracked.nodes.0.is_empty() && tracked.additions.is_empty() {
            return Ok(Cleared::All);
        }
        if tracked.tracker.as_ref().is_none_or(|now| now.revision != tracker.revision) {
            return Ok(Cleared::Conflict);
        }
        tracked.nodes.0.clear();
        tracked.additions.clear();
        Ok(Cleared::Some)
    }

    async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let mut tables = self.tables();
        let Some(tracked) = tables.trackers.get_mut(&tracker.id) else { return Ok(Stored::Yes) };
        if tracked.tracker.as_ref().is_some_and(|old| old.revision != tracker.revision) {
            return Ok(Stored::Conflict);
        }
        tracked.tracker = None;
        if tracked.nodes.0.is_empty() && tracked.additions.is_empty() {
            tables.trackers.remove(&tracker.id);
        }
        Ok(Stored::Yes)
    }
}
