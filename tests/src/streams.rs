//! Streams as processes see them: through stores that fail at every call.

use groupage_core::domain::id::{Part, StreamId};
use groupage_core::domain::stream::{Life, Page, Stream};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Change, Node, NodeId};
use groupage_core::ports::{Marked, Result, Seen, Stored, StreamOpened, Streams};

use crate::faulty::Faulty;

impl<S: Streams> Streams for Faulty<'_, S> {
    async fn open_stream(&self, stream: &Stream) -> Result<StreamOpened> {
        self.process.around("open_stream", self.inner.open_stream(stream)).await
    }

    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>> {
        self.process.around("stream", self.inner.stream(id)).await
    }

    async fn see(&self, life: &Life, nodes: &[NodeId]) -> Result<Seen> {
        self.process.around("see", self.inner.see(life, nodes)).await
    }

    async fn feed(&self, fed: &Stream, page: &Page) -> Result<Stored> {
        self.process.around("feed", self.inner.feed(fed, page)).await
    }

    async fn commit(&self, stream: &Stream) -> Result<Stored> {
        self.process.around("commit", self.inner.commit(stream)).await
    }

    async fn mark_events(&self, life: &Life, change: &Change) -> Result<Marked> {
        self.process.around("mark_events", self.inner.mark_events(life, change)).await
    }

    async fn stream_nodes(&self, life: &Life, from: NodeId, limit: usize) -> Result<Vec<Node>> {
        self.process.around("stream_nodes", self.inner.stream_nodes(life, from, limit)).await
    }

    async fn drop_nodes(&self, life: &Life, nodes: &[NodeId]) -> Result<()> {
        self.process.around("drop_nodes", self.inner.drop_nodes(life, nodes)).await
    }

    async fn pages(&self, life: &Life, from: u64, to: u64, limit: usize) -> Result<Vec<Page>> {
        self.process.around("pages", self.inner.pages(life, from, to, limit)).await
    }

    async fn drop_pages(&self, life: &Life, starts: &[u64]) -> Result<()> {
        self.process.around("drop_pages", self.inner.drop_pages(life, starts)).await
    }

    async fn due_streams(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<StreamId>> {
        self.process.around("due_streams", self.inner.due_streams(part, before, limit)).await
    }

    async fn remove_stream(&self, stream: &Stream) -> Result<Stored> {
        self.process.around("remove_stream", self.inner.remove_stream(stream)).await
    }
}
