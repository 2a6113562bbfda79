//! Nodes of bits in memory: those of one tracker, or of one life of a stream.

use std::collections::BTreeMap;

use crate::domain::tracker::{Change, Node, NodeId};
use crate::ports::Marked;

#[derive(Clone, Debug, Default)]
pub(super) struct Nodes(pub(super) BTreeMap<NodeId, Node>);

impl Nodes {
    /// Those of these nodes that were ever written.
    pub(super) fn some(&self, ids: &[NodeId]) -> impl Iterator<Item = Node> {
        ids.iter().filter_map(|id| self.0.get(id).cloned())
    }

    /// Up to `limit` nodes from this one on, on its level, in order.
    pub(super) fn page(&self, from: NodeId, limit: usize) -> Vec<Node> {
        let last = NodeId { index: u32::MAX, ..from };
        self.0.range(from..=last).take(limit).map(|(_, node)| node.clone()).collect()
    }

    /// Writes some words of a node, if all of them are as the change says.
    pub(super) fn mark(&mut self, change: &Change) -> Marked {
        let node = self.0.get(&change.id).cloned().unwrap_or_else(|| Node::empty(change.id));
        if !node.is_as(change) {
            return Marked::Changed(node);
        }
        let now = node.changed(change);
        self.0.insert(change.id, now.clone());
        Marked::Yes(now)
    }
}
