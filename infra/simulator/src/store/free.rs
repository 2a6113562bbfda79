//! Lanes, trackers and lists, without their prices.

use groupage_core::domain::id::{LaneId, ListId, Part, RouteName, Token, TrackerId, Turn};
use groupage_core::domain::lane::{Lane, Queued};
use groupage_core::domain::list::{self, Life, List, Move, Put, Record, Slot, Tail};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use groupage_core::ports::{
    Added, Cleared, Freshness, Lanes, LinedUp, Lists, Looked, Marked, Moved, Newcomer, Opened, PutOn, Result, Stored,
    Trackers,
};

use super::Store;

impl Lanes for Store {
    crate::pass::lanes!();
}

impl Trackers for Store {
    crate::pass::trackers!();
}

impl Lists for Store {
    crate::pass::lists!();
}
