//! What events leave over gathers, and fills batches together or is elected.

use std::collections::BTreeSet;

use groupage_core::domain::task_message::MAX_MESSAGE_BYTES;
use groupage_core::steps::register::Record;
use groupage_lab::prelude::*;
use tokio::time::Instant;

use super::{ROUTES, WAITED, mixing, register_again, sent, settles, target, world, world_where};

#[tokio::test(start_paused = true)]
async fn the_rests_of_several_events_fill_batches_together_without_an_election() {
    let world = mixing();
    for event in parcels(60, 1).chunks(12) {
        world.register(event).await;
    }
    world.run_while(|| world.tables().tasks().len() < 60).await.unwrap();
    assert_eq!(world.tables().waiting(&target(), None, 99).await.unwrap().candidates, [], "a task is in the index");
    settles(&world, 60).await;
    assert!(world.downstream.ledger().iter().all(|seen| seen.items.len() == 10), "a batch is not full");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_come_one_by_one_fill_batches_together() {
    let world = mixing();
    for body in parcels(20, 1) {
        assert_eq!(world.register(&[body]).await.gathered, 1);
    }
    settles(&world, 20).await;
    let sizes: Vec<usize> = world.downstream.ledger().iter().map(|seen| seen.items.len()).collect();
    assert_eq!(sizes, [10, 10]);
    assert_eq!(sent(&world, &Destination::Elect), 0);
}

#[tokio::test(start_paused = true)]
async fn rests_of_a_target_with_shards_gather_in_that_of_their_event() {
    let routes = ROUTES.replace("    target: truck\n", "    target: truck\n    shards: 4\n");
    let setting = Setting { mixes: true, ..Setting::default() };
    let world = World::new(setting, &routes, Scripted::accepting());
    for event in parcels(100, 1).chunks(5) {
        assert_eq!(world.register(event).await.gathered, 5);
    }
    settles(&world, 100).await;
    let sizes: Vec<usize> = world.downstream.ledger().iter().map(|seen| seen.items.len()).collect();
    assert!(sizes.iter().filter(|size| **size == 10).count() >= 8, "{sizes:?}");
    let batches = world.tables().batches().into_iter().filter(|batch| batch.members.len() == 10);
    assert!(batches.map(|batch| batch.target.shard()).collect::<BTreeSet<Shard>>().len() > 1);
}

#[tokio::test(start_paused = true)]
async fn a_rest_gathers_for_as_long_as_its_batch_may_wait_and_is_elected_then() {
    for (wait_ms, gathers_ms) in [(1_000, 1_000), (2_000, 2_000), (60_000, 5_000)] {
        let world = world_where("wait_ms: 2000", &format!("wait_ms: {wait_ms}"));
        let begun = world.env.now();
        world.register(&parcels(5, 1)).await;
        world.run_while(|| world.tables().tasks().len() < 5).await.unwrap();
        let gathered_ms = world.env.now().since(begun);
        assert!((gathers_ms - 500..gathers_ms + 500).contains(&gathered_ms), "{wait_ms}: {gathered_ms} ms");
        assert_eq!(sent(&world, &Destination::Elect), 1);
        settles(&world, 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_rest_gathers_for_counts_as_waited() {
    for wait_ms in [1_000, 3_000, 20_000] {
        let world = world_where("wait_ms: 2000", &format!("wait_ms: {wait_ms}"));
        let begun = Instant::now();
        world.register(&parcels(5, 1)).await;
        world.run_to_rest().await.unwrap();
        let calls: Vec<u128> = world.downstream.ledger().iter().map(|seen| (seen.at - begun).as_millis()).collect();
        assert!(calls.len() == 1 && (wait_ms..wait_ms + 1_000).contains(&calls[0]), "{wait_ms}: {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rests_of_a_quiet_target_with_shards_still_meet_at_their_leader() {
    let world = world_where("    target: truck\n", "    target: truck\n    shards: 4\n");
    for n in 0..3 {
        let left = Stage::Left(Timestamp(world.env.now().0 - 2_000));
        let report = world.register(&[Rest::body(&[parcel(n, 0)], left, Shard(n as u8))]).await;
        assert_eq!((report.registered, report.gathered), (1, 0));
        if n == 0 {
            // Home's leader is there before the others.
            for step in [Destination::Elect, Destination::Group] {
                let delivery = world.queues.now().receive_from(&step, VISIBILITY_MS).unwrap();
                assert!(world.deliver(&delivery).await.unwrap());
                world.queues.now().delete(&delivery.receipt);
            }
        }
    }
    settles(&world, 3).await;
    assert_eq!(world.downstream.ledger().len(), 1, "a call of all");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_gathered_has_waited_for_longer_than_it_was_registered() {
    let world = world();
    let now = world.env.now();
    let left = Timestamp(now.0 - 2_000);
    // Clocks differ: what has not come yet has not waited.
    for (n, left, waits_since) in [(0, left, left), (1, now.plus_ms(60_000), now)] {
        let body = Rest::body(&[parcel(n, n)], Stage::Left(left), Shard::HOME);
        world.register_records(vec![Record { received: 6, ..first("m", &body) }]).await;
        let task = world.tables().tasks().into_iter().find(|task| task.id == TaskId::new(format!("p{n}"))).unwrap();
        assert_eq!((task.created_at, task.waits_since), (now, waits_since));
    }
}

#[tokio::test(start_paused = true)]
async fn who_came_before_does_not_gather_but_may_fill_a_batch() {
    let world = world();
    let report = register_again(&world, &parcels(13, 1)).await;
    assert_eq!((report.registered, report.members, report.gathered), (13, 10, 0));
}

/// Rests of two tasks each, of this many Targets, which their events have just left.
fn rests(world: &World, count: usize, trucks: usize) -> Vec<String> {
    let stage = Stage::Left(world.env.now());
    let rest = |n: usize| [2 * n, 2 * n + 1].map(|id| parcel(id, n % trucks));
    (0..count).map(|n| Rest::body(&rest(n), stage, Shard::HOME)).collect()
}

#[tokio::test(start_paused = true)]
async fn rests_that_fill_no_batch_stay_in_their_messages() {
    let world = world();
    for (count, trucks) in [(1, 1), (4, 1), (10, 10)] {
        let report = world.register(&rests(&world, count, trucks)).await;
        let ids: Vec<String> = (0..count).map(|n| format!("m{n}")).collect();
        assert_eq!((report.kept().collect::<Vec<_>>(), &report.held), (ids.iter().map(String::as_str).collect(), &ids));
        assert_eq!((report.registered, report.failed.len(), report.gathered), (0, 0, 0));
        assert!(world.tables().tasks().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_rests_goes_on_in_one_message_of_the_same_age() {
    let world = world_where("max_items: 10", "max_items: 9");
    let bodies = rests(&world, 6, 1);
    let since = world.env.now();
    world.env.sleep(300).await;
    let report = world.register(&bodies).await;
    assert_eq!((report.registered, report.batches, report.kept().count()), (9, 1, 0));
    let [message] = &world.queues.now().messages(&Destination::Gather(target()))[..] else { panic!("one message") };
    let rest = Rest::parse(&message.body).unwrap();
    assert_eq!((rest.tasks().count(), rest.stage()), (3, Stage::Left(since)));
}

#[tokio::test(start_paused = true)]
async fn what_gathers_and_is_rejected_then_is_rejected_as_it_came() {
    let world = world();
    let spaced = |n: usize| format!(r#"{{ "id": "a",  "payload": {{"truck": "t0", "n": {n}}} }}"#);
    let report = world.register(&[spaced(0), r#"{"payload": {"truck": "t0"}}"#.to_owned()]).await;
    assert_eq!((report.gathered, report.registered), (2, 0));
    world.run_to_rest().await.unwrap();
    assert_eq!(world.register(&[spaced(1)]).await.gathered, 1);
    world.run_to_rest().await.unwrap();
    let rejected = world.queues.now().messages(&Destination::Rejected);
    assert_eq!(rejected.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), [spaced(1)]);
    let ids: BTreeSet<String> = world.tables().tasks().iter().map(|task| task.id.to_string()).collect();
    assert_eq!(ids, ["a", "m1"].map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn ten_rests_of_one_target_that_came_together_make_way_for_those_behind_them() {
    let world = world_where("max_items: 10", "max_items: 40");
    let report = world.register(&rests(&world, 10, 1)).await;
    assert_eq!((report.registered, report.kept().count()), (0, 0));
    let [message] = &world.queues.now().messages(&Destination::Gather(target()))[..] else { panic!("one message") };
    assert_eq!(Rest::parse(&message.body).unwrap().tasks().count(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_came_alone_is_sent_on_with_rests_and_never_left_to_their_messages() {
    let world = world();
    let stage = Stage::Left(world.env.now());
    let rest =
        |ids: std::ops::Range<usize>| Rest::body(&ids.map(|n| parcel(n, 0)).collect::<Vec<_>>(), stage, Shard::HOME);
    // Ten fill a batch; one of the second rest is left, and as many as that rest has are left in all.
    let report = world.register(&[rest(0..9), rest(9..11), parcel(11, 0)]).await;
    assert_eq!((report.registered, report.kept().count(), report.gathered), (10, 0, 1));
    let [message] = &world.queues.now().messages(&Destination::Gather(target()))[..] else { panic!("one message") };
    assert_eq!(Rest::parse(&message.body).unwrap().tasks().count(), 2);
    settles(&world, 12).await;
}

#[tokio::test(start_paused = true)]
async fn ten_rests_too_large_for_fewer_messages_and_too_few_for_a_batch_do_not_go_round() {
    let world = world_where("max_items: 10", "max_items: 1000, max_bytes: 5000000");
    let stage = Stage::Left(world.env.now());
    let large = |n: usize| format!(r#"{{"id":"p{n}","payload":{{"truck":"t0","x":"{}"}}}}"#, "x".repeat(150_000));
    let rests: Vec<String> = (0..10).map(|n| Rest::body(&[large(n)], stage, Shard::HOME)).collect();
    let report = world.register(&rests[..9]).await;
    assert_eq!((report.held.len(), report.registered), (9, 0));
    let report = world.register(&rests).await;
    assert_eq!((report.held.len(), report.registered), (0, 10));
    assert_eq!((sent(&world, &Destination::Gather(target())), sent(&world, &Destination::Elect)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_was_received_often_is_not_held_again() {
    let world = world();
    let [body] = &rests(&world, 1, 1)[..] else { panic!("one") };
    for (received, held) in [(5, 1), (6, 0)] {
        let report = world.register_records(vec![Record { received, ..first("m", body) }]).await;
        assert_eq!((report.held.len(), report.registered), (held, 2 * (1 - held)), "{received}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_cannot_be_held_is_elected() {
    let world = world();
    let report = world.register_by(Plan::At(0, Side::Before, Fault::Error), &rests(&world, 2, 1)).await;
    assert_eq!((report.registered, report.not_gathered.len(), report.kept().count()), (4, 1, 0));
    assert_eq!(sent(&world, &Destination::Elect), 1);
    settles(&world, 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_rest_does_not_wait_where_batches_do_not() {
    let world = world_where("wait_ms: 2000", "wait_ms: 999");
    let report = world.register(&parcels(15, 1)).await;
    assert_eq!((report.registered, report.gathered, sent(&world, &Destination::Elect)), (15, 0, 1));
    settles(&world, 15).await;
}

#[tokio::test(start_paused = true)]
async fn a_rest_goes_in_as_many_messages_as_hold_it_and_what_is_too_large_for_any_is_elected() {
    let world = world();
    let large =
        |n: usize, bytes: usize| format!(r#"{{"id":"p{n}","payload":{{"truck":"t0","x":"{}"}}}}"#, "x".repeat(bytes));
    let bodies = [large(0, 255_900), large(1, 150_000), large(2, 150_000), parcel(3, 0)];
    assert!(bodies.iter().all(|body| body.len() <= MAX_MESSAGE_BYTES));
    let report = world.register(&bodies).await;
    assert_eq!((report.registered, report.gathered, report.failed.len()), (1, 3, 0));
    let messages = world.queues.now().messages(&Destination::Gather(target()));
    assert_eq!(messages.len(), 2);
    assert!(messages.iter().all(|message| message.body.len() <= MAX_MESSAGE_BYTES));
    settles(&world, 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_holds_a_rest_is_done_when_each_of_its_tasks_is() {
    let world = world();
    let good = parcel(0, 1);
    let bad = [r#"{"id":"p1"}"#, r#"{"payload":{"truck":"t0"}}"#];
    let body = Rest::body(&[&good, bad[0], bad[1], &good].map(str::to_owned), WAITED, Shard::HOME);
    let report = world.register(&[body]).await;
    assert_eq!((report.registered, report.rejected, report.repeated, report.failed.len()), (1, 2, 1, 0));
    let rejected = world.queues.now().messages(&Destination::Rejected);
    assert_eq!(rejected.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), bad);
    settles(&world, 1).await;
}
