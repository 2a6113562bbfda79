//! Lanes, trackers and lists, without their prices.

use shared::domain::id::{LaneId, ListId, Part, RouteName, Token, TrackerId, Turn};
use shared::domain::lane::{Lane, Queued};
use shared::domain::list::{self, Life, List, Move, Put, Record, Slot, Tail};
use shared::domain::time::Timestamp;
use shared::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use shared::ports::{
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
