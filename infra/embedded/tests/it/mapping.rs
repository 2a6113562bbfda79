use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use embedded::mapping::{Mapping, Running};
use tokio::sync::{Semaphore, mpsc};

use crate::{queue::Queue, soon};

fn mapping(queue: &Queue) -> Mapping {
    Mapping {
        queue: queue.url.clone(),
        batch_size: 10,
        window: Duration::ZERO,
        concurrency: 3,
        pollers: 3,
        timeout: Duration::from_secs(30),
        visibility: None,
    }
}

fn bodies(event: &SqsEvent) -> Vec<String> {
    event.records.iter().map(|record| record.body.clone().unwrap()).collect()
}

/// A mapping whose handler reports what it was given, and succeeds.
fn reporting(mapping: Mapping, queue: &Queue) -> (Running, mpsc::UnboundedReceiver<Vec<String>>) {
    let (report, reports) = mpsc::unbounded_channel();
    let handler = move |event: SqsEvent| {
        report.send(bodies(&event)).unwrap();
        async { SqsBatchResponse::default() }
    };
    (mapping.start(queue.client.clone(), handler).unwrap(), reports)
}

async fn collect(reports: &mut mpsc::UnboundedReceiver<Vec<String>>, number: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < number {
        all.extend(soon(reports.recv()).await.unwrap());
    }
    all
}

#[tokio::test]
async fn every_message_is_handled_once_and_deleted() {
    let queue = Queue::start(30).await;
    queue.send(205).await;
    let (running, mut reports) = reporting(mapping(&queue), &queue);
    let all = collect(&mut reports, 205).await;
    let counts = soon(running.shutdown()).await;
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 205);
    assert_eq!(all.len(), 205);
    assert!(reports.recv().await.is_none(), "no further event");
    assert_eq!(queue.left().await, (0, 0));
    assert_eq!((counts.messages, counts.failed), (205, 0));
    assert_eq!(counts.events, counts.deletes, "ten at most are deleted by one request");
}

#[tokio::test]
async fn a_large_batch_is_gathered_from_many_receives() {
    let queue = Queue::start(30).await;
    queue.send(100).await;
    // The window is longer than the test may take: only a full event can be handed over.
    let large = Mapping { batch_size: 100, window: Duration::from_secs(300), ..mapping(&queue) };
    let (running, mut reports) = reporting(large, &queue);
    assert_eq!(soon(reports.recv()).await.unwrap().len(), 100);
    let counts = soon(running.shutdown()).await;
    assert_eq!((counts.events, counts.deletes), (1, 10));
    assert_eq!(queue.left().await, (0, 0));
}

#[tokio::test]
async fn a_shutdown_hands_over_what_still_waits_for_its_window() {
    let queue = Queue::start(30).await;
    queue.send(10).await;
    let large = Mapping { batch_size: 100, window: Duration::from_secs(300), ..mapping(&queue) };
    let (running, mut reports) = reporting(large, &queue);
    soon(async {
        while running.counts().messages < 10 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon(running.shutdown()).await;
    assert_eq!(collect(&mut reports, 10).await.len(), 10);
    assert_eq!(queue.left().await, (0, 0));
}

#[tokio::test]
async fn failed_records_come_again_and_their_neighbours_do_not() {
    let queue = Queue::start(1).await;
    let (report, mut reports) = mpsc::unbounded_channel();
    let handler = move |event: SqsEvent| {
        let mut response = SqsBatchResponse::default();
        for record in &event.records {
            let receives: u32 = record.attributes["ApproximateReceiveCount"].parse().unwrap();
            let odd = record.body.as_deref().unwrap().parse::<u32>().unwrap() % 2 == 1;
            if odd && receives == 1 {
                response.add_failure(record.message_id.clone().unwrap());
            }
        }
        report.send(bodies(&event)).unwrap();
        async { response }
    };
    queue.send(10).await;
    let running = mapping(&queue).start(queue.client.clone(), handler).unwrap();
    let mut all = collect(&mut reports, 15).await;
    let counts = soon(running.shutdown()).await;
    all.sort_unstable();
    assert_eq!(all, ["0", "1", "1", "2", "3", "3", "4", "5", "5", "6", "7", "7", "8", "9", "9"]);
    assert_eq!((counts.messages, counts.failed), (15, 5));
    assert_eq!(queue.left().await, (0, 0));
}

#[tokio::test]
async fn a_panic_fails_its_event_and_loses_nothing() {
    let queue = Queue::start(1).await;
    let calls = AtomicUsize::new(0);
    let (report, mut reports) = mpsc::unbounded_channel();
    let handler = move |event: SqsEvent| {
        assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "the first call panics, as this test wants");
        report.send(bodies(&event)).unwrap();
        async { SqsBatchResponse::default() }
    };
    queue.send(10).await;
    let running = mapping(&queue).start(queue.client.clone(), handler).unwrap();
    let all = collect(&mut reports, 10).await;
    let counts = soon(running.shutdown()).await;
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 10);
    assert!(counts.failed > 0);
    assert_eq!(queue.left().await, (0, 0));
}

#[tokio::test]
async fn a_handler_out_of_time_fails_its_event_and_loses_nothing() {
    let queue = Queue::start(1).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let (report, mut reports) = mpsc::unbounded_channel();
    let handler = move |event: SqsEvent| {
        let (calls, report) = (Arc::clone(&calls), report.clone());
        async move {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                std::future::pending::<()>().await;
            }
            report.send(bodies(&event)).unwrap();
            SqsBatchResponse::default()
        }
    };
    queue.send(1).await;
    let short = Mapping { timeout: Duration::from_millis(50), ..mapping(&queue) };
    let running = short.start(queue.client.clone(), handler).unwrap();
    assert_eq!(collect(&mut reports, 1).await, ["0"]);
    assert_eq!(soon(running.shutdown()).await.failed, 1);
    assert_eq!(queue.left().await, (0, 0));
}

/// Handlers that say when they begin, and end when the test lets them.
struct Gate {
    running: Running,
    begun: mpsc::UnboundedReceiver<usize>,
    open: Arc<Semaphore>,
}

fn gated(mapping: Mapping, queue: &Queue) -> Gate {
    let open = Arc::new(Semaphore::new(0));
    let (begin, begun) = mpsc::unbounded_channel();
    let gate = Arc::clone(&open);
    let handler = move |event: SqsEvent| {
        let (gate, begin) = (Arc::clone(&gate), begin.clone());
        async move {
            begin.send(event.records.len()).unwrap();
            gate.acquire().await.unwrap().forget();
            SqsBatchResponse::default()
        }
    };
    Gate { running: mapping.start(queue.client.clone(), handler).unwrap(), begun, open }
}

#[tokio::test]
async fn a_mapping_may_hide_messages_for_longer_than_their_queue() {
    let queue = Queue::start(1).await;
    queue.send(5).await;
    let mut gate = gated(Mapping { visibility: Some(Duration::from_secs(60)), ..mapping(&queue) }, &queue);
    let mut held = 0;
    while held < 5 {
        held += soon(gate.begun.recv()).await.unwrap();
    }
    // Its queue would give them again by now: it is up to a second late.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((gate.running.counts().messages, queue.left().await), (5, (0, 5)));
    gate.open.add_permits(5);
    soon(gate.running.shutdown()).await;
    assert_eq!(queue.left().await, (0, 0));
}

#[tokio::test]
async fn handlers_at_work_are_bounded_and_so_is_what_is_received_ahead() {
    let queue = Queue::start(30).await;
    queue.send(100).await;
    let mut gate = gated(mapping(&queue), &queue);
    for _ in 0..3 {
        soon(gate.begun.recv()).await.unwrap();
    }
    // The fourth event is gathered, but not begun.
    soon(async {
        while gate.running.counts().messages < 40 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(gate.begun.try_recv().is_err());
    assert_eq!(queue.left().await, (60, 40));
    gate.open.add_permits(100);
    soon(gate.running.shutdown()).await;
}

#[tokio::test]
async fn a_shutdown_finishes_what_was_begun_and_leaves_the_rest_in_the_queue() {
    let queue = Queue::start(30).await;
    queue.send(100).await;
    let mut gate = gated(mapping(&queue), &queue);
    soon(gate.begun.recv()).await.unwrap();
    gate.open.add_permits(100);
    let counts = soon(gate.running.shutdown()).await;
    let handled = usize::try_from(counts.messages).unwrap();
    let (waiting, out) = queue.left().await;
    assert_eq!(handled + waiting + out, 100, "every message was handled or is in the queue");
    assert_eq!(counts.events, counts.deletes);
}

#[tokio::test]
async fn an_abort_deletes_nothing_that_was_not_finished() {
    let queue = Queue::start(1).await;
    queue.send(10).await;
    let mut gate = gated(mapping(&queue), &queue);
    soon(gate.begun.recv()).await.unwrap();
    let counts = soon(gate.running.abort()).await;
    assert_eq!(counts.deletes, 0);
    let (running, mut reports) = reporting(mapping(&queue), &queue);
    let again = collect(&mut reports, 10).await;
    soon(running.shutdown()).await;
    assert_eq!(again.into_iter().collect::<BTreeSet<_>>().len(), 10);
}

#[tokio::test]
async fn messages_flow_again_after_receives_have_failed() {
    let queue = Queue::start(30).await;
    // No such queue yet: every receive fails.
    let later = format!("{}-later", queue.url);
    let missing = Mapping { queue: later.clone(), ..mapping(&queue) };
    let (running, mut reports) = reporting(missing, &queue);
    queue.client.create_queue().queue_name("test-later").send().await.unwrap();
    queue.client.send_message().queue_url(later).message_body("late").send().await.unwrap();
    assert_eq!(collect(&mut reports, 1).await, ["late"]);
    soon(running.shutdown()).await;
}
