//! Lists, from the first task to the last.

use serde_json::{Value, json};

use crate::desk::Desk;

fn tasks(key: &str, ids: std::ops::Range<u32>) -> String {
    let tasks: Vec<Value> = ids.map(|n| json!({ "id": format!("t-{n}"), "payload": { "n": n } })).collect();
    json!({ "key": key, "tasks": tasks }).to_string()
}

async fn shown(desk: &Desk, id: &str) -> Value {
    desk.get(&format!("/lists/{id}")).await.body
}

#[tokio::test]
async fn tasks_wait_until_they_are_released_and_go_on_in_their_order() {
    let desk = Desk::open().await;
    let put = desk.post("/lists/l/tasks", tasks("a", 0..7)).await;
    assert_eq!((put.status, put.body), (200, json!({ "start": 0, "count": 7, "repeated": false })));
    let again = desk.post("/lists/l/tasks", tasks("a", 0..7)).await;
    assert_eq!(again.body, json!({ "start": 0, "count": 7, "repeated": true }));
    assert_eq!(desk.intake().len(), 0);
    let peeked = desk.get("/lists/l/tasks?limit=2").await.body;
    assert_eq!((&peeked["tasks"][1]["token"], &peeked["tasks"][1]["task"]["id"]), (&json!(1), &json!("t-1")));
    assert_eq!(desk.get("/lists/l/tasks?from=6").await.body["tasks"][0]["task"]["id"], "t-6");
    for repeated in [false, true] {
        let released = desk.post("/lists/l/releases", r#"{"key":"r","count":3}"#).await.body;
        assert_eq!(released, json!({ "start": 0, "count": 3, "left": 0, "repeated": repeated }));
    }
    let sent: Vec<String> = desk.intake().into_iter().map(|message| message.body).collect();
    let message = |n| format!(r#"{{"id":"t-{n}","payload":{{"n":{n}}}}}"#);
    assert_eq!(sent, [message(0), message(1), message(2)]);
    let list = shown(&desk, "l").await;
    let counts = ["put", "waiting", "released", "releasing", "discarded"].map(|name| list[name].as_u64().unwrap());
    assert_eq!(counts, [7, 4, 3, 0, 0]);
}

#[tokio::test]
async fn a_closed_list_is_left_alone_discarded_or_opened_again() {
    let desk = Desk::open().await;
    let opened = desk.post("/lists", r#"{"id":"l","ttl_s":3600}"#).await;
    assert_eq!((opened.status, &opened.body["state"], &opened.body["ttl_s"]), (201, &json!("open"), &json!(3600)));
    assert_eq!(desk.post("/lists", r#"{"id":"l","ttl_s":3600}"#).await.status, 200);
    desk.post("/lists", r#"{"id":"l"}"#).await.problem(409);
    desk.post("/lists/l/tasks", tasks("a", 0..5)).await;
    for _ in 0..2 {
        assert_eq!(desk.post("/lists/l/close", "").await.body["state"], "closed");
    }
    desk.post("/lists/l/releases", r#"{"key":"r","count":3}"#).await.problem(409);
    desk.post("/lists/l/tasks", tasks("b", 5..6)).await.problem(409);
    assert_eq!(desk.post("/lists/l/discards", r#"{"key":"d"}"#).await.body["count"], 5);
    desk.post("/lists/l/releases", r#"{"key":"d","count":3}"#).await.problem(409);
    assert_eq!(desk.post("/lists", r#"{"id":"l","ttl_s":3600}"#).await.body["state"], "open");
    let list = shown(&desk, "l").await;
    assert_eq!((&list["waiting"], &list["discarded"]), (&json!(0), &json!(5)));
    assert_eq!(desk.intake().len(), 0);
}

#[tokio::test]
async fn what_is_wrong_names_its_field_and_changes_nothing() {
    let desk = Desk::open().await;
    desk.post("/lists/l/releases", r#"{"key":"r","count":3}"#).await.problem(404);
    desk.post("/lists/l/discards", r#"{"key":"r"}"#).await.problem(404);
    desk.get("/lists/l").await.problem(404);
    desk.post("/lists/l/tasks", tasks("a", 0..5)).await;
    let before = shown(&desk, "l").await;
    for (path, body, field) in [
        ("/lists/l/releases", r#"{"key":"r","count":0}"#, "count"),
        ("/lists/l/releases", r#"{"key":"r","count":1000000}"#, "count"),
        ("/lists/l/releases", r#"{"key":"r","count":-1}"#, "count"),
        ("/lists/l/releases", r#"{"key":"","count":1}"#, "key"),
        ("/lists/l/releases", r#"{"count":1}"#, "key"),
        ("/lists/l/discards", r#"{"key":"a b"}"#, "key"),
        ("/lists/l/tasks", r#"{"key":"b","tasks":[]}"#, "tasks"),
        ("/lists/l/tasks", r#"{"key":"b","tasks":[{"payload":{}},{"payload":7}]}"#, "tasks[1]"),
        ("/lists/l/tasks", r#"{"key":"b","tasks":[{"payload":{},"list":"m"}]}"#, "tasks[0]"),
        ("/lists", r#"{"id":"a b"}"#, "id"),
        ("/lists", r#"{"id":"m","ttl_s":5}"#, "ttl_s"),
    ] {
        assert_eq!(desk.post(path, body).await.problem(422), field, "{body}");
    }
    assert_eq!(desk.get("/lists/l/tasks?limit=0").await.problem(400), "limit");
    assert_eq!(desk.get("/lists/l/tasks?from=x").await.problem(400), "from");
    assert_eq!(desk.get("/lists/a%20b").await.problem(400), "id");
    assert_eq!(shown(&desk, "l").await, before);
    assert_eq!(desk.intake().len(), 0);
}
