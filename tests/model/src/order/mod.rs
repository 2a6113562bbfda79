//! Lanes: every interleaving of those who bring tasks, of the pipeline, of those who hand turns over and of people who let a
//! lane go on, for a few tasks of one lane.
//!
//! As for lists, what runs are the real calls of `Ordering`, as histories over a recorder ([`crate::histories`]). The pipeline
//! is one action: a task that waits for a batch is settled, well or badly, at any time; whether its message was sent makes no
//! difference, since a leader may find it in the index. Then its follow-up hands its turn over. A process may die after any
//! write; it begins anew, as its message comes again or the person tries again. A follow-up may come once more, at once or
//! at any later time.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `LinedUpAsRead`, `FreeTurn` | two tasks have one turn |
//! | `LetInOnce` | a task has its turn twice |
//! | `OwnTurn`, `PassedOverFirst` | a task is let in before one ahead of it is settled |
//! | `StoppedForAll` | a task is let in behind a failure |
//! | `LaneAsRead`, `NewTask`, `SentBeforeLeft`, `LeavesItsOwn` | a task is lost |
//!
//! That only queued tasks are passed over shows nothing here: whoever has the turn is forgotten before the head moves past it.
//!
//! Not covered: more than one lane, the record's way into `line_up`, tasks that return to waiting, trackers, lanes that are
//! forgotten, pages, and ports that answer with an error.

pub mod check;
mod io;
mod model;
mod ports;
pub mod process;
pub mod rules;
pub mod setting;
mod state;
mod world;
