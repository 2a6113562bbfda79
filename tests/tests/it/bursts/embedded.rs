//! A burst of tasks through the real pipeline on the embedded stack, and what it cost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use embedded::{Pipeline, Ports, Processes, Stack, Storage};
use groupage_aws::entry::{self, RouteSource};
use groupage_aws::{Dynamo, Meter, Sqs, System, Usage};

use groupage_lab::prelude::*;

/// What a burst came to.
#[derive(Debug)]
pub struct Cost {
    /// Members of each call, by `Idempotency-Key`.
    pub calls: HashMap<String, Vec<String>>,
    /// What the steps consumed.
    pub usage: Usage,
    /// For how long the steps ran, in seconds.
    pub ran_s: f64,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Tasks, of one Target.
    pub tasks: usize,
    /// The longest that the index lags, in milliseconds.
    pub lag_ms: u64,
    /// Whether tasks that fill batches by themselves become such at once.
    pub express: bool,
    /// How many shards the Target has.
    pub shards: u8,
}

impl Burst {
    /// Returns how long a task waits for others at the longest, in milliseconds. Shards fill side by side, each more
    /// slowly, and so do the remainders of events: on a busy machine a stall should end no batch early.
    pub const fn wait_ms(self) -> u64 {
        if self.shards > 1 || self.express { 20_000 } else { 6_000 }
    }

    fn routes(self) -> String {
        let (Self { express, shards, .. }, wait_ms) = (self, self.wait_ms());
        format!(
            r#"
version: 1
routes:
  - name: parcels
    target: truck
    shards: {shards}
    batch: {{ max_items: 100, wait_ms: {wait_ms}, express: {express} }}
    downstream: {{ http: {{ url: "http://downstream.invalid/load" }} }}
"#
        )
    }
}

/// Sends a burst in tens and waits until all of it is settled.
pub async fn burst(burst: Burst) -> Cost {
    let Burst { tasks, lag_ms, .. } = burst;
    let local = Stack::start(Storage::Memory, Ports::default()).await.expect("the embedded stack starts");
    let meter = Arc::new(Meter::new());
    let sdk = local.sdk_config();
    let dynamo = Dynamo::new(sdk, local.tables().clone(), 86_400_000, Arc::clone(&meter));
    let store = Lagging::new(dynamo, System, Lag { index_ms: lag_ms, ..Lag::default() }, 1);
    let queues = Sqs::new(sdk, local.queues().clone(), Arc::clone(&meter));
    let routes = RouteSource::Fixed(Arc::new(Routes::parse(&burst.routes()).unwrap()));
    let stack = entry::Stack::new(store, queues, System, routes);
    // A call takes a second, so that its session beats.
    let downstream = Arc::new(Scripted::accepting().taking(|| 1_000));
    let ran_s = run(&local, Arc::new(stack), &downstream, tasks).await;
    let calls = downstream.ledger().into_iter().map(|seen| (seen.key, seen.items)).collect();
    local.shutdown().await;
    Cost { calls, usage: meter.snapshot(), ran_s }
}

async fn run<S: Store + Send + 'static>(
    local: &Stack,
    stack: Arc<entry::Stack<S, Sqs, System>>,
    downstream: &Arc<Scripted>,
    tasks: usize,
) -> f64 {
    let client = aws_sdk_sqs::Client::new(local.sdk_config());
    for tens in (0..tasks).collect::<Vec<_>>().chunks(10) {
        let entries = tens.iter().map(|n| {
            let body = format!(r#"{{"id":"{:032x}","payload":{{"truck":"t7","parcel":{n}}}}}"#, *n * 7919);
            SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(body).build().unwrap()
        });
        let sent = client.send_message_batch().queue_url(&local.queues().tasks).set_entries(Some(entries.collect()));
        assert!(sent.send().await.expect("SQS answers").failed().is_empty());
    }
    // All of it is there when the steps begin, so that its events are what the mapping makes of a burst.
    let began = Instant::now();
    let pipeline =
        Pipeline::start(&client, local.queues(), Processes::Several, &stack, downstream).expect("the steps start");
    // With a meter of its own. The clock only ends a run that hangs.
    let table = local.connection().store(86_400_000, &Arc::default());
    let are_settled =
        pipeline.settled(tasks as u64, &table, Duration::from_secs(400)).await.expect("the table answers");
    assert!(are_settled, "tasks left unsettled: {:?}", pipeline.counts());
    pipeline.shutdown().await;
    began.elapsed().as_secs_f64()
}
