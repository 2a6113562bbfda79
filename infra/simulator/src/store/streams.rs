//! Streams, without their prices.

use shared::domain::id::{Part, StreamId};
use shared::domain::stream::{Life, Page, Stream};
use shared::domain::time::Timestamp;
use shared::domain::tracker::{Change, Node, NodeId};
use shared::ports::{Marked, Result, Seen, Stored, StreamOpened, Streams};

use super::Store;

impl Streams for Store {
    crate::pass::streams!();
}
