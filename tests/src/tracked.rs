//! Trackers in memory whose eventual reads may be old, and which note how each came to its end.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, State, Tracker};
use groupage_core::memory::MemoryStore;
use groupage_core::ports::{Added, Freshness, Looked, Marked, Opened, Result, Stored, Trackers, layer};

use crate::clock::TestEnv;

/// A write that ended a tracker.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The tracker before.
    pub before: Tracker,
    /// The tracker that was written.
    pub after: Tracker,
    /// Items that were done at that moment.
    pub done: u64,
}

/// The trackers.
#[derive(Debug)]
pub struct Tracked {
    inner: MemoryStore,
    /// The chance that an eventual read shows the item as it was before its last write.
    stale: f64,
    dice: TestEnv,
    trackers: Mutex<HashMap<TrackerId, Option<Tracker>>>,
    nodes: Mutex<HashMap<(TrackerId, NodeId), Option<Node>>>,
    ended: Mutex<Vec<Ended>>,
}

impl Tracked {
    /// No trackers yet. `stale` is the chance of an old view.
    pub fn new(dice: TestEnv, stale: f64) -> Self {
        let (trackers, nodes, ended) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { inner: MemoryStore::new(), stale, dice, trackers, nodes, ended }
    }

    /// The trackers as they are.
    pub const fn truth(&self) -> &MemoryStore {
        &self.inner
    }

    /// Every write so far that ended a tracker.
    pub fn ended(&self) -> Vec<Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A tracker's groups as they are.
    pub async fn groups(&self, id: &TrackerId) -> Result<Vec<Node>> {
        self.inner.nodes(id, NodeId::group(0), usize::MAX, Freshness::Latest).await
    }

    async fn tracker(&self, id: &TrackerId) -> Result<Option<Tracker>> {
        Ok(self.inner.look(id, &[], Freshness::Latest).await?.tracker)
    }

    /// Makes a write of a tracker and keeps what it changed.
    async fn writing<T>(&self, id: &TrackerId, write: impl Future<Output = Result<T>>) -> Result<T> {
        let before = self.tracker(id).await?;
        let answer = write.await?;
        let after = self.tracker(id).await?;
        if after == before {
            return Ok(answer);
        }
        self.trackers.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), before.clone());
        if let (Some(before), Some(after)) = (before, after)
            && before.state.word() != after.state.word()
            && matches!(after.state, State::Ended(_))
        {
            let done = self.groups(id).await?.iter().map(|node| u64::from(node.count())).sum();
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(Ended { before, after, done });
        }
        Ok(answer)
    }

    fn is_stale(&self, freshness: Freshness) -> bool {
        freshness == Freshness::Eventual && self.stale > 0.0 && self.dice.chance(self.stale)
    }

    /// The node as an eventual read may show it.
    fn older(&self, id: &TrackerId, node: NodeId, now: Option<Node>) -> Option<Node> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.get(&(id.clone(), node)).cloned().unwrap_or(now)
    }
}

impl layer::Layer for Tracked {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }
}

impl layer::Trackers for Tracked {
    async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened> {
        self.writing(&tracker.id, self.inner.open_tracker(tracker)).await
    }

    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        let mut looked = self.inner.look(id, nodes, freshness).await?;
        if self.is_stale(freshness) {
            let before = self.trackers.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
            looked.tracker = before.unwrap_or(looked.tracker);
        }
        let mut seen = Vec::with_capacity(nodes.len());
        for node in nodes {
            let now = looked.nodes.iter().find(|now| now.id == *node).cloned();
            seen.extend(if self.is_stale(freshness) { self.older(id, *node, now) } else { now });
        }
        Ok(Looked { nodes: seen, ..looked })
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        self.writing(&tracker.id, self.inner.store_tracker(tracker)).await
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        self.writing(&grown.id, self.inner.add(grown, addition)).await
    }

    async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
        let before = self.inner.look(id, &[change.id], Freshness::Latest).await?.nodes.pop();
        let marked = self.inner.mark(id, change).await?;
        if let Marked::Yes(_) = marked {
            self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert((id.clone(), change.id), before);
        }
        Ok(marked)
    }

    async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, freshness: Freshness) -> Result<Vec<Node>> {
        let nodes = self.inner.nodes(id, from, limit, freshness).await?;
        let seen = |now: Node| if self.is_stale(freshness) { self.older(id, now.id, Some(now)) } else { Some(now) };
        Ok(nodes.into_iter().filter_map(seen).collect())
    }

    async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        self.writing(&tracker.id, self.inner.remove_tracker(tracker)).await
    }
}
