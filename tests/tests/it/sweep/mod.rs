//! Sweep keeps its place: what cannot move starves nothing behind it, whatever becomes of a single sweep.

mod due;
mod shelves;
mod waiting;

use std::time::Duration;

use groupage_core::steps::Error;
use groupage_core::steps::sweep::{Budget, Report, Sweep};
use groupage_lab::prelude::*;

const EVERY_MS: u64 = 60_000;

const ROUTES: &str = parcels_route![];

/// Everything that a sweep needs beside its tables.
struct Stand {
    queues: MemoryQueues,
    env: TestEnv,
    routes: Routes,
    budget: Budget,
}

impl Stand {
    fn new(budget: Budget) -> Self {
        Self { queues: MemoryQueues::new(), env: TestEnv::new(1), routes: Routes::parse(ROUTES).unwrap(), budget }
    }

    /// One sweep.
    async fn sweep(&self, store: &impl Store) -> (Report, Result<(), Error>) {
        self.sweep_by(store, &self.queues).await
    }

    /// One sweep that sends by these queues.
    async fn sweep_by(&self, store: &impl Store, outbox: &impl Outbox) -> (Report, Result<(), Error>) {
        let Self { env, routes, budget, .. } = self;
        let lifetimes = Lifetimes::default();
        Sweep { store, outbox, env, routes, budget: *budget, every_ms: EVERY_MS, lifetimes }.run().await
    }

    /// Time passes until the next sweep.
    async fn wait(&self) {
        tokio::time::sleep(Duration::from_millis(EVERY_MS)).await;
    }
}
