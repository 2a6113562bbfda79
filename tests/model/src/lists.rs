//! No task here is for a list, so nobody asks.

use groupage_core::domain::id::{ListId, Part, Token};
use groupage_core::domain::list::{Addition, Life, List, Move, Put, Record, Slot, Tail};
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::{Cleared, Lists, Moved, PutOn, Result, Stored};

use crate::recorder::Recorder;
use crate::unasked::unasked;

impl Lists for Recorder {
    async fn list(&self, _: &ListId) -> Result<Option<List>> {
        Err(unasked())
    }

    async fn put_on_list(&self, _: &Put) -> Result<PutOn> {
        Err(unasked())
    }

    async fn additions(&self, _: &Life, _: &[String]) -> Result<Vec<Addition>> {
        Err(unasked())
    }

    async fn move_head(&self, _: &Life, _: &Move) -> Result<Moved> {
        Err(unasked())
    }

    async fn record(&self, _: &Life, _: &str) -> Result<Option<Record>> {
        Err(unasked())
    }

    async fn store_record(&self, _: &Life, _: &Record, _: Timestamp) -> Result<Stored> {
        Err(unasked())
    }

    async fn slots(&self, _: &Life, _: Token, _: Token, _: usize) -> Result<Vec<Slot>> {
        Err(unasked())
    }

    async fn remove_slots(&self, _: &Life, _: &[Token]) -> Result<()> {
        Err(unasked())
    }

    async fn store_tail(&self, _: &Tail) -> Result<Stored> {
        Err(unasked())
    }

    async fn due_lists(&self, _: Part, _: Timestamp, _: usize) -> Result<Vec<ListId>> {
        Err(unasked())
    }

    async fn clear_list(&self, _: &Life) -> Result<Cleared> {
        Err(unasked())
    }

    async fn remove_list(&self, _: &Tail) -> Result<Stored> {
        Err(unasked())
    }
}
