//! What almost every test speaks of: the words of the glossary, the ports with what they answer, and the
//! worlds that tests live in.

pub use groupage_core::domain::batch::Claim;
pub use groupage_core::domain::gate::Scope;
pub use groupage_core::domain::lane::{Numbering, OnFailure};
pub use groupage_core::domain::list::Purpose;
pub use groupage_core::domain::lock::Holder;
pub use groupage_core::domain::message::Elect;
pub use groupage_core::domain::rest::Stage;
pub use groupage_core::domain::session::Timing;
pub use groupage_core::domain::tracker::{GROUP_SIZE, ItemRange, Mark, Node, NodeId};
pub use groupage_core::domain::*;
pub use groupage_core::memory::{Delivery, MemoryQueues, MemoryStore};
pub use groupage_core::ports::{
    Acquired, Added, Advanced, Answer, Batches, Call, Census, Cleared, Destination, Downstream, Ended, Env, Failures,
    Freshness, Gates, Inbox, Joined, Lanes, LinedUp, Lists, Locks, Look, Looked, Marked, Moved, Newcomer, NoAnswer,
    Opened, Outbox, Outgoing, Page, PassedOver, PutBack, PutOn, Registered, Released, Renewed, Seen, Segment, Sessions,
    Settlement, Shelves, Signalled, Store, Stored, StreamOpened, Streams, Tasks, Trackers, Waiting, WaitingPage,
    WayBack, layer,
};
pub use groupage_core::routes::Routes;
pub use groupage_core::steps::list::Listing;
pub use groupage_core::steps::register::{Asked, Rations, Register};
pub use groupage_core::steps::track::{Lifetimes, Tracking};

pub use crate::clock::{TestEnv, in_virtual_time};
pub use crate::downstream::{Scripted, ok, status};
pub use crate::faulty::Faulty;
pub use crate::lag::{Lag, Lagging};
pub use crate::memory::{Memory, track};
pub use crate::mutation::Mutation;
pub use crate::process::{Fate, Fault, Plan, Process, Side};
pub use crate::promises::{assert_kept, broken};
pub use crate::records::{first, records};
pub use crate::scenario::{Scenario, keyed, parcel, parcels, routes_with, scheduled};
pub use crate::world::{Setting, VISIBILITY_MS, World};
pub use crate::{around_tables, parcels_route};
