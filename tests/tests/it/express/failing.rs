//! Tasks that fail while they are in a rest.

use groupage_aws::entry::mapping::TASKS;
use groupage_core::ports;
use groupage_core::steps::register::Report;
use groupage_lab::prelude::*;

use super::{ROUTES, WAITED, sent, settles, world};

/// Registers a rest of these tasks that is at this stage, and its `call`th call to a port fails.
async fn failing(world: &World, bodies: &[String], stage: Stage, call: usize) -> Report {
    let body = Rest::body(bodies, stage, Shard::HOME);
    world.register_by(Plan::At(call, Side::Before, Fault::Error), &[body]).await
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_in_a_rest_goes_back_alone_and_its_neighbours_go_on() {
    for call in 0..3 {
        let world = world();
        let report = failing(&world, &parcels(3, 1), WAITED, call).await;
        assert_eq!((report.registered, report.sent_back.len(), report.failed.len()), (2, 1, 0), "put {call}");
        assert_eq!((world.tables().tasks().len(), sent(&world, &Destination::Elect)), (2, 1));
        let back = world.queues.now().messages(&Destination::Tasks);
        let [message] = &back[..] else { panic!("{back:?}") };
        let rest = Rest::parse(&message.body).unwrap();
        assert_eq!(rest.stage(), Stage::Failed);
        assert!(rest.tasks().eq([parcel(call, 0)].iter().map(String::as_str)), "{message:?}");
        settles(&world, 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_does_not_keep_its_group_though_nobody_came_with_it() {
    let world = world();
    let report = failing(&world, &parcels(1, 1), WAITED, 0).await;
    assert_eq!((report.sent_back.len(), report.failed.len()), (1, 0));
    assert_eq!(sent(&world, &Destination::Tasks), 1);
}

/// Queues that nobody reaches.
struct Unreachable;

impl Outbox for Unreachable {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<ports::Result<()>> {
        let lost = |_| Err(ports::Error::Unavailable { what: "sending", why: "a test".to_owned() });
        messages.iter().map(lost).collect()
    }
}

impl Inbox for Unreachable {
    async fn postpone(&self, _: &Destination, receipts: Vec<String>, _: u64) -> Vec<ports::Result<()>> {
        let lost = |_| Err(ports::Error::Unavailable { what: "postponing", why: "a test".to_owned() });
        receipts.iter().map(lost).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_rest_whose_tasks_cannot_be_sent_back_comes_again() {
    let routes = Routes::parse(ROUTES).unwrap();
    let record = first("m", &Rest::body(&parcels(3, 1), WAITED, Shard::HOME));
    let (store, env) = (MemoryStore::new(), TestEnv::new(1));
    let deadline = env.now().plus_ms(TASKS.budget_ms());
    let step = Register {
        store: &store,
        queues: &Unreachable,
        env: &env,
        routes: &routes,
        deadline,
        rations: &Rations::default(),
        asked: &Asked::default(),
    };
    let report = step.run(vec![record]).await;
    assert_eq!(report.failed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["m"]);
    assert_eq!((report.registered, report.sent_back.len()), (3, 0), "put, but nobody was asked to lead them");
}

#[tokio::test(start_paused = true)]
async fn what_failed_takes_nobody_with_it_who_could_gather() {
    let world = world();
    let mut event = parcels(5, 1);
    event[0] = Rest::body(&event[..1], Stage::Failed, Shard::HOME);
    let report = world.register(&event).await;
    assert_eq!((report.registered, report.gathered), (1, 4));
    settles(&world, 5).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_again_is_counted_by_its_queue() {
    let world = world();
    let report = failing(&world, &parcels(1, 1), Stage::Failed, 0).await;
    assert_eq!(report.failed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["m0"]);
    assert_eq!((report.sent_back.len(), sent(&world, &Destination::Tasks)), (0, 0));
}
