//! The steps, each on a thread of its own: tasks of every kind come by the HTTP API and go from queue to queue until
//! they have settled. On the way a limit is contended, a batch is taken apart, and a connection breaks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use aws_sdk_sqs::Client;
use embedded::{Ports, Stack, Storage};
use groupage_aws::entry::{self, AwsStack, RouteSource};
use groupage_aws::runtime::STACK_BYTES;
use groupage_aws::spans::Traced;
use groupage_aws::{Connection, Downstreams};
use groupage_core::domain::task::Status;
use groupage_core::domain::{Pool, RouteName, SessionId, Task, TaskId};
use groupage_core::ports::{Answer, Call, Destination, Downstream, Env, Freshness, NoAnswer, Tasks};
use groupage_core::routes::{Allowed, Routes};
use groupage_core::steps::heartbeat::Heartbeat;
use groupage_core::steps::process::Processor;
use groupage_core::steps::process::notify::Announced;
use groupage_core::steps::work::Worker;

/// Runs `work` on a thread with half of the product's stack, and says what it took of it.
fn on_half<T: Send>(step: &str, work: impl AsyncFnOnce() -> T + Send) -> T {
    println!("begins {step}");
    let run = || {
        let mark = 0_u8;
        let top = std::ptr::from_ref(&mark).addr();
        let came_to = runtime().block_on(work());
        println!("took {step} {}", (top - deepest(top)) / 1024);
        came_to
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES / 2);
    thread::scope(|scope| thread.spawn_scoped(scope, run).unwrap().join().unwrap())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The lowest page that was ever touched of the stack that has this address.
fn deepest(top: usize) -> usize {
    const PAGE: usize = 4096;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let starts = maps.lines().filter_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok());
    let pages = std::fs::File::open("/proc/self/pagemap").unwrap();
    let is_touched = |page: &usize| {
        let mut entry = [0; 8];
        pages.read_exact_at(&mut entry, (page / PAGE * 8) as u64).unwrap();
        // In memory, or swapped out.
        u64::from_ne_bytes(entry) >> 62 != 0
    };
    let start = starts.take_while(|start| *start <= top).last().unwrap();
    (start..top).step_by(PAGE).find(is_touched).unwrap()
}

fn routes(url: SocketAddr) -> Arc<Routes> {
    let shared = format!(
        "target: to
    notify: {{ success: default, failure: default }}
    downstream: {{ http: {{ url: \"http://{url}/\" }} }}"
    );
    let routes = format!(
        "version: 1
routes:
  - {{ name: pulled, when: pulled, target: to, downstream: pull, limits: {{ in_flight_per_target: 1 }} }}
  - name: ordered
    when: account
    ordered_by: account
    order: {{ on_failure: fail_rest }}
    batch: {{ wait_ms: 100 }}
    {shared}
  - name: bisected
    when: to == 'refused'
    on_reject: bisect
    batch: {{ max_items: 10, wait_ms: 1000 }}
    limits: {{ in_flight: 2, in_flight_per_target: 1, calls_per_second: 20 }}
    {shared}
  - name: limited
    batch: {{ max_items: 3, wait_ms: 100 }}
    limits: {{ in_flight: 2, in_flight_per_target: 1, calls_per_second: 4 }}
    {shared}
"
    );
    Arc::new(Routes::parse(&routes).unwrap())
}

/// A downstream that refuses what is ordered and batches of ten, and closes the connection of the first half that
/// comes.
fn serve(listener: &TcpListener) {
    let halves = &AtomicUsize::new(0);
    thread::scope(|scope| {
        for stream in listener.incoming().flatten() {
            scope.spawn(move || answer(BufReader::new(stream), halves));
        }
    });
}

/// Answers the calls of one connection.
fn answer(mut stream: BufReader<TcpStream>, halves: &AtomicUsize) {
    loop {
        let (mut size, mut is_half, mut line) = (0, false, String::new());
        while stream.read_line(&mut line).unwrap_or_default() > 2 {
            let (name, value) = line.split_once(": ").unwrap_or_default();
            match name {
                "content-length" => size = value.trim().parse().unwrap(),
                "idempotency-key" => is_half = value.contains('.'),
                _ => {}
            }
            line.clear();
        }
        let mut body = vec![0; size];
        if size == 0 || stream.read_exact(&mut body).is_err() || is_half && halves.fetch_add(1, Ordering::SeqCst) == 0 {
            return;
        }
        let body = String::from_utf8(body).unwrap();
        let is_refused = body.contains("account") || (body.contains("refused") && !is_half);
        let status = if is_refused { "400 Bad Request" } else { "200 OK" };
        let _ = write!(stream.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    }
}

/// What comes by the API, path and body.
fn requests() -> Vec<(&'static str, String)> {
    let task = |id: &str, n: u32, more: &str| format!(r#"{{"id":"{id}-{n}","payload":{{{more}}}}}"#);
    let kinds = [
        ("refused", 10, r#""to":"refused""#),
        ("limited", 12, r#""to":"t""#),
        ("pulled", 4, r#""to":"p","pulled":true"#),
        ("failed", 4, r#""to":"o","account":"a""#),
    ];
    let mut sent: Vec<String> =
        kinds.iter().flat_map(|(id, count, more)| (0..*count).map(move |n| task(id, n, more))).collect();
    sent.extend((0..4).map(|n| format!(r#"{{"id":"item-{n}","item":"tracker:0:{n}","payload":{{"to":"i"}}}}"#)));
    let held: Vec<String> = (0..3).map(|n| task("held", n, r#""to":"h""#)).collect();
    let event = |n| format!(r#"{{"offset":"{n}","task":{{"payload":{{"to":"e","n":{n}}}}}}}"#);
    let events: Vec<String> = (0..3).map(event).collect();
    vec![
        ("/trackers", r#"{"id":"tracker"}"#.to_owned()),
        ("/trackers/tracker/items", r#"{"key":"all","count":4}"#.to_owned()),
        ("/trackers/tracker/seal", String::new()),
        ("/lists/list/tasks", format!(r#"{{"key":"put","tasks":[{}]}}"#, held.join(","))),
        ("/lists/list/releases", r#"{"key":"r","count":3}"#.to_owned()),
        ("/streams", r#"{"id":"stream","commit_ms":0,"window":5}"#.to_owned()),
        ("/streams/stream/events", format!(r#"{{"from":0,"events":[{}]}}"#, events.join(","))),
        ("/tasks", format!(r#"{{"tasks":[{}]}}"#, sent.join(","))),
    ]
}

fn post(address: SocketAddr, path: &str, body: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let (kind, size) = ("Content-Type: application/json\r\nConnection: close", body.len());
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {address}\r\n{kind}\r\nContent-Length: {size}\r\n\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{path}: {answer}");
}

/// The messages that a queue has now, as the records of an event: receipt handle, body, how often they came.
async fn receive(sqs: &Client, queue: &str) -> Vec<(String, String, u32)> {
    let received = sqs.receive_message().queue_url(queue).max_number_of_messages(10).send().await.unwrap();
    let messages = received.messages.unwrap_or_default().into_iter();
    messages.map(|message| (message.receipt_handle.unwrap(), message.body.unwrap(), 1)).collect()
}

/// Takes every step until all tasks have settled.
pub fn run() {
    // All clients share connections, which this runtime keeps alive while a step runs on another.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stack = runtime.block_on(Stack::start(Storage::Memory, Ports::default())).unwrap();
    let connection = stack.connection();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let routes = routes(listener.local_addr().unwrap());
    thread::spawn(move || serve(&listener));
    let steps = || {
        let routes = RouteSource::Fixed(Arc::clone(&routes));
        AwsStack::on(connection, routes, &Arc::default(), entry::worker_name()).unwrap()
    };

    on_half("api", async || {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asks = move || requests().iter().for_each(|(path, body)| post(address, path, body));
        let asking = tokio::task::spawn_blocking(asks);
        let serving = axum::serve(listener, api::router(Arc::new(steps()))).into_future();
        tokio::select! { asked = asking => asked.unwrap(), _ = serving => {} }
    });

    let sqs = Client::new(&connection.config);
    let ids: Vec<TaskId> = [("refused", 10), ("limited", 12), ("pulled", 4), ("failed", 4), ("item", 4), ("held", 3)]
        .iter()
        .flat_map(|(id, count)| (0..*count).map(move |n| TaskId::new(format!("{id}-{n}"))))
        .collect();
    let (tables, began) = (steps(), Instant::now());
    let left = || {
        let read = runtime.block_on(tables.store.read(&ids, Freshness::Latest)).unwrap();
        let is_settled = |task: &&Task| matches!(task.status, Status::Succeeded { .. } | Status::Failed { .. });
        ids.len() - read.iter().filter(is_settled).count()
    };
    while left() > 0 {
        assert!(began.elapsed() < Duration::from_secs(300), "{} tasks have not settled", left());
        let queues = &connection.queues;
        for (step, queue) in [
            ("register", &queues.tasks),
            ("register", &queues.in_order),
            ("elect", &queues.elect),
            ("group", &queues.group),
            ("handle", &queues.handle),
        ] {
            let received = runtime.block_on(receive(&sqs, queue));
            if !received.is_empty() {
                let kept = take(step, connection, &steps, received.clone());
                for (receipt, ..) in received.into_iter().filter(|(receipt, ..)| !kept.contains(receipt)) {
                    let deleted = sqs.delete_message().queue_url(queue).receipt_handle(receipt).send();
                    runtime.block_on(deleted).unwrap();
                }
            }
        }
        on_half("work", async || work(&steps(), &routes).await);
        let (_, swept) = on_half("sweep", async || entry::sweep(&steps(), 1_000).await);
        swept.unwrap();
    }
}

/// Hands messages to a step, and says which of them must come again.
fn take(
    step: &str,
    to: &Connection,
    steps: &(impl Fn() -> AwsStack + Sync),
    received: Vec<(String, String, u32)>,
) -> Vec<String> {
    let is_bisected = received.iter().any(|(_, body, _)| body.contains("bisected:"));
    let name = if step == "handle" && is_bisected { "handle, taken apart" } else { step };
    let handled = on_half(name, async || {
        let (steps, event) = (steps(), entry::event(received));
        match step {
            "register" => entry::register_task(&steps, event).await,
            "elect" => entry::elect_leader(&steps, event).await,
            "group" => entry::group_batch(&steps, event).await,
            _ => {
                let downstreams = Downstreams::new(&to.config, Allowed::on_own_machine());
                let downstreams = Traced::new(downstreams, steps.spans.clone());
                entry::batch_handler(&steps, &Destination::Handle, &downstreams, event).await
            }
        }
    });
    handled.response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect()
}

/// Work that is done as soon as it is begun.
struct Done;

impl Downstream for Done {
    async fn call(&self, _: &Call<'_>) -> Result<Answer, NoAnswer> {
        Ok(Answer { status: 200, ..Answer::default() })
    }
}

/// Works on what waits for a worker.
async fn work(steps: &AwsStack, routes: &Routes) {
    let (route, announced) = (RouteName::new("pulled"), Announced::default());
    let AwsStack { store, queues: outbox, env, timing, .. } = steps;
    let id = SessionId::within(&Pool::of_route(&route), &env.fresh_id());
    let heartbeat = &Heartbeat::new(store, env, *timing, id, "worker");
    heartbeat.open().await.unwrap().unwrap();
    let (patience_ms, announced, heartbeat) = (1_000, &announced, heartbeat);
    let processor = Processor { store, outbox, downstream: &Done, env, routes, patience_ms, announced, heartbeat };
    let mut worker = Worker::new(processor, route);
    let working = async { while worker.work().await.unwrap().is_some() {} };
    heartbeat.keep(Box::pin(working)).await.unwrap();
    heartbeat.end().await;
}
