//! What almost every test speaks of: the words of the glossary, the ports with what they answer, and the
//! worlds that tests live in.

pub use groupage_core::domain::*;
pub use groupage_core::memory::{Delivery, MemoryQueues, MemoryStore};
pub use groupage_core::ports::{
    Acquired, Added, Advanced, Answer, Batches, Call, Census, Cleared, Destination, Downstream, Ended, Env, Freshness,
    Gates, Inbox, Joined, Lanes, LinedUp, Lists, Locks, Look, Looked, Marked, Moved, Newcomer, NoAnswer, Opened,
    Outbox, Outgoing, Page, PassedOver, PutBack, PutOn, Registered, Released, Renewed, Seen, Segment, Sessions,
    Settlement, Shelves, Signalled, Store, Stored, StreamOpened, Streams, Tasks, Trackers, Waiting, WaitingPage,
    WayBack,
};
pub use groupage_core::routes::Routes;

pub use crate::clock::{TestEnv, in_virtual_time};
pub use crate::downstream::{Scripted, ok};
pub use crate::faulty::Faulty;
pub use crate::lag::{Lag, Lagging};
pub use crate::memory::{Memory, track};
pub use crate::parcels_route;
pub use crate::process::{Fate, Fault, Plan, Process, Side};
pub use crate::promises::broken;
pub use crate::records::{first, records};
pub use crate::scenario::{parcel, parcels, routes_with};
pub use crate::world::{Setting, VISIBILITY_MS, World};
