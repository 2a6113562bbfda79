//! What every `Lanes` must do, and every `Tasks` for those who wait in lanes.

use groupage_core::domain::lane::{Numbering, OnFailure, Place, Queued, State};
use groupage_core::domain::task::{Status, Ties};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{failure, now, target, task};

conformance![
    a_lane_that_nobody_came_to_is_not_there,
    tasks_and_their_lane_are_written_together,
    nobody_comes_whose_id_is_taken,
    nobody_comes_to_a_lane_that_moved_on,
    of_two_who_open_a_lane_one_does,
    a_turn_is_waited_for_once,
    those_who_wait_are_read_in_the_order_of_their_turns,
    who_left_waits_no_more,
    of_two_who_write_a_lane_one_does,
    a_queued_task_is_not_in_the_index_until_it_has_its_turn,
    a_turn_is_taken_once,
    a_task_that_is_passed_over_fails_without_a_batch,
    nobody_is_passed_over_who_had_its_turn,
    a_lane_that_a_failure_stopped_is_listed_until_it_goes_on,
    a_lane_that_misses_a_number_is_listed_behind_those_that_a_failure_stopped,
];

const NOW: Timestamp = Timestamp(1_700_000_000_500);

fn id(key: &str) -> LaneId {
    LaneId::of(&RouteName::new("parcels"), key)
}

fn numbered(id: &str) -> (TaskId, Option<Turn>) {
    (TaskId::new(id), None)
}

/// What comes of tasks that come to a lane, as it is to be written.
fn coming(lane: &Lane, ids: &[&str]) -> (Lane, Vec<Newcomer>) {
    let tasks: Vec<_> = ids.iter().map(|id| numbered(id)).collect();
    let (after, places) = lane.lined_up(&tasks, NOW);
    let newcomer = |(name, place): (&&str, Place)| {
        let task = Task { lane: Some(lane.id.clone()), ..task(name, &target("a")) };
        match place {
            Place::First => Newcomer { task, queued: None },
            Place::Behind(turn) => {
                let queued = Some(Queued::of(&task, target("a"), turn));
                Newcomer { task: task.queued_in(lane.id.clone()), queued }
            }
            Place::Used | Place::TooFarAhead | Place::OtherNumbering => panic!("{name} has no place"),
        }
    };
    (after.expect("somebody comes"), ids.iter().zip(places).map(newcomer).collect())
}

fn open(key: &str) -> Lane {
    Lane::open(id(key), Numbering::ByArrival, NOW)
}

/// A new lane with these tasks in it.
async fn lane_of(store: &impl Store, key: &str, ids: &[&str]) -> Lane {
    let (lane, newcomers) = coming(&open(key), ids);
    assert_eq!(store.line_up(&lane, true, &newcomers).await.unwrap(), LinedUp::Yes);
    lane
}

fn waiting(name: &str, turn: u64) -> Queued {
    Queued::of(&task(name, &target("a")), target("a"), Turn(turn))
}

async fn turns(store: &impl Lanes, key: &str) -> Vec<(u64, String)> {
    let queued = store.queued(&id(key), Turn(0), Turn(u64::MAX), 100).await.unwrap();
    queued.into_iter().map(|queued| (queued.turn.0, queued.candidate.id.to_string())).collect()
}

async fn a_lane_that_nobody_came_to_is_not_there(store: impl Fixture) {
    assert_eq!(store.lane(&id("k")).await.unwrap(), None);
    assert_eq!(turns(&*store, "k").await, []);
    store.leave(&id("k"), &[waiting("t0", 0)]).await.unwrap();
    assert_eq!(store.store_lane(&open("k")).await.unwrap(), Stored::Conflict);
}

async fn tasks_and_their_lane_are_written_together(store: impl Fixture) {
    let lane = lane_of(&*store, "k", &["t0", "t1", "t2"]).await;
    assert_eq!(store.lane(&id("k")).await.unwrap(), Some(lane.clone()));
    assert_eq!(turns(&*store, "k").await, [(1, "t1".to_owned()), (2, "t2".to_owned())]);
    let first = now(&*store, &TaskId::new("t0")).await;
    assert_eq!((first.status, first.lane), (Status::Created { target: target("a") }, Some(id("k"))));
    assert_eq!(now(&*store, &TaskId::new("t2")).await.status, Status::Queued);
    let (more, newcomers) = coming(&lane, &["t3"]);
    assert_eq!(store.line_up(&more, false, &newcomers).await.unwrap(), LinedUp::Yes);
    assert_eq!(store.lane(&id("k")).await.unwrap(), Some(more));
    assert_eq!(turns(&*store, "k").await.len(), 3);
}

async fn nobody_comes_whose_id_is_taken(store: impl Fixture) {
    let there = task("t1", &target("b"));
    assert_eq!(store.register(&there).await.unwrap(), Registered::New);
    let (lane, newcomers) = coming(&open("k"), &["t0", "t1"]);
    assert_eq!(store.line_up(&lane, true, &newcomers).await.unwrap(), LinedUp::Before(vec![there.clone()]));
    assert_eq!(store.lane(&id("k")).await.unwrap(), None);
    assert_eq!(store.read(&[TaskId::new("t0")], groupage_core::ports::Freshness::Latest).await.unwrap(), []);
    assert_eq!(now(&*store, &there.id).await, there);
}

async fn nobody_comes_to_a_lane_that_moved_on(store: impl Fixture) {
    let lane = lane_of(&*store, "k", &["t0"]).await;
    let (one, newcomers) = coming(&lane, &["t1"]);
    assert_eq!(store.line_up(&one, false, &newcomers).await.unwrap(), LinedUp::Yes);
    let (other, newcomers) = coming(&lane, &["t2"]);
    assert_eq!(store.line_up(&other, false, &newcomers).await.unwrap(), LinedUp::Conflict);
    assert_eq!(store.lane(&id("k")).await.unwrap(), Some(one));
    assert_eq!(turns(&*store, "k").await, [(1, "t1".to_owned())]);
}

async fn of_two_who_open_a_lane_one_does(store: impl Fixture) {
    let lane = lane_of(&*store, "k", &["t0"]).await;
    // However near the revisions of both are to each other.
    for opened_at in [NOW, Timestamp(NOW.0 + 1)] {
        let (other, newcomers) = coming(&Lane::open(id("k"), Numbering::ByArrival, opened_at), &["t1"]);
        assert_eq!(store.line_up(&other, true, &newcomers).await.unwrap(), LinedUp::Conflict);
    }
    assert_eq!(store.lane(&id("k")).await.unwrap(), Some(lane));
}

async fn a_turn_is_waited_for_once(store: impl Fixture) {
    let by_sequence = Lane::open(id("k"), Numbering::BySequence { first: Turn(1) }, NOW);
    let come = async |lane: &Lane, is_new, name: &str, turn| {
        let (after, places) = lane.lined_up(&[(TaskId::new(name), Some(Turn(turn)))], NOW);
        assert_eq!(places, [Place::Behind(Turn(turn))]);
        let task = task(name, &target("a"));
        let queued = Some(Queued::of(&task, target("a"), Turn(turn)));
        let newcomer = Newcomer { task: task.queued_in(id("k")), queued };
        let after = after.unwrap();
        (store.line_up(&after, is_new, &[newcomer]).await.unwrap(), after)
    };
    let (came, lane) = come(&by_sequence, true, "t3", 3).await;
    assert_eq!(came, LinedUp::Yes);
    assert_eq!(come(&lane, false, "other", 3).await.0, LinedUp::Used(vec![Turn(3)]));
    assert_eq!(come(&lane, false, "t2", 2).await.0, LinedUp::Yes);
    assert_eq!(turns(&*store, "k").await, [(2, "t2".to_owned()), (3, "t3".to_owned())]);
}

async fn those_who_wait_are_read_in_the_order_of_their_turns(store: impl Fixture) {
    let names: Vec<String> = (0..30).map(|n| format!("t{n}")).collect();
    lane_of(&*store, "k", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    lane_of(&*store, "k2", &["other", "another"]).await;
    let read = async |from, to, limit| {
        let queued = store.queued(&id("k"), Turn(from), Turn(to), limit).await.unwrap();
        queued.into_iter().map(|queued| queued.turn.0).collect::<Vec<u64>>()
    };
    assert_eq!(read(0, 30, 100).await, (1..30).collect::<Vec<_>>());
    assert_eq!(read(9, 17, 5).await, (9..14).collect::<Vec<_>>());
    assert_eq!(read(17, 17, 5).await, Vec::<u64>::new());
    assert_eq!(read(30, 40, 5).await, Vec::<u64>::new());
}

async fn who_left_waits_no_more(store: impl Fixture) {
    lane_of(&*store, "k", &["t0", "t1", "t2", "t3"]).await;
    // The turn of another: a number may be used again.
    store.leave(&id("k"), &[waiting("t1", 2)]).await.unwrap();
    assert_eq!(turns(&*store, "k").await.len(), 3);
    for _ in 0..2 {
        store.leave(&id("k"), &[waiting("t1", 1), waiting("t3", 3)]).await.unwrap();
        assert_eq!(turns(&*store, "k").await, [(2, "t2".to_owned())]);
    }
    assert!(store.lane(&id("k")).await.unwrap().is_some());
}

async fn of_two_who_write_a_lane_one_does(store: impl Fixture) {
    let lane = lane_of(&*store, "k", &["t0"]).await;
    let settled = |outcome| lane.settled((&TaskId::new("t0"), Round(0)), outcome, OnFailure::Hold, None, NOW).unwrap();
    let (free, held) = (settled(Outcome::Succeeded), settled(Outcome::Failed));
    assert_eq!(store.store_lane(&free).await.unwrap(), Stored::Yes);
    assert_eq!(store.store_lane(&free).await.unwrap(), Stored::Yes, "a repeat recognises itself");
    assert_eq!(store.store_lane(&held).await.unwrap(), Stored::Conflict);
    assert_eq!(store.lane(&id("k")).await.unwrap(), Some(free));
}

async fn in_the_index(store: &impl Fixture) -> Vec<String> {
    store.index_settles().await;
    let page = store.waiting(&target("a"), None, 100).await.unwrap();
    page.candidates.into_iter().map(|candidate| candidate.id.to_string()).collect()
}

async fn a_queued_task_is_not_in_the_index_until_it_has_its_turn(store: impl Fixture) {
    lane_of(&*store, "k", &["t0", "t1"]).await;
    assert_eq!(in_the_index(&store).await, ["t0"]);
    assert_eq!(
        store.take_turn((&TaskId::new("t1"), Traits::default()), &target("a"), NOW).await.unwrap(),
        PutBack::Waits
    );
    assert_eq!(in_the_index(&store).await, ["t0", "t1"]);
    let task = now(&*store, &TaskId::new("t1")).await;
    assert_eq!((task.status, task.waits_since), (Status::Created { target: target("a") }, NOW));
}

async fn a_turn_is_taken_once(store: impl Fixture) {
    lane_of(&*store, "k", &["t0", "t1"]).await;
    let task = TaskId::new("t1");
    for _ in 0..2 {
        assert_eq!(store.take_turn((&task, Traits::default()), &target("a"), NOW).await.unwrap(), PutBack::Waits);
    }
    let batch = groupage_core::domain::id::BatchId::new("b1");
    store.join(&task, groupage_core::domain::id::Round(0), &batch).await.unwrap();
    assert_eq!(store.take_turn((&task, Traits::default()), &target("a"), NOW).await.unwrap(), PutBack::MovedOn);
    assert_eq!(now(&*store, &task).await.status, Status::Batched { batch });
    assert_eq!(
        store.take_turn((&TaskId::new("none"), Traits::default()), &target("a"), NOW).await.unwrap(),
        PutBack::Ended
    );
}

async fn a_task_that_is_passed_over_fails_without_a_batch(store: impl Fixture) {
    let (lane, mut newcomers) = coming(&open("k"), &["t0", "t1"]);
    let item = Some(ItemId::parse("tracker:0:1").unwrap());
    newcomers[1].task.item.clone_from(&item);
    assert_eq!(store.line_up(&lane, true, &newcomers).await.unwrap(), LinedUp::Yes);
    let (task, reason) = (TaskId::new("t1"), Reason::new("predecessor_failed"));
    let failure = failure(&target("a"), reason.as_str());
    let passed = PassedOver { ties: Ties { item, event: None, lane: Some(id("k")) }, at: NOW, trace: None };
    for later in [NOW, Timestamp(NOW.0 + 60_000)] {
        assert_eq!(store.pass_over(&task, &failure, later).await.unwrap(), Some(passed.clone()));
    }
    assert_eq!(now(&*store, &task).await.status, Status::Failed { batch: None, reason: reason.clone() });
    assert_eq!(store.take_turn((&task, Traits::default()), &target("a"), NOW).await.unwrap(), PutBack::MovedOn);
    assert_eq!(store.pass_over(&TaskId::new("none"), &failure, NOW).await.unwrap(), None);
}

async fn nobody_is_passed_over_who_had_its_turn(store: impl Fixture) {
    lane_of(&*store, "k", &["t0"]).await;
    assert_eq!(store.pass_over(&TaskId::new("t0"), &failure(&target("a"), "no"), NOW).await.unwrap(), None);
    assert_eq!(now(&*store, &TaskId::new("t0")).await.status, Status::Created { target: target("a") });
}

async fn a_lane_that_a_failure_stopped_is_listed_until_it_goes_on(store: impl Fixture) {
    let stopped = async |limit| store.stopped(&RouteName::new("parcels"), Timestamp(NOW.0 + 9), limit).await.unwrap();
    let mut lanes = Vec::new();
    for (n, (key, policy)) in [("k1", OnFailure::Hold), ("k2", OnFailure::FailRest)].into_iter().enumerate() {
        let task = format!("t{n}");
        let lane = lane_of(&*store, key, &[&task]).await;
        let later = Timestamp(NOW.0 + n as u64);
        let lane = lane.settled((&TaskId::new(task), Round(0)), Outcome::Failed, policy, None, later).unwrap();
        assert_eq!(store.store_lane(&lane).await.unwrap(), Stored::Yes);
        lanes.push(lane);
    }
    lane_of(&*store, "k3", &["t9"]).await;
    store.index_settles().await;
    assert_eq!(stopped(10).await, [id("k1"), id("k2")]);
    assert_eq!(stopped(1).await, [id("k1")]);
    assert_eq!(store.stopped(&RouteName::new("parcel"), NOW, 10).await.unwrap(), []);
    let resumed = lanes[0].resumed(None, NOW).unwrap();
    assert_eq!(resumed.state, State::Free);
    assert_eq!(store.store_lane(&resumed).await.unwrap(), Stored::Yes);
    store.index_settles().await;
    assert_eq!(stopped(10).await, [id("k2")]);
}

async fn a_lane_that_misses_a_number_is_listed_behind_those_that_a_failure_stopped(store: impl Fixture) {
    let failed = lane_of(&*store, "k1", &["t1"]).await;
    let policy = OnFailure::Hold;
    let failed = failed.settled((&TaskId::new("t1"), Round(0)), Outcome::Failed, policy, None, Timestamp(NOW.0 + 9));
    assert_eq!(store.store_lane(&failed.unwrap()).await.unwrap(), Stored::Yes);
    let numbering = Numbering::BySequence { first: Turn(1) };
    let came = |lane: &Lane, n: u64, at| lane.lined_up(&[(TaskId::new(format!("n{n}")), Some(Turn(n)))], at).0.unwrap();
    let mut lane = came(&Lane::open(id("k2"), numbering, NOW), 5, NOW);
    for (n, is_new) in [(5, true), (7, false)] {
        let task = Task::new(TaskId::new(format!("n{n}")), target("a"), "{}".to_owned(), String::new(), NOW);
        let queued = Some(Queued::of(&task, target("a"), Turn(n)));
        let newcomer = Newcomer { task: task.queued_in(id("k2")), queued };
        assert_eq!(store.line_up(&lane, is_new, &[newcomer]).await.unwrap(), LinedUp::Yes);
        // A task that comes later does not move it.
        lane = came(&lane, 7, Timestamp(NOW.0 + 100));
    }
    store.index_settles().await;
    let stopped = async |since| store.stopped(&RouteName::new("parcels"), Timestamp(since), 10).await.unwrap();
    assert_eq!(stopped(NOW.0).await, [id("k1")]);
    assert_eq!(stopped(NOW.0 + 1).await, [id("k1"), id("k2")]);
    let first = store.queued(&id("k2"), Turn(2), Turn(u64::MAX), 1).await.unwrap().pop().unwrap();
    let lane = store.lane(&id("k2")).await.unwrap().unwrap();
    let skipped = lane.skipped(Turn(1), &first, NOW).unwrap();
    let entered = skipped.entered(NOW).unwrap();
    for (lane, listed) in [(skipped, vec![id("k1"), id("k2")]), (entered, vec![id("k1")])] {
        assert_eq!(store.store_lane(&lane).await.unwrap(), Stored::Yes);
        store.index_settles().await;
        let mut stopped = stopped(NOW.0 + 1).await;
        stopped.sort();
        assert_eq!(stopped, listed, "until its task is let in");
    }
}
