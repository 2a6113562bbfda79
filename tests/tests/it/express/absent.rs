//! Tasks that name a batch which never came, or does not have them.

use groupage_core::domain::batch::{self, Assumes, Claim};
use groupage_core::domain::task::Status;
use groupage_core::steps::revive::{Leaders, revive};
use groupage_lab::prelude::*;

use super::{ROUTES, register_again, sent, settles, target, world};

/// Tasks as an express writer left them: they name a batch.
async fn left(world: &World, count: usize, batch: &BatchId) -> Vec<String> {
    let bodies = parcels(count, 1);
    for body in &bodies {
        let message = task_message::parse(body, "m").unwrap();
        let digest = message.digest();
        let task = Task::new(message.id, target(), message.payload, digest, world.env.now());
        world.tables().register(&task.batched_in(batch.clone())).await.unwrap();
    }
    bodies
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_never_came_is_voided_once_however_many_tasks_name_it() {
    let world = world();
    let bodies = left(&world, 30, &BatchId::express("dead")).await;
    let report = world.register(&bodies).await;
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert_eq!((report.repeated, report.batches), (30, 0));
    let batches = world.tables().batches();
    assert_eq!(batches.iter().map(|batch| batch.status.clone()).collect::<Vec<_>>(), [batch::Status::Void]);
    settles(&world, 30).await;
}

/// The states in which a task may find the batch that it names, without the task or with it.
fn states(id: &BatchId, member: &Candidate) -> Vec<(&'static str, Option<Batch>, &'static str)> {
    let now = Timestamp(0);
    let other = Candidate { id: TaskId::new("other"), round: Round(0), bytes: 1, traits: Traits::default() };
    let claim = Claim { session: SessionId::new("#handlers-1/s") };
    let states = |who: &Candidate| {
        let frozen = Batch::express(id.clone(), target(), std::slice::from_ref(who), now);
        let claimed = frozen.claimed(claim.clone());
        [
            frozen.clone(),
            claimed.clone(),
            claimed.paused(now),
            claimed.settled(Results::new(), now),
            claimed.settled(Results::new(), now).followed_up(),
        ]
    };
    let open = Batch::open(id.clone(), target(), Fence(1), std::slice::from_ref(member), now, 0);
    let mut all = vec![
        ("absent", None, "waits"),
        ("void", Some(Batch::void(id.clone(), target(), now)), "waits"),
        ("open", Some(open.clone()), "finish"),
        ("closing", Some(open.closing()), "finish"),
        ("empty", Some(open.frozen(Vec::new())), "nothing"),
    ];
    all.extend(states(&other).map(|batch| ("final, without the task", Some(batch), "waits")));
    // A member of another round is none.
    all.extend(
        states(member)
            .map(|batch| Batch { members: vec![Member { id: member.id.clone(), round: Round(7) }], ..batch })
            .map(|batch| ("final, with an earlier or later round of the task", Some(batch), "waits")),
    );
    all.extend(states(member).map(|batch| ("final, with the task", Some(batch), "handle")));
    all
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_batch_does_not_have_it_goes_back_to_waiting_whatever_has_become_of_the_batch() {
    let id = BatchId::express("b");
    let member = Candidate { id: TaskId::new("p0"), round: Round(0), bytes: 20, traits: Traits::default() };
    for (what, batch, then) in states(&id, &member) {
        let world = world();
        let bodies = left(&world, 1, &id).await;
        let state = batch.as_ref().map_or("absent", |batch| batch.status.word());
        if let Some(batch) = &batch {
            world.tables().store(batch, Assumes::Absent).await.unwrap();
        }
        let report = register_again(&world, &bodies).await;
        assert!(report.failed.is_empty());
        let [task] = &world.tables().tasks()[..] else { panic!("one task") };
        let messages = [Destination::Elect, Destination::Group, Destination::Handle].map(|to| sent(&world, &to));
        let came = match (&task.status, task.round, messages) {
            (Status::Created { .. }, Round(1), [1, 0, 0]) => "waits",
            (Status::Batched { .. }, Round(0), [0, 1, 0]) => "finish",
            (Status::Batched { .. }, Round(0), [0, 0, 1]) => "handle",
            (Status::Batched { .. }, Round(0), [0, 0, 0]) => "nothing",
            other => panic!("{what} ({state}): {other:?}"),
        };
        assert_eq!(came, then, "{what} ({state})");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_finds_the_tasks_that_a_batch_does_not_have() {
    let world = world();
    let id = BatchId::express("b");
    left(&world, 2, &id).await;
    let known = Candidate { id: TaskId::new("p0"), round: Round(0), bytes: 20, traits: Traits::default() };
    let batch = Batch::express(id, target(), &[known], world.env.now());
    world.tables().store(&batch, Assumes::Absent).await.unwrap();
    let report = revive(world.tables(), &world.queues, &world.env, &world.routes, Leaders::GoOn).await.unwrap();
    assert_eq!((report.batches, report.waiting), (1, 1));
    settles(&world, 2).await;
}

/// Its message is what drives such a task on, so a dead-letter queue that holds the message holds the task.
#[tokio::test(start_paused = true)]
async fn a_task_whose_batch_never_came_waits_for_its_message_to_be_redriven() {
    let setting = Setting { sweeps: true, ..Setting::default() };
    let world = World::new(setting, ROUTES, Scripted::accepting());
    let bodies = left(&world, 10, &BatchId::express("dead")).await;
    world.run_for(3_600_000).await.unwrap();
    assert!(world.tables().tasks().iter().all(|task| !task.status.is_settled()), "sweep has found them");
    world.send(&bodies);
    settles(&world, 10).await;
}
