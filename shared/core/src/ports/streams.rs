//! The streams, their bits, what was fed, and the index by which sweep finds streams.

use super::declare::port;
use super::{Entries, Look, Marked, Result, Stored};
use crate::domain::id::StreamId;
use crate::domain::stream::{Bits, Life, Page, Stream};
use crate::domain::tracker::{Change, Node, NodeId};

/// What opening a stream found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOpened {
    /// The stream is new.
    New,
    /// One with this name was there.
    Existing(Box<Stream>),
}

/// A stream and some of its nodes, as they were read, each at a moment of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The stream, if it is there, in whatever life.
    pub stream: Option<Stream>,
    /// Those of the nodes that are there.
    pub bits: Bits,
}

port! {
    /// The streams. All reads show every answered write.
    pub trait Streams {
        /// Puts a new stream. Assumes: none has its name.
        async fn open_stream(&self, stream: &Stream) -> Result<StreamOpened>;

        /// Reads a stream.
        async fn stream(&self, id: &StreamId) -> Result<Option<Stream>>;

        /// Reads a stream and up to 99 nodes of one of its lives in one go.
        async fn see(&self, life: &Life, nodes: &[NodeId]) -> Result<Seen>;

        /// Writes how far a stream is fed together with what was fed, or neither. Assumes: the stream is open, in this
        /// life, and has given the numbers before the page's and no others.
        async fn feed(&self, fed: &Stream, page: &Page) -> Result<Stored>;

        /// Writes all of a stream but how far it is fed. Assumes: it is in this life and at the revision before; and if
        /// sweep is to look at it no more, nothing was fed since.
        async fn commit(&self, stream: &Stream) -> Result<Stored>;

        /// Writes some words of a node, which is made if it is not there. Assumes of each of them what the change says.
        async fn mark_events(&self, life: &Life, change: &Change) -> Result<Marked>;

        /// Reads up to `limit` of the nodes from `from` on, on its level, in order; those that are not there are left
        /// out. Fewer than `limit` may come before the end; none come only at the end.
        async fn stream_nodes(&self, life: &Life, from: NodeId, limit: usize) -> Result<Vec<Node>>;

        /// Removes nodes.
        async fn drop_nodes(&self, life: &Life, nodes: &[NodeId]) -> Result<()>;

        /// Reads up to `limit` of the pages that begin at `from` or later, and before `to`, in order. Fewer than
        /// `limit` may come before the end; none come only at the end.
        async fn pages(&self, life: &Life, from: u64, to: u64, limit: usize) -> Result<Vec<Page>>;

        /// Removes the pages that begin at these numbers.
        async fn drop_pages(&self, life: &Life, starts: &[u64]) -> Result<()>;

        /// Looks at the streams that are due. The index lags behind them.
        async fn due_streams(&self, look: Look<'_>) -> Result<Entries<StreamId>>;

        /// Removes a stream. Assumes: it is in this life and at this revision, or gone. Its parts are removed before.
        async fn remove_stream(&self, stream: &Stream) -> Result<Stored>;
    }
}
