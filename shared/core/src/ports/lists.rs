//! The lists, the tasks on them, and the index by which sweep finds them.

use super::declare::port;
use super::{Cleared, Entries, Look, Result, Stored};
use crate::domain::list::{Addition, Head, Life, List, Move, Put, Record, Slot, Tail};
use crate::domain::{ListId, Timestamp, Token};

/// What putting tasks found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOn {
    /// They are put, by this write.
    Yes,
    /// Earlier calls had some of the keys; this is what they put. Nothing was written.
    Before(Vec<Addition>),
    /// The tail was not as assumed.
    Conflict,
}

/// What became of a write of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is made, by this write or an earlier one of the same; this is the head now.
    Yes(Head),
    /// The head was not as assumed; this is it, if it is there.
    No(Option<Head>),
}

port! {
    /// The lists.
    pub trait Lists {
        /// Reads both ends of a list as they are now.
        async fn list(&self, id: &ListId) -> Result<Option<List>>;

        /// Writes a tail that has grown, its new tasks and whose they are, or nothing; a new list's head as well.
        /// Assumes: the tail is at the revision before, or a new one is not there, and nothing was put under these
        /// keys.
        async fn put_on_list(&self, put: &Put) -> Result<PutOn>;

        /// Finds what was put under up to a hundred keys; those not used are left out.
        async fn additions(&self, life: &Life, keys: &[String]) -> Result<Vec<Addition>>;

        /// Writes the head by one conditional update. Assumes what [`Head::after`] does.
        async fn move_head(&self, life: &Life, next: &Move) -> Result<Moved>;

        /// Finds how far a reservation is.
        async fn record(&self, life: &Life, key: &str) -> Result<Option<Record>>;

        /// Writes how far a reservation is. Assumes: nobody wrote that it is as far, or farther.
        async fn store_record(&self, life: &Life, record: &Record, now: Timestamp) -> Result<Stored>;

        /// Reads up to `limit` of the tasks that have these tokens, in order, as they are now. Fewer may come before
        /// the end; none come only if there are none. Tasks that were put a moment ago may be missing, although the
        /// tail shows their tokens.
        async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>>;

        /// Removes tasks; those that are gone stay so.
        async fn remove_slots(&self, life: &Life, tokens: &[Token]) -> Result<()>;

        /// Writes a whole tail, and whether it is open into the head, or neither. Assumes: the tail is at the revision
        /// before.
        async fn store_tail(&self, tail: &Tail) -> Result<Stored>;

        /// Looks at the lists that have an end which is due. The index lags behind them.
        async fn due_lists(&self, look: Look<'_>) -> Result<Entries<ListId>>;

        /// Removes some of what belongs to a list, but neither of its ends, and nothing of another list that has its
        /// name by now.
        async fn clear_list(&self, life: &Life) -> Result<Cleared>;

        /// Removes both ends of a list. Assumes: its tail is at this revision, or gone.
        async fn remove_list(&self, tail: &Tail) -> Result<Stored>;
    }
}
