//! Trackers and nodes as a stale replica shows them, and their lagging index.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use groupage_core::domain::{Part, Timestamp, TrackerId};
use groupage_core::memory;
use groupage_core::ports::{
    Added, Entries, Env, Freshness, Look, Looked, Marked, Opened, Result, Stored, Trackers, layer,
};

use super::Lagging;
use super::versions::{Versions, push, shown};

/// What is shown of trackers.
#[derive(Debug, Default)]
pub(super) struct Replica {
    trackers: BTreeMap<TrackerId, Versions<Tracker>>,
    nodes: BTreeMap<(TrackerId, NodeId), Versions<Node>>,
    /// When a tracker is due, as the index has it.
    due: BTreeMap<TrackerId, Versions<Timestamp>>,
}

impl<S: Trackers, E: Env> Lagging<S, E> {
    /// Adds a tracker's version: what the store inside has now.
    async fn tracker_written(&self, id: &TrackerId) -> Result<()> {
        let Some(tracker) = self.inner.look(id, &[], Freshness::Latest).await?.tracker else { return Ok(()) };
        let (read, indexed) = (self.visible_at(self.lag.read_ms), self.visible_at(self.lag.index_ms));
        let mut replica = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
        push(replica.due.entry(id.clone()).or_default(), indexed, tracker.due);
        push(replica.trackers.entry(id.clone()).or_default(), read, tracker);
        Ok(())
    }

    fn is_stale(&self, freshness: Freshness) -> bool {
        freshness == Freshness::Eventual && self.lag.read_ms > 0
    }
}

impl<S: Trackers, E: Env> layer::Trackers for Lagging<S, E> {
    async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened> {
        let opened = self.inner.open_tracker(tracker).await?;
        if opened == Opened::New {
            self.tracker_written(&tracker.id).await?;
        }
        Ok(opened)
    }

    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        // The store inside is read as well, so that its rules apply.
        let looked = self.inner.look(id, nodes, freshness).await?;
        if !self.is_stale(freshness) {
            return Ok(looked);
        }
        let now = self.clock.now();
        let replica = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
        let tracker = replica.trackers.get(id).and_then(|versions| shown(versions, now)).cloned();
        let version = |node: &NodeId| shown(replica.nodes.get(&(id.clone(), *node))?, now).cloned();
        Ok(Looked { tracker, nodes: nodes.iter().filter_map(version).collect() })
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let stored = self.inner.store_tracker(tracker).await?;
        if stored == Stored::Yes {
            self.tracker_written(&tracker.id).await?;
        }
        Ok(stored)
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        let added = self.inner.add(grown, addition).await?;
        if added == Added::Yes {
            self.tracker_written(&grown.id).await?;
        }
        Ok(added)
    }

    async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
        let marked = self.inner.mark(id, change).await?;
        if let Marked::Yes(node) = &marked {
            let at = self.visible_at(self.lag.read_ms);
            let mut replica = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
            push(replica.nodes.entry((id.clone(), node.id)).or_default(), at, node.clone());
        }
        Ok(marked)
    }

    async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, freshness: Freshness) -> Result<Vec<Node>> {
        if !self.is_stale(freshness) {
            return self.inner.nodes(id, from, limit, freshness).await;
        }
        let now = self.clock.now();
        let replica = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
        let last = NodeId { index: u32::MAX, ..from };
        let versions = replica.nodes.range((id.clone(), from)..=(id.clone(), last)).map(|(_, versions)| versions);
        Ok(versions.filter_map(|versions| shown(versions, now).cloned()).take(limit).collect())
    }

    async fn due_trackers(&self, look: Look<'_>) -> Result<Entries<TrackerId>> {
        let now = self.clock.now();
        let replica = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = replica.due.iter().filter_map(|(id, versions)| Some((*shown(versions, now)?, id)));
        Ok(memory::due(entries.filter(|(_, id)| Part::of_tracker(id) == look.part), look))
    }

    async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let removed = self.inner.remove_tracker(tracker).await?;
        if removed == Stored::Yes {
            let mut replica = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
            replica.trackers.remove(&tracker.id);
            replica.due.remove(&tracker.id);
            replica.nodes.retain(|(id, _), _| *id != tracker.id);
        }
        Ok(removed)
    }
}
