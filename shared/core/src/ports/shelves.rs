//! What sweep looks through, and how far it has come.

use super::Result;
use super::declare::port;
use crate::domain::shelf::{Bookmarks, Position, Shelf};
use crate::domain::{Part, Timestamp};

/// A look into one part of an index, or into a segment of it, where those lie first that have been due for longest.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a, P = Part> {
    /// Where.
    pub part: P,
    /// What has been due, or has waited, since before that.
    pub before: Timestamp,
    /// What comes behind this entry; from the first one on if it is none.
    pub after: Option<&'a Position>,
    /// At this many entries at most.
    pub limit: usize,
}

impl<'a, P> Look<'a, P> {
    /// A look at the first entries.
    pub const fn at(part: P, before: Timestamp, limit: usize) -> Self {
        Self { part, before, after: None, limit }
    }

    /// A look at those behind this one.
    pub const fn behind(self, after: Option<&'a Position>) -> Self
    where
        P: Copy,
    {
        Self { after, ..self }
    }
}

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
        /// Says whether nothing lies on a shelf, due or not; may miss the latest writes.
        async fn is_empty(&self, shelf: &Shelf) -> Result<bool>;

        /// Reads a shelf's bookmarks as they are now.
        async fn bookmarks(&self, shelf: &Shelf) -> Result<Bookmarks>;

        /// Writes a shelf's bookmarks. Assumes nothing: of two sweeps at once the later write counts. What neither has
        /// visited comes when the round is over.
        async fn keep_bookmarks(&self, shelf: &Shelf, bookmarks: &Bookmarks, now: Timestamp) -> Result<()>;
    }
}
