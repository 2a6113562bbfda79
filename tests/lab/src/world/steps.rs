//! Each step as a process of a world runs it: the one place that knows what a step is made of.

use groupage_aws::entry::mapping::{GROUP, TASKS};
use groupage_core::domain::failed::Wanted;
use groupage_core::domain::message::{Group, Handle};
use groupage_core::routes::Route;
use groupage_core::steps::Error;
use groupage_core::steps::cancel::{self, Cancelling};
use groupage_core::steps::elect::ElectLeader;
use groupage_core::steps::election_messages::send_next;
use groupage_core::steps::erase::{self, Erasing};
use groupage_core::steps::failed::{Each, Failing};
use groupage_core::steps::group::GroupBatch;
use groupage_core::steps::handle::{self, HandleBatch};
use groupage_core::steps::heartbeat::Heartbeat;
use groupage_core::steps::hold::Holding;
use groupage_core::steps::lane::{Ordering, Resumed, Skipped};
use groupage_core::steps::process::Processor;
use groupage_core::steps::process::notify::Announced;
use groupage_core::steps::register::{Record, Report};
use groupage_core::steps::sweep::{Budget, Sweep};
use groupage_core::steps::wake::Waker;
use groupage_core::steps::work::Worker;

use super::World;
use crate::prelude::*;
use crate::records::received;

/// How often sweep runs, in milliseconds.
const SWEEP_MS: u64 = 60_000;
/// A pull worker that finds nothing looks again after this many milliseconds.
const IDLE_MS: u64 = 2_000;

impl World {
    pub(crate) async fn register_as(&self, process: &Process, records: Vec<Record>) -> Report {
        self.register_under(&self.known()[0], process, records).await
    }

    pub(crate) async fn register_under(&self, routes: &Routes, process: &Process, records: Vec<Record>) -> Report {
        let (store, queues) = (Faulty::new(&self.store, process), Faulty::new(&self.queues, process));
        let deadline = process.env().now().plus_ms(TASKS.budget_ms());
        let (env, rations, asked) = (process.env(), &Rations::default(), &self.asked);
        Register { store: &store, queues: &queues, env, routes, deadline, rations, asked }.run(records).await
    }

    pub(crate) async fn resume_as(&self, process: &Process, lane: &LaneId) -> Result<Resumed, Error> {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let notify = self.known()[0].get(&lane.route()).map(|route| route.notify.clone()).unwrap_or_default();
        Ordering { store, outbox, env: process.env() }.resume(lane, &notify).await
    }

    pub(crate) async fn skip_as(&self, process: &Process, lane: &LaneId, missing: Turn) -> Result<Skipped, Error> {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        Ordering { store, outbox, env: process.env() }.skip(lane, missing).await
    }

    pub(crate) async fn retry_as(&self, process: &Process, task: &TaskId) -> Result<Each, Error> {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let failing = Failing { store, outbox, env: process.env() };
        // As a person finds it: on the list. Another may have run it again since.
        let (route, from, until) = (RouteName::new("parcels"), Timestamp::default(), Timestamp(u64::MAX));
        let wanted = Wanted { route, target: None, reason: None, from, until };
        let mut after = None;
        loop {
            let page = failing.list(&wanted, after.as_ref(), 100).await?;
            let is_listed = page.tasks.iter().any(|failed| failed.filed.id == *task);
            after = page.next.filter(|_| !is_listed);
            if after.is_none() {
                break;
            }
        }
        failing.retry(&self.known()[0], std::slice::from_ref(task)).await
    }

    pub(crate) async fn hold_as(&self, process: &Process, scope: &Scope) -> Result<Gate, Error> {
        let store = &Faulty::new(&self.store, process);
        let held = Holding { store, env: process.env() }.pause(scope, Some("a test")).await?;
        held.map_err(|refused| Error::BadMessage(refused.to_string()))
    }

    pub(crate) async fn let_go_as(&self, process: &Process, scope: &Scope) -> Result<Gate, Error> {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let resumed = Holding { store, env: process.env() }.resume(scope).await?;
        let known = self.known();
        if let Some(route) = scope.route().and_then(|route| known[0].get(&route)) {
            Waker::new(store, outbox, process.env(), route).wake_behind(scope).await?;
        }
        Ok(resumed)
    }

    pub(crate) async fn cancel_as(&self, process: &Process, task: &TaskId) -> cancel::Each {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let cancelling = Cancelling { store, outbox, env: process.env() };
        cancelling.cancel(&self.known()[0], std::slice::from_ref(task)).await
    }

    pub(crate) async fn cancel_of_as(&self, process: &Process, tracker: &TrackerId) -> Result<(), Error> {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let cancelling = Cancelling { store, outbox, env: process.env() };
        // All of them are found in one go.
        let _ = cancelling.cancel_of(&self.known()[0], tracker, None, Timestamp(u64::MAX)).await?;
        Ok(())
    }

    pub(crate) async fn erase_as(&self, process: &Process, task: &TaskId) -> Result<erase::Each, Error> {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        Erasing { store, outbox, env: process.env() }.erase(&self.known()[0], std::slice::from_ref(task)).await
    }

    pub(crate) async fn deliver_as(&self, process: &Process, delivery: &Delivery) -> Result<bool, Error> {
        let (store, queues) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let known = self.known();
        let (env, routes, body) = (process.env(), &known[0], &delivery.outgoing.body);
        let bad = |error: serde_json::Error| Error::BadMessage(error.to_string());
        match delivery.outgoing.to {
            Destination::Tasks | Destination::InOrder(_) | Destination::Gather(_) => {
                Ok(self.register_as(process, vec![received(delivery)]).await.kept().next().is_none())
            }
            Destination::Elect => {
                let message: Elect = serde_json::from_str(body).map_err(bad)?;
                let step = ElectLeader { store, env, routes, draw: env.random() };
                let decided = step.run(message, delivery.received > 1).await?;
                let next_messages = decided.next_messages.into_iter().map(|next_message| ((), next_message)).collect();
                match send_next(queues, next_messages).await.into_iter().next() {
                    Some(((), error)) => Err(error.into()),
                    None => Ok(true),
                }
            }
            Destination::Group => {
                let message: Group = serde_json::from_str(body).map_err(bad)?;
                let deadline = env.now().plus_ms(GROUP.budget_ms());
                let routes = &known[1];
                let step = GroupBatch { store, queue: queues, env, routes, deadline };
                let delivery = handle::Delivery { receipt: &delivery.receipt, received: delivery.received };
                step.run(message, delivery).await.map(|_| true)
            }
            Destination::Handle | Destination::LongHandle => {
                let message: Handle = serde_json::from_str(body).map_err(bad)?;
                let batch = self.tables().batch(&message.batch).await?;
                let has_time = |batch: Batch| batch.ticket.is_some() && batch.due > env.now();
                if self.setting.mutation == Some(Mutation::WaitsOutItsTicket) && batch.is_some_and(has_time) {
                    return Ok(false);
                }
                let downstream = &Faulty::new(&self.downstream, process);
                let timing = Timing::default();
                let step = HandleBatch {
                    store,
                    queue: queues,
                    reads: &delivery.outgoing.to,
                    downstream,
                    env,
                    routes,
                    timing,
                    worker: "test",
                    announced: &Announced::default(),
                };
                let delivery = handle::Delivery { receipt: &delivery.receipt, received: delivery.received };
                Ok(!step.run(message, delivery).await?.keeps_its_message())
            }
            Destination::Rejected | Destination::Notification(_) => Ok(true),
        }
    }

    pub(crate) async fn sweep_for_ever(&self) {
        loop {
            self.env.sleep(SWEEP_MS).await;
            let process = self.mortal("sweep");
            let (store, outbox) = (Faulty::new(&self.store, &process), Faulty::new(&self.queues, &process));
            let known = self.known();
            let (env, routes, budget) = (process.env(), &known[0], Budget::default());
            let lifetimes = Lifetimes::default();
            let sweep = Sweep { store: &store, outbox: &outbox, env, routes, budget, every_ms: SWEEP_MS, lifetimes };
            // Whatever becomes of it, there is a next one.
            let _ = process.run(sweep.run(), || {}).await;
        }
    }

    pub(crate) async fn work_for_ever(&self) {
        loop {
            let process = self.mortal("work");
            process.run(self.work_as(&process), || {}).await;
            self.env.sleep(IDLE_MS).await;
        }
    }

    /// A worker's life until its session is lost.
    async fn work_as(&self, process: &Process) {
        let Some((route, _)) = self.setting.workers else { return };
        let (store, outbox) = (Faulty::new(&self.store, process), Faulty::new(&self.queues, process));
        let (downstream, env) = (Faulty::new(&self.downstream, process), process.env());
        let route = RouteName::new(route);
        let id = SessionId::within(&Pool::of_route(&route), &env.fresh_id());
        let heartbeat = Heartbeat::new(&store, env, Timing::default(), id, "test");
        if !matches!(heartbeat.open().await, Ok(Ok(()))) {
            return;
        }
        let announced = &Announced::default();
        let work = async {
            loop {
                let versions = self.versions();
                let Some((_, known)) = versions.last() else { return };
                let routes = &known[0];
                let (store, outbox, downstream) = (&store, &outbox, &downstream);
                let (patience_ms, heartbeat) = (10_000, &heartbeat);
                let processor = Processor { store, outbox, downstream, env, routes, patience_ms, announced, heartbeat };
                let mut worker = Worker::new(processor, route.clone());
                // It goes by other routes once it has heard of them.
                while versions.len() == self.versions().len() {
                    let is_pulled = routes.get(&route).is_some_and(Route::is_pulled);
                    match if is_pulled { worker.work().await } else { Ok(None) } {
                        Ok(None) | Err(_) => env.sleep(IDLE_MS).await,
                        Ok(Some(_)) => {}
                    }
                }
            }
        };
        // Its end is the session's.
        let _: Result<(), _> = heartbeat.keep(work).await;
    }
}
