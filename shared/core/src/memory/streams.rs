//! Streams in memory.

use std::collections::BTreeMap;

use super::MemoryStore;
use crate::domain::id::{Part, StreamId};
use crate::domain::stream::{Bits, Life, Page, State, Stream};
use crate::domain::time::Timestamp;
use crate::domain::tracker::{Change, Node, NodeId};
use crate::ports::{Marked, Result, Seen, Stored, StreamOpened, Streams};

/// What belongs to one use of a stream's name.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    nodes: BTreeMap<NodeId, Node>,
    pages: BTreeMap<u64, Page>,
}

impl MemoryStore {
    /// All streams, in the order of their names.
    #[must_use]
    pub fn streams(&self) -> Vec<Stream> {
        self.tables().streams.values().cloned().collect()
    }

    /// What belongs to any stream beside its own item: nodes and pages.
    #[must_use]
    pub fn stream_parts(&self) -> (usize, usize) {
        let tables = self.tables();
        let parts = tables.streamed.values();
        parts.fold((0, 0), |(nodes, pages), parts| (nodes + parts.nodes.len(), pages + parts.pages.len()))
    }
}

impl Streams for MemoryStore {
    async fn open_stream(&self, stream: &Stream) -> Result<StreamOpened> {
        let mut tables = self.tables();
        match tables.streams.get(&stream.life.id) {
            Some(old) if old == stream => Ok(StreamOpened::New),
            Some(old) => Ok(StreamOpened::Existing(Box::new(old.clone()))),
            None => {
                tables.streams.insert(stream.life.id.clone(), stream.clone());
                Ok(StreamOpened::New)
            }
        }
    }

    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>> {
        Ok(self.tables().streams.get(id).cloned())
    }

    async fn see(&self, life: &Life, nodes: &[NodeId]) -> Result<Seen> {
        let tables = self.tables();
        let found = tables.streamed.get(life).map(|parts| nodes.iter().filter_map(|node| parts.nodes.get(node)));
        Ok(Seen { stream: tables.streams.get(&life.id).cloned(), bits: Bits::of(found.into_iter().flatten().cloned()) })
    }

    async fn feed(&self, fed: &Stream, page: &Page) -> Result<Stored> {
        let mut tables = self.tables();
        let Some(stream) = tables.streams.get_mut(&fed.life.id) else { return Ok(Stored::Conflict) };
        if stream.life != fed.life || stream.state != State::Open || stream.next != page.start {
            return Ok(Stored::Conflict);
        }
        (stream.next, stream.active_at, stream.due) = (fed.next, fed.active_at, fed.due);
        stream.last.clone_from(&fed.last);
        tables.streamed.entry(fed.life.clone()).or_default().pages.insert(page.start, page.clone());
        Ok(Stored::Yes)
    }

    async fn commit(&self, stream: &Stream) -> Result<Stored> {
        let mut tables = self.tables();
        let Some(old) = tables.streams.get_mut(&stream.life.id) else { return Ok(Stored::Conflict) };
        let next = Stream { next: old.next, last: old.last.clone(), ..stream.clone() };
        let is_before = old.life == stream.life
            && old.revision.next() == stream.revision
            && (stream.due.is_some() || old.next == stream.next);
        if is_before {
            *old = next;
        } else if *old != next {
            return Ok(Stored::Conflict);
        }
        Ok(Stored::Yes)
    }

    async fn mark_events(&self, life: &Life, change: &Change) -> Result<Marked> {
        let mut tables = self.tables();
        let nodes = &mut tables.streamed.entry(life.clone()).or_default().nodes;
        let node = nodes.get(&change.id).cloned().unwrap_or_else(|| Node::empty(change.id));
        if !node.is_as(change) {
            return Ok(Marked::Changed(node));
        }
        let now = node.changed(change);
        nodes.insert(change.id, now.clone());
        Ok(Marked::Yes(now))
    }

    async fn stream_nodes(&self, life: &Life, from: NodeId, limit: usize) -> Result<Vec<Node>> {
        let tables = self.tables();
        let Some(parts) = tables.streamed.get(life) else { return Ok(Vec::new()) };
        let last = NodeId { index: u32::MAX, ..from };
        Ok(parts.nodes.range(from..=last).take(limit).map(|(_, node)| node.clone()).collect())
    }

    async fn drop_nodes(&self, life: &Life, nodes: &[NodeId]) -> Result<()> {
        if let Some(parts) = self.tables().streamed.get_mut(life) {
            parts.nodes.retain(|id, _| !nodes.contains(id));
        }
        Ok(())
    }

    async fn pages(&self, life: &Life, from: u64, to: u64, limit: usize) -> Result<Vec<Page>> {
        let tables = self.tables();
        let Some(parts) = tables.streamed.get(life).filter(|_| from < to) else { return Ok(Vec::new()) };
        Ok(parts.pages.range(from..to).take(limit).map(|(_, page)| page.clone()).collect())
    }

    async fn drop_pages(&self, life: &Life, starts: &[u64]) -> Result<()> {
        if let Some(parts) = self.tables().streamed.get_mut(life) {
            for start in starts {
                parts.pages.remove(start);
            }
        }
        Ok(())
    }

    async fn due_streams(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<StreamId>> {
        let tables = self.tables();
        let mut due: Vec<(Timestamp, &StreamId)> = tables
            .streams
            .values()
            .filter_map(|stream| Some((stream.due?, &stream.life.id)))
            .filter(|(due, id)| *due < before && Part::of_stream(id) == part)
            .collect();
        due.sort();
        Ok(due.into_iter().take(limit).map(|(_, id)| id.clone()).collect())
    }

    async fn remove_stream(&self, stream: &Stream) -> Result<Stored> {
        let mut tables = self.tables();
        match tables.streams.get(&stream.life.id) {
            Some(old) if old.life != stream.life || old.revision != stream.revision => Ok(Stored::Conflict),
            Some(_) => {
                tables.streams.remove(&stream.life.id);
                tables.streamed.remove(&stream.life);
                Ok(Stored::Yes)
            }
            None => Ok(Stored::Yes),
        }
    }
}
