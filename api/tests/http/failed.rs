//! Failed tasks, found and run again.

use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::{BatchId, Failure, LaneId, Member, Reason, RouteName, Target, Task, TaskId, Timestamp};
use groupage_core::ports::{Destination, Settlement, Tasks as _};
use serde_json::{Value, json};

use crate::desk::Desk;

/// A task that failed then.
async fn failed(desk: &Desk, id: &str, reason: &str, at: u64, lane: Option<LaneId>) {
    let (target, payload) = (Target::new("parcels:t7"), r#"{"type":"parcel","truck":"t7"}"#.to_owned());
    let task = Task::new(TaskId::new(id), target.clone(), payload, "d".to_owned(), Timestamp(1));
    let (task, batch) = (Task { lane, ..task }, BatchId::new("0123456789abcdef0123456789abcdef"));
    desk.stack.store.register(&task).await.unwrap();
    desk.stack.store.join(&task.id, task.round, &batch).await.unwrap();
    let answer = Some(Excerpt { status: 422, text: "no \u{202e}such truck".to_owned() });
    let failure = Failure { target, reason: Reason::new(reason), attempts: 5, answer, keep_ms: 0 };
    let member = Member { id: task.id, round: task.round };
    desk.stack.store.settle(&member, &batch, &Settlement::Failed(failure), Timestamp(at)).await.unwrap();
}

fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn failed_tasks_are_listed_by_time_and_by_what_is_asked_for() {
    let desk = Desk::open().await;
    for n in 0..5_u64 {
        failed(&desk, &format!("p{n}"), if n == 3 { "late" } else { "http_422" }, 1_000 * (n + 1), None).await;
    }
    desk.stack.env.forward(60_000);
    let all = desk.get("/failed?route=parcels").await.body;
    assert_eq!((ids(&all), &all["next"]), (vec!["p0", "p1", "p2", "p3", "p4"], &Value::Null));
    assert_eq!(
        all["tasks"][0],
        json!({
            "id": "p0", "failed_at": "1970-01-01T00:00:01.000Z", "target": "parcels:t7", "reason": "http_422",
            "attempts": 5, "answer_status": 422,
        })
    );
    for (query, found) in [
        ("reason=late", vec!["p3"]),
        ("target=parcels:t8", vec![]),
        ("target=parcels:t7&from=1970-01-01T00:00:04Z", vec!["p3", "p4"]),
        ("from=1970-01-01T00:00:02Z&until=1970-01-01T00:00:03Z", vec!["p1"]),
    ] {
        assert_eq!(ids(&desk.get(&format!("/failed?route=parcels&{query}")).await.body), found, "{query}");
    }
    let (mut path, mut paged) = ("/failed?route=parcels&limit=2".to_owned(), Vec::new());
    loop {
        let page = desk.get(&path).await.body;
        paged.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/failed?route=parcels&limit=2&after={}", next.replace('#', "%23"));
    }
    assert_eq!(paged, ["p0", "p1", "p2", "p3", "p4"]);
}

#[tokio::test]
async fn a_failure_is_shown_with_what_the_downstream_said() {
    let desk = Desk::open().await;
    failed(&desk, "p", "http_422", 1_000, None).await;
    let shown = desk.get("/tasks/p/failure").await;
    assert_eq!((shown.status, &shown.body["answer"]), (200, &json!("no \u{202e}such truck")));
    desk.get("/tasks/nobody/failure").await.problem(404);
    desk.post("/failed/retries", r#"{"ids":["p"]}"#).await;
    desk.get("/tasks/p/failure").await.problem(409);
}

#[tokio::test]
async fn a_retry_names_what_runs_again_and_what_does_not() {
    let desk = Desk::open().await;
    failed(&desk, "p", "http_422", 1_000, None).await;
    failed(&desk, "ordered", "http_422", 1_000, Some(LaneId::of(&RouteName::new("parcels"), "k"))).await;
    let answer = desk.post("/failed/retries", r#"{"ids":["p","nobody","ordered"]}"#).await;
    assert_eq!((answer.status, &answer.body["done"]), (200, &json!(["p"])));
    let refused: Vec<&str> =
        answer.body["refused"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    assert_eq!(refused, ["nobody", "ordered"]);
    assert_eq!(desk.get("/tasks/p").await.body["status"], "created");
    assert_eq!(desk.stack.queues.messages(&Destination::Elect).len(), 1);
    let again = desk.post("/failed/retries", r#"{"ids":["p"]}"#).await.body;
    assert_eq!(again["refused"][0]["detail"], "not failed: it is created");
    assert_eq!(desk.stack.queues.messages(&Destination::Elect).len(), 2, "its leader is asked for once more");
}

#[tokio::test]
async fn a_dropped_task_is_listed_no_more_and_stays_failed() {
    let desk = Desk::open().await;
    failed(&desk, "p", "http_422", 1_000, None).await;
    desk.stack.env.forward(60_000);
    for _ in 0..2 {
        assert_eq!(desk.post("/failed/drops", r#"{"ids":["p"]}"#).await.body["done"], json!(["p"]));
    }
    assert!(ids(&desk.get("/failed?route=parcels").await.body).is_empty());
    assert_eq!(desk.get("/tasks/p").await.body["status"], "failed");
}

#[tokio::test]
async fn what_is_asked_for_wrongly_is_named() {
    let desk = Desk::open().await;
    for (query, field) in [
        ("", "route"),
        ("route=Parcels", "route"),
        ("route=parcels&from=yesterday", "from"),
        ("route=parcels&after=x", "after"),
        ("route=parcels&limit=101", "limit"),
        ("route=parcels&color=red", "color"),
    ] {
        assert_eq!(desk.get(&format!("/failed?{query}")).await.problem(400), field, "{query}");
    }
    for (body, field) in [(r#"{"ids":[]}"#, "ids"), (r#"{"ids":["a",""]}"#, "ids[1]"), (r#"{"ids":"a"}"#, "ids")] {
        assert_eq!(desk.post("/failed/retries", body).await.problem(422), field, "{body}");
    }
}
