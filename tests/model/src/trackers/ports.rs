//! The traits of `Tracking`, over a recorder: what a call asks of the tables, and what it does to them.

use groupage_core::domain::tracker::Addition;
use groupage_core::ports::{Added, Looked, Result};

use super::setting::{Rule, Setting};
use crate::prelude::*;

impl layer::Trackers for Ports<Setting> {
    async fn look(&self, _: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        self.read_old(
            "look",
            (nodes.to_vec(), freshness),
            |world, (nodes, freshness), left, removed| world.shown_to(nodes, *freshness, removed, left.lags > 0),
            |act, (nodes, freshness)| act.look(nodes, *freshness),
        )
        .await
        .map(|(tracker, nodes)| Looked { tracker, nodes })
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        self.write("store", Kept::new(tracker.clone()), |act, tracker| act.store(tracker)).await
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        let more = (Kept::new(grown.clone()), addition.clone());
        self.write("add", more, |act, (grown, addition)| act.add(grown, addition)).await
    }

    async fn addition(&self, _: &TrackerId, key: &str) -> Result<Option<Addition>> {
        self.read("addition", key.to_owned(), |act, key| {
            let found = act.additions.iter().find(|addition| addition.key == *key);
            found.filter(|_| !act.without(Rule::KeyOnce)).cloned()
        })
        .await
    }

    async fn mark(&self, _: &TrackerId, change: &Change) -> Result<Marked> {
        self.write("mark", change.clone(), |act, change| act.mark(change)).await
    }

    async fn nodes(&self, _: &TrackerId, from: NodeId, _: usize, _: Freshness) -> Result<Vec<Node>> {
        self.read("nodes", from, |act, from| {
            let later = act.nodes.keys().filter(|id| **id >= *from && id.level == from.level);
            later.filter_map(|id| act.node(*id, 0).cloned()).collect::<Vec<_>>()
        })
        .await
    }
}
