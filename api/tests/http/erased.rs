//! What is held about a task, and that it is erased.

use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::{BatchId, Failure, Member, Reason, Target, Task, TaskId, Timestamp};
use groupage_core::ports::{Settlement, Tasks as _};
use serde_json::{Value, json};

use crate::desk::Desk;

const PAYLOAD: &str = r#"{"type":"parcel","truck":"t7","street":"1 Main Street"}"#;

/// A task that waits.
async fn waiting(desk: &Desk, id: &str) -> Task {
    let (id, target) = (TaskId::new(id), Target::new("parcels:t7"));
    let task = Task::new(id, target, PAYLOAD.to_owned(), "d".to_owned(), Timestamp(1));
    desk.stack.store.register(&task).await.unwrap();
    task
}

/// A task that failed.
async fn failed(desk: &Desk, id: &str) {
    let (task, batch) = (waiting(desk, id).await, BatchId::new("0123456789abcdef0123456789abcdef"));
    desk.stack.store.join(&task.id, task.round, &batch).await.unwrap();
    let answer = Some(Excerpt { status: 422, text: "no such street".to_owned() });
    let (target, reason) = (Target::new("parcels:t7"), Reason::new("http_422"));
    let failure = Failure { target, reason, attempts: 2, answer, keep_ms: 0 };
    let member = Member { id: task.id, round: task.round };
    desk.stack.store.settle(&member, &batch, &Settlement::Failed(failure), Timestamp(9)).await.unwrap();
}

#[tokio::test]
async fn what_is_held_about_a_task_is_all_in_its_export() {
    let desk = Desk::open().await;
    failed(&desk, "p").await;
    let held = desk.get("/tasks/p/export").await;
    assert_eq!((held.status, &held.body["erased"]), (200, &json!(false)));
    assert_eq!(held.body["payload"], serde_json::from_str::<Value>(PAYLOAD).unwrap());
    assert_eq!(held.body["task"]["status"], "failed");
    assert_eq!(held.body["failure"]["answer"], "no such street");
    desk.get("/tasks/nobody/export").await.problem(404);
}

#[tokio::test]
async fn an_erased_task_has_nothing_left_to_export_but_that_it_was() {
    let desk = Desk::open().await;
    failed(&desk, "p").await;
    for _ in 0..2 {
        let answer = desk.post("/tasks/erasures", r#"{"ids":["p"]}"#).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({ "done": ["p"], "refused": [] })));
    }
    let held = desk.get("/tasks/p/export").await.body;
    assert_eq!((&held["erased"], &held["payload"], &held["digest"]), (&json!(true), &Value::Null, &Value::Null));
    assert!(!held.to_string().contains("street"), "{held}");
    let again = desk.post("/failed/retries", r#"{"ids":["p"]}"#).await.body;
    assert_eq!(again["refused"][0]["detail"], "its contents were erased");
}

#[tokio::test]
async fn a_task_that_waits_is_cancelled_and_one_in_a_batch_is_refused() {
    let desk = Desk::open().await;
    waiting(&desk, "waits").await;
    let called = waiting(&desk, "called").await;
    desk.stack.store.join(&called.id, called.round, &BatchId::new("b")).await.unwrap();
    let answer = desk.post("/tasks/erasures", r#"{"ids":["waits","called","nobody"]}"#).await.body;
    assert_eq!(answer["done"], json!(["waits"]));
    let refused: Vec<&str> = answer["refused"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(refused, ["called", "nobody"]);
    assert!(answer["refused"][0]["detail"].as_str().unwrap().contains("call may be under way"));
    assert_eq!(desk.get("/tasks/waits").await.body["status"], "cancelled");
    assert_eq!(desk.get("/tasks/called/export").await.body["erased"], false);
}

#[tokio::test]
async fn versions_are_listed_even_if_there_are_none() {
    let desk = Desk::open().await;
    assert_eq!(desk.get("/routes").await.body, json!({ "in_force": null, "versions": [] }));
}
