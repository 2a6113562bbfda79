//! What sweep looks through, and how far it has come.

use super::Result;
use super::declare::port;
use crate::domain::shelf::{Bookmarks, Position, Shelf};
use crate::domain::time::Timestamp;

/// An entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// What it shows.
    pub what: T,
    /// Where it is.
    pub at: Position,
}

/// Entries of an index, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries<T> {
    /// The entries.
    pub found: Vec<Entry<T>>,
    /// Whether none is behind them.
    pub are_last: bool,
}

impl<T> Entries<T> {
    /// What they show, by itself.
    pub fn all(self) -> Vec<T> {
        self.found.into_iter().map(|entry| entry.what).collect()
    }
}

port! {
    /// The bookmarks of sweeps.
    pub trait Shelves {
        /// Reads a shelf's bookmarks as they are now.
        async fn bookmarks(&self, shelf: &Shelf) -> Result<Bookmarks>;

        /// Writes a shelf's bookmarks. Assumes nothing: of two sweeps at once the later write counts. What neither has
        /// visited comes when the round is over.
        async fn keep_bookmarks(&self, shelf: &Shelf, bookmarks: &Bookmarks, now: Timestamp) -> Result<()>;
    }
}
