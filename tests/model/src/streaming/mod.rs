//! Streams: every interleaving of sources, of those who settle events, and of sweep, for a few events.
//!
//! As for lanes, what runs are the real calls of `Streaming`, as histories over a recorder ([`crate::histories`]); one action
//! is one I/O of one process. A source feeds call by call and ends the stream, perhaps beside another that feeds the same, or
//! something else; whoever settles events begins once they are sent, at any time, and perhaps with what another settles as
//! well; sweep comes once in between, if the setting says so, and as often as it takes at the end. A process may
//! die after any write, and begins anew.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `FedAsRead`, `TracesCompared` | a number is two events' |
//! | `CommitAsRead` | a watermark falls |
//! | `OpenIsFed` | a stream is completed too early |
//! | `PageStays` | a watermark's offset is lost |
//! | `WordsAsRead`, `BitAboveFirst` | a settled event is so no more |
//! | `NothingFedSince`, `TracesWithNumbers`, `AsksAbove` | an event is lost |
//!
//! A group has 7,168 events, so most of them are settled from the beginning where a group's end takes part ([`setting`]).
//! Not covered: a full node above the groups, a full window, sources that give up, lives, streams that are forgotten, tasks that tell
//! a repeat when its page is gone, and ports that answer with an error.

pub mod check;
mod io;
mod model;
mod ports;
pub mod process;
mod promises;
pub mod rules;
pub mod setting;
mod state;
mod world;
