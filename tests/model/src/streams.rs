//! No task here is a stream's event, so nobody asks.

use shared::domain::id::{Part, StreamId};
use shared::domain::stream::{Life, Page, Stream};
use shared::domain::time::Timestamp;
use shared::domain::tracker::{Change, Node, NodeId};
use shared::ports::{Marked, Result, Seen, Stored, StreamOpened, Streams};

use crate::ports::unasked;
use crate::recorder::Recorder;

impl Streams for Recorder {
    async fn open_stream(&self, _: &Stream) -> Result<StreamOpened> {
        Err(unasked())
    }

    async fn stream(&self, _: &StreamId) -> Result<Option<Stream>> {
        Err(unasked())
    }

    async fn see(&self, _: &Life, _: &[NodeId]) -> Result<Seen> {
        Err(unasked())
    }

    async fn feed(&self, _: &Stream, _: &Page) -> Result<Stored> {
        Err(unasked())
    }

    async fn commit(&self, _: &Stream) -> Result<Stored> {
        Err(unasked())
    }

    async fn mark_events(&self, _: &Life, _: &Change) -> Result<Marked> {
        Err(unasked())
    }

    async fn stream_nodes(&self, _: &Life, _: NodeId, _: usize) -> Result<Vec<Node>> {
        Err(unasked())
    }

    async fn drop_nodes(&self, _: &Life, _: &[NodeId]) -> Result<()> {
        Err(unasked())
    }

    async fn pages(&self, _: &Life, _: u64, _: u64, _: usize) -> Result<Vec<Page>> {
        Err(unasked())
    }

    async fn drop_pages(&self, _: &Life, _: &[u64]) -> Result<()> {
        Err(unasked())
    }

    async fn due_streams(&self, _: Part, _: Timestamp, _: usize) -> Result<Vec<StreamId>> {
        Err(unasked())
    }

    async fn remove_stream(&self, _: &Stream) -> Result<Stored> {
        Err(unasked())
    }
}
