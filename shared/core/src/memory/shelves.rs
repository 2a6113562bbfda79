//! Sweeps' bookmarks in memory.

use super::MemoryStore;
use super::expiry::Row;
use crate::domain::shelf::{Bookmarks, Shelf};
use crate::domain::time::Timestamp;
use crate::ports::{Result, Shelves};

impl Shelves for MemoryStore {
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
