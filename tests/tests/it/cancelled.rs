//! Tasks that a person cancels while their batch waits, end to end on ports in memory.

use groupage_lab::prelude::*;

use groupage_core::domain::cancelled::Refused;
use groupage_core::domain::shown::Shown;
use groupage_core::steps::cancel::Cancelling;
use groupage_core::steps::process::follow_up;

fn world() -> World {
    world_of(&routes_with("limits: { pause: route }"))
}

fn world_of(routes: &str) -> World {
    let setting = Setting { sweeps: true, latency_ms: 4, ..Setting::default() };
    World::new(setting, routes, Scripted::accepting())
}

async fn cancel(world: &World, ids: &[&str]) -> Vec<Result<(), Refused>> {
    let ids: Vec<TaskId> = ids.iter().map(|id| TaskId::new(*id)).collect();
    let queues = world.queues.now();
    let cancelling = Cancelling { store: world.tables(), outbox: queues, env: &world.env };
    let each = cancelling.cancel(&world.routes, &ids).await;
    assert_eq!(each.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids);
    each.into_iter().map(|(_, outcome)| outcome.unwrap()).collect()
}

/// Lets three tasks wait in one batch at the gate of a route that a person holds.
async fn waiting(world: &World) -> BatchId {
    world.hold_later(0, "parcels");
    world.send_later(500, &parcels(3, 1));
    let waits = || world.env.now().0 < 6_000 || world.tables().batches().is_empty();
    world.run_while(waits).await.unwrap();
    world.tables().batches()[0].id.clone()
}

#[tokio::test(start_paused = true)]
async fn members_of_a_batch_that_waits_are_cancelled_by_one_write_and_their_neighbours_are_called() {
    let world = world();
    let batch = waiting(&world).await;
    let before = world.tables().batch(&batch).await.unwrap().unwrap();
    assert_eq!(cancel(&world, &["p2", "p0"]).await, [Ok(()), Ok(())]);
    let after = world.tables().batch(&batch).await.unwrap().unwrap();
    // They are left out, and then it is noted that all have heard.
    assert_eq!((after.revision, after.members.len()), (before.revision.next().next(), 3));
    assert_eq!(cancel(&world, &["p0"]).await, [Ok(())], "a repeat");
    for task in world.tables().tasks().iter().filter(|task| task.id != TaskId::new("p1")) {
        assert_eq!(Shown::of(task, Some(&after)), Shown::Cancelled);
    }
    world.run_to_rest().await.unwrap();
    let called: Vec<Vec<String>> = world.downstream.ledger().into_iter().map(|seen| seen.items).collect();
    assert_eq!(called, [["p1"]]);
    // A person's wish is no failure that an alarm should count.
    let settled = world.tables().batch(&batch).await.unwrap().unwrap();
    let route = world.routes.get(&RouteName::new("parcels")).unwrap();
    let came = follow_up(world.tables(), world.queues.now(), &world.env, route, &settled, None).await.unwrap();
    assert_eq!((came.succeeded, came.ended, came.failed), (1, 2, 0));
    assert_eq!(cancel(&world, &["p1", "nobody"]).await, [Err(Refused::Settled("succeeded")), Err(Refused::Unknown)]);
    assert_kept(&world, 3);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_while_the_window_of_its_batch_is_open_and_its_neighbours_are_called() {
    let world = world_of(&routes_with("").replace("wait_ms: 1000", "wait_ms: 60000"));
    world.send(&parcels(2, 1));
    world.send_later(5_000, &parcels(3, 1)[2..]);
    world.run_while(|| world.env.now().0 < 3_000 || world.tables().batches().is_empty()).await.unwrap();
    assert_eq!(cancel(&world, &["p0"]).await, [Ok(())]);
    assert_eq!(cancel(&world, &["p0"]).await, [Ok(())], "a repeat");
    let (task, batch) = (world.tables().tasks()[0].clone(), world.tables().batches()[0].clone());
    assert_eq!((batch.status.word(), Shown::of(&task, Some(&batch))), ("open", Shown::Cancelled));
    world.run_to_rest().await.unwrap();
    let called: Vec<Vec<String>> = world.downstream.ledger().into_iter().map(|seen| seen.items).collect();
    assert_eq!(called, [["p1", "p2"]]);
    assert_kept(&world, 3);
}

#[test]
fn if_the_newest_of_a_key_is_cancelled_before_a_call_no_older_one_is_called() {
    for is_in_batch in [false, true] {
        in_virtual_time(async {
            let world = world_of(&routes_with("collapse: key").replace("wait_ms: 1000", "wait_ms: 60000"));
            world.send(&(0..2).map(|n| keyed(n, 0, 7, n)).collect::<Vec<_>>());
            let is_waiting = |task: &Task| task.status.batch().is_none();
            let begun = || match &world.tables().tasks()[..] {
                tasks @ [_, _] => !is_in_batch || !tasks.iter().any(is_waiting),
                _ => false,
            };
            world.run_while(|| !begun()).await.unwrap();
            let tasks = world.tables().tasks();
            let newest = tasks.iter().max_by_key(|task| task.traits.collapse.unwrap().came).unwrap();
            assert_eq!(newest.status.batch().is_some(), is_in_batch);
            assert_eq!(cancel(&world, &[newest.id.as_str()]).await, [Ok(())]);
            world.run_to_rest().await.unwrap();
            assert_eq!(world.downstream.ledger(), []);
            assert_kept(&world, 2);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_all_are_cancelled_is_over() {
    let world = world();
    let batch = waiting(&world).await;
    assert_eq!(cancel(&world, &["p0", "p1", "p2"]).await, [Ok(()), Ok(()), Ok(())]);
    let after = world.tables().batch(&batch).await.unwrap().unwrap();
    assert_eq!((after.status.word(), after.unfinished()), ("settled", None));
    world.run_to_rest().await.unwrap();
    assert_eq!(world.downstream.ledger(), []);
    assert_kept(&world, 3);
}
