//! Trackers: every interleaving of an owner, ackers and sweep, for a few items.
//!
//! As for the rest, what runs are the real calls of `Tracking`, as histories over a recorder ([`process`]); one action is
//! one I/O of one process. An owner adds items and seals, ackers ack, one of them what another acks as well with another
//! outcome, and sweep comes once in between and as often as it takes at the end. A process may die after any I/O; then it
//! begins anew, or, if what it had to write is written, never does: sweep makes up for it. An eventual read shows any
//! version that there ever was, of the tracker and of each node by itself.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `LatestTracker` | nobody completes a tracker but sweep |
//! | `LatestParent` | the same, of two whole groups |
//! | `SealerLooks` | the same, if the seal comes last |
//! | `LooksForTheSeal` | a tracker is completed that is open, or lacks bits |
//! | `WordsAsRead` | a bit is cleared |
//! | `TrackerAsRead` | a tracker ends twice |
//! | `KeyOnce` | items are added twice, and nobody acks them |
//!
//! A node has 7,168 bits, so most of them are set from the beginning where more than one group takes part
//! ([`setting`]). Not covered: deadlines, abandoning, removal, three levels, and ports that answer with an error.

pub mod check;
mod io;
mod model;
mod ports;
pub mod process;
pub mod rules;
pub mod setting;
mod state;
mod world;
