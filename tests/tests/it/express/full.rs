//! Tasks that fill batches by themselves, and who never does.

use std::collections::BTreeMap;

use groupage_lab::prelude::*;

use super::{ROUTES, register_again, sent, settles, world, world_where};

#[tokio::test(start_paused = true)]
async fn full_batches_are_frozen_at_once_and_the_rest_goes_where_others_are() {
    let world = world();
    let report = world.register(&parcels(50, 2)).await;
    assert_eq!((report.registered, report.batches, report.members, report.gathered), (40, 4, 40, 10));
    assert_eq!((sent(&world, &Destination::Handle), sent(&world, &Destination::Elect)), (4, 0));
    let group = |truck: &str| Destination::Gather(Target::new(format!("parcels:{truck}")));
    assert_eq!((sent(&world, &group("t0")), sent(&world, &group("t1"))), (1, 1));
    assert_eq!(world.tables().tasks().len(), 40, "the rest is put when it is known in which batch");
    settles(&world, 50).await;
    let sizes: Vec<usize> = world.downstream.ledger().iter().map(|seen| seen.items.len()).collect();
    assert_eq!(sizes.iter().filter(|size| **size == 10).count(), 4, "{sizes:?}");
    // Four express batches, and one of five for each Target.
    assert_eq!(sizes.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_its_bytes_too() {
    let world = world_where("max_items: 10", "max_items: 10, max_bytes: 60");
    // Three payloads of 20 bytes fill a batch, if another follows.
    let report = world.register(&parcels(7, 1)).await;
    assert_eq!((report.batches, report.members), (2, 6));
    settles(&world, 7).await;
}

#[tokio::test(start_paused = true)]
async fn a_route_may_do_without() {
    let world = world_where("wait_ms: 2000", "wait_ms: 2000, express: false");
    let report = world.register(&parcels(20, 1)).await;
    assert_eq!(report.batches, 0);
    assert_eq!((sent(&world, &Destination::Handle), sent(&world, &Destination::Elect)), (0, 1));
    settles(&world, 20).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_that_keep_an_order_never_take_it() {
    let world = world_where("target: truck", "target: truck\n    ordered_by: truck");
    let report = world.register(&parcels(20, 1)).await;
    assert_eq!(report.batches, 0);
    settles(&world, 20).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_pulled_waits_for_a_worker_at_once() {
    let routes = ROUTES.replace(r#"{ http: { url: "http://downstream.invalid/load" } }"#, "pull");
    let setting = Setting { workers: Some(("parcels", 2)), sweeps: true, ..Setting::default() };
    let world = World::new(setting, &routes, Scripted::accepting());
    let report = world.register(&parcels(20, 1)).await;
    assert_eq!((report.batches, sent(&world, &Destination::Handle)), (2, 0));
    assert!(world.tables().batches().iter().all(|batch| batch.pulled && batch.due <= world.env.now()));
    settles(&world, 20).await;
}

#[tokio::test(start_paused = true)]
async fn repeats_among_the_new_stay_where_they_are() {
    let world = world();
    for alone in parcels(3, 1) {
        register_again(&world, &[alone]).await;
    }
    let report = world.register(&parcels(10, 1)).await;
    assert_eq!((report.registered, report.repeated, report.batches, report.members), (7, 3, 1, 7));
    let again = world.register(&parcels(10, 1)).await;
    assert_eq!((again.repeated, again.batches), (10, 0), "a batch of repeats");
    settles(&world, 10).await;
}

#[tokio::test(start_paused = true)]
async fn another_task_under_a_used_id_is_no_member() {
    let world = world();
    register_again(&world, &[parcel(0, 1)]).await;
    let report = world.register(&parcels(10, 1)).await;
    assert_eq!((report.rejected, report.members), (1, 9));
    settles(&world, 10).await;
}

#[tokio::test(start_paused = true)]
async fn members_come_in_the_order_of_their_records() {
    let world = world();
    world.register(&parcels(20, 1)).await;
    let batches: BTreeMap<String, Vec<String>> = world
        .tables()
        .batches()
        .into_iter()
        .map(|batch| {
            let ids: Vec<String> = batch.members.iter().map(|member| member.id.to_string()).collect();
            (ids[0].clone(), ids)
        })
        .collect();
    let ids = |from: usize| (from..from + 10).map(|n| format!("p{n}")).collect::<Vec<_>>();
    assert_eq!(batches.into_values().collect::<Vec<_>>(), [ids(0), ids(10)]);
}
