//! What a task's route reads out of its payload for the one that groups it: weights, ends of batches, replaced tasks.

use groupage_core::domain::shown::Shown;
use groupage_lab::prelude::*;
use tokio::time::Instant;

const ROUTES: &str = parcels_route!["batch: { max_items: 100, wait_ms: 1000 }", "notify: { success: default }"];

fn world(batch: &str, line: &str) -> World {
    let routes = ROUTES.replace("wait_ms: 1000", batch) + line;
    World::new(Setting::default(), &routes, Scripted::accepting())
}

fn sizes(world: &World) -> Vec<usize> {
    world.downstream.ledger().iter().map(|seen| seen.items.len()).collect()
}

/// How often each task is shown so.
async fn shown(world: &World, count: usize, as_what: Shown) -> usize {
    let ids: Vec<TaskId> = (0..count).map(|n| TaskId::new(format!("p{n}"))).collect();
    let mut found = 0;
    for task in world.tables().read(&ids, Freshness::Latest).await.unwrap() {
        let batch = match task.status.batch() {
            Some(batch) => world.tables().batch(batch).await.unwrap(),
            None => None,
        };
        found += usize::from(Shown::of(&task, batch.as_ref()) == as_what);
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_thousand_tasks_of_one_key_become_one_member() {
    let world = world("wait_ms: 1000", "    collapse: key\n");
    let bodies: Vec<String> = (0..1_000).map(|n| keyed(n, 0, 7, 1)).collect();
    for part in bodies.chunks(10) {
        world.register(part).await;
    }
    world.run_to_rest().await.unwrap();
    let ledger = world.downstream.ledger();
    assert_eq!(ledger.iter().map(|seen| seen.items.clone()).collect::<Vec<_>>(), [vec!["p999".to_owned()]]);
    assert_eq!(shown(&world, 1_000, Shown::Superseded).await, 999);
    let notices = world.queues.now().messages(&Destination::Notification(NotificationQueue::Default));
    let of_superseded = notices.iter().filter(|notice| notice.body.contains(r#""superseded_by":"p999""#));
    assert_eq!((notices.len(), of_superseded.count()), (1_000, 999));
    assert_kept(&world, 1_000);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_many_keys_share_a_call_and_those_without_one_are_all_called() {
    let world = world("wait_ms: 1000", "    collapse: key\n");
    let mut bodies: Vec<String> = (0..30).map(|n| keyed(n, 0, n % 3, 1)).collect();
    bodies.extend((30..35).map(|n| parcel(n, 0)));
    world.register(&bodies).await;
    world.run_to_rest().await.unwrap();
    assert_eq!((sizes(&world), shown(&world, 35, Shown::Superseded).await), (vec![8], 27));
    assert_kept(&world, 35);
}

#[tokio::test(start_paused = true)]
async fn a_newer_one_that_comes_once_the_batch_is_frozen_is_called_as_well() {
    let world = world("wait_ms: 1000", "    collapse: key\n");
    world.register(&[keyed(0, 0, 7, 1)]).await;
    world.run_for(5_000).await.unwrap();
    world.register(&[keyed(1, 0, 7, 1)]).await;
    world.run_to_rest().await.unwrap();
    assert_eq!((sizes(&world), shown(&world, 2, Shown::Succeeded).await), (vec![1, 1], 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_joins_an_open_batch_replaces_those_that_joined_before() {
    let world = world("wait_ms: 60000", "    collapse: key\n");
    for n in 0..3 {
        world.register(&[keyed(n, 0, 7, 1)]).await;
        world.run_for(15_000).await.unwrap();
    }
    world.run_to_rest().await.unwrap();
    let items: Vec<_> = world.downstream.ledger().into_iter().map(|seen| seen.items).collect();
    assert_eq!((items, shown(&world, 3, Shown::Superseded).await), (vec![vec!["p2".to_owned()]], 2));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_weight() {
    for express in ["", ", express: false"] {
        let world = world(&format!("wait_ms: 1000, weight: n, max_weight: 10{express}"), "");
        world.register(&(0..6).map(|n| parcel(n, 0)).collect::<Vec<_>>()).await;
        world.run_to_rest().await.unwrap();
        // 0 + 1 + 2 + 3 + 4, and 5.
        let mut sizes = sizes(&world);
        sizes.sort_unstable();
        assert_eq!(sizes.iter().sum::<usize>(), 6, "{express}");
        for seen in world.downstream.ledger() {
            let weight: usize = seen.items.iter().map(|id| id[1..].parse::<usize>().unwrap()).sum();
            assert!(weight <= 10, "{express}: {:?}", seen.items);
        }
        assert_eq!(sizes.len(), 2, "{express}: {sizes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_weighs_too_much_or_says_no_weight_is_refused_with_a_reason() {
    let world = world("wait_ms: 0, weight: n, max_weight: 10", "");
    let report = world.register(&[parcel(11, 0), r#"{"id":"x","payload":{"truck":"t0","n":-1}}"#.to_owned()]).await;
    assert_eq!((report.rejected, report.registered), (2, 0));
    let rejected = world.queues.now().messages(&Destination::Rejected);
    assert!(rejected.iter().all(|message| message.attributes.contains(&("Reason", "bad_weight".to_owned()))));
    assert!(rejected.iter().any(|message| message.attributes.iter().any(|(_, said)| said.contains("weighs more"))));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_closes_its_batch_wakes_the_leader_that_waits() {
    for express in ["", ", express: false"] {
        let world = world(&format!("wait_ms: 300000, close_when: \"n == `9`\"{express}"), "");
        world.register(&(0..3).map(|n| parcel(n, 0)).collect::<Vec<_>>()).await;
        world.run_for(20_000).await.unwrap();
        let begun = Instant::now();
        world.register(&[parcel(9, 0)]).await;
        world.run_while(|| world.downstream.ledger().is_empty()).await.unwrap();
        let took_ms = (world.downstream.ledger()[0].at - begun).as_millis();
        assert_eq!((sizes(&world), took_ms < 2_000), (vec![4], true), "{express}: after {took_ms} ms");
        world.run_to_rest().await.unwrap();
        assert_eq!(sizes(&world), [4], "{express}");
    }
}

#[tokio::test(start_paused = true)]
async fn traits_outlast_a_pause_and_a_time_that_is_waited_for() {
    let world = world("wait_ms: 1000, weight: n, max_weight: 5", "");
    let scheduled: Vec<String> = (3..6).map(|n| groupage_lab::scenario::scheduled(&parcel(n, 0), 600)).collect();
    world.register(&scheduled).await;
    world.run_to_rest().await.unwrap();
    assert_eq!(sizes(&world), [1, 1, 1], "they weigh 3, 4 and 5");
}
