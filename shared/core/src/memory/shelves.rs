//! Sweeps' bookmarks in memory.

use super::MemoryStore;
use super::expiry::Row;
use crate::domain::shelf::{Bookmarks, Shelf};
use crate::domain::time::Timestamp;
use crate::ports::{Result, Shelves};

impl Shelves for MemoryStore {
    async fn is_empty(&self, shelf: &Shelf) -> Result<bool> {
        let tables = self.tables();
        Ok(match shelf {
            Shelf::Sessions => tables.sessions.is_empty(),
            Shelf::Waiting => {
                tables.waiting.values().all(|queue| queue.iter().next().is_none()) && tables.untold().next().is_none()
            }
            Shelf::Due => tables.due.is_empty(),
            Shelf::Batches => tables.batches.values().all(|batch| batch.unfinished().is_none()),
            Shelf::Trackers => tables.trackers.values().all(|tracked| tracked.tracker.is_none()),
            Shelf::Lists => tables.lists.values().all(|listed| listed.ends.is_none()),
            Shelf::Streams => tables.streams.values().all(|stream| stream.due.is_none()),
        })
    }

    async fn bookmarks(&self, shelf: &Shelf) -> Result<Bookmarks> {
        Ok(self.tables().bookmarks.get(shelf).cloned().unwrap_or_default())
    }

    async fn keep_bookmarks(&self, shelf: &Shelf, bookmarks: &Bookmarks, now: Timestamp) -> Result<()> {
        let mut tables = self.tables();
        let until = now.plus_ms(tables.expiry.keeps.idle_ms);
        tables.expiry.keep(Row::Bookmarks(shelf.clone()), Some(until));
        tables.bookmarks.insert(shelf.clone(), bookmarks.clone());
        Ok(())
    }
}
