//! Targets with shards, end to end on ports in memory: a quiet one has one leader and full calls, a hot one gets
//! leaders for its shards, and nothing in a shard is ever forgotten.

use std::collections::BTreeSet;

use groupage_core::domain::lock::{Bid, bid};
use groupage_lab::prelude::*;
use groupage_lab::scenarios;

const ITEMS: usize = 10;

const ROUTES: &str = parcels_route![
    "shards: SHARDS",
    "batch: { max_items: 10, wait_ms: 2000, express: false }",
    "notify: { success: default }",
];

fn world(shards: u8, setting: Setting) -> World {
    let setting = Setting { latency_ms: 5, most_calls: 10_000_000, ..setting };
    World::new(setting, &routes(shards), Scripted::accepting())
}

fn routes(shards: u8) -> String {
    ROUTES.replace("SHARDS", &shards.to_string())
}

/// Runs to rest; no promise may be broken on the way.
async fn run(world: &World, tasks: usize) {
    world.run_to_rest().await.unwrap();
    let sent: BTreeSet<String> = (0..tasks).map(|n| format!("p{n}")).collect();
    assert_eq!(broken(world, &sent), Vec::<String>::new());
    assert!(world.keys_by_item().values().all(|keys| *keys == 1));
}

/// The batches with members that leaders of shards other than the home made.
fn of_shards(world: &World) -> Vec<Batch> {
    let batches = world.tables().batches().into_iter();
    batches.filter(|batch| batch.target.shard() != Shard::HOME && !batch.members.is_empty()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_quiet_target_loses_no_fill_to_its_shards_and_has_one_leader() {
    for (every_ms, per_event) in [(100, 1), (700, 2), (0, 5)] {
        let mut calls = Vec::new();
        for shards in [1, 4, 16] {
            let world = world(shards, Setting { seed: 3, ..Setting::default() });
            for (n, event) in parcels(100, 1).chunks(per_event).enumerate() {
                world.send_later(n as u64 * every_ms, event);
            }
            run(&world, 100).await;
            assert_eq!(of_shards(&world), [], "{shards} shards, {per_event} tasks each {every_ms} ms");
            calls.push(world.downstream.ledger().len());
        }
        println!("{per_event} tasks each {every_ms} ms: {calls:?} calls with 1, 4 and 16 shards");
        assert!(calls.iter().all(|with| *with <= calls[0]), "{per_event} tasks each {every_ms} ms: {calls:?} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hot_target_gets_leaders_for_its_shards_and_its_calls_stay_full() {
    for seed in 0..8 {
        for index_ms in [0, 1_000] {
            let lag = Lag { index_ms, ..Lag::default() };
            let world = world(4, Setting { seed, lag, ..Setting::default() });
            for (n, event) in parcels(2_000, 1).chunks(20).enumerate() {
                world.send_later(n as u64 * 10, event);
            }
            run(&world, 2_000).await;
            let made: BTreeSet<Target> = of_shards(&world).into_iter().map(|batch| batch.target).collect();
            let calls = world.downstream.ledger().len();
            println!("seed {seed}, lag {index_ms}: {calls} calls, {} batches of shards", of_shards(&world).len());
            assert_eq!(made.len(), 3, "seed {seed}: {made:?}");
            assert!(calls <= 202, "seed {seed}, lag {index_ms}: {calls} calls for 200 full batches");
            assert!(world.downstream.ledger().iter().all(|seen| seen.target == "t0"), "people see no shards");
        }
    }
}

/// The crash matrix tells them again and again: they must be about what they say.
#[test]
fn the_stories_of_hot_targets_have_shards_with_leaders() {
    for name in ["a shard with a leader", "a dead leader of a shard"] {
        let story = scenarios::all().into_iter().find(|story| story.name == name).unwrap();
        let told = story.tell(Plan::Nothing, false);
        assert_eq!(told.broken, Vec::<String>::new(), "{name}");
        assert!(told.shard_batches > 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_one_shard_does_not_take_go_to_another() {
    for (call, side) in (0..5).flat_map(|call| [(call, Side::Before), (call, Side::After)]) {
        let world = world(4, Setting { seed: 3, ..Setting::default() });
        let report = world.register_by(Plan::At(call, side, Fault::Error), &parcels(5, 1)).await;
        assert_eq!((report.registered + report.repeated, report.failed.len()), (5, 0), "put {call}, {side:?}");
        if side == Side::After {
            assert_eq!(waiting(&world).into_iter().collect::<BTreeSet<_>>().len(), 1, "it was written all the same");
            run(&world, 5).await;
            continue;
        }
        let shards: BTreeSet<Target> = waiting(&world).into_iter().collect();
        let asked = world.queues.now().messages(&Destination::Elect);
        let Ok([message]) = <[Outgoing; 1]>::try_from(asked) else { panic!("one message") };
        let Elect::Several(elections) = serde_json::from_str(&message.body).unwrap() else { panic!("{message:?}") };
        let led: BTreeSet<Target> = elections.into_iter().map(|election| election.target).collect();
        assert_eq!((shards.len(), led), (2, shards), "those that were under way, and one leader for each");
        run(&world, 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_put_of_a_task_that_waits_insists() {
    for (shards, tried) in [(1, 5), (2, 6), (4, 6)] {
        let world = world(shards, Setting { seed: 3, ..Setting::default() });
        let plan = if shards == 1 { Plan::Nothing } else { Plan::At(0, Side::Before, Fault::Error) };
        let (report, calls) = world.register_watched(plan, &parcels(5, 1)).await;
        let count = |name| calls.iter().filter(|call| **call == name).count();
        assert_eq!((report.registered, count("try_register"), count("register")), (5, tried, 0), "{shards}");
    }
}

/// Registers `count` tasks, each by an invocation of its own, so that some wait in each of two shards; loses all
/// messages. Gives the home and the other shard.
async fn in_two_shards(world: &World, count: usize) -> Vec<Target> {
    for parcel in parcels(count, 1) {
        assert!(world.register_before(&routes(2), &[parcel]).await.failed.is_empty());
    }
    world.queues.lose_everything();
    let shards: Vec<Target> = Target::new("parcels:t0").shards(2).collect();
    assert!(shards.iter().all(|shard| waiting(world).contains(shard)), "the test's own dice");
    shards
}

fn waiting(world: &World) -> Vec<Target> {
    let target = |task: Task| task.status.waits_for().cloned();
    world.tables().tasks().into_iter().filter_map(target).collect()
}

/// Somebody who died leads by this lock for as long as a lease lasts.
async fn let_a_dead_one_lead(world: &World, target: &Target) {
    let_a_dead_one_lead_for(world, target, 32_000).await;
}

async fn let_a_dead_one_lead_for(world: &World, target: &Target, lease_ms: u64) {
    let now = world.env.now();
    let dead = Holder { workflow: WorkflowId::new("dead"), waits_since: now, lease_until: now.plus_ms(lease_ms) };
    let Bid::Acquire(acquisition) = bid(None, target, &dead, now) else { panic!("free") };
    assert_eq!(world.tables().acquire(target, &acquisition).await.unwrap(), Acquired::Yes);
}

#[tokio::test(start_paused = true)]
async fn a_homes_leader_takes_what_waits_in_every_shard_and_leaves_it_to_a_shards_own_leader() {
    for led in [false, true] {
        let world = world(2, Setting::default());
        let shards = in_two_shards(&world, 8).await;
        if led {
            let_a_dead_one_lead(&world, &shards[1]).await;
        }
        for parcel in &parcels(16, 1)[8..] {
            world.register(std::slice::from_ref(parcel)).await;
        }
        let began = world.env.now();
        let is_called = || !world.downstream.ledger().is_empty();
        world.run_while(|| !is_called()).await.unwrap();
        assert!(world.env.now() < began.plus_ms(10_000));
        let left: BTreeSet<Target> = waiting(&world).into_iter().collect();
        assert_eq!(left, if led { BTreeSet::from([shards[1].clone()]) } else { BTreeSet::new() });
    }
}

#[tokio::test(start_paused = true)]
async fn sweep_finds_what_waits_in_a_shard_whoever_has_died() {
    for dead in [vec![], vec![0], vec![1], vec![0, 1]] {
        let world = world(2, Setting { sweeps: true, ..Setting::default() });
        let shards = in_two_shards(&world, 8).await;
        for shard in &dead {
            let_a_dead_one_lead(&world, &shards[*shard]).await;
        }
        let began = world.env.now();
        run(&world, 8).await;
        let took_ms = world.env.now().since(began);
        assert!(took_ms < 4 * 60_000, "dead leaders of {dead:?}: {took_ms} ms");
    }
}

/// Each of the old shards' tasks comes to its call, however long the home is led, be its messages lost or not.
#[tokio::test(start_paused = true)]
async fn what_waits_in_a_shard_that_its_route_has_no_more_waits_for_nobody() {
    for lost in [false, true] {
        let world = world(1, Setting { sweeps: true, ..Setting::default() });
        for parcel in parcels(8, 1) {
            world.register_before(&ROUTES.replace("SHARDS", "4"), &[parcel]).await;
        }
        if lost {
            world.queues.lose_everything();
        }
        let home = Target::new("parcels:t0");
        let_a_dead_one_lead_for(&world, &home, 600_000).await;
        let began = world.env.now();
        let is_left = || waiting(&world).iter().any(|target| *target != home);
        assert!(is_left(), "the test's own dice");
        world.run_while(is_left).await.unwrap();
        let took_ms = world.env.now().since(began);
        assert!(took_ms < if lost { 150_000 } else { 10_000 }, "lost: {lost}, {took_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_won_a_shard_and_died_leads_it_when_its_message_comes_again() {
    let world = world(2, Setting::default());
    let home = Target::new("parcels:t0");
    let shard = home.in_shard(Shard(1));
    // The home's leader is busy, so a workflow with a full batch in a shard leads that.
    let_a_dead_one_lead(&world, &home).await;
    let term = Term { target: home.clone(), workflow: WorkflowId::new("dead"), fence: fence(&world, &home).await };
    for seq in 0..2 {
        let until = world.env.now().plus_ms(32_000);
        assert!(matches!(world.tables().advance(&term, Seq(seq), until).await.unwrap(), Advanced::Kept(_)));
    }
    let mut tasks = parcels(ITEMS * 8, 1);
    while !waiting(&world).contains(&shard) {
        world.register(&tasks.split_off(tasks.len() - ITEMS)).await;
    }
    let election = std::iter::from_fn(|| world.queues.receive(VISIBILITY_MS));
    let election = election.into_iter().find(|delivery| delivery.outgoing.body.contains(shard.as_str())).unwrap();
    assert!(world.deliver(&election).await.unwrap());
    let won = fence(&world, &shard).await;
    // Its leader's message is lost with all others; that of the election comes again.
    world.queues.lose_everything();
    world.tables().release(&term, Seq(2), 0, world.env.now()).await.unwrap();
    assert!(world.deliver(&Delivery { received: 2, ..election }).await.unwrap());
    assert_eq!(fence(&world, &shard).await, won);
    let leader = world.queues.now().messages(&Destination::Group).pop().unwrap();
    assert!(leader.body.contains(shard.as_str()), "it leads the home, and its shard stands still: {}", leader.body);
}

async fn fence(world: &World, target: &Target) -> Fence {
    world.tables().lock(target).await.unwrap().unwrap().fence
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_target_count_over_all_its_shards() {
    let limited = "    limits: { in_flight_per_target: 1 }\n    notify";
    let routes = ROUTES.replace("SHARDS", "4").replace("    notify", limited);
    let setting = Setting { latency_ms: 5, ..Setting::default() };
    let world = World::new(setting, &routes, Scripted::accepting().taking(|| 500));
    for (n, event) in parcels(600, 1).chunks(20).enumerate() {
        world.send_later(n as u64 * 10, event);
    }
    run(&world, 600).await;
    assert!(!of_shards(&world).is_empty());
    assert_eq!(world.downstream.most_in_flight().get(&Some("t0".to_owned())), Some(&1));
}
