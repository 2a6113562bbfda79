//! Source and workers killed at random, in the whole pipeline: what comes of it is what comes of a run without kills.
//!
//! A long run (`GROUPAGE_TESTS=long`) has 100,000 events; `GROUPAGE_STREAM_EVENTS` says how many it has.

use std::collections::BTreeMap;

use groupage_core::domain::stream::Options;
use groupage_lab::prelude::*;
use groupage_lab::source::Source;
use groupage_lab::{effort, promises};
use serde_json::json;

const EVENTS: usize = 1_000;
const EVENTS_IF_LONG: usize = 100_000;
const USERS: usize = 50;
/// Whose events all fail.
const FAILING: usize = 7;

const ROUTES: &str = r#"
version: 1
routes:
  - name: events
    when: user
    target: shard
    ordered_by: user
    order: { sequence: turn, on_failure: skip }
    batch: { max_items: 50, wait_ms: 200 }
    retry: { attempts: 50 }
    notify: { success: default, failure: default }
    downstream: { http: { url: "http://downstream.invalid/load" } }
"#;

/// What a run comes to.
#[derive(Debug, PartialEq, Eq)]
struct Outcomes {
    watermark: u64,
    settled: u64,
    failed: u64,
    /// What became of each event that is a task.
    events: BTreeMap<u64, Option<Outcome>>,
    /// Each user's events, in the order in which they first reached the downstream.
    order: BTreeMap<usize, Vec<u64>>,
}

/// Every hundredth event is none that any route wants; the others are of some user, and say which turn of theirs it is.
fn bodies(events: usize) -> Vec<String> {
    let mut turns = [0; USERS];
    let mut body = |number: usize| {
        if number % 100 == 99 {
            return format!(r#"{{"payload":{{"junk":{number}}}}}"#);
        }
        let user = (number * 7 + number / USERS) % USERS;
        turns[user] += 1;
        let (shard, turn) = (user % 5, turns[user]);
        format!(r#"{{"payload":{{"user":"u{user}","shard":"s{shard}","n":{number},"turn":{turn}}}}}"#)
    };
    (0..events).map(&mut body).collect()
}

fn user_of(number: u64) -> usize {
    let number = usize::try_from(number).unwrap();
    (number * 7 + number / USERS) % USERS
}

fn number_of(id: &str) -> u64 {
    EventId::parse(id).unwrap().number
}

/// Refuses the failing user's events, each by itself.
fn downstream() -> Scripted {
    Scripted::new(Box::new(|seen, _| {
        let result = |id: &String| match user_of(number_of(id)) {
            FAILING => json!({ "id": id, "status": "failed", "reason": "no_such_user" }),
            _ => json!({ "id": id, "status": "succeeded" }),
        };
        let results: Vec<_> = seen.items.iter().map(result).collect();
        Ok(ok(&json!({ "results": results }).to_string()))
    }))
}

fn source(events: usize) -> Source {
    let notify = NotificationQueue::Default;
    let options = Options { commit_ms: 200, commit_events: None, window: 400, notify };
    Source { stream: StreamId::new("events"), options, bodies: bodies(events), page: 100 }
}

/// Runs this many sources that are alike to the end; says what came of it, and how many faults there were.
fn run(setting: Setting, events: usize, sources: usize) -> (Outcomes, usize) {
    in_virtual_time(async {
        let world = World::new(setting, ROUTES, downstream());
        for _ in 0..sources {
            world.feed(source(events));
        }
        world.run_to_rest().await.unwrap();
        let sent = world.tables().tasks().iter().map(|task| task.id.to_string()).collect();
        let broken = [promises::broken(&world, &sent), world.complaints(), notices_are_right(&world)].concat();
        assert_eq!(broken, Vec::<String>::new());
        (outcomes(&world), world.fate.faults().len())
    })
}

fn outcomes(world: &World) -> Outcomes {
    let streams: Vec<Stream> = world.tables().streams();
    let [stream] = streams.as_slice() else { panic!("{streams:?}") };
    let of = |task: Task| (task.event.unwrap().number, task.status.outcome());
    let events = world.tables().tasks().into_iter().map(of).collect();
    let mut order: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for seen in world.downstream.ledger() {
        for number in seen.items.iter().map(|id| number_of(id)) {
            let of_user = order.entry(user_of(number)).or_default();
            if !of_user.contains(&number) {
                of_user.push(number);
            }
        }
    }
    let watermark = &stream.watermark;
    let (nodes, pages) = world.tables().stream_parts();
    assert!(nodes <= 1 + events_in_groups(stream.next) && pages <= 1, "{nodes} nodes and {pages} pages are left");
    Outcomes { watermark: watermark.number, settled: watermark.settled, failed: watermark.failed, events, order }
}

/// Nodes of whole groups, and of the level above them.
const fn events_in_groups(events: u64) -> usize {
    if events > 7_168 { 1 } else { 0 }
}

/// Watermarks are told with one id each, and rise in the order of their times.
fn notices_are_right(world: &World) -> Vec<String> {
    let told = world.queues.now().messages(&Destination::Notification(NotificationQueue::Default));
    let mut by_id: BTreeMap<String, String> = BTreeMap::new();
    let mut commits: Vec<(String, u64)> = Vec::new();
    for notice in told {
        let event: serde_json::Value = serde_json::from_str(&notice.body).unwrap();
        if event["type"] != "groupage.stream.committed.v1" {
            continue;
        }
        commits.push((event["time"].as_str().unwrap().to_owned(), event["data"]["watermark"].as_u64().unwrap()));
        let id = event["id"].as_str().unwrap().to_owned();
        if by_id.insert(id.clone(), notice.body.clone()).is_some_and(|before| before != notice.body) {
            return vec![format!("a notice is one: {id} was told twice, differently")];
        }
    }
    commits.sort();
    let rises = commits.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    if rises && !commits.is_empty() { Vec::new() } else { vec![format!("the watermark never falls: {commits:?}")] }
}

#[test]
fn kills_change_nothing_of_what_comes_of_a_stream() {
    let long = effort::number("GROUPAGE_STREAM_EVENTS").or_else(|| effort::is_long().then_some(EVENTS_IF_LONG));
    let events = long.unwrap_or(EVENTS);
    let most_calls = 400_000 + 60 * events;
    let calm = Setting { sweeps: true, latency_ms: 5, most_calls, ..Setting::default() };
    let (expected, _) = run(calm.clone(), events, 1);
    assert_eq!((expected.watermark, expected.settled), (events as u64, events as u64));
    let failing = expected.events.values().filter(|outcome| **outcome == Some(Outcome::Failed)).count();
    let junk = events / 100;
    assert_eq!(expected.failed, (failing + junk) as u64);
    assert!(expected.order.values().all(|numbers| numbers.is_sorted()), "a user's events came out of order");
    let plan = if long.is_some() { Plan::Deaths(0.000_3) } else { Plan::Deaths(0.004) };
    let seeds = if long.is_some() { 1..=1 } else { 1..=3 };
    for seed in seeds {
        let lag = Lag { index_ms: 500, ..Lag::default() };
        // The last has a source beside it that feeds the same.
        let sources = if seed == 3 { 2 } else { 1 };
        let setting = Setting { seed, plan: plan.clone(), lag, twice: 0.02, ..calm.clone() };
        let (told, faults) = run(setting, events, sources);
        println!("{events} events, seed {seed}: {faults} deaths, watermark {}, {} failed", told.watermark, told.failed);
        assert_eq!(told, expected, "seed {seed}");
        assert!(faults > 20, "nothing much befell it");
    }
}
