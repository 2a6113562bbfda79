//! The protocol's states and decisions, pure: no clock, no randomness, no I/O, no AWS.
//!
//! Each decision takes what was read and what is wanted and answers with the write to make and its
//! precondition; the adapters write exactly that. Time and random numbers are arguments.

pub mod answer;
pub mod batch;
pub mod cancelled;
pub mod copies;
pub mod destination;
pub mod drain;
pub mod ended;
pub mod erased;
pub mod failed;
pub mod gate;
pub mod id;
pub mod json;
pub mod lane;
pub mod list;
pub mod lock;
pub mod message;
pub mod notice;
pub mod outcome;
pub mod output;
pub mod ration;
pub mod rest;
pub mod retry;
pub mod sender;
pub mod session;
pub mod shelf;
pub mod shown;
pub mod stream;
pub mod task;
pub mod task_message;
pub mod time;
pub mod times;
pub mod trace;
pub mod tracker;
pub mod traits;
pub mod when;
pub mod why;

// The words of the glossary that everything else is said with.
pub use batch::{Batch, Member};
pub use copies::Copies;
pub use failed::{Failed, Failure};
pub use gate::Gate;
pub use id::{
    BatchId, Beat, Fence, LaneId, ListId, Part, Pool, Revision, Round, RouteName, Seq, SessionId, Shard, StreamId,
    Target, TaskId, Token, TrackerId, Turn, WorkflowId,
};
pub use lane::Lane;
pub use list::List;
pub use lock::{Lock, Term};
pub use notice::NotificationQueue;
pub use outcome::{Exception, Reason, Results};
pub use rest::Rest;
pub use retry::Retryable;
pub use session::Session;
pub use shelf::Shelf;
pub use stream::{EventId, Offset, Stream};
pub use task::{Candidate, Task};
pub use task_message::TaskMessage;
pub use time::Timestamp;
pub use trace::TraceParent;
pub use tracker::{ItemId, Outcome, Tracker};
pub use traits::Traits;
