//! Lists: every interleaving of those who put, those who release or discard, and sweep, for a few tasks.
//!
//! As for trackers, what runs are the real calls of `Listing`, as histories over a recorder ([`crate::histories`]). A
//! process may die after any I/O; then it begins anew under the same key, or, if its write is made, nobody does: sweep
//! makes up for it. A copy of any taking may come again at any later time. A read of tasks may miss those that were put
//! last: a transaction's writes are seen one by one.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `TailAsRead` | two tasks have one token |
//! | `PutOnce` | a task is put twice |
//! | `NotPastTheTail` | a token is taken that was never given |
//! | `RememberedKey`, `LateCopyRefused` | one call takes twice |
//! | `RecordsWhoOwes`, `SentBeforeRemoved`, `MissingIsNotDone` | a released task is lost |
//! | `ClosedToReleases` | a closed list is released |
//!
//! Not covered: what is worked off in passing (it takes five that linger), removal of idle lists, pages, and ports that
//! answer with an error.

pub mod check;
mod io;
mod model;
mod ports;
pub mod process;
pub mod rules;
pub mod setting;
mod state;
mod world;
