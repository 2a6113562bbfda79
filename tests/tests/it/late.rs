//! Events that are more than one invocation of register-task gets through. Lambda kills it when its time is up.

use groupage_lab::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use groupage_aws::entry::mapping::TASKS;
use groupage_core::ports::Result;
use groupage_core::steps::register::Record;

const ROUTES: &str = parcels_route!["batch: { express: false }"];

/// The queue gives a message up after this many receives.
const MOST_RECEIVES: u32 = 10;

/// Tables in which one put never ends.
struct Hanging<'a>(&'a MemoryStore, Option<&'static str>);

around_tables! { Hanging<'_>, |it| it.0; Lanes, Locks, Batches, Trackers, Lists, Streams }

impl layer::Tasks for Hanging<'_> {
    type Cursor = <MemoryStore as Tasks>::Cursor;

    async fn register(&self, task: &Task) -> Result<Registered> {
        if self.1.is_some_and(|hangs| task.id.as_str() == hangs) {
            std::future::pending::<()>().await;
        }
        self.0.register(task).await
    }
}

/// What came of an event in the end.
struct Ended {
    invocations: u32,
    /// Records that the queue gives up.
    given_up: usize,
    registered: usize,
    /// Tasks that somebody was asked to lead.
    asked: usize,
}

/// An event of this many records, delivered until it is done or the queue gives it up; each call takes up to so long.
async fn delivered(count: usize, latency_ms: u64, hangs: Option<&'static str>) -> Ended {
    let (store, queues, env) = (MemoryStore::new(), MemoryQueues::new(), TestEnv::new(1));
    let routes = Routes::parse(ROUTES).unwrap();
    let body = |n| format!(r#"{{"id":"t{n}","payload":{{"truck":"x{}"}}}}"#, n % 7);
    let mut records: Vec<Record> = (0..count).map(|n| first(&format!("m{n}"), &body(n))).collect();
    let (mut invocations, mut given_up) = (0, 0);
    while !records.is_empty() || !queues.messages(&Destination::Tasks).is_empty() {
        invocations += 1;
        let fate = Arc::new(Fate::new(Plan::Nothing, env.clone(), false));
        let process = Process::new("register-task", env.clone(), fate, latency_ms);
        let hanging = Hanging(&store, hangs);
        let (tables, outbox) = (Faulty::new(&hanging, &process), Faulty::new(&queues, &process));
        let deadline = env.now().plus_ms(TASKS.budget_ms());
        let step = Register {
            store: &tables,
            queues: &outbox,
            env: process.env(),
            routes: &routes,
            deadline,
            rations: &Rations::default(),
            asked: &Asked::default(),
        };
        let timeout = Duration::from_secs(TASKS.timeout_s);
        // A function that is killed deletes nothing.
        if let Ok(report) = tokio::time::timeout(timeout, step.run(records.clone())).await {
            let kept: HashSet<&str> = report.kept().collect();
            records.retain(|record| kept.contains(record.message_id.as_str()));
        }
        records.iter_mut().for_each(|record| record.received += 1);
        given_up += records.extract_if(.., |record| record.received > MOST_RECEIVES).count();
        tokio::time::sleep(Duration::from_secs(TASKS.visibility_s)).await;
        // What it sent back is over its delay.
        queues.set_now(env.now());
        while let Some(back) = queues.receive_from(&Destination::Tasks, 0) {
            queues.delete(&back.receipt);
            records.push(first(&format!("{}-{invocations}", back.receipt), &back.outgoing.body));
        }
    }
    let asked: String = queues.messages(&Destination::Elect).into_iter().map(|message| message.body).collect();
    let asked = (0..count).filter(|n| asked.contains(&format!(r#""t{n}""#))).count();
    Ended { invocations, given_up, registered: store.tasks().len(), asked }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_too_much_for_one_invocation_ends() {
    let ended = delivered(3_000, 1_600, None).await;
    assert_eq!((ended.given_up, ended.registered, ended.asked), (0, 3_000, 3_000));
    assert!(ended.invocations <= 12, "{} invocations", ended.invocations);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_ends_the_function_keeps_only_those_beside_it_from_being_registered() {
    let ended = delivered(1_000, 4, Some("t500")).await;
    assert_eq!(ended.invocations, MOST_RECEIVES);
    assert!(ended.asked >= 900, "{} of 1,000 tasks go on, {} are registered", ended.asked, ended.registered);
}
