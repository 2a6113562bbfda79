//! Streams, which do not lag.

use shared::domain::id::{Part, StreamId};
use shared::domain::stream::{Life, Page, Stream};
use shared::domain::time::Timestamp;
use shared::domain::tracker::{Change, Node, NodeId};
use shared::ports::{Env, Marked, Result, Seen, Stored, StreamOpened, Streams};

use super::Lagging;

impl<S: Streams, E: Env> Streams for Lagging<S, E> {
    crate::pass::streams!();
}
