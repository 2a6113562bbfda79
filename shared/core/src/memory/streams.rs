//! Streams in memory.

use std::collections::BTreeMap;

use super::MemoryStore;
use super::due::due;
use super::nodes::Nodes;
use crate::domain::id::{Part, StreamId};
use crate::domain::stream::{Bits, Life, Page, State, Stream};
use crate::domain::tracker::{Change, Node, NodeId};
use crate::ports::{Entries, Look, Marked, Result, Seen, Stored, StreamOpened, Streams};

/// What belongs to one use of a stream's name.
#[derive(Clone, Debug, Default)]
pub(super) struct Streamed {
    nodes: Nodes,
    pages: BTreeMap<u64, Page>,
}

impl MemoryStore {
    /// All streams, in the order of their names.
    pub fn streams(&self) -> Vec<Stream> {
        self.tables().streams.values().cloned().collect()
    }

    /// What belongs to any stream beside its own item: nodes and pages.
    pub fn stream_parts(&self) -> (usize, usize) {
        let tables = self.tables();
        let parts = tables.streamed.values();
        parts.fold((0, 0), |(nodes, pages), parts| (nodes + parts.nodes.0.len(), pages + parts.pages.len()))
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
        let found = tables.streamed.get(life).map(|parts| parts.nodes.some(nodes));
        Ok(Seen { stream: tables.streams.get(&life.id).cloned(), bits: Bits::of(found.into_iter().flatten()) })
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
            *old = next.clone();
        }
        Ok(Stored::when(*old == next))
    }

    async fn mark_events(&self, life: &Life, change: &Change) -> Result<Marked> {
        Ok(self.tables().streamed.entry(life.clone()).or_default().nodes.mark(change))
    }

    async fn stream_nodes(&self, life: &Life, from: NodeId, limit: usize) -> Result<Vec<Node>> {
        Ok(self.tables().streamed.get(life).map(|parts| parts.nodes.page(from, limit)).unwrap_or_default())
    }

    async fn drop_nodes(&self, life: &Life, nodes: &[NodeId]) -> Result<()> {
        if let Some(parts) = self.tables().streamed.get_mut(life) {
            parts.nodes.0.retain(|id, _| !nodes.contains(id));
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

    async fn due_streams(&self, look: Look<'_>) -> Result<Entries<StreamId>> {
        let tables = self.tables();
        let streams = tables.streams.values().filter_map(|stream| Some((stream.due?, &stream.life.id)));
        Ok(due(streams.filter(|(_, id)| Part::of_stream(id) == look.part), look))
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
