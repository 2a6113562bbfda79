//! Items of every table: written through the ports as today's steps write them, and read the same way.
//!
//! No clock and no dice: two runs write the same items. A new kind of item gets a sample here.

use std::collections::BTreeMap;
use std::fmt::Debug;

use groupage_aws::{Dynamo, RouteTable};
use groupage_core::domain::answer::{Excerpt, Excerpts};
use groupage_core::domain::batch::Assumes;
use groupage_core::domain::gate::{Admission, Asks, BreakerPolicy, Limits, Rates};
use groupage_core::domain::lane::{Place, Queued};
use groupage_core::domain::list::{Addition, Life, Options, Put, Record, Reservation, Slot, Tail};
use groupage_core::domain::outcome::Fault;
use groupage_core::domain::shelf::{Bookmark, Bookmarks, Position};
use groupage_core::domain::tracker::Ending;
use groupage_lab::prelude::*;

use crate::ports::samples::{batch, failure, lead, member, opened, session, target, task, term, tracked, waiting};

/// What every read gave, as text; `None` where it found nothing.
pub type Reads = BTreeMap<String, Option<String>>;

const NOW: Timestamp = Timestamp(1_700_000_000_500);
const LATER: Timestamp = Timestamp(1_700_000_009_000);
const TASKS: [&str; 9] =
    ["created", "traits", "scheduled", "batched", "succeeded", "failed", "ended", "erased", "queued"];
const BATCHES: [&str; 8] = ["open", "closing", "frozen", "claimed", "paused", "settled", "followed-up", "void"];

/// Writes them all.
pub async fn write(store: &Dynamo, routes: &RouteTable) {
    write_tasks(store).await;
    write_locks(store).await;
    write_gates(store).await;
    write_batches(store).await;
    write_sessions(store).await;
    write_trackers(store).await;
    write_lists(store).await;
    write_lanes(store).await;
    write_streams(store).await;
    let kept = Bookmark { after: Some(Position("x".to_owned())), began: NOW, since: NOW };
    let bookmarks = Bookmarks(BTreeMap::from([("7".to_owned(), kept)]));
    store.keep_bookmarks(&Shelf::Waiting, &bookmarks, NOW).await.unwrap();
    for version in 1..=2 {
        let yaml = format!("version: 1\nroutes:\n  - {{ name: r{version}, target: t, downstream: pull }}\n");
        routes.push(&yaml, "somebody", NOW).await.unwrap();
    }
}

/// Reads them all. A store that lacks one has `None` there.
pub async fn read(store: &Dynamo, routes: &RouteTable) -> Reads {
    let mut reads = Reads::new();
    let mut see = |name: &str, found: Option<&dyn Debug>| {
        reads.insert(name.to_owned(), found.map(|found| format!("{found:?}")));
    };
    macro_rules! see {
        ($name:expr, $found:expr) => {
            see($name, $found.as_ref().map(|found| found as &dyn Debug))
        };
    }
    /// What is there, of those that are read as many.
    fn some<T>(all: Vec<T>) -> Option<Vec<T>> {
        (!all.is_empty()).then_some(all)
    }

    for id in TASKS {
        let found = store.read(&[TaskId::new(id)], Freshness::Latest).await.unwrap().pop();
        see!(&format!("task {id}"), found);
    }
    see!("failure", store.failure(&TaskId::new("failed")).await.unwrap());
    for of in ["held", "released"] {
        see!(&format!("lock {of}"), store.lock(&target(of)).await.unwrap());
    }
    for scope in scopes() {
        let gate = store.gate(&scope).await.unwrap();
        see!(&format!("gate {}", scope.key()), (gate != Gate::default()).then_some(gate));
    }
    for id in BATCHES {
        see!(&format!("batch {id}"), store.batch(&BatchId::new(id)).await.unwrap());
    }
    for id in ["parcels/s", "parcels/idle"] {
        see!(&format!("session {id}"), store.session(&SessionId::new(id)).await.unwrap());
    }
    let of = TrackerId::new("ended");
    for id in ["open", "ended"] {
        see!(&format!("tracker {id}"), tracked(store, &TrackerId::new(id)).await);
    }
    see!("tracker's addition", store.addition(&of, "k").await.unwrap());
    see!("tracker's nodes", some(store.look(&of, &[group()], Freshness::Latest).await.unwrap().nodes));
    see!("list", store.list(&list().id).await.unwrap());
    see!("list's additions", some(store.additions(&list(), &["k".to_owned()]).await.unwrap()));
    see!("list's slots", some(store.slots(&list(), Token(0), Token(9), 9).await.unwrap()));
    see!("list's record", store.record(&list(), "release").await.unwrap());
    for key in ["taken", "held"] {
        see!(&format!("lane {key}"), store.lane(&lane(key)).await.unwrap());
        let queued = store.queued(&lane(key), Turn(0), Turn(u64::MAX), 9).await.unwrap();
        see!(&format!("queued in {key}"), some(queued));
    }
    let opened = open_stream();
    see!("stream", store.stream(&opened.life.id).await.unwrap());
    see!("stream's pages", some(store.pages(&opened.life, 0, 99, 9).await.unwrap()));
    see!("stream's nodes", some(store.stream_nodes(&opened.life, group(), 9).await.unwrap()));
    let bookmarks = store.bookmarks(&Shelf::Waiting).await.unwrap();
    see!("bookmarks", (bookmarks != Bookmarks::default()).then_some(bookmarks));
    see!("routes in force", routes.load().await.unwrap());
    see!("an earlier version of the routes", routes.load_version(1).await.unwrap());
    reads
}

async fn write_tasks(store: &Dynamo) {
    let traits = Traits { priority: 7, weight: 5, closes: true, ..Traits::default() };
    let trace = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let whole = |id: &str| task(id, &target("a")).expiring(Some(LATER)).traced(Some(trace)).with_traits(traits);
    let event = EventId::parse("orders:1700000000000:7").unwrap();
    for task in [
        task("created", &target("a")).with_item(ItemId::parse("t:0:3").ok()),
        whole("traits").with_event(Some(event)),
        whole("scheduled").scheduled(LATER),
    ] {
        assert_eq!(store.register(&task).await.unwrap(), Registered::New);
    }
    let answer = Some(Excerpt { status: 422, text: "too heavy: 13 kg".to_owned() });
    let failed = Settlement::Failed(Failure { attempts: 3, answer, ..failure(&target("a"), "http_422") });
    let batch = BatchId::new("b1");
    for (id, settlement) in [
        ("batched", None),
        ("succeeded", Some(Settlement::Succeeded)),
        ("failed", Some(failed.clone())),
        ("erased", Some(failed)),
    ] {
        let candidate = waiting(store, id, &target("a")).await;
        assert_eq!(store.join(&candidate.id, candidate.round, &batch).await.unwrap(), Joined::Yes);
        if let Some(settlement) = settlement {
            store.settle(&member(&candidate), &batch, &settlement, LATER).await.unwrap();
        }
    }
    assert_eq!(store.erase(&TaskId::new("erased"), Round(0)).await.unwrap(), Stored::Yes);
    let ended = waiting(store, "ended", &target("a")).await;
    store.end(&ended.id, ended.round, &failure(&target("a"), "cancelled"), LATER).await.unwrap();
}

async fn write_locks(store: &Dynamo) {
    let of = lead(store, &target("held"), "w1", 7).await;
    assert_eq!(store.signal(&of).await.unwrap(), Signalled::Yes);
    let of = lead(store, &target("released"), "w2", 8).await;
    assert_eq!(of, term(&target("released"), "w2", 8));
    assert_eq!(store.release(&of, Seq(0), 0, NOW).await.unwrap(), Released::Yes);
}

fn scopes() -> [Scope; 3] {
    let route = |name: &str| Scope::Route(RouteName::new(name));
    [route("parcels"), route("away"), Scope::Target(target("a"))]
}

async fn write_gates(store: &Dynamo) {
    let limits = Limits { in_flight: Some(10), rates: Rates::every(100), share: None };
    let (b1, b2, until) = (BatchId::new("b1"), BatchId::new("b2"), NOW.plus_ms(30_000));
    let Admission::Admitted(Some(one), _) = Gate::default().admit(&b1, Asks::Anew, limits, NOW, until) else {
        panic!("the gate is open")
    };
    let Admission::Admitted(Some(two), _) = one.admit(&b2, Asks::Anew, limits, NOW, until) else {
        panic!("there is a place")
    };
    let left = two.given_back(&b1, until, Some(NOW)).expect("b1 is in flight");
    let paused = left.paused(NOW.plus_ms(7_000)).expect("it is open");
    let Admission::Later { gate: Some(waits), .. } = paused.admit(&BatchId::new("b3"), Asks::Anew, limits, NOW, until)
    else {
        panic!("it is paused")
    };
    let person = waits.held(Some("a person's reason".to_owned()), NOW).expect("nobody holds it");
    let [parcels, away, of_target] = scopes();
    for gate in [&one, &two, &left, &paused, &waits, &person] {
        assert_eq!(store.store_gate(&parcels, gate, NOW).await.unwrap(), Stored::Yes);
    }
    let mut gate = Gate::default();
    let policy = BreakerPolicy { longest_pause_ms: 60_000, notifies: true };
    let failure = outcome::Failure { reason: Reason::new("http_500"), retry_after_ms: None, fault: Fault::Downstream };
    for n in 0..20 {
        let call = BatchId::new(format!("b{n}"));
        let (next, _) = gate.failed((&call, &call), &failure, policy, NOW.plus_ms(n * 9_000));
        if let Some(next) = next {
            assert_eq!(store.store_gate(&away, &next, NOW).await.unwrap(), Stored::Yes);
            gate = next;
        }
    }
    assert!(gate.breaker.outage().is_some());
    assert_eq!(store.store_gate(&of_target, &one, NOW).await.unwrap(), Stored::Yes);
}

async fn write_batches(store: &Dynamo) {
    let claim = || Claim { session: SessionId::new("parcels/s") };
    let exceptions = Results::from([
        (TaskId::new("settled-0"), Exception::Failed { reason: Reason::new("http_422"), attempts: 1 }),
        (
            TaskId::new("settled-1"),
            Exception::Returned { attempts: 1, is_unsure: true, delay_ms: 500, bytes: 30, traits: Traits::default() },
        ),
    ]);
    for id in BATCHES {
        let open = batch(id, &target("a"), 3);
        let closing = open.closing();
        let frozen = closing.frozen(closing.members.clone());
        let claimed = frozen.claimed(claim());
        let excerpt = Excerpt { status: 422, text: "too heavy".to_owned() };
        let answers = Some(Box::new(Excerpts::default().with(Reason::new("http_422"), excerpt)));
        let settled = Batch { answers, ..claimed.settled(exceptions.clone(), LATER) };
        let states = match id {
            "open" => vec![open],
            "closing" => vec![open, closing],
            "frozen" => vec![open, closing, frozen],
            "claimed" => vec![open, closing, frozen, claimed],
            "paused" => vec![open, closing, frozen, claimed.clone(), claimed.paused(LATER)],
            "settled" => vec![open, closing, frozen, claimed, settled],
            "followed-up" => vec![open, closing, frozen, claimed, settled.clone(), settled.followed_up()],
            void => vec![Batch::void(BatchId::new(void), target("a"), NOW)],
        };
        let mut assumes = Assumes::Absent;
        for state in states {
            assert_eq!(store.store(&state, assumes).await.unwrap(), Stored::Yes, "{id}");
            assumes = Assumes::At(state.revision);
        }
    }
}

async fn write_sessions(store: &Dynamo) {
    let idle = Session { claims: Vec::new(), worker: String::new(), ..session("parcels/idle") };
    for session in [session("parcels/s"), idle] {
        assert_eq!(store.open_session(&session).await.unwrap(), Stored::Yes);
    }
}

/// The first group of bits.
fn group() -> NodeId {
    NodeId { level: 0, index: 0 }
}

async fn write_trackers(store: &Dynamo) {
    opened(store, "open").await;
    let open = opened(store, "ended").await;
    let (grown, addition) = open.grown("k", 5, NOW).unwrap();
    assert_eq!(store.add(&grown, &addition).await.unwrap(), Added::Yes);
    let marks = [Mark { bit: 0, failures: 0 }, Mark { bit: 1, failures: 1 }];
    let change = Node::empty(group()).marking(&marks).unwrap();
    assert!(matches!(store.mark(&open.id, &change).await.unwrap(), Marked::Yes(_)));
    let survey = tracker::Survey {
        done: 2,
        failed: 1,
        missing_items: vec![ItemRange::parse("ended:0:2-4").unwrap()],
        failed_items: vec![ItemRange::parse("ended:0:1").unwrap()],
    };
    let sealed = grown.looked_at(4, NOW).sealed(NOW);
    let (looked, ended) = (grown.looked_at(4, NOW), sealed.ended(Ending::Overdue, survey, NOW));
    for tracker in [looked, sealed, ended.clone(), ended.told()] {
        assert_eq!(store.store_tracker(&tracker).await.unwrap(), Stored::Yes);
    }
}

fn list() -> Life {
    Life { id: ListId::new("l"), opened_at: Timestamp(1_000) }
}

async fn write_lists(store: &Dynamo) {
    let tail = Tail::open(list(), Options { ttl_ms: Some(86_400_000) });
    let opening = Put { tail: tail.clone(), additions: Vec::new(), slots: Vec::new() };
    let item = ItemId::parse("t:0:3").ok();
    let addition = Addition { key: "k".to_owned(), start: Token(0), count: 2, digest: "digest".to_owned(), item };
    let slots = (0..2).map(|n| Slot { token: Token(n), body: format!("{{\"id\":\"t-{n}\"}}") }).collect();
    let put = Put { tail: tail.grown(2, false, NOW), additions: vec![addition], slots };
    for put in [opening, put] {
        assert_eq!(store.put_on_list(&put).await.unwrap(), PutOn::Yes);
    }
    let found = store.list(&list().id).await.unwrap().expect("it is open");
    let purpose = Purpose::Release { asked: 1 };
    let reserve = found.taking("release", purpose, NOW).expect("two wait");
    let moved = store.move_head(&list(), &groupage_core::domain::list::Move::Reserve(reserve)).await.unwrap();
    assert!(matches!(moved, Moved::Yes(_)));
    let reservation = Reservation { start: Token(0), count: 1, purpose, at: NOW };
    let record = Record { done: Token(1), ..Record::of("release", reservation) };
    assert_eq!(store.store_record(&list(), &record, NOW).await.unwrap(), Stored::Yes);
}

fn lane(key: &str) -> LaneId {
    LaneId::of(&RouteName::new("parcels"), key)
}

async fn write_lanes(store: &Dynamo) {
    let first = Numbering::BySequence { first: Turn(1) };
    for (key, numbering, ids) in
        [("taken", Numbering::ByArrival, ["queued-first", "queued"]), ("held", first, ["held-first", "held-second"])]
    {
        let turn = |n: usize| (numbering == first).then(|| Turn(n as u64 + 1));
        let tasks: Vec<_> = ids.iter().enumerate().map(|(n, id)| (TaskId::new(*id), turn(n))).collect();
        let (after, places) = Lane::open(lane(key), numbering, NOW).lined_up(&tasks, NOW);
        let newcomer = |(id, place): (&&str, Place)| {
            let task = Task { lane: Some(lane(key)), ..task(id, &target("a")) };
            match place {
                Place::Behind(turn) => {
                    let queued = Some(Queued::of(&task, target("a"), turn));
                    Newcomer { task: task.queued_in(lane(key)), queued }
                }
                _ => Newcomer { task, queued: None },
            }
        };
        let (lane, newcomers): (_, Vec<_>) = (after.unwrap(), ids.iter().zip(places).map(newcomer).collect());
        assert_eq!(store.line_up(&lane, true, &newcomers).await.unwrap(), LinedUp::Yes);
        if key == "held" {
            let failed = (&TaskId::new(ids[0]), Round(0));
            let held = lane.settled(failed, Outcome::Failed, OnFailure::Hold, None, LATER).unwrap();
            assert_eq!(store.store_lane(&held).await.unwrap(), Stored::Yes);
        }
    }
}

fn open_stream() -> Stream {
    let options =
        stream::Options { commit_events: Some(7), notify: NotificationQueue::Default, ..stream::Options::default() };
    Stream::open(StreamId::new("orders"), options, Timestamp(1_000))
}

async fn write_streams(store: &Dynamo) {
    let open = open_stream();
    assert_eq!(store.open_stream(&open).await.unwrap(), StreamOpened::New);
    let trace = |number: u64| stream::Trace::of(Offset::parse(&format!("at {number}")).unwrap(), "{}");
    let page = stream::Page { start: 0, traces: (0..5).map(trace).collect() };
    let fed = open.fed(&page, NOW);
    assert_eq!(store.feed(&fed, &page).await.unwrap(), Stored::Yes);
    let marks = [Mark { bit: 0, failures: 0 }, Mark { bit: 1, failures: 1 }];
    let change = Node::empty(group()).marking(&marks).unwrap();
    assert!(matches!(store.mark_events(&open.life, &change).await.unwrap(), Marked::Yes(_)));
    let offset = Offset::parse("at 1").ok();
    let reached = stream::Watermark { number: 2, offset, settled: 2, failed: 1, at: NOW };
    let committed = fed.reached(reached).unwrap();
    for stream in [committed.clone(), committed.told()] {
        assert_eq!(store.commit(&stream).await.unwrap(), Stored::Yes);
    }
}
