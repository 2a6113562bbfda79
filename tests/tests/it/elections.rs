//! Elections that share a message: each ends for itself.

use std::collections::BTreeSet;

use groupage_core::domain::lock::{Bid, Holder, Lock, bid};
use groupage_core::domain::message::{Elect, Election};
use groupage_lab::prelude::*;

const TARGETS: usize = 12;

async fn asked() -> (World, Delivery, Vec<Election>) {
    asked_in(5).await
}

/// A world whose calls take so long, in which one event brought a task for each Target, and the first of their
/// elections' messages.
async fn asked_in(latency_ms: u64) -> (World, Delivery, Vec<Election>) {
    let world = World::new(Setting { latency_ms, ..Setting::default() }, &routes_with(""), Scripted::accepting());
    assert!(world.register(&parcels(TARGETS, TARGETS)).await.failed.is_empty());
    assert_eq!(elections(&world).iter().map(Vec::len).collect::<Vec<_>>(), [10, 2]);
    let delivery = world.queues.now().receive_from(&Destination::Elect, VISIBILITY_MS).unwrap();
    let elections = of(&delivery.outgoing.body);
    (world, delivery, elections)
}

fn of(body: &str) -> Vec<Election> {
    match serde_json::from_str(body).unwrap() {
        Elect::Waiting(election) => vec![election],
        Elect::Several(elections) => elections,
        other @ (Elect::Returning(_) | Elect::Due(_)) => panic!("{other:?}"),
    }
}

/// What each message of the elect queue carries.
fn elections(world: &World) -> Vec<Vec<Election>> {
    world.queues.now().messages(&Destination::Elect).iter().map(|message| of(&message.body)).collect()
}

async fn run(world: &World) {
    world.run_to_rest().await.unwrap();
    let sent: BTreeSet<String> = (0..TARGETS).map(|n| format!("p{n}")).collect();
    assert_eq!(broken(world, &sent), Vec::<String>::new());
    assert_eq!(world.downstream.ledger().len(), TARGETS);
}

#[tokio::test(start_paused = true)]
async fn losers_come_back_in_one_message() {
    let (world, delivery, lost) = asked().await;
    for Election { target, .. } in &lost {
        let now = world.env.now();
        let dead = Holder { workflow: WorkflowId::new("dead"), waits_since: now, lease_until: now.plus_ms(32_000) };
        let Bid::Acquire(acquisition) = bid(None, target, &dead, now) else { panic!("free") };
        assert_eq!(world.tables().acquire(target, &acquisition).await.unwrap(), Acquired::Yes);
    }
    assert!(world.deliver(&delivery).await.unwrap());
    world.queues.now().delete(&delivery.receipt);
    let waiting = elections(&world);
    assert_eq!(waiting.iter().map(Vec::len).collect::<BTreeSet<_>>(), BTreeSet::from([2, 10]));
    let again = waiting.iter().find(|waiting| waiting.len() == 10).unwrap();
    assert!(again.iter().all(|election| election.attempt == 1 && election.signalled.is_some()));
    let workflows = |elections: &[Election]| elections.iter().map(|one| one.workflow.clone()).collect::<BTreeSet<_>>();
    assert_eq!(workflows(again), workflows(&lost));
    run(&world).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_goes_on_alone_and_the_others_are_led() {
    for (call, side) in (0..20).flat_map(|call| [(call, Side::Before), (call, Side::After)]) {
        let (world, delivery, _) = asked().await;
        assert!(world.deliver_by(Plan::At(call, side, Fault::Error), &delivery).await.unwrap(), "{call}, {side:?}");
        world.queues.now().delete(&delivery.receipt);
        let leaders = world.queues.now().messages(&Destination::Group).len();
        let alone: Vec<Vec<Election>> = elections(&world).into_iter().filter(|pack| pack.len() == 1).collect();
        assert_eq!((leaders, alone.len()), (9, 1), "{call}, {side:?}");
        assert_eq!(alone.concat().first().map(|election| election.attempt), Some(1), "it may have won");
        run(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn if_all_of_them_fail_each_goes_on_alone() {
    let (world, delivery, asked) = asked().await;
    let of_no_route = |election: Election| Election { target: Target::new("gone:t"), ..election };
    let body = serde_json::to_string(&Elect::Several(asked.into_iter().map(of_no_route).collect())).unwrap();
    let outgoing = Outgoing { body, ..delivery.outgoing.clone() };
    assert!(world.deliver(&Delivery { outgoing, ..delivery }).await.unwrap());
    let mut packs: Vec<usize> = elections(&world).iter().map(Vec::len).collect();
    packs.sort_unstable();
    assert_eq!(packs, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 10], "the two messages from before, and each alone");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_again_is_taken_apart() {
    let (world, delivery, asked) = asked().await;
    assert!(world.deliver(&Delivery { received: 2, ..delivery.clone() }).await.unwrap());
    world.queues.now().delete(&delivery.receipt);
    assert!(world.queues.now().messages(&Destination::Group).is_empty(), "one of them may end the process each time");
    let alone: Vec<Election> = elections(&world).into_iter().filter(|pack| pack.len() == 1).flatten().collect();
    assert!(alone.iter().all(|election| election.attempt == 1), "an earlier delivery may have held it");
    let workflows = |elections: &[Election]| elections.iter().map(|one| one.workflow.clone()).collect::<Vec<_>>();
    assert_eq!(workflows(&alone), workflows(&asked));
    run(&world).await;
}

#[tokio::test(start_paused = true)]
async fn if_some_take_long_those_behind_them_come_again() {
    let (world, delivery, asked) = asked_in(4_000).await;
    assert!(world.deliver(&delivery).await.unwrap());
    world.queues.now().delete(&delivery.receipt);
    let led = world.queues.now().messages(&Destination::Group).len();
    assert!((5..10).contains(&led), "those that are held at once, and whoever finds a place in time: {led}");
    let left = elections(&world).into_iter().find(|pack| pack.len() == 10 - led).unwrap();
    assert!(left.iter().all(|election| election.attempt == 1));
    let workflows = |elections: &[Election]| elections.iter().map(|one| one.workflow.clone()).collect::<BTreeSet<_>>();
    assert_eq!(workflows(&left), workflows(&asked[led..]));
}

/// A world in which the first of these tasks of one Target has a leader whose window is open.
async fn led() -> World {
    let patient = parcels_route![
        "batch: { max_items: 50, wait_ms: 10000, express: false }",
        "notify: { success: default, failure: default }"
    ];
    let world = World::new(Setting::default(), patient, Scripted::accepting());
    world.register(&parcels(1, 1)).await;
    let election = world.queues.now().receive_from(&Destination::Elect, VISIBILITY_MS).unwrap();
    assert!(world.deliver(&election).await.unwrap());
    world.queues.now().delete(&election.receipt);
    world
}

/// The lock of their Target.
async fn its_lock(world: &World) -> Lock {
    let target = Target::of(&RouteName::new("parcels"), "t0");
    world.tables().lock(&target).await.unwrap().unwrap()
}

/// All that was sent is called, in this many calls.
async fn all_called(world: &World, count: usize, calls: usize) {
    world.run_to_rest().await.unwrap();
    let sent: BTreeSet<String> = (0..count).map(|n| format!("p{n}")).collect();
    assert_eq!(broken(world, &sent), Vec::<String>::new());
    assert_eq!(world.downstream.ledger().len(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_finds_a_leader_tells_it_and_its_election_waits_as_a_losers() {
    let world = led().await;
    let (report, calls) = world.register_watched(Plan::Nothing, &[parcel(1, 0)]).await;
    assert_eq!((report.failed.len(), report.told), (0, 1));
    assert!(calls.contains(&"signal"), "{calls:?}");
    assert_eq!(its_lock(&world).await.signals, 1);
    let waiting = elections(&world).concat();
    let [Election { attempt, signalled, .. }] = &waiting[..] else { panic!("{waiting:?}") };
    assert_eq!((*attempt, signalled.map(|(_, fence)| fence)), (1, Some(its_lock(&world).await.fence)));
    assert!(world.queues.now().messages(&Destination::Elect)[0].delay_ms >= 2_000);
    all_called(&world, 2, 1).await;
}

#[tokio::test(start_paused = true)]
async fn where_nobody_leads_any_more_an_election_is_held_at_once() {
    let world = led().await;
    all_called(&world, 1, 1).await;
    let (report, calls) = world.register_watched(Plan::Nothing, &[parcel(1, 0)]).await;
    assert_eq!((report.failed.len(), report.told), (0, 0));
    assert!(calls.contains(&"lock") && !calls.contains(&"signal"), "{calls:?}");
    assert_eq!(world.queues.now().messages(&Destination::Elect)[0].delay_ms, 0);
    all_called(&world, 2, 2).await;
}
