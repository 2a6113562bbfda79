//! Traces of tasks: from a message to its calls and its notice, whatever way the task goes, and past a collector that
//! is of no use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use groupage_aws::spans::{MOST, Span, Spans};
use groupage_core::domain::batch::Assumes;
use groupage_core::domain::trace::{MAX_LINKS, TRACEPARENT, Traces};
use groupage_core::steps::process::follow_up;
use groupage_core::steps::register::Record;
use groupage_lab::downstream::fails_alone;
use groupage_lab::prelude::*;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

const ROUTES: &str = parcels_route![
    "batch: { max_items: 10, wait_ms: 2000 }",
    "retry: { attempts: 3, base_ms: 500, cap_ms: 1000 }",
    "notify: { failure: default, success: default }"
];

fn trace(n: usize) -> TraceParent {
    TraceParent::parse(&format!("00-{:032x}-{:016x}-01", n + 1, n + 1)).unwrap()
}

/// Messages of `p0`, `p1`, …, each with an attribute that says its trace.
fn traced(count: usize) -> Vec<Record> {
    let bodies = records(&parcels(count, 1)).into_iter().enumerate();
    bodies.map(|(n, record)| Record { trace: Some(trace(n)), ..record }).collect()
}

/// The trace that each task's notice says.
fn told(queues: &MemoryQueues) -> BTreeMap<String, Option<String>> {
    let notices = queues.messages(&Destination::Notification(NotificationQueue::Default)).into_iter();
    let told = notices.map(|notice| {
        let event: serde_json::Value = serde_json::from_str(&notice.body).unwrap();
        let said = notice.attributes.into_iter().find(|(name, _)| *name == TRACEPARENT).map(|(_, value)| value);
        (event["subject"].as_str().unwrap().to_owned(), said)
    });
    told.collect()
}

/// Fails unless each task's trace is in its item, in its notice, and among the links of each of its calls.
fn is_carried(world: &World, count: usize) {
    let (tasks, told, calls) = (world.tables().tasks(), told(world.queues.now()), world.downstream.ledger());
    assert_eq!(tasks.len(), count);
    for n in 0..count {
        let (id, wanted) = (format!("p{n}"), trace(n));
        let task = tasks.iter().find(|task| task.id.as_str() == id).unwrap();
        assert_eq!(task.trace, Some(wanted), "{id}");
        assert_eq!(told[&id], Some(wanted.to_string()), "{id}");
        let calls: Vec<_> = calls.iter().filter(|seen| seen.items.contains(&id)).collect();
        assert!(!calls.is_empty(), "{id}");
        for seen in calls {
            let trace = seen.trace.as_ref().expect("a call of a task with a trace has one");
            assert!(trace.links.contains(&wanted), "{id}: {trace:?}");
            assert_eq!(trace.links.len(), seen.items.len());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_trace_goes_with_its_task_through_full_batches_and_rests_that_gather() {
    let world = World::new(Setting { mixes: true, ..Setting::default() }, ROUTES, Scripted::accepting());
    let mut left = traced(67);
    while !left.is_empty() {
        let event: Vec<Record> = left.split_off(left.len().saturating_sub(13));
        let written = world.register_records(event).await.traces;
        assert!(written.iter().all(|(id, said)| id.as_str() == format!("p{}", said.span() - 1)), "{written:?}");
    }
    world.run_to_rest().await.unwrap();
    is_carried(&world, 67);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_goes_round_again_keeps_its_trace() {
    let world = World::new(Setting::default(), ROUTES, Scripted::new(Box::new(fails_alone)));
    world.register_records(traced(3)).await;
    world.run_to_rest().await.unwrap();
    assert!(world.downstream.ledger().len() > 1, "`p2` comes again");
    is_carried(&world, 3);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_batch_share_a_trace_and_tasks_without_one_have_none() {
    let away = |_: &groupage_lab::downstream::Seen, before: usize| match before {
        0 => Err(NoAnswer::Timeout),
        _ => Ok(ok("")),
    };
    let world = World::new(Setting { sweeps: true, ..Setting::default() }, ROUTES, Scripted::new(Box::new(away)));
    world.register_records(traced(2)).await;
    world.run_to_rest().await.unwrap();
    let contexts: Vec<TraceParent> =
        world.downstream.ledger().iter().map(|seen| seen.trace.as_ref().unwrap().context).collect();
    assert_eq!((contexts.len(), contexts[0].trace()), (2, contexts[1].trace()));
    assert_ne!(contexts[0].span(), contexts[1].span());

    let world = World::new(Setting::default(), ROUTES, Scripted::accepting());
    world.send(&parcels(3, 1));
    world.run_to_rest().await.unwrap();
    assert!(world.downstream.ledger().iter().all(|seen| seen.trace.is_none()));
    assert_eq!(told(world.queues.now()).into_values().collect::<Vec<_>>(), [None, None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_linked_to_the_first_of_many_members() {
    let routes = ROUTES.replace("max_items: 10", "max_items: 200");
    let world = World::new(Setting::default(), &routes, Scripted::accepting());
    world.register_records(traced(200)).await;
    world.run_to_rest().await.unwrap();
    let [seen] = &world.downstream.ledger()[..] else { panic!("one call") };
    let linked = seen.trace.as_ref().unwrap();
    assert_eq!((linked.links.len(), linked.unlinked), (MAX_LINKS, 200 - MAX_LINKS));
}

#[tokio::test(start_paused = true)]
async fn a_trace_waits_with_its_task_on_a_list() {
    let world = World::new(Setting::default(), ROUTES, Scripted::accepting());
    let listed = parcel(0, 1).replacen('{', r#"{"list":"l","#, 1);
    world.register_records(vec![Record { trace: Some(trace(0)), ..first("m", &listed) }]).await;
    let listing = Listing { store: world.tables(), outbox: world.queues.now(), env: &world.env };
    listing.release(&ListId::new("l"), "now", 1).await.unwrap().unwrap();
    world.run_to_rest().await.unwrap();
    is_carried(&world, 1);
}

/// A settled batch of `p0`, which has a trace, and `p1`, which has none, as a worker leaves it that dies then.
async fn left_behind(store: &MemoryStore) -> Batch {
    let (batch, target) = (BatchId::new("b"), Target::new("parcels:t0"));
    let task = |n: usize| {
        let id = TaskId::new(format!("p{n}"));
        Task::new(id, target.clone(), "{}".to_owned(), String::new(), Timestamp(0)).batched_in(batch.clone())
    };
    let tasks = [task(0).traced(Some(trace(0))), task(1)];
    for task in &tasks {
        store.register(task).await.unwrap();
    }
    let members = tasks.map(|task| task.candidate());
    let batch = Batch::express(batch, target, &members, Timestamp(0)).settled(Results::new(), Timestamp(1));
    store.store(&batch, Assumes::Absent).await.unwrap();
    batch
}

#[tokio::test(start_paused = true)]
async fn a_process_that_takes_a_follow_up_over_reads_the_traces_for_its_notices() {
    let (store, queues, env) = (MemoryStore::default(), MemoryQueues::default(), TestEnv::new(1));
    let routes = Routes::parse(ROUTES).unwrap();
    let (batch, route) = (left_behind(&store).await, routes.get(&RouteName::new("parcels")).unwrap());
    let counts = follow_up(&store, &queues, &env, route, &batch, None).await.unwrap();
    let expected = [("p0".to_owned(), Some(trace(0).to_string())), ("p1".to_owned(), None)];
    assert_eq!(told(&queues), expected.into());
    let followed = counts.followed.unwrap();
    assert_eq!(followed.settled, [(TaskId::new("p0"), trace(0), true)]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_knows_the_traces_reads_none() {
    let (store, queues, env) = (MemoryStore::default(), MemoryQueues::default(), TestEnv::new(1));
    let routes = Routes::parse(ROUTES).unwrap();
    let (batch, route) = (left_behind(&store).await, routes.get(&RouteName::new("parcels")).unwrap());
    // What is known is not what is stored, so it shows.
    let known = Traces::from([(TaskId::new("p1"), trace(9))]);
    follow_up(&store, &queues, &env, route, &batch, Some(known)).await.unwrap();
    let expected = [("p0".to_owned(), None), ("p1".to_owned(), Some(trace(9).to_string()))];
    assert_eq!(told(&queues), expected.into());
}

fn span() -> Span {
    Span::new("test", trace(0), (Timestamp(0), Timestamp(1)))
}

/// A collector that takes connections, and then hangs or ends them; how many there were.
async fn collector(hangs: bool) -> (String, Arc<AtomicUsize>) {
    let (listener, asked) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::new(AtomicUsize::new(0)));
    let (url, count) = (format!("http://{}", listener.local_addr().unwrap()), Arc::clone(&asked));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            if hangs {
                tokio::spawn(async move { stream.read_to_end(&mut Vec::new()).await });
            }
        }
    });
    (url, asked)
}

#[tokio::test]
async fn a_collector_that_hangs_is_waited_for_once_and_then_left_alone() {
    let (url, asked) = collector(true).await;
    let spans = Spans::to(&url);
    spans.flush().await;
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing is to be sent");
    for _ in 0..3 {
        spans.note(span());
        // Without a bound this would never end.
        spans.flush().await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_collector_that_refuses_costs_nothing_but_its_spans() {
    let (refuses, asked) = collector(false).await;
    for url in [refuses.as_str(), "no url", "http://collector.invalid:4318"] {
        let spans = Spans::to(url);
        for _ in 0..2 {
            for _ in 0..MOST + 5 {
                spans.note(span());
            }
            spans.flush().await;
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "what comes within the next minute is not sent");
}
