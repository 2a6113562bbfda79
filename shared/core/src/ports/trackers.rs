//! The trackers, their bits, and the index by which sweep finds them.

use super::declare::port;
use super::{Entries, Freshness, Look, Result, Stored};
use crate::domain::id::TrackerId;
use crate::domain::tracker::{Addition, Change, Node, NodeId, Tracker};

/// What opening a tracker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The tracker is new.
    New,
    /// One with this id was there.
    Existing(Tracker),
}

/// What adding items found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// They are added, by this write.
    Yes,
    /// An earlier call had the same key; this is what it added.
    Before(Addition),
    /// The tracker was not as assumed.
    Conflict,
}

/// What became of marking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marked {
    /// The bits are set; this is the node now.
    Yes(Node),
    /// A word was not as assumed; this is the node now.
    Changed(Node),
}

/// A tracker and some of its nodes, as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// The tracker, if it is there.
    pub tracker: Option<Tracker>,
    /// Those of the nodes that were ever written, in any order.
    pub nodes: Vec<Node>,
}

/// What became of removing a tracker's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// Nothing but the tracker itself is left.
    All,
    /// There may be more.
    Some,
    /// The tracker was not as assumed.
    Conflict,
}

port! {
    /// The trackers.
    pub trait Trackers {
        /// Puts a new tracker. Assumes: none has its id.
        async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened>;

        /// Reads a tracker and up to 99 of its nodes in one go.
        async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked>;

        /// Writes a whole tracker. Assumes: it is at the revision before.
        async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored>;

        /// Writes a tracker that has grown together with what was added, or neither. Assumes: the tracker is at the
        /// revision before, and nothing was added under this key.
        async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added>;

        /// Finds what was added under a key.
        async fn addition(&self, id: &TrackerId, key: &str) -> Result<Option<Addition>>;

        /// Writes some words of a node, which is made if it is not there. Assumes of each of them what the change says.
        async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked>;

        /// Reads up to `limit` of the nodes from `from` on, on its level, in order; those never written are left out.
        /// Fewer than `limit` may come before the end; none come only at the end.
        async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, freshness: Freshness) -> Result<Vec<Node>>;

        /// Looks at the trackers that are due. The index lags behind them.
        async fn due_trackers(&self, look: Look<'_>) -> Result<Entries<TrackerId>>;

        /// Removes some of what belongs to a tracker, but not itself. Assumes: the tracker is at this revision. Its id
        /// may be used again once it is gone, and what belongs to the next must stay.
        async fn clear(&self, tracker: &Tracker) -> Result<Cleared>;

        /// Removes a tracker. Assumes: it is at this revision, or gone.
        async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored>;
    }
}
