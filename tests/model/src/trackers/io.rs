//! One I/O of a call about a tracker: what it asks of the tables, and what it is told.

use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use groupage_core::ports::{Added, Freshness, Marked, Stored};

use crate::kept::Kept;

/// What a call asks for.
#[derive(Clone, Debug)]
pub enum Op {
    /// `Trackers::look`.
    Look(Vec<NodeId>, Freshness),
    /// `Trackers::store_tracker`.
    Store(Kept<Tracker>),
    /// `Trackers::add`.
    Add(Kept<Tracker>, Addition),
    /// `Trackers::addition`.
    Addition(String),
    /// `Trackers::mark`.
    Mark(Kept<Change>),
    /// `Trackers::nodes`.
    Nodes(NodeId),
    /// `Outbox::send`.
    Send(Kept<String>),
}

/// What it is told.
#[derive(Clone, Debug, Hash)]
pub enum Answer {
    /// The tracker and nodes.
    Looked(Option<Kept<Tracker>>, Vec<Kept<Node>>),
    /// Whether a tracker was written.
    Stored(bool),
    /// What became of adding.
    Added(Kept<Added>),
    /// What was added under a key.
    Addition(Option<Kept<Addition>>),
    /// What became of marking.
    Marked(Kept<Marked>),
    /// It is done.
    Done,
}

impl Answer {
    pub(super) const fn stored(&self) -> Option<Stored> {
        match self {
            Self::Stored(true) => Some(Stored::Yes),
            Self::Stored(false) => Some(Stored::Conflict),
            Self::Looked(..) | Self::Added(_) | Self::Addition(_) | Self::Marked(_) | Self::Done => None,
        }
    }
}
