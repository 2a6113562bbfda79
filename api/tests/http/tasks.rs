//! Tasks and batches.

use groupage_core::domain::Traits;
use groupage_core::domain::batch::{Assumes, Batch};
use groupage_core::domain::{BatchId, Candidate, Fence, Round, Target, Task, TaskId, Timestamp};
use groupage_core::ports::{Batches as _, Tasks as _};
use serde_json::{Value, json};

use crate::desk::Desk;

const BATCH: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn tasks_reach_the_intake_as_they_were_written_and_in_their_order() {
    let desk = Desk::open().await;
    let body = r#"{"tasks":[
        {"id":"a","payload":{"n": 1.0, "big": 12345678901234567890123}, "item":"t:0:5"},
        {"payload":{}},
        {"version":1,"id":null,"payload":{},"item":null}
    ]}"#;
    let sent = desk.post("/tasks", body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    let ids: Vec<&str> = sent.body["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids[0]), (3, "a"));
    assert!(ids[1] != ids[2] && ids[1].len() == 32, "a task without an id gets one that nobody has");
    let messages: Vec<String> = desk.intake().into_iter().map(|message| message.body).collect();
    assert_eq!(messages[0], r#"{"id":"a","payload":{"n":1.0,"big":12345678901234567890123},"item":"t:0:5"}"#);
    assert_eq!(messages[1], format!(r#"{{"id":"{}","payload":{{}}}}"#, ids[1]));
    assert_eq!(messages.len(), 3);
}

#[tokio::test]
async fn tasks_of_an_ordered_route_reach_the_intake_that_keeps_order() {
    let desk = Desk::open().await;
    let payment =
        |account: &str, n| json!({ "payload": { "type": "payment", "bank": "b", "account": account, "n": n } });
    let tasks = [payment("x", 1), payment("y", 1), payment("x", 2), json!({ "payload": { "type": "parcel" } })];
    assert_eq!(desk.post("/tasks", json!({ "tasks": tasks }).to_string()).await.status, 202);
    let numbers: Vec<Value> = desk
        .in_order("payments:x")
        .into_iter()
        .map(|message| serde_json::from_str::<Value>(&message.body).unwrap()["payload"]["n"].clone())
        .collect();
    assert_eq!(numbers, [json!(1), json!(2)]);
    assert_eq!((desk.in_order("payments:y").len(), desk.intake().len()), (1, 1));
    let tenant = desk.in_order("payments:y").pop().and_then(|message| message.tenant);
    assert_eq!(tenant.as_deref(), Some("payments:b"), "the queue is fair among Targets");
}

#[tokio::test]
async fn one_bad_task_holds_all_back_and_is_named() {
    let desk = Desk::open().await;
    for (bad, field) in [
        (r#"{"id":"x"}"#, "tasks[1].payload"),
        (r#"{"payload":[4111]}"#, "tasks[1].payload"),
        (r#"{"payload":{},"id":""}"#, "tasks[1].id"),
        (r#"{"payload":{},"id":7}"#, "tasks[1].id"),
        (r#"{"payload":{},"item":"t:0"}"#, "tasks[1].item"),
        (r#"{"payload":{},"version":2}"#, "tasks[1].version"),
        (r#"{"payload":{},"color":"4111"}"#, "tasks[1]"),
        ("[4111]", "tasks[1]"),
    ] {
        let answer = desk.post("/tasks", format!(r#"{{"tasks":[{{"payload":{{}}}},{bad}]}}"#)).await;
        assert_eq!(answer.problem(422), field, "{bad}");
        assert!(!answer.body.to_string().contains("4111"), "a value is repeated: {answer:?}");
    }
    let large = format!(r#"{{"tasks":[{{"payload":{{"a":"{}"}}}}]}}"#, "x".repeat(256_000));
    assert_eq!(desk.post("/tasks", large).await.problem(422), "tasks[0]");
    assert!(desk.intake().is_empty(), "nothing is sent");
}

#[tokio::test]
async fn a_task_that_is_too_large_only_with_its_id_is_refused_before_the_queue_does() {
    let desk = Desk::open().await;
    let padding = 256_000 - r#"{"payload":{"a":""}}"#.len();
    let body = format!(r#"{{"tasks":[{{"payload":{{"a":"{}"}}}}]}}"#, "x".repeat(padding));
    assert_eq!(desk.post("/tasks", body).await.problem(422), "tasks[0]");
    assert!(desk.intake().is_empty());
}

#[tokio::test]
async fn what_json_takes_and_a_queue_does_not_is_escaped() {
    let desk = Desk::open().await;
    let body = "{\"tasks\":[{\"payload\":{\"a\u{ffff}\":\"\u{fffe}\u{fffd}\"}}]}";
    assert_eq!(desk.post("/tasks", body).await.status, 202);
    let message = &desk.intake()[0].body;
    assert!(message.ends_with("\"payload\":{\"a\\uffff\":\"\\ufffe\u{fffd}\"}}"), "{message}");
    let payload = serde_json::from_str::<Value>(message).unwrap()["payload"].clone();
    assert_eq!(payload, json!({ "a\u{ffff}": "\u{fffe}\u{fffd}" }));
}

#[tokio::test]
async fn one_call_takes_1_to_100_tasks() {
    let desk = Desk::open().await;
    let tasks = |count| json!({ "tasks": vec![json!({ "payload": {} }); count] }).to_string();
    assert_eq!(desk.post("/tasks", tasks(0)).await.problem(422), "tasks");
    assert_eq!(desk.post("/tasks", tasks(101)).await.problem(422), "tasks");
    assert_eq!(desk.post("/tasks", tasks(100)).await.body["ids"].as_array().unwrap().len(), 100);
    assert_eq!(desk.intake().len(), 100);
}

#[tokio::test]
async fn a_task_is_shown_with_its_status_and_without_its_payload() {
    let desk = Desk::open().await;
    let (id, target) = (TaskId::new("a/b c%".replace(' ', "_")), Target::new("parcels:t7"));
    let payload = r#"{"card":"4111"}"#.to_owned();
    let task = Task::new(id.clone(), target.clone(), payload, "d".to_owned(), Timestamp(1_000));
    desk.stack.store.register(&task).await.unwrap();
    let path = "/tasks/a%2Fb_c%25";
    let shown = desk.get(path).await;
    assert_eq!(
        shown.body,
        json!({
            "id": "a/b_c%", "status": "created", "target": "parcels:t7", "returned": 0,
            "registered_at": "1970-01-01T00:00:01.000Z",
        })
    );
    let batch = BatchId::new(BATCH);
    desk.stack.store.join(&id, Round(0), &batch).await.unwrap();
    let stored = Batch::open(batch, target, Fence(1), &[task.candidate()], Timestamp(7), 0);
    desk.stack.store.store(&stored, Assumes::Absent).await.unwrap();
    let shown = desk.get(path).await.body;
    assert_eq!((&shown["status"], &shown["batch"]), (&json!("batched"), &json!(BATCH)));
    assert_eq!(shown["target"], "parcels:t7");
}

#[tokio::test]
async fn what_waits_is_cancelled_and_what_is_in_a_batch_is_not() {
    let desk = Desk::open().await;
    let target = Target::new("parcels:t7");
    for id in ["waits", "batched"] {
        let task = Task::new(TaskId::new(id), target.clone(), "{}".to_owned(), "d".to_owned(), Timestamp(1_000));
        desk.stack.store.register(&task).await.unwrap();
    }
    desk.stack.store.join(&TaskId::new("batched"), Round(0), &BatchId::new(BATCH)).await.unwrap();
    for _ in 0..2 {
        let answer = desk.post("/tasks/cancellations", r#"{"ids":["waits","batched","nobody"]}"#).await.body;
        assert_eq!(answer["done"], json!(["waits"]));
        let details: Vec<&str> =
            answer["refused"].as_array().unwrap().iter().map(|r| r["detail"].as_str().unwrap()).collect();
        assert_eq!(details[0], format!("it is on its way into or out of batch {BATCH}: cancel it again in a moment"));
        assert!(details[1].starts_with("no task with this id is known"), "{details:?}");
    }
    let shown = desk.get("/tasks/waits").await.body;
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("cancelled"), &json!("cancelled")));
    assert!(desk.stack.store.untold().is_empty(), "everybody has heard of it");
}

#[tokio::test]
async fn a_batch_is_shown_with_its_members() {
    let desk = Desk::open().await;
    let members: Vec<Candidate> = ["a", "b"]
        .map(|id| Candidate { id: TaskId::new(id), round: Round(0), bytes: 1, traits: Traits::default() })
        .into();
    let batch = Batch::open(BatchId::new(BATCH), Target::new("r:t"), Fence(1), &members, Timestamp(7), 0);
    desk.stack.store.store(&batch, Assumes::Absent).await.unwrap();
    let shown = desk.get(&format!("/batches/{BATCH}")).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert_eq!((&shown.body["status"], &shown.body["members"]), (&json!("open"), &json!(["a", "b"])));
    assert_eq!(shown.body.get("session"), None::<&Value>);
}

#[tokio::test]
async fn what_is_not_known_is_a_404() {
    let desk = Desk::open().await;
    for path in ["/tasks/nobody", "/batches/00000000000000000000000000000000", "/trackers/nobody"] {
        assert_eq!(desk.get(path).await.problem(404), "id", "{path}");
    }
}

#[tokio::test]
async fn times_of_tasks_reach_the_intake_and_are_shown() {
    let desk = Desk::open().await;
    let times = r#""not_before":3600,"expires_at":"2099-01-02T01:00:00+01:00""#;
    let sent = desk.post("/tasks", format!(r#"{{"tasks":[{{"id":"t","payload":{{}},{times}}}]}}"#)).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    let message: Value = serde_json::from_str(&desk.intake()[0].body).unwrap();
    assert_eq!((&message["not_before"], &message["expires_at"]), (&json!(3600), &json!("2099-01-02T00:00:00.000Z")));

    let (due, ends) = (Timestamp(4_070_908_800_000), Timestamp(4_070_995_200_000));
    let task =
        Task::new(TaskId::new("t"), Target::new("parcels:t7"), "{}".to_owned(), "d".to_owned(), Timestamp(1_000));
    desk.stack.store.register(&task.expiring(Some(ends)).scheduled(due)).await.unwrap();
    let shown = desk.get("/tasks/t").await.body;
    assert_eq!((&shown["status"], &shown["target"]), (&json!("scheduled"), &json!("parcels:t7")));
    let times = [&shown["not_before"], &shown["expires_at"]];
    assert_eq!(times, [&json!("2099-01-01T00:00:00.000Z"), &json!("2099-01-02T00:00:00.000Z")]);
}
