//! Nodes of bits as items: those of trackers and of streams, each in a table of its own.
//!
//! A node's words are attributes of their own, so that a write names just those that it changes.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use groupage_core::domain::tracker::{Change, Node, NodeId, WORDS, Word};
use groupage_core::ports::{Marked, Result};

use crate::dynamo::expression::{Change as Writing, Clause};
use crate::dynamo::item::{Item, nonsense, number, text_in};
use crate::dynamo::{Dynamo, Key, Written};

/// The sort key of every item of these tables.
pub(crate) const NODE: &str = "Node";

/// The attributes of a node's words of bits done. One letter each: all words together fit one write unit.
pub(crate) const DONE: [&str; WORDS as usize] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w",
    "x", "y", "z", "A", "B",
];
/// The attributes of a node's words of bits failed.
pub(crate) const FAILED: [&str; WORDS as usize] = [
    "fa", "fb", "fc", "fd", "fe", "ff", "fg", "fh", "fi", "fj", "fk", "fl", "fm", "fn", "fo", "fp", "fq", "fr", "fs",
    "ft", "fu", "fv", "fw", "fx", "fy", "fz", "fA", "fB",
];
/// The attribute of a node's number of failures.
pub(crate) const FAILURES: &str = "F";

impl Dynamo {
    /// Writes some words of a node, which is made if it is not there; `key` is its own.
    pub(crate) async fn mark_node(
        &self,
        (what, table): (&'static str, &'static str),
        key: Key<'_>,
        change: &Change,
    ) -> Result<Marked> {
        let mut writing = Writing::default();
        let mut assumes = Vec::with_capacity(change.words.len());
        for (position, changed) in &change.words {
            let position = usize::from(*position);
            assumes.push(Clause::unchanged(DONE[position], changed.was.map(word)));
            writing = writing.set(DONE[position], word(changed.done));
            if let Some(failed) = changed.failed {
                writing = writing.set(FAILED[position], word(failed));
            }
        }
        if change.failures > 0 {
            writing = writing.add(FAILURES, number(change.failures));
        }
        match self.update(what, key, writing, &assumes, ReturnValue::AllNew).await? {
            Written::Done(Some(item)) => node_of(table, &item).map(Marked::Yes),
            Written::Done(None) | Written::Refused(None) => Ok(Marked::Changed(Node::empty(change.id))),
            Written::Refused(Some(item)) => node_of(table, &item).map(Marked::Changed),
        }
    }
}

/// The sort key of a node.
pub(crate) fn node_key(id: NodeId) -> String {
    format!("n{}#{:08x}", id.level, id.index)
}

/// A word as an attribute.
pub(crate) fn word(word: Word) -> AttributeValue {
    AttributeValue::B(Blob::new(word))
}

/// A node out of its item. The words are read one by one: serde would take a sequence of numbers for each.
pub(crate) fn node_of(table: &'static str, item: &Item) -> Result<Node> {
    let mut node = Node::empty(node_id(item).ok_or_else(|| nonsense(table, "node", NODE, "is no node's"))?);
    for (position, (done, failed)) in (0_u8..).zip(DONE.into_iter().zip(FAILED)) {
        let read = |attribute: &'static str| match item.get(attribute) {
            None => Ok(None),
            Some(AttributeValue::B(blob)) => Word::try_from(blob.as_ref()).map(Some).map_err(|_| attribute),
            Some(_) => Err(attribute),
        };
        let wrong = |attribute| nonsense(table, "node", attribute, "is no word of bits");
        node.done.extend(read(done).map_err(wrong)?.map(|word| (position, word)));
        node.failed.extend(read(failed).map_err(wrong)?.map(|word| (position, word)));
    }
    if let Some(failures) = item.get(FAILURES) {
        let parsed = failures.as_n().ok().and_then(|failures| failures.parse().ok());
        node.failures = parsed.ok_or_else(|| nonsense(table, "node", FAILURES, "is no number"))?;
    }
    Ok(node)
}

fn node_id(item: &Item) -> Option<NodeId> {
    let (level, index) = text_in(item, NODE)?.strip_prefix('n')?.split_once('#')?;
    Some(NodeId { level: level.parse().ok()?, index: u32::from_str_radix(index, 16).ok()? })
}
