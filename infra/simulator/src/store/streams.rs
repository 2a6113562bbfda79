//! Streams, without their prices.

use groupage_core::domain::id::{Part, StreamId};
use groupage_core::domain::stream::{Life, Page, Stream};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Change, Node, NodeId};
use groupage_core::ports::{Marked, Result, Seen, Stored, StreamOpened, Streams};

use super::Store;

impl Streams for Store {
    crate::pass::streams!();
}
