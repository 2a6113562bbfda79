//! One I/O of a call about a stream: what it asks of the tables, and what it is told.

use groupage_core::domain::stream::{Page, Stream};
use groupage_core::domain::tracker::{Change, Node, NodeId};
use groupage_core::ports::Marked;

use crate::kept::Kept;

/// What a call asks for.
#[derive(Clone, Debug)]
pub enum Op {
    /// `Streams::stream`.
    Stream,
    /// `Streams::see`.
    See(Vec<NodeId>),
    /// `Streams::feed`.
    Feed(Kept<Stream>, Kept<Page>),
    /// `Streams::commit`.
    Commit(Kept<Stream>),
    /// `Streams::mark_events`.
    Mark(Kept<Change>),
    /// `Streams::stream_nodes`.
    Nodes(NodeId),
    /// `Streams::drop_nodes`.
    DropNodes(Vec<NodeId>),
    /// `Streams::pages`.
    Pages(u64, u64),
    /// `Streams::drop_pages`.
    DropPages(Vec<u64>),
    /// `Outbox::send` of an event: its number, and its content.
    Send(u64, u8),
    /// `Outbox::send` of an event that can never be a task.
    Reject(u64),
    /// `Outbox::send` of a commit's notice: its watermark.
    Tell(u64),
}

impl Op {
    /// Whether it writes or sends something.
    pub(super) const fn is_write(&self) -> bool {
        match self {
            Self::Stream | Self::See(_) | Self::Nodes(_) | Self::Pages(..) => false,
            Self::Feed(..)
            | Self::Commit(_)
            | Self::Mark(_)
            | Self::DropNodes(_)
            | Self::DropPages(_)
            | Self::Send(..)
            | Self::Reject(_)
            | Self::Tell(_) => true,
        }
    }

    /// Whether it sends something: no table shows that.
    pub(super) const fn is_sending(&self) -> bool {
        matches!(self, Self::Send(..) | Self::Reject(_) | Self::Tell(_))
    }
}

/// What it is told.
#[derive(Clone, Debug, Hash)]
pub enum Answer {
    /// The stream.
    Stream(Kept<Stream>),
    /// The stream and nodes.
    Seen((Kept<Stream>, Vec<Kept<Node>>)),
    /// Nodes.
    Nodes(Vec<Kept<Node>>),
    /// What was fed.
    Pages(Vec<Kept<Page>>),
    /// What became of marking.
    Marked(Kept<Marked>),
    /// Whether it is as written.
    Is(bool),
    /// It is done.
    Done,
}
