//! What the writes and reads of one task cost, as DynamoDB reports it.

use groupage_aws::{Capacity, Place, Units, Usage};
use groupage_core::domain::answer::{Excerpt, MAX_EXCERPT_BYTES};
use groupage_core::domain::batch::Assumes;
use groupage_core::domain::failed::Retry;
use groupage_core::domain::list::Move;
use groupage_core::domain::tracker::WORD_BITS;
use groupage_core::routes::Notify;
use groupage_core::steps::lane::{Arrival, Ordering, Over};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, OnDynamo, Turned};
use super::samples::{batch, failure, lead, member, opened, session, target, term, waiting};

fn writes(units: u64) -> Capacity {
    Capacity { write: Units::whole(units), ..Capacity::default() }
}

fn reads(units: f64) -> Capacity {
    Capacity { read: Units::reported(units), ..Capacity::default() }
}

/// The write units that went to these places.
fn written<const N: usize>(usage: &Usage, places: [Place; N]) -> [Units; N] {
    places.map(|place| usage.at(place).write)
}

/// What `action` consumes.
async fn cost<T>(store: &OnDynamo, action: impl Future<Output = T>) -> Usage {
    let before = store.meter().snapshot();
    action.await;
    store.meter().snapshot() - before
}

#[tokio::test]
async fn a_task_costs_one_index_write_to_enter_and_one_to_leave_and_none_to_settle() {
    let store = OnDynamo::start().await;
    let (target, batch) = (target("a"), BatchId::new("b"));
    let registered = cost(&store, waiting(&*store, "t", &target)).await;
    assert_eq!((registered.at(Place::Tasks), registered.at(Place::Waiting)), (writes(1), writes(1)));
    let candidate = super::samples::task("t", &target).candidate();
    let joined = cost(&store, store.join(&candidate.id, candidate.round, &batch)).await;
    assert_eq!((joined.at(Place::Tasks), joined.at(Place::Waiting)), (writes(1), writes(1)));
    let member = member(&candidate);
    let settled = cost(&store, store.settle(&member, &batch, &Settlement::Succeeded, Timestamp(1))).await;
    assert_eq!((settled.at(Place::Tasks), settled.at(Place::Waiting)), (writes(1), writes(0)));
}

/// Without traits a task is as large as ever, and with them it costs the same units, unless it is near a kilobyte.
#[tokio::test]
async fn traits_cost_no_write_unit_and_a_task_without_them_no_byte() {
    let store = OnDynamo::start().await;
    let usual = super::samples::task("t", &target("a"));
    let keyed = Task { id: TaskId::new("k"), ..usual.clone() };
    let traits = Traits { priority: 3, collapse: Some(traits::Collapse::of("7")), weight: 1_000, closes: true };
    let keyed = keyed.with_traits(traits);
    for task in [&usual, &keyed] {
        let registered = cost(&store, store.register(task)).await;
        assert_eq!((registered.at(Place::Tasks), registered.at(Place::Waiting)), (writes(1), writes(1)));
    }
    let page = store.waiting(&target("a"), None, 10).await.unwrap();
    let mut shown: Vec<Traits> = page.candidates.iter().map(|candidate| candidate.traits).collect();
    shown.sort_by_key(|traits| traits.weight);
    assert_eq!(shown, [Traits::default(), traits]);
    for task in [&usual, &keyed] {
        let joined = cost(&store, store.join(&task.id, task.round, &BatchId::new("b"))).await;
        assert_eq!((joined.at(Place::Tasks), joined.at(Place::Waiting)), (writes(1), writes(1)));
    }
    let read = store.read(&[usual.id.clone(), keyed.id.clone()], Freshness::Latest).await.unwrap();
    assert!(read.iter().any(|task| task.traits == traits) && read.iter().any(|task| task.traits == Traits::default()));
    let bytes = |task: &Task| groupage_aws::price::waiting_bytes(&target("a"), &task.candidate(), Timestamp(1));
    assert_eq!(bytes(&keyed) - bytes(&usual), 62, "in the index");
}

#[tokio::test]
async fn a_lost_race_is_billed_like_a_won_one() {
    let store = OnDynamo::start().await;
    lead(&*store, &target("a"), "w1", 10).await;
    let loser = super::samples::taking(&term(&target("a"), "w2", 11), groupage_core::domain::lock::Assumes::Free);
    let lost = cost(&store, store.acquire(&target("a"), &loser)).await;
    assert_eq!(lost.at(Place::Locks), writes(1));
}

#[tokio::test]
async fn a_refused_write_is_billed_by_the_item_that_was_there() {
    let store = OnDynamo::start().await;
    let large = batch("b", &target("a"), 1_000);
    let written = cost(&store, store.store(&large, Assumes::Absent)).await;
    let refused = cost(&store, store.store(&batch("b", &target("a"), 1), Assumes::Absent)).await;
    assert!(written.at(Place::Batches).write > Units::whole(5));
    assert_eq!(refused.at(Place::Batches), written.at(Place::Batches));
}

#[tokio::test]
async fn a_small_batch_costs_one_write_a_step_and_the_index_one_to_enter_and_one_to_leave() {
    let store = OnDynamo::start().await;
    let open = batch("b", &target("a"), 3);
    let frozen = open.frozen(open.members.clone());
    let claimed = frozen.claimed(Claim { session: session("r/s").id });
    let settled = claimed.settled(Results::new(), Timestamp(9));
    let followed_up = settled.followed_up();
    let mut assumes = Assumes::Absent;
    for (batch, index) in [(&open, 1), (&frozen, 0), (&claimed, 0), (&settled, 0), (&followed_up, 1)] {
        let stored = cost(&store, store.store(batch, assumes)).await;
        assert_eq!(
            (stored.at(Place::Batches), stored.at(Place::Unfinished)),
            (writes(1), writes(index)),
            "{:?}",
            batch.status
        );
        assumes = Assumes::At(batch.revision);
    }
}

#[tokio::test]
async fn a_session_costs_one_write_a_beat() {
    let store = OnDynamo::start().await;
    let first = session("r/s");
    let next = first.renewed(first.claims.clone(), Timestamp(2_000), Timing::default());
    assert_eq!(cost(&store, store.open_session(&first)).await.at(Place::Sessions), writes(1));
    assert_eq!(cost(&store, store.renew(&next)).await.at(Place::Sessions), writes(1));
    assert_eq!(cost(&store, store.end_session(&next.id, next.beat)).await.at(Place::Sessions), writes(1));
}

#[tokio::test]
async fn a_look_at_indexes_where_nothing_waits_costs_next_to_nothing() {
    let store = OnDynamo::start().await;
    let part = Part::of(&BatchId::new("a"));
    let unfinished = cost(&store, store.unfinished(&RouteName::new("parcels"), Look::at(part, Timestamp(9), 10))).await;
    assert!(unfinished.at(Place::Unfinished).read <= Units::reported(0.5), "{}", unfinished.at(Place::Unfinished).read);
    let all = Segment { index: 0, of: 1 };
    let waiting = cost(&store, store.waiting_long(Look::at(all, Timestamp(9), 100))).await;
    assert!(waiting.at(Place::Waiting).read <= Units::reported(0.5), "{}", waiting.at(Place::Waiting).read);
}

#[tokio::test]
async fn an_eventual_read_costs_half() {
    let store = OnDynamo::start().await;
    let id = waiting(&*store, "t", &target("a")).await.id;
    let eventual = cost(&store, store.read(std::slice::from_ref(&id), Freshness::Eventual)).await;
    let latest = cost(&store, store.read(std::slice::from_ref(&id), Freshness::Latest)).await;
    assert_eq!((eventual.at(Place::Tasks), latest.at(Place::Tasks)), (reads(0.5), reads(1.0)));
}

#[tokio::test]
async fn a_page_of_a_hundred_waiting_tasks_costs_about_two_read_units_of_the_index() {
    let store = OnDynamo::start().await;
    for n in 0..100 {
        waiting(&*store, &format!("{n:0>36}"), &target("truck-7")).await;
    }
    let page = cost(&store, store.waiting(&target("truck-7"), None, 100)).await;
    assert_eq!(page.at(Place::Tasks), Capacity::default());
    assert!(
        page.at(Place::Waiting).read > Units::whole(0) && page.at(Place::Waiting).read <= Units::whole(2),
        "{}",
        page.at(Place::Waiting).read
    );
}

/// A group's items, marked by one write; every `failing`-th fails.
async fn mark_group(store: &impl Trackers, id: &TrackerId, group: u32, bits: std::ops::Range<u16>, failing: u16) {
    let marks: Vec<Mark> = bits.map(|bit| Mark { bit, failures: u64::from(bit.is_multiple_of(failing)) }).collect();
    let change = Node::empty(NodeId::group(group)).marking(&marks).unwrap();
    assert!(matches!(store.mark(id, &change).await.unwrap(), Marked::Yes(_)));
}

/// What acking the last hundred items of a group costs, of which every `failing`-th fails, as those before did. The
/// tracker has more items: this completes nothing.
async fn cost_of_a_hundred_acks(store: &OnDynamo, id: &str, failing: u16) -> Usage {
    let outbox = MemoryQueues::new();
    let id = opened(&**store, id).await.id;
    let tracking = Tracking { store: &**store, outbox: &outbox, env: &Turned::default() };
    tracking.add(&id, "k", u64::from(GROUP_SIZE) + 1).await.unwrap().unwrap();
    let last = GROUP_SIZE - WORD_BITS;
    mark_group(&**store, &id, 0, 0..last, failing).await;
    let outcome = |index: u16| if index.is_multiple_of(failing) { Outcome::Failed } else { Outcome::Succeeded };
    let item = |index| ItemRange { tracker: id.clone(), group: 0, first: index, last: index };
    let items: Vec<(ItemRange, Outcome)> = (last..last + 100).map(|index| (item(index), outcome(index))).collect();
    cost(store, async { assert_eq!(tracking.ack(&id, &items).await.unwrap().unwrap().fresh, 100) }).await
}

#[tokio::test]
async fn a_hundred_acks_in_one_group_cost_one_write_and_two_where_every_twentieth_fails() {
    let store = OnDynamo::start().await;
    let succeeded = cost_of_a_hundred_acks(&store, "t", u16::MAX).await;
    assert_eq!((succeeded.at(Place::Trackers).write, succeeded.at(Place::Due)), (Units::whole(1), Capacity::default()));
    let failed = cost_of_a_hundred_acks(&store, "u", 20).await;
    assert_eq!((failed.at(Place::Trackers).write, failed.at(Place::Due)), (Units::whole(2), Capacity::default()));
}

#[tokio::test]
async fn the_progress_of_a_million_items_costs_some_twenty_read_units() {
    let store = OnDynamo::start().await;
    let outbox = MemoryQueues::new();
    let id = opened(&*store, "t").await.id;
    let tracking = Tracking { store: &*store, outbox: &outbox, env: &Turned::default() };
    tracking.add(&id, "k", 1_000_000).await.unwrap().unwrap();
    for group in 0..139 {
        mark_group(&*store, &id, group, 0..GROUP_SIZE, 7_000).await;
    }
    mark_group(&*store, &id, 139, 0..3_000, 7_000).await;
    let progress = cost(&store, async {
        let progress = tracking.progress(&id).await.unwrap().unwrap();
        assert_eq!((progress.succeeded, progress.failed, progress.missing), (999_073, 279, 648));
    });
    let read = progress.await.at(Place::Trackers).read;
    assert!(read > Units::whole(10) && read <= Units::whole(30), "{read} read units");
}

/// Puts this many small tasks, as many at once as a call takes.
async fn put(store: &OnDynamo, id: &ListId, count: usize) {
    let outbox = MemoryQueues::new();
    let listing = Listing { store: &**store, outbox: &outbox, env: &Turned::default() };
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(97) {
        let message = |n: &usize| format!("{{\"id\":\"t-{n}\",\"payload\":{{}}}}");
        let messages: Vec<String> = numbers.iter().map(message).collect();
        listing.put(id, &format!("k{}", numbers[0]), &messages).await.unwrap().unwrap();
    }
}

/// A transaction doubles each write. A new list has two entries in the index.
#[tokio::test]
async fn putting_tasks_costs_two_writes_a_task_and_four_a_call() {
    let store = OnDynamo::start().await;
    let id = ListId::new("l");
    let first = cost(&store, put(&store, &id, 1)).await;
    assert!(first.at(Place::ListsDue).write <= Units::whole(2), "{}", first.at(Place::ListsDue).write);
    let id = ListId::new("m");
    put(&store, &id, 1).await;
    let outbox = MemoryQueues::new();
    let listing = Listing { store: &*store, outbox: &outbox, env: &Turned::default() };
    let tasks: Vec<String> = (0..90).map(|n| format!("{{\"id\":\"n-{n}\",\"payload\":{{}}}}")).collect();
    let more = cost(&store, async { listing.put(&id, "more", &tasks).await.unwrap().unwrap() }).await;
    assert_eq!(written(&more, [Place::Lists, Place::ListsDue]), [2 * 90 + 4, 0].map(Units::whole));
}

#[tokio::test]
async fn taking_costs_one_write_however_long_the_list_is_and_however_much_is_taken() {
    let store = OnDynamo::start().await;
    for (length, asked) in [(10, 1), (1_000, 1), (1_000, 900)] {
        let id = ListId::new(format!("l-{length}-{asked}"));
        put(&store, &id, length).await;
        let list = store.list(&id).await.unwrap().unwrap();
        let reserve = list.taking("k", Purpose::Release { asked }, Timestamp(1)).unwrap();
        let taking = Move::Reserve(reserve);
        let taken = cost(&store, async {
            assert!(matches!(store.move_head(&list.tail.life, &taking).await.unwrap(), Moved::Yes(_)));
        });
        let taken = taken.await;
        assert_eq!((taken.at(Place::Lists), taken.at(Place::ListsDue)), (writes(1), writes(1)), "{length} {asked}");
    }
}

/// Two reads and three writes, and one to remove each task; the index is entered once, and left by sweep.
#[tokio::test]
async fn releasing_tasks_costs_a_write_a_task_and_three_a_call() {
    let store = OnDynamo::start().await;
    let outbox = MemoryQueues::new();
    let listing = Listing { store: &*store, outbox: &outbox, env: &Turned::default() };
    let id = ListId::new("l");
    put(&store, &id, 500).await;
    listing.release(&id, "first", 1).await.unwrap().unwrap();
    for (key, count) in [("one", 1), ("hundred", 100)] {
        let released =
            cost(&store, async { assert_eq!(listing.release(&id, key, count).await.unwrap().unwrap().count, count) });
        let released = released.await;
        assert_eq!(written(&released, [Place::Lists, Place::ListsDue]), [count + 3, 0].map(Units::whole));
        assert!(released.at(Place::Lists).read <= Units::whole(10), "{}", released.at(Place::Lists).read);
    }
}

/// `Place::Waiting` counts the writes of all indexes of the task table.
#[tokio::test]
async fn a_failure_costs_one_write_more_than_a_success_and_a_retry_three() {
    let store = OnDynamo::start().await;
    let batch = BatchId::new("b1");
    let joined = async |id: &str| {
        let candidate = waiting(&*store, id, &target("a")).await;
        store.join(&candidate.id, candidate.round, &batch).await.unwrap();
        member(&candidate)
    };
    let (good, bad) = (joined("good").await, joined("bad").await);
    let succeeds = cost(&store, store.settle(&good, &batch, &Settlement::Succeeded, Timestamp(1))).await;
    let answer = Some(Excerpt { status: 422, text: "x".repeat(MAX_EXCERPT_BYTES) });
    let failure = Settlement::Failed(Failure { answer, ..failure(&target("a"), "http_422") });
    let fails = cost(&store, store.settle(&bad, &batch, &failure, Timestamp(1))).await;
    let writes = |usage: &Usage| written(usage, [Place::Tasks, Place::Waiting]);
    assert_eq!(writes(&succeeds), [Units::whole(1), Units::whole(0)]);
    assert_eq!(writes(&fails), [Units::whole(1), Units::whole(1)]);
    let retry = Retry {
        id: bad.id.clone(),
        failed_in: bad.round,
        target: target("a"),
        lane: None,
        traits: Traits::default(),
        at: Timestamp(2),
    };
    let retried = cost(&store, store.retry(&retry)).await;
    assert_eq!(writes(&retried), [Units::whole(1), Units::whole(2)], "one entry goes, the other comes");
    let route = RouteName::new("parcels");
    let part = Part::of_task(&bad.id);
    let listed = cost(&store, store.failed((&route, part), (Timestamp(0), Timestamp(9)), None, 100)).await;
    assert_eq!(listed.at(Place::Filed).read, Units::reported(0.5));
}

/// Beside what any task costs: its entry among what is due comes and goes, and one write lets it wait. Nothing is read
/// or written meanwhile. Of what is due, one read finds as many as a page holds.
#[tokio::test]
async fn a_task_that_waits_for_its_time_costs_three_writes_more_however_long_it_waits() {
    let store = OnDynamo::start().await;
    let writes = |usage: &Usage| written(usage, [Place::Tasks, Place::Waiting]);
    let scheduled = super::samples::task("t", &target("a")).scheduled(Timestamp(5));
    let comes = cost(&store, store.register(&scheduled)).await;
    assert_eq!(writes(&comes), [Units::whole(1), Units::whole(1)], "its entry among what is due");
    let part = Part::of_task(&scheduled.id);
    let looked = cost(&store, store.due(Look::at(part, Timestamp(4), 100))).await;
    assert!(looked.at(Place::Filed).read <= Units::reported(0.5), "{}", looked.at(Place::Filed).read);
    let falls_due = cost(&store, store.fall_due((&scheduled.id, Traits::default()), &target("a"), Timestamp(5))).await;
    assert_eq!(writes(&falls_due), [Units::whole(1), Units::whole(2)], "one entry goes, the other comes");
}

#[tokio::test]
async fn a_task_that_waits_for_its_turn_costs_four_writes_to_come_and_four_for_its_turn_whatever_waits() {
    let store = OnDynamo::start().await;
    let (queues, env, notify) = (MemoryQueues::new(), Turned::default(), Notify::default());
    let ordering = Ordering { store: &*store, outbox: &queues, env: &env };
    let lane = LaneId::of(&RouteName::new("parcels"), "k");
    let arrival = |n: usize| {
        let (task, target) = (super::samples::task(&format!("t{n}"), &target("a")), target("a"));
        Arrival { task, target, sequence: None }
    };
    let come = async |from: usize, to: usize| {
        let arrivals: Vec<Arrival> = (from..to).map(arrival).collect();
        cost(&store, ordering.line_up(&lane, Numbering::ByArrival, &arrivals, &notify)).await
    };
    // A transaction's write is billed twice. The lane, and one task that waits for a batch at once.
    let first = come(0, 1).await;
    assert_eq!(written(&first, [Place::Lanes, Place::Tasks]), [2, 2].map(Units::whole));
    for (from, to) in [(1, 2), (2, 50), (50, 51)] {
        // The lane once, then for each who waits the task and its place.
        let come = come(from, to).await;
        let tasks = (to - from) as u64;
        let places = [Place::Lanes, Place::Tasks, Place::Waiting];
        assert_eq!(written(&come, places), [2 + 2 * tasks, 2 * tasks, 0].map(Units::whole));
    }
    for n in 0..3 {
        let (task, lane) = (TaskId::new(format!("t{n}")), lane.clone());
        let settled = [Over { task, round: Round(0), lane, outcome: Outcome::Succeeded }];
        let handed = cost(&store, ordering.hand_over(&settled, OnFailure::Hold, &notify)).await;
        // The lane, the place that is left; the task, its entry in the index.
        assert_eq!(written(&handed, [Place::Lanes, Place::Tasks, Place::Waiting]), [2, 1, 1].map(Units::whole));
        assert!(handed.at(Place::Lanes).read <= Units::whole(2), "{}", handed.at(Place::Lanes).read);
    }
}
