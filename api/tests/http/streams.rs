//! Streams, from the first event to the last.

use groupage_core::domain::{EventId, Outcome, task_message};
use groupage_core::steps::stream::Streaming;
use serde_json::{Value, json};

use crate::desk::Desk;

fn events(from: u64, numbers: std::ops::Range<u64>) -> String {
    let event = |n: u64| json!({ "offset": format!("at {n}"), "task": { "payload": { "n": n } } });
    let events: Vec<Value> = numbers.map(event).collect();
    json!({ "from": from, "events": events }).to_string()
}

async fn settle(desk: &Desk, events: &[EventId]) {
    let stack = &desk.stack;
    let steps = Streaming { store: &stack.store, outbox: &stack.queues, env: &stack.env };
    let settled = steps.settle(events.iter().cloned().map(|event| (event, Outcome::Succeeded)).collect()).await;
    assert!(settled.unanswered.is_empty() && settled.unknown == 0);
}

#[tokio::test]
async fn a_stream_says_where_to_go_on() {
    let desk = Desk::open().await;
    let opened = desk.post("/streams", r#"{"id":"s","commit_ms":0,"window":5}"#).await;
    assert_eq!((opened.status, &opened.body["state"], &opened.body["offset"]), (201, &json!("open"), &Value::Null));
    assert_eq!(desk.post("/streams", r#"{"id":"s","commit_ms":0,"window":5}"#).await.status, 200);
    desk.post("/streams", r#"{"id":"s"}"#).await.problem(409);

    let fed = desk.post("/streams/s/events", events(0, 0..4)).await;
    assert_eq!((fed.status, fed.body), (200, json!({ "fed": 4, "new": 4, "again": 0, "settled": 0, "rejected": 0 })));
    let sent: Vec<EventId> =
        desk.intake().iter().map(|message| task_message::parse(&message.body, "m").unwrap().event.unwrap()).collect();
    assert_eq!(sent.iter().map(|event| event.number).collect::<Vec<_>>(), [0, 1, 2, 3]);

    settle(&desk, &[sent[0].clone(), sent[1].clone(), sent[3].clone()]).await;
    let stream = desk.get("/streams/s").await.body;
    assert_eq!((&stream["watermark"], &stream["offset"]), (&json!(2), &json!("at 1")));
    let again = desk.post("/streams/s/events", events(2, 2..6)).await.body;
    assert_eq!(again, json!({ "fed": 6, "new": 2, "again": 1, "settled": 1, "rejected": 0 }));
    assert_eq!(desk.post("/streams/s/end", "").await.body["state"], "ended");
    desk.post("/streams/s/fail", "").await.problem(409);
    desk.post("/streams/s/events", events(6, 6..7)).await.problem(409);
    let event = |number| EventId { number, ..sent[0].clone() };
    settle(&desk, &[event(2), event(4), event(5)]).await;
    assert_eq!(desk.get("/streams/s").await.body["state"], "completed");
}

#[tokio::test]
async fn what_a_stream_refuses_changes_nothing() {
    let desk = Desk::open().await;
    desk.post("/streams", r#"{"id":"s","window":5}"#).await;
    desk.post("/streams/s/events", events(0, 0..4)).await;
    let before = desk.get("/streams/s").await.body;
    desk.post("/streams/s/events", events(5, 5..6)).await.problem(409);
    desk.post("/streams/s/events", events(0, 1..3)).await.problem(409);
    desk.post("/streams/s/events", events(4, 3..5)).await.problem(422);
    let full = desk.post("/streams/s/events", events(4, 4..9)).await;
    full.problem(429);
    assert!(full.body["detail"].as_str().unwrap().contains("4 of the 5"), "{:?}", full.body);
    for (body, field) in [
        (r#"{"from":4,"events":[]}"#, "events"),
        (r#"{"from":4,"events":[{"offset":"","task":{"payload":{}}}]}"#, "events[0].offset"),
        (r#"{"from":4,"events":[{"offset":"x","task":7}]}"#, "events[0].task"),
        (r#"{"from":-1,"events":[{"offset":"x","task":{}}]}"#, "from"),
    ] {
        let answer = desk.post("/streams/s/events", body).await;
        answer.problem(422);
        assert_eq!(answer.body["field"], field);
    }
    for (method, path) in [("get", ""), ("post", "/end"), ("post", "/fail")] {
        let path = format!("/streams/nobody{path}");
        let answer = if method == "get" { desk.get(&path).await } else { desk.post(&path, "").await };
        answer.problem(404);
    }
    assert_eq!(desk.get("/streams/s").await.body, before);
    assert_eq!(desk.intake().len(), 4);
}

#[tokio::test]
async fn an_event_that_is_no_task_is_rejected_and_holds_nobody_up() {
    let desk = Desk::open().await;
    desk.post("/streams", r#"{"id":"s","commit_ms":0}"#).await;
    let body = r#"{"from":0,"events":[{"offset":"1","task":{}},{"offset":"2","task":{"payload":{},"event":"s:1:2"}}]}"#;
    let fed = desk.post("/streams/s/events", body).await.body;
    assert_eq!((&fed["new"], &fed["rejected"]), (&json!(2), &json!(2)));
    let stream = desk.get("/streams/s").await.body;
    assert_eq!((&stream["watermark"], &stream["failed"]), (&json!(2), &json!(2)));
    assert_eq!(desk.intake().len(), 0);
}
