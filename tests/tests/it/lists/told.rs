//! What single calls are told, and what becomes of tasks in cases that the plain queue does not have.

use groupage_core::domain::list::{MAX_RELEASED, MAX_RESERVATIONS, Move, Options, Reserve, State};
use groupage_core::domain::task_message::Code;
use groupage_core::steps::Error;
use groupage_core::steps::list::Refused;
use groupage_lab::prelude::*;

use super::calls::{HOUR_MS, IDLE_MS, id};

const HUNDRED_MINUTES_MS: u64 = 6_000_000;

struct World {
    store: Lagging<MemoryStore, TestEnv>,
    queues: MemoryQueues,
    env: TestEnv,
}

impl World {
    fn new(slots_ms: u64) -> Self {
        let env = TestEnv::new(3);
        let store = Lagging::new(MemoryStore::new(), env.clone(), Lag { slots_ms, ..Lag::default() }, 3);
        Self { store, queues: MemoryQueues::new(), env }
    }

    const fn steps(&self) -> Listing<'_, Lagging<MemoryStore, TestEnv>, MemoryQueues, TestEnv> {
        Listing { store: &self.store, outbox: &self.queues, env: &self.env }
    }

    async fn put(&self, key: &str, messages: &[&str]) {
        let messages: Vec<String> = messages.iter().map(|message| (*message).to_owned()).collect();
        self.steps().put(&id(), key, &messages).await.unwrap().unwrap();
    }

    fn sent(&self) -> Vec<String> {
        self.queues.messages(&Destination::Tasks).into_iter().map(|message| message.body).collect()
    }
}

const TASK: &str = r#"{"payload":{"a":1}}"#;

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_with_a_reason_and_changes_nothing() {
    let world = World::new(0);
    let steps = world.steps();
    assert_eq!(steps.release(&id(), "k", 1).await.unwrap(), Err(Refused::Unknown(id())));
    assert_eq!(steps.close(&id()).await.unwrap().unwrap_err(), Refused::Unknown(id()));
    world.put("k", &[TASK]).await;
    let before = world.store.list(&id()).await.unwrap();
    for count in [0, MAX_RELEASED + 1, 1_000_000, u64::MAX] {
        assert_eq!(steps.release(&id(), "r", count).await.unwrap(), Err(Refused::BadCount), "{count}");
    }
    for key in ["", "a b", "é", &"k".repeat(129)] {
        assert_eq!(steps.release(&id(), key, 1).await.unwrap(), Err(Refused::BadKey));
        assert_eq!(steps.put(&id(), key, &[TASK.to_owned()]).await.unwrap(), Err(Refused::BadKey));
    }
    for count in [0, 98] {
        assert_eq!(steps.put(&id(), "l", &vec![TASK.to_owned(); count]).await.unwrap(), Err(Refused::TooMany));
    }
    let large = format!(r#"{{"payload":{{"a":"{}"}}}}"#, "x".repeat(250_000));
    assert_eq!(steps.put(&id(), "l", &vec![large; 13]).await.unwrap(), Err(Refused::TooMany));
    let bad = [TASK.to_owned(), "{}".to_owned()];
    match steps.put(&id(), "l", &bad).await.unwrap() {
        Err(Refused::BadTask { position: 1, why }) => assert_eq!(why.code, Code::MissingField),
        other => panic!("{other:?}"),
    }
    let ttl = Options { ttl_ms: Some(5) };
    assert_eq!(steps.open(&ListId::new("m"), ttl).await.unwrap().unwrap_err(), Refused::BadTtl);
    assert_eq!(steps.peek(&id(), None, 0).await.unwrap(), Err(Refused::BadLimit));
    assert_eq!(world.store.list(&id()).await.unwrap(), before);
    assert_eq!((world.store.inner().lists().len(), world.sent().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_closed_list_takes_and_releases_nothing_and_can_be_opened_again() {
    let world = World::new(0);
    let steps = world.steps();
    world.put("k", &[TASK, TASK]).await;
    steps.close(&id()).await.unwrap().unwrap();
    assert_eq!(steps.release(&id(), "r", 1).await.unwrap(), Err(Refused::Closed));
    assert_eq!(steps.put(&id(), "l", &[TASK.to_owned()]).await.unwrap(), Err(Refused::Closed));
    let repeated = vec![TASK.to_owned(); 2];
    assert!(!steps.put(&id(), "k", &repeated).await.unwrap().unwrap().1, "a repeat finds what it put");
    assert_eq!(world.sent(), [""; 0]);
    steps.open(&id(), Options::default()).await.unwrap().unwrap();
    assert_eq!(steps.release(&id(), "r", 9).await.unwrap().unwrap().count, 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_without_an_id_is_one_task_however_often_it_is_put_or_sent() {
    let world = World::new(0);
    for _ in 0..2 {
        world.put("k", &[TASK, TASK]).await;
    }
    world.steps().release(&id(), "r", 9).await.unwrap().unwrap();
    let sent = world.sent();
    assert_eq!(sent.len(), 2);
    assert_ne!(sent[0], sent[1], "these are two tasks");
    let other = World::new(0);
    other.put("k", &[TASK, TASK]).await;
    other.steps().release(&id(), "r", 9).await.unwrap().unwrap();
    assert_eq!(other.sent(), sent, "the same call makes the same ids");
}

/// A tail shows its tokens before its tasks can be read: what is missing is not done.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_not_to_be_seen_yet_is_waited_for() {
    for slots_ms in [50, 60_000] {
        let world = World::new(slots_ms);
        world.put("k", &[TASK; 60]).await;
        let released = world.steps().release(&id(), "r", 60).await;
        if slots_ms == 60_000 {
            assert!(matches!(released, Err(Error::Conflict(_))), "it cannot wait for so long: {released:?}");
            world.env.sleep(61_000).await;
            world.steps().look_after(&id(), IDLE_MS).await.unwrap();
        } else {
            assert_eq!(released.unwrap().unwrap().count, 60);
        }
        let mut sent = world.sent();
        sent.dedup();
        assert_eq!(sent.len(), 60);
        assert!(world.store.inner().all_slots().is_empty());
    }
}

/// Somebody removed a task by hand: the others go on.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_gone_for_good_is_counted_and_holds_up_no_other() {
    let world = World::new(0);
    world.put("k", &[TASK; 9]).await;
    let life = world.store.list(&id()).await.unwrap().unwrap().tail.life;
    world.store.inner().remove_slots(&life, &[Token(0), Token(4), Token(8)]).await.unwrap();
    assert!(world.steps().release(&id(), "r", 9).await.is_err());
    world.env.sleep(HUNDRED_MINUTES_MS).await;
    let report = world.steps().look_after(&id(), IDLE_MS).await.unwrap();
    assert_eq!((report.lost, report.tasks, report.revived), (3, 6, 1));
    assert_eq!(world.sent().len(), 6);
    assert!(world.store.list(&id()).await.unwrap().unwrap().head.reservations.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_items_of_discarded_tasks_fail() {
    let world = World::new(0);
    let tracking = Tracking { store: &world.store, outbox: &world.queues, env: &world.env };
    let tracked = track(tracking, "t", 2).await;
    world.put("k", &[r#"{"payload":{},"item":"t:0:0"}"#, r#"{"payload":{},"item":"t:0:1"}"#, TASK]).await;
    let discarded = world.steps().discard(&id(), "d").await.unwrap().unwrap();
    assert_eq!((discarded.start, discarded.count, discarded.left), (Token(0), 3, 0));
    let progress = tracking.progress(&tracked).await.unwrap().unwrap();
    assert_eq!((progress.failed, progress.missing), (2, 0));
    assert_eq!(world.sent(), [""; 0]);
}

/// One call discards ten thousand tasks; sweep does the rest, and meanwhile others are put and released.
#[tokio::test(start_paused = true)]
async fn what_is_too_much_for_one_call_is_left_to_sweep() {
    let world = World::new(0);
    for n in 0..110 {
        world.put(&format!("k{n}"), &[TASK; 97]).await;
    }
    let discarded = world.steps().discard(&id(), "d").await.unwrap().unwrap();
    assert_eq!((discarded.count, discarded.left), (10_670, 670));
    world.put("last", &[TASK]).await;
    assert_eq!(world.steps().release(&id(), "r", 5).await.unwrap().unwrap().start, Token(10_670));
    let progress = world.steps().progress(&id()).await.unwrap().unwrap();
    assert_eq!((progress.put, progress.waiting, progress.released), (10_671, 0, 1));
    assert_eq!((progress.discarded, progress.under_way().count()), (10_670, 1));
    world.env.sleep(61_000).await;
    assert_eq!(world.steps().look_after(&id(), IDLE_MS).await.unwrap().tasks, 670);
    assert!(world.store.inner().all_slots().is_empty());
}

/// Takes single tasks under this many keys, as somebody who dies at once.
async fn die_holding(world: &World, dead: usize, count: u64) {
    let life = world.store.list(&id()).await.unwrap().unwrap().tail.life;
    for n in 0..dead {
        let (purpose, at) = (Purpose::Release { asked: count }, world.env.now());
        let (most_taken, seen) = (Token(9_000), Token(9_000));
        let reserve = Reserve { key: format!("dead-{n}"), purpose, count, at, most_taken, seen };
        world.store.move_head(&life, &Move::Reserve(reserve)).await.unwrap();
    }
}

/// What the dead have left never piles up in the head: the next call works it off, whether sweep comes or not.
#[tokio::test(start_paused = true)]
async fn who_releases_works_off_in_passing_what_the_dead_left() {
    let world = World::new(0);
    for n in 0..2 {
        world.put(&format!("k{n}"), &[TASK; 97]).await;
    }
    die_holding(&world, 20, 1).await;
    let under_way = async || world.store.list(&id()).await.unwrap().unwrap().head.reservations.len();
    world.steps().release(&id(), "at-once", 1).await.unwrap().unwrap();
    assert_eq!(under_way().await, 20, "they may live");
    world.env.sleep(1_000).await;
    for n in 0..30 {
        world.steps().release(&id(), &format!("r{n}"), 1).await.unwrap().unwrap();
    }
    assert!(under_way().await <= 4, "{}", under_way().await);
    world.env.sleep(12_000).await;
    let report = world.steps().look_after(&id(), IDLE_MS).await.unwrap();
    assert_eq!((report.revived, under_way().await), (4, 0), "sweep does the last ones");
    assert_eq!(world.sent().len(), 51, "each once");
}

/// As many releases are under way as may be at once, none for long: others are told to wait, and sweep makes room.
#[tokio::test(start_paused = true)]
async fn too_many_fresh_releases_keep_others_waiting_until_sweep_comes() {
    let world = World::new(0);
    for n in 0..3 {
        world.put(&format!("k{n}"), &[TASK; 97]).await;
    }
    die_holding(&world, MAX_RESERVATIONS, 1).await;
    assert_eq!(world.steps().release(&id(), "r", 1).await.unwrap(), Err(Refused::Busy));
    world.env.sleep(12_000).await;
    assert_eq!(world.steps().look_after(&id(), IDLE_MS).await.unwrap().revived, MAX_RESERVATIONS);
    assert_eq!(world.sent().len(), MAX_RESERVATIONS);
    assert_eq!(world.steps().release(&id(), "r", 1).await.unwrap().unwrap().start, Token(256));
}

/// As many are under way as may be at once, but their owners are dead: the next one makes room for itself.
#[tokio::test(start_paused = true)]
async fn who_finds_no_room_makes_some() {
    let world = World::new(0);
    for n in 0..3 {
        world.put(&format!("k{n}"), &[TASK; 97]).await;
    }
    die_holding(&world, MAX_RESERVATIONS, 1).await;
    world.env.sleep(1_000).await;
    assert_eq!(world.steps().release(&id(), "r", 1).await.unwrap().unwrap().start, Token(256));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_being_removed_takes_nothing_and_is_made_anew_afterwards() {
    let world = World::new(0);
    let steps = world.steps();
    steps.open(&id(), Options { ttl_ms: Some(HOUR_MS) }).await.unwrap().unwrap();
    world.put("k", &[TASK]).await;
    let tail = world.store.list(&id()).await.unwrap().unwrap().tail;
    let removing = tail.in_state(State::Removing, world.env.now());
    assert_eq!(world.store.store_tail(&removing).await.unwrap(), Stored::Yes);
    assert!(steps.put(&id(), "l", &[TASK.to_owned()]).await.is_err(), "it may be repeated");
    assert!(steps.open(&id(), Options::default()).await.is_err());
    assert_eq!(steps.release(&id(), "r", 1).await.unwrap(), Err(Refused::Unknown(id())));
    assert_eq!(steps.discard(&id(), "r").await.unwrap(), Err(Refused::Unknown(id())));
    assert_eq!(steps.progress(&id()).await.unwrap().unwrap_err(), Refused::Unknown(id()));
    world.env.sleep(2 * HOUR_MS).await;
    let report = steps.look_after(&id(), IDLE_MS).await.unwrap();
    assert_eq!((report.removed, report.expired), (1, 1));
    world.put("k", &[TASK]).await;
    assert_eq!(steps.release(&id(), "r", 9).await.unwrap().unwrap().count, 1);
}
