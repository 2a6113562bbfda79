//! What the API stands on.

use groupage_aws::entry::Stack;
use groupage_core::ports::{Env, Outbox, Store};
use groupage_core::steps::cancel::Cancelling;
use groupage_core::steps::erase::Erasing;
use groupage_core::steps::failed::Failing;
use groupage_core::steps::hold::Holding;
use groupage_core::steps::list::Listing;
use groupage_core::steps::stream::Streaming;
use groupage_core::steps::track::Tracking;

/// What the API stands on: tables, queues, and a machine.
pub trait Backend: Send + Sync + 'static {
    /// The tables.
    type Store: Store + Send + 'static;
    /// The queues.
    type Queues: Outbox + Send + 'static;
    /// Time, randomness, ids.
    type Env: Env + Send + 'static;

    /// All of them.
    fn stack(&self) -> &Stack<Self::Store, Self::Queues, Self::Env>;

    /// The tasks in them that wait.
    fn cancelling(&self) -> Cancelling<'_, Self::Store, Self::Queues, Self::Env> {
        let Stack { store, queues: outbox, env, .. } = self.stack();
        Cancelling { store, outbox, env }
    }

    /// The tasks in them, to be erased.
    fn erasing(&self) -> Erasing<'_, Self::Store, Self::Queues, Self::Env> {
        let Stack { store, queues: outbox, env, .. } = self.stack();
        Erasing { store, outbox, env }
    }

    /// The failed tasks in them.
    fn failing(&self) -> Failing<'_, Self::Store, Self::Queues, Self::Env> {
        let Stack { store, queues: outbox, env, .. } = self.stack();
        Failing { store, outbox, env }
    }

    /// The trackers in them.
    fn tracking(&self) -> Tracking<'_, Self::Store, Self::Queues, Self::Env> {
        let Stack { store, queues: outbox, env, .. } = self.stack();
        Tracking { store, outbox, env }
    }

    /// Calls held back by hand.
    fn holding(&self) -> Holding<'_, Self::Store, Self::Env> {
        let Stack { store, env, .. } = self.stack();
        Holding { store, env }
    }

    /// The lists in them.
    fn listing(&self) -> Listing<'_, Self::Store, Self::Queues, Self::Env> {
        let Stack { store, queues: outbox, env, .. } = self.stack();
        Listing { store, outbox, env }
    }

    /// The streams in them.
    fn streaming(&self) -> Streaming<'_, Self::Store, Self::Queues, Self::Env> {
        let Stack { store, queues: outbox, env, .. } = self.stack();
        Streaming { store, outbox, env }
    }
}

impl<S, Q, E> Backend for Stack<S, Q, E>
where
    S: Store + Send + 'static,
    Q: Outbox + Send + 'static,
    E: Env + Send + 'static,
{
    type Store = S;
    type Queues = Q;
    type Env = E;

    fn stack(&self) -> &Self {
        self
    }
}
