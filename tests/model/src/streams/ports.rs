//! The traits of `Streaming`, over a recorder: what a call asks of the tables, and what it does to them.

use groupage_core::domain::stream::{Bits, Life, Page};
use groupage_core::ports::{Result, Seen};

use super::setting::Setting;
use crate::prelude::*;

#[derive(Clone, Copy, Debug)]
pub enum Sent {
    /// An event: its number, and its content.
    Event(u64, u8),
    /// An event that can never be a task.
    Rejected(u64),
    /// A commit's notice: its watermark.
    Told(u64),
}

/// The last node of a level that any setting has. What lies beyond is never there, so nobody needs to ask.
const fn last(level: u8) -> Option<u32> {
    match level {
        0 => Some(1),
        1 => Some(0),
        _ => None,
    }
}

impl layer::Streams for Ports<Setting> {
    async fn stream(&self, _: &StreamId) -> Result<Option<Stream>> {
        self.read("stream", (), |act, ()| Some(act.stream.clone())).await
    }

    async fn see(&self, _: &Life, nodes: &[NodeId]) -> Result<Seen> {
        let seen = self.read("see", nodes.to_vec(), |act, nodes| (act.stream.clone(), act.see(nodes))).await;
        seen.map(|(stream, nodes)| Seen { stream: Some(stream), bits: Bits::of(nodes) })
    }

    async fn feed(&self, fed: &Stream, page: &Page) -> Result<Stored> {
        let fed = (fed.clone(), Kept::new(page.clone()));
        self.write("feed", fed, |act, (fed, page)| stored(act.feed(fed, page))).await
    }

    async fn commit(&self, stream: &Stream) -> Result<Stored> {
        self.write("commit", stream.clone(), |act, stream| stored(act.commit(stream))).await
    }

    async fn mark_events(&self, _: &Life, change: &Change) -> Result<Marked> {
        self.write("mark", change.clone(), |act, change| act.mark(change)).await
    }

    async fn stream_nodes(&self, _: &Life, from: NodeId, _: usize) -> Result<Vec<Node>> {
        if last(from.level).is_none_or(|last| from.index > last) {
            return Ok(Vec::new());
        }
        self.read("nodes", from, |act, from| {
            let last = NodeId { index: u32::MAX, ..*from };
            act.nodes.range(*from..=last).map(|(_, node)| node.clone()).collect::<Vec<_>>()
        })
        .await
    }

    async fn drop_nodes(&self, _: &Life, nodes: &[NodeId]) -> Result<()> {
        self.write("drop_nodes", nodes.to_vec(), |act, nodes| nodes.iter().for_each(|node| act.drop_node(*node))).await
    }

    async fn pages(&self, _: &Life, from: u64, to: u64, _: usize) -> Result<Vec<Page>> {
        if from >= to {
            return Ok(Vec::new());
        }
        self.read("pages", (from, to), |act, (from, to)| act.pages(*from, *to)).await
    }

    async fn drop_pages(&self, _: &Life, starts: &[u64]) -> Result<()> {
        self.write("drop_pages", starts.to_vec(), |act, starts| {
            starts.iter().for_each(|start| drop(act.pages.remove(start)));
        })
        .await
    }
}

const fn stored(is_stored: bool) -> Stored {
    if is_stored { Stored::Yes } else { Stored::Conflict }
}

/// A task is forgotten as soon as it is settled, so nobody learns from it what an event held.
impl layer::Tasks for Ports<Setting> {
    type Cursor = ();

    async fn read(&self, _: &[TaskId], _: Freshness) -> Result<Vec<Task>> {
        Ok(Vec::new())
    }
}
