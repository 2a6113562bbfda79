//! A leader's invocation that ends before its work does: its time is up, or a port does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use groupage_aws::entry::mapping::GROUP;
use groupage_core::domain::batch::{Assumes, Status};
use groupage_core::domain::lock::{Bid, Holder, bid};
use groupage_core::domain::message::{Group, Lead};
use groupage_core::ports::{Error, Result, layer};
use groupage_core::steps::group::{GroupBatch, Report};
use groupage_core::steps::{self, handle};
use groupage_lab::prelude::*;

/// A window so long that a leader whose batch is nearly full stays and looks again and again.
const ROUTES: &str = parcels_route!["batch: { max_items: 10, wait_ms: 120000, express: false }"];

/// A queue that does not answer at first.
struct Jammed<'a, Q> {
    queues: &'a Q,
    refusals: AtomicUsize,
}

impl<Q: Outbox> Outbox for Jammed<'_, Q> {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let refuses = self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if refuses.is_err() {
            return self.queues.send(messages).await;
        }
        messages.iter().map(|_| Err(Error::Unavailable { what: "sending", why: "a test".to_owned() })).collect()
    }
}

impl<Q: Inbox> Inbox for Jammed<'_, Q> {
    async fn postpone(&self, from: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        self.queues.postpone(from, receipts, delay_ms).await
    }
}

/// A world in which this many tasks wait, and the message that asks for their leader.
async fn asked(tasks: usize) -> (World, Delivery) {
    let world = World::new(Setting::default(), ROUTES, Scripted::accepting());
    let bodies: Vec<String> = (0..tasks).map(|n| format!(r#"{{"id":"p{n}","payload":{{"truck":"t"}}}}"#)).collect();
    assert!(world.register(&bodies).await.failed.is_empty());
    let election = world.queues.now().receive_from(&Destination::Elect, VISIBILITY_MS).unwrap();
    (world, election)
}

/// Lets them elect, and receives the leader's message.
async fn elected(world: &World, election: &Delivery) -> Delivery {
    assert!(world.deliver(election).await.unwrap());
    world.queues.now().delete(&election.receipt);
    world.queues.now().receive_from(&Destination::Group, VISIBILITY_MS).unwrap()
}

/// A world in which this many tasks have a leader, and that leader's message.
async fn led(tasks: usize) -> (World, Delivery) {
    let (world, election) = asked(tasks).await;
    let leading = elected(&world, &election).await;
    (world, leading)
}

/// One invocation for this message, which is deleted if it is done.
async fn lead(world: &World, delivery: &Delivery, refusals: usize, deadline: Timestamp) -> Report {
    let queue = &Jammed { queues: &world.queues, refusals: AtomicUsize::new(refusals) };
    let (store, env, routes) = (&world.store, &world.env, &world.routes);
    let message = serde_json::from_str(&delivery.outgoing.body).unwrap();
    let Delivery { receipt, received, .. } = delivery;
    let came = handle::Delivery { receipt, received: *received };
    let report = GroupBatch { store, queue, env, routes, deadline }.run(message, came).await.unwrap();
    world.queues.now().delete(&delivery.receipt);
    report
}

/// The only message of a leader, and in how long it comes.
fn waiting_leader(world: &World) -> (Lead, u64) {
    let messages = world.queues.now().messages(&Destination::Group);
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    let Group::Lead(lead) = serde_json::from_str(&message.body).unwrap() else { panic!("{message:?}") };
    (lead, message.delay_ms)
}

async fn calls_all(world: &World, tasks: usize) {
    world.run_to_rest().await.unwrap();
    let called: usize = world.downstream.ledger().iter().map(|seen| seen.items.len()).sum();
    assert_eq!((called, world.downstream.ledger().len()), (tasks, 1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_time_is_up_leaves_its_batch_open_and_comes_back_to_it() {
    let (world, message) = led(9).await;
    let began = world.env.now();
    let report = lead(&world, &message, 0, began).await;
    assert!(report.batches == 0 && report.interrupted.is_none(), "{report:?}");
    assert_eq!(world.env.now(), began, "it must not stay and sleep");
    let (lead, delay_ms) = waiting_leader(&world);
    assert!(lead.resume.is_some(), "what it knows goes with it: {lead:?}");
    assert_eq!(delay_ms, 0, "its batch is nearly full");
    calls_all(&world, 9).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_time_is_up_between_two_batches_knows_later_how_fast_they_filled() {
    let (world, message) = led(15).await;
    let report = lead(&world, &message, 0, world.env.now()).await;
    assert_eq!((report.batches, report.members), (1, 10));
    let (lead, delay_ms) = waiting_leader(&world);
    assert_eq!((lead.pace.members, lead.tasks.len(), delay_ms), (10, 5, 0));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_tasks_are_all_elsewhere_does_not_wait_for_others() {
    let (world, message) = led(9).await;
    let other = BatchId::new("another");
    for task in world.tables().tasks() {
        assert_eq!(world.tables().join(&task.id, task.round, &other).await.unwrap(), Joined::Yes);
    }
    let began = world.env.now();
    let report = lead(&world, &message, 0, began.plus_ms(30_000)).await;
    assert!(report.batches == 0 && report.interrupted.is_none(), "{report:?}");
    assert_eq!((world.env.now(), world.queues.now().messages(&Destination::Group).len()), (began, 0));
    let locks = world.tables().held_locks().await.unwrap();
    assert!(locks.is_empty(), "{locks:?}");
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_counts_what_its_tasks_have_waited() {
    let (world, election) = asked(3).await;
    let (began, target) = (world.env.now(), Target::new("parcels:t"));
    let dead = Holder { workflow: WorkflowId::new("dead"), waits_since: began, lease_until: began };
    let Bid::Acquire(acquisition) = bid(None, &target, &dead, began) else { panic!("free") };
    assert_eq!(world.tables().acquire(&target, &acquisition).await.unwrap(), Acquired::Yes);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let message = elected(&world, &election).await;
    lead(&world, &message, 0, world.env.now()).await;
    let windows: Vec<Status> = world.tables().batches().into_iter().map(|batch| batch.status).collect();
    assert!(windows.contains(&Status::Open { until: began.plus_ms(120_000) }), "{windows:?}");
    calls_all(&world, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_answer_says_so_and_comes_back_soon() {
    let (world, message) = led(10).await;
    let report = lead(&world, &message, 1, world.env.now().plus_ms(30_000)).await;
    assert!(matches!(report.interrupted, Some(Error::Unavailable { .. })), "{report:?}");
    let (lead, delay_ms) = waiting_leader(&world);
    assert!(lead.verify && delay_ms == 2_000, "{lead:?} in {delay_ms} ms");
    calls_all(&world, 10).await;
}

/// The tables beside another delivery of the same message, which writes the batch a moment earlier.
struct Overtaken<'a>(&'a MemoryStore);

around_tables! { Overtaken<'_>, |it| it.0; Locks }

impl layer::Tasks for Overtaken<'_> {
    type Cursor = <MemoryStore as Tasks>::Cursor;
}

impl layer::Batches for Overtaken<'_> {
    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let others = Batch { created_at: Timestamp(batch.created_at.0 - 1), ..batch.clone() };
        self.0.store(&others, assumes).await?;
        self.0.store(batch, assumes).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_met_another_delivery_gives_its_message_back_at_once() {
    let (world, election) = asked(10).await;
    assert!(world.deliver(&election).await.unwrap());
    // As long as the template hides it.
    let visibility_ms = GROUP.visibility_s * 1_000;
    let message = world.queues.now().receive_from(&Destination::Group, visibility_ms).unwrap();
    let (store, queue, env, routes) = (&Overtaken(world.tables()), &world.queues, &world.env, &world.routes);
    let lead = serde_json::from_str(&message.outgoing.body).unwrap();
    let came = handle::Delivery { receipt: &message.receipt, received: message.received };
    let deadline = env.now().plus_ms(30_000);
    let led = GroupBatch { store, queue, env, routes, deadline }.run(lead, came).await;
    assert!(matches!(led, Err(steps::Error::Conflict(_))), "{led:?}");
    // The other one may be dead by now, and holds the lock.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let again = world.queues.now().receive_from(&Destination::Group, visibility_ms).expect("it comes again");
    assert_eq!((again.receipt, again.received), (message.receipt, 2));
}

/// The tables beside a rival, who takes this many tasks right before they are moved.
struct Rivalled<'a> {
    tables: &'a MemoryStore,
    left: AtomicUsize,
    /// The most candidates that a batch was written with.
    most: AtomicUsize,
}

around_tables! { Rivalled<'_>, |it| it.tables; Locks }

impl layer::Batches for Rivalled<'_> {
    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        self.most.fetch_max(batch.members.len(), Ordering::Relaxed);
        self.tables.store(batch, assumes).await
    }
}

impl layer::Tasks for Rivalled<'_> {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn join(&self, task: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            self.tables.join(task, round, &BatchId::new("a rival's")).await?;
        }
        self.tables.join(task, round, batch).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_batch_never_has_more_candidates_than_fit_into_it() {
    let (world, message) = led(100).await;
    let store = &Rivalled { tables: world.tables(), left: AtomicUsize::new(92), most: AtomicUsize::new(0) };
    let (queue, env, routes, deadline) = (&world.queues, &world.env, &world.routes, world.env.now());
    let lead = serde_json::from_str(&message.outgoing.body).unwrap();
    let came = handle::Delivery { receipt: &message.receipt, received: 1 };
    GroupBatch { store, queue, env, routes, deadline }.run(lead, came).await.unwrap();
    let batches = world.tables().batches();
    let joined: Vec<usize> = batches.iter().map(|batch| batch.members.len()).collect();
    assert_eq!(store.left.load(Ordering::Relaxed), 0, "the rival took what it could");
    assert!(
        store.most.load(Ordering::Relaxed) <= 10,
        "a batch of 10 at most with {:?} candidates: {joined:?}",
        store.most
    );
}
