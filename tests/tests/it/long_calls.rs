//! Calls that take longer than a usual function has time for: their batches go on to a function that has it.

use groupage_lab::prelude::*;

/// A route whose calls take 14 minutes at most, one at a time.
const LONG: &str = "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    batch: { max_items: 1 }\n    \
                    limits: { in_flight: 1 }\n    \
                    downstream: { http: { url: \"http://downstream.invalid/load\", timeout_ms: 840000 } }\n";

fn world(downstream: Scripted) -> World {
    World::new(Setting::default(), LONG, downstream)
}

/// Messages of batches: on the usual queue, and on that of long calls.
fn on_queues(world: &World) -> (usize, usize) {
    let of = |to: &Destination| world.queues.now().messages(to).len();
    (of(&Destination::Handle), of(&Destination::LongHandle))
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_call_may_be_long_goes_on_to_the_function_that_has_the_time() {
    let world = world(Scripted::accepting());
    world.register(&parcels(1, 1)).await;
    assert_eq!(on_queues(&world), (1, 0), "no step beside batch-handler knows of long calls");
    let usual = world.queues.receive(VISIBILITY_MS).unwrap();
    assert!(world.deliver(&usual).await.unwrap(), "the usual message is done");
    world.queues.now().delete(&usual.receipt);
    assert_eq!((on_queues(&world).1, world.downstream.ledger().len()), (1, 0), "no call, and no attempt");
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 1);
    assert!(world.tables().tasks()[0].status.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_long_call_that_failed_for_now_comes_back_to_the_function_that_has_the_time() {
    let script = |_: &_, before| match before {
        0 => Ok(status(503, Some(60_000))),
        _ => Ok(ok("")),
    };
    let world = world(Scripted::new(Box::new(script)));
    world.register(&parcels(1, 1)).await;
    world.run_while(|| on_queues(&world).1 == 0 || world.downstream.ledger().is_empty()).await.unwrap();
    assert_eq!(on_queues(&world).0, 0, "its copy waits on the queue that it came from");
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_fourteen_minutes_keeps_its_claim_and_its_permit() {
    let world = world(Scripted::accepting().taking(|| 839_000));
    world.register(&parcels(3, 1)).await;
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 3, "each batch is called once");
    assert!(world.downstream.most_in_flight().values().all(|most| *most == 1));
    assert!(world.tables().tasks().iter().all(|task| task.status.is_settled()));
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_route_is_not_long_any_more_is_called_where_it_waits() {
    let mut world = world(Scripted::accepting());
    world.register(&parcels(1, 1)).await;
    let usual = world.queues.receive(VISIBILITY_MS).unwrap();
    assert!(world.deliver(&usual).await.unwrap());
    world.queues.now().delete(&usual.receipt);
    world.push(&LONG.replace("840000", "30000"));
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger().len(), 1);
}
