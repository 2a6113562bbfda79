//! Tasks that are wanted until some time, end to end on ports in memory.

use groupage_lab::prelude::*;
use std::collections::BTreeMap;

use groupage_core::domain::shown::Shown;
use groupage_lab::scenario::expiring;

fn world(lines: &str) -> World {
    let setting = Setting { sweeps: true, latency_ms: 4, ..Setting::default() };
    World::new(setting, &routes_with(lines), Scripted::accepting())
}

/// How each task is shown, and why it failed if it did.
async fn shown(world: &World) -> BTreeMap<String, (Shown, Option<String>)> {
    let mut all = BTreeMap::new();
    for task in world.tables().tasks() {
        let batch = match task.status.batch() {
            Some(batch) => world.tables().batch(batch).await.unwrap(),
            None => None,
        };
        let reason = task.status.reason().map(ToString::to_string);
        all.insert(task.id.to_string(), (Shown::of(&task, batch.as_ref()), reason));
    }
    all
}

fn expired() -> (Shown, Option<String>) {
    (Shown::Expired, Some("expired".to_owned()))
}

/// They wait at the gate of a route that a person holds for forty seconds.
#[tokio::test(start_paused = true)]
async fn a_task_that_expires_before_its_call_is_in_no_call_and_its_neighbours_are() {
    let world = world("limits: { pause: route }");
    world.hold_later(0, "parcels");
    let [first, second, third] = <[String; 3]>::try_from(parcels(3, 1)).unwrap();
    world.send_later(500, &[expiring(&first, 10), expiring(&second, 600), third]);
    world.run_to_rest().await.unwrap();
    let of = shown(&world).await;
    assert_eq!((&of["p0"], of["p1"].0, of["p2"].0), (&expired(), Shown::Succeeded, Shown::Succeeded));
    let called: Vec<Vec<String>> = world.downstream.ledger().into_iter().map(|seen| seen.items).collect();
    assert_eq!(called, [["p1", "p2"]]);
    let notices = world.queues.now().messages(&Destination::Notification(NotificationQueue::Default));
    let of_first = notices.iter().filter(|notice| notice.body.contains(r#""reason":"expired""#));
    assert_eq!(of_first.count(), 1, "one notice");
    assert_kept(&world, 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_nobody_wants_any_more_is_not_called() {
    let world = world("limits: { pause: route }");
    world.hold_later(0, "parcels");
    world.send_later(500, &parcels(3, 1).iter().map(|body| expiring(body, 10)).collect::<Vec<_>>());
    world.run_to_rest().await.unwrap();
    assert_eq!(shown(&world).await.into_values().collect::<Vec<_>>(), vec![expired(); 3]);
    assert_eq!(world.downstream.ledger(), []);
    assert_kept(&world, 3);
}

/// A task that comes when nobody wants it any more ends all the same, by the way of all tasks: it is told of.
#[tokio::test(start_paused = true)]
async fn a_task_that_comes_too_late_ends_as_expired() {
    let world = world("");
    world.send(&[expiring(&parcels(1, 1)[0], 0)]);
    world.run_to_rest().await.unwrap();
    assert_eq!(shown(&world).await["p0"], expired());
    assert_eq!(world.downstream.ledger(), []);
    assert_kept(&world, 1);
}

/// Even where a failure stops the lane.
#[tokio::test(start_paused = true)]
async fn a_task_that_expires_holds_back_none_of_those_behind_it() {
    let world = world("ordered_by: key\n    limits: { pause: route }");
    world.hold_later(0, "parcels");
    let bodies: Vec<String> = (0..3).map(|n| keyed(n, 0, 0, n + 1)).collect();
    world.send_later(500, &[expiring(&bodies[0], 10), expiring(&bodies[1], 10), bodies[2].clone()]);
    world.run_to_rest().await.unwrap();
    let of = shown(&world).await;
    assert_eq!((&of["p0"], &of["p1"], of["p2"].0), (&expired(), &expired(), Shown::Succeeded));
    assert_kept(&world, 3);
}
