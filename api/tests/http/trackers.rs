//! Trackers, from opening to their end.

use api::Backend as _;
use groupage_core::domain::{BatchId, ItemId, NotificationQueue, Round, Target, Task, TaskId, Timestamp, TrackerId};
use groupage_core::ports::{Destination, Tasks as _};
use serde_json::{Value, json};

use crate::desk::{Desk, NAMED_QUEUE};

#[tokio::test]
async fn a_tracker_is_opened_once_and_found_again_by_the_same_call() {
    let desk = Desk::open().await;
    let body = r#"{"id":"t","deadline":"2099-01-01T00:00:00+01:00","notify":"none"}"#;
    let opened = desk.post("/trackers", body).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    assert_eq!(opened.body["deadline"], "2098-12-31T23:00:00.000Z");
    let found = desk.post("/trackers", body).await;
    assert_eq!((found.status, &found.body), (200, &opened.body));
    for answer in [opened.location.as_str(), &found.location] {
        assert_eq!(desk.get(answer).await.body["id"], "t");
    }
    desk.post("/trackers", r#"{"id":"t","notify":"none"}"#).await.problem(409);
    assert_eq!(desk.shown("t").await["deadline"], opened.body["deadline"], "and stays as it was");
}

#[tokio::test]
async fn a_tracker_without_an_id_gets_one_that_nobody_has() {
    let desk = Desk::open().await;
    let (one, two) = (desk.post("/trackers", "{}").await, desk.post("/trackers", "{}").await);
    assert_eq!((one.status, two.status), (201, 201));
    assert_ne!(one.body["id"], two.body["id"]);
    assert_eq!(one.body["notify"], "default");
}

#[tokio::test]
async fn only_queues_that_the_routes_name_are_told() {
    let desk = Desk::open().await;
    let named = format!(r#"{{"id":"t","notify":"{NAMED_QUEUE}"}}"#);
    assert_eq!(desk.post("/trackers", named).await.body["notify"], NAMED_QUEUE);
    for notify in ["https://sqs.example/1/others", "nobody"] {
        let answer = desk.post("/trackers", format!(r#"{{"id":"u","notify":"{notify}"}}"#)).await;
        assert_eq!(answer.problem(422), "notify");
    }
    assert_eq!(desk.get("/trackers/u").await.status, 404);
}

#[tokio::test]
async fn items_are_numbered_in_the_order_of_their_keys_and_a_repeat_adds_none() {
    let desk = Desk::open().await;
    desk.tracker("t", 0).await;
    let first = desk.post("/trackers/t/items", r#"{"key":"a","count":7000}"#).await.body;
    assert_eq!(first["groups"], json!([{ "group": 0, "first": 0, "size": 7000 }]));
    let second = r#"{"key":"b","count":1000}"#;
    let added = desk.post("/trackers/t/items", second).await.body;
    assert_eq!((&added["start"], &added["count"], &added["group_size"]), (&json!(7000), &json!(1000), &json!(7168)));
    assert_eq!(
        added["groups"],
        json!([{ "group": 0, "first": 7000, "size": 168 }, { "group": 1, "first": 0, "size": 832 }])
    );
    assert_eq!(added["repeated"], false);
    let repeated = desk.post("/trackers/t/items", second).await.body;
    assert_eq!((&repeated["groups"], &repeated["repeated"]), (&added["groups"], &json!(true)));
    desk.post("/trackers/t/items", r#"{"key":"b","count":1}"#).await.problem(409);
    assert_eq!(desk.shown("t").await["items"], 8000);
}

#[tokio::test]
async fn the_last_ack_of_a_sealed_tracker_completes_it_and_sends_one_notice() {
    let desk = Desk::open().await;
    desk.tracker("t", 100).await;
    let acked = desk.post("/trackers/t/acks", r#"{"succeeded":["t:0:0-97"],"failed":["t:0:98"]}"#).await;
    assert_eq!(acked.body, json!({ "acked": 99, "repeated": 0, "state": "open" }));
    let sealed = desk.post("/trackers/t/seal", "").await;
    assert_eq!((sealed.status, &sealed.body["state"]), (200, &json!("sealed")));
    assert_eq!(desk.post("/trackers/t/seal", "").await.body["state"], "sealed", "the same call finds it sealed");
    let last = desk.post("/trackers/t/acks", r#"{"succeeded":["t:0:98-99"]}"#).await;
    assert_eq!(last.body, json!({ "acked": 1, "repeated": 1, "state": "completed" }), "the first outcome counts");
    let again = desk.post("/trackers/t/acks", r#"{"failed":["t:0:0-99"]}"#).await;
    assert_eq!(again.body, json!({ "acked": 0, "repeated": 100, "state": "completed" }));
    let shown = desk.shown("t").await;
    let counts = ["items", "succeeded", "failed", "missing"].map(|name| shown[name].as_u64().unwrap());
    assert_eq!(counts, [100, 99, 1, 0]);
    assert_eq!((&shown["state"], &shown["notice_sent"]), (&json!("completed"), &json!(true)));
    assert!(shown["ended_at"].is_string());
    let told = desk.stack.queues.messages(&Destination::Notification(NotificationQueue::Default));
    assert_eq!(told.len(), 1);
    desk.post("/trackers/t/items", r#"{"key":"late","count":1}"#).await.problem(409);
    desk.post("/trackers/t/abandon", "").await.problem(409);
}

#[tokio::test]
async fn a_tracker_that_is_given_up_takes_nothing_more() {
    let desk = Desk::open().await;
    desk.tracker("t", 10).await;
    assert_eq!(desk.post("/trackers/t/abandon", "").await.body["state"], "abandoned");
    assert_eq!(desk.post("/trackers/t/abandon", "").await.status, 200, "the same call finds it given up");
    for (path, body) in [("seal", ""), ("acks", r#"{"succeeded":["t:0:0"]}"#), ("items", r#"{"key":"more","count":1}"#)]
    {
        desk.post(&format!("/trackers/t/{path}"), body).await.problem(409);
    }
    let shown = desk.shown("t").await;
    assert_eq!((&shown["state"], &shown["missing"], &shown["succeeded"]), (&json!("abandoned"), &json!(10), &json!(0)));
}

#[tokio::test]
async fn the_tasks_of_a_tracker_that_wait_are_cancelled_and_no_others() {
    let desk = Desk::open().await;
    for id in ["t", "other"] {
        desk.tracker(id, 3).await;
    }
    // More of them than one call ends.
    let (target, (payload, digest)) = (Target::new("parcels:t7"), ("{}".to_owned(), "d".to_owned()));
    for n in 0..1_700 {
        let item = if n % 400 == 7 { "other:0:1" } else { "t:0:1" };
        let id = TaskId::new(format!("p{n:04}"));
        let task = Task::new(id, target.clone(), payload.clone(), digest.clone(), Timestamp(1_000));
        desk.stack.store.register(&task.with_item(ItemId::parse(item).ok())).await.unwrap();
    }
    desk.stack.store.join(&TaskId::new("p0000"), Round(0), &BatchId::new("0".repeat(32))).await.unwrap();
    let first = desk.post("/trackers/t/cancellations", "{}").await.body;
    assert_eq!((first["refused"][0]["id"].as_str(), first["next"].is_string()), (Some("p0000"), true));
    let second = desk.post("/trackers/t/cancellations", json!({ "after": first["next"] }).to_string()).await.body;
    assert_eq!((&second["refused"], &second["next"]), (&json!([]), &json!(null)));
    let done = [&first, &second].map(|answer| answer["done"].as_array().unwrap().len());
    assert_eq!(done.iter().sum::<usize>(), 1_694);
    assert_eq!(desk.get("/tasks/p0007").await.body["status"], "created", "it is another tracker's");
    assert_eq!(desk.get("/tasks/p1699").await.body["status"], "cancelled");
    assert_eq!(desk.post("/trackers/t/cancellations", r#"{"after":""}"#).await.problem(422), "after");
}

#[tokio::test]
async fn a_tracker_whose_deadline_came_first_is_overdue_and_says_what_is_missing() {
    let desk = Desk::open().await;
    desk.post("/trackers", r#"{"id":"t","deadline":"1970-01-01T00:01:00Z"}"#).await;
    desk.post("/trackers/t/items", r#"{"key":"all","count":3}"#).await;
    desk.post("/trackers/t/acks", r#"{"succeeded":["t:0:0"]}"#).await;
    desk.post("/trackers/t/seal", "").await;
    desk.stack.env.forward(60_000);
    desk.stack.tracking().look_after(&TrackerId::new("t"), desk.stack.lifetimes).await.unwrap();
    let shown = desk.shown("t").await;
    assert_eq!((&shown["state"], &shown["succeeded"], &shown["missing"]), (&json!("overdue"), &json!(1), &json!(2)));
    for (path, body) in [("seal", ""), ("abandon", ""), ("acks", r#"{"succeeded":["t:0:1"]}"#)] {
        desk.post(&format!("/trackers/t/{path}"), body).await.problem(409);
    }
    assert_eq!(desk.get("/trackers/t/items?outcome=missing").await.body["items"], json!(["t:0:1", "t:0:2"]));
}

#[tokio::test]
async fn items_are_listed_by_outcome_page_by_page() {
    let desk = Desk::open().await;
    desk.tracker("t", 7_200).await;
    let body = r#"{"succeeded":["t:0:0-7167","t:1:0-20"],"failed":["t:1:25-31"]}"#;
    assert_eq!(desk.post("/trackers/t/acks", body).await.body["acked"], 7_196);
    let page = desk.get("/trackers/t/items?outcome=missing&limit=3").await.body;
    assert_eq!(page, json!({ "items": ["t:1:21", "t:1:22", "t:1:23"], "next": "1:24" }));
    let page = desk.get("/trackers/t/items?outcome=missing&limit=3&from=1:24").await.body;
    assert_eq!(page, json!({ "items": ["t:1:24"], "next": null }));
    let page = desk.get("/trackers/t/items?outcome=failed").await.body;
    assert_eq!(page["items"].as_array().unwrap().len(), 7);
    let mut path = "/trackers/t/items?outcome=succeeded&limit=1000".to_owned();
    let mut listed = 0;
    loop {
        let page = desk.get(&path).await.body;
        listed += page["items"].as_array().unwrap().len();
        let Value::String(next) = &page["next"] else { break };
        path = format!("/trackers/t/items?outcome=succeeded&limit=1000&from={next}");
    }
    assert_eq!(listed, 7_189);
}

#[tokio::test]
async fn groups_that_nobody_acked_anything_of_are_passed_over() {
    let desk = Desk::open().await;
    desk.tracker("t", 7_168_000).await;
    desk.post("/trackers/t/acks", r#"{"failed":["t:3:5","t:900:0"],"succeeded":["t:500:1"]}"#).await;
    let page = desk.get("/trackers/t/items?outcome=failed").await.body;
    assert_eq!(page, json!({ "items": ["t:3:5", "t:900:0"], "next": null }));
    let page = desk.get("/trackers/t/items?outcome=failed&from=4:0&limit=1").await.body;
    assert_eq!(page, json!({ "items": ["t:900:0"], "next": null }));
    let page = desk.get("/trackers/t/items?outcome=missing&from=3:4&limit=2").await.body;
    assert_eq!(page, json!({ "items": ["t:3:4", "t:3:6"], "next": "3:7" }));
}
