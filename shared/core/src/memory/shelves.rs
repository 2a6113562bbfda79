//! Sweeps' bookmarks in memory.

use super::MemoryStore;
use crate::domain::shelf::{Bookmarks, Shelf};
use crate::domain::time::Timestamp;
use crate::ports::{Result, Shelves};

impl Shelves for MemoryStore {
    async fn bookmarks(&self, shelf: &Shelf) -> Result<Bookmarks> {
        Ok(self.tables().bookmarks.get(shelf).cloned().unwrap_or_default())
    }

    async fn keep_bookmarks(&self, shelf: &Shelf, bookmarks: &Bookmarks, _: Timestamp) -> Result<()> {
        self.tables().bookmarks.insert(shelf.clone(), bookmarks.clone());
        Ok(())
    }
}
