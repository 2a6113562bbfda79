//! How long after a worker's last look at its gate its call may still come: what a person who holds a route must bear.

use groupage_core::domain::message::Handle;
use groupage_core::ports::Result;
use groupage_core::steps::handle::{self, HandleBatch};
use groupage_core::steps::process::notify::Announced;
use groupage_lab::prelude::*;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Reading tasks takes longer than a heartbeat, and renewing a session takes for ever.
const READING: Duration = Duration::from_millis(1_500);

/// Tables in which a renewal does not end, and when a gate was last read there.
struct Slow<'a>(&'a MemoryStore, Mutex<Option<Instant>>);

around_tables! { Slow<'_>, |it| it.0; Failures, Lanes, Locks, Batches, Trackers, Lists, Streams, Shelves }

impl layer::Tasks for Slow<'_> {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        sleep(READING).await;
        self.0.read(ids, freshness).await
    }
}

impl layer::Sessions for Slow<'_> {
    async fn renew(&self, session: &Session) -> Result<Renewed> {
        sleep(Duration::from_secs(3)).await;
        self.0.renew(session).await
    }
}

impl layer::Gates for Slow<'_> {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        *self.1.lock().unwrap() = Some(Instant::now());
        self.0.gate(scope).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_under_way_does_not_come_between_the_last_look_at_the_gate_and_the_call() {
    let routes = parcels_route!["batch: { max_items: 1, express: true }"];
    let world = World::new(Setting::default(), routes, Scripted::accepting());
    world.register(&parcels(1, 1)).await;
    let message: Handle =
        serde_json::from_str(&world.queues.now().messages(&Destination::Handle).pop().unwrap().body).unwrap();
    let slow = Slow(world.tables(), Mutex::default());
    let looked_at_the_call = Mutex::new(None);
    let downstream = Noting { called: &looked_at_the_call, looked: &slow.1 };
    let step = HandleBatch {
        store: &slow,
        queue: &world.queues,
        reads: &Destination::Handle,
        downstream: &downstream,
        env: &world.env,
        routes: &world.routes,
        timing: Timing::default(),
        worker: "w",
        announced: &Announced::default(),
    };
    step.run(message, handle::Delivery { receipt: "r", received: 1 }).await.unwrap();
    let since_the_look = looked_at_the_call.into_inner().unwrap();
    assert_eq!(since_the_look, Some(Duration::ZERO), "a pause that begins meanwhile would not be seen");
}

/// Accepts a call, and notes how long before it the gate was read.
struct Noting<'a> {
    called: &'a Mutex<Option<Duration>>,
    looked: &'a Mutex<Option<Instant>>,
}

impl Downstream for Noting<'_> {
    async fn call(&self, _: &Call<'_>) -> std::result::Result<Answer, NoAnswer> {
        *self.called.lock().unwrap() = self.looked.lock().unwrap().map(|at| at.elapsed());
        Ok(ok(""))
    }
}
