//! Whatever is wrong with a request is its sender's problem, named and without any effect.

use reqwest::Method;
use serde_json::json;

use crate::desk::{Desk, answer};

#[tokio::test]
async fn a_body_that_is_not_json_is_a_400() {
    let desk = Desk::open().await;
    for body in ["", "{", "{\"id\":", "\u{0}", "{} {}"] {
        desk.post("/trackers", body).await.problem(400);
    }
    let bytes = desk.request(Method::POST, "/trackers").header("Content-Type", "application/json");
    answer(bytes.body(vec![b'"', 0xff, b'"'])).await.problem(400);
}

#[tokio::test]
async fn a_body_must_be_declared_as_json() {
    let desk = Desk::open().await;
    answer(desk.request(Method::POST, "/trackers").body("{}")).await.problem(415);
    for (media_type, status) in
        [("text/plain", 415), ("application/jsonx", 415), ("application/json; charset=utf-8", 201)]
    {
        let request = desk.request(Method::POST, "/trackers").header("Content-Type", media_type).body("{}");
        assert_eq!(answer(request).await.status, status, "{media_type}");
    }
}

#[tokio::test]
async fn a_body_over_a_mebibyte_is_a_413() {
    let desk = Desk::open().await;
    let body = format!(r#"{{"id":"{}"}}"#, "x".repeat(1024 * 1024));
    desk.post("/trackers", body).await.problem(413);
}

#[tokio::test]
async fn fields_that_are_missing_unknown_or_of_the_wrong_type_are_named() {
    let desk = Desk::open().await;
    desk.tracker("t", 1).await;
    for (path, body, field) in [
        ("/trackers", "[]", ""),
        ("/trackers", r#"{"name":"t"}"#, "name"),
        ("/trackers", r#"{"id":7}"#, "id"),
        ("/trackers", r#"{"id":""}"#, "id"),
        ("/trackers", r#"{"id":"a:b"}"#, "id"),
        ("/trackers", r#"{"deadline":1}"#, "deadline"),
        ("/trackers", r#"{"deadline":"tomorrow"}"#, "deadline"),
        ("/trackers", r#"{"deadline":"1960-01-01T00:00:00Z"}"#, "deadline"),
        ("/trackers", r#"{"notify":{}}"#, "notify"),
        ("/tasks", "{}", "tasks"),
        ("/tasks", r#"{"tasks":{}}"#, "tasks"),
        ("/trackers/t/items", r#"{"count":1}"#, "key"),
        ("/trackers/t/items", r#"{"key":"k"}"#, "count"),
        ("/trackers/t/items", r#"{"key":null,"count":1}"#, "key"),
        ("/trackers/t/items", r#"{"key":"","count":1}"#, "key"),
        ("/trackers/t/items", r#"{"key":"a b","count":1}"#, "key"),
        ("/trackers/t/acks", r#"{"succeeded":"t:0:0"}"#, "succeeded"),
        ("/trackers/t/acks", r#"{"failed":[7]}"#, "failed"),
    ] {
        assert_eq!(desk.post(path, body).await.problem(422), field, "{path} {body}");
    }
}

#[tokio::test]
async fn a_count_is_a_whole_number_within_bounds() {
    let desk = Desk::open().await;
    desk.tracker("t", 0).await;
    for count in ["0", "-1", "1.5", "7168001", "9007199254740992", "1e99", "\"1\"", "true", "null"] {
        let answer = desk.post("/trackers/t/items", format!(r#"{{"key":"k","count":{count}}}"#)).await;
        assert_eq!(answer.problem(422), "count", "{count}");
    }
    assert_eq!(desk.shown("t").await["items"], 0);
    let whole = desk.post("/trackers/t/items", r#"{"key":"k","count":5.0}"#).await;
    assert_eq!(whole.body["count"], 5, "to JSON Schema 5.0 is a whole number");
}

#[tokio::test]
async fn an_item_that_is_not_the_trackers_acks_nothing() {
    let desk = Desk::open().await;
    desk.tracker("t", 10).await;
    desk.tracker("other", 10).await;
    for item in
        ["t:0:10", "t:0:0-10", "t:1:0", "t:0:7168", "t:0:-1", "t:0:3-1", "other:0:0", "t:0", "t:4294967296:0", ""]
    {
        let body = json!({ "succeeded": ["t:0:0", "t:0:1"], "failed": ["t:0:2", item] });
        assert_eq!(desk.post("/trackers/t/acks", body.to_string()).await.problem(422), "failed[1]", "{item}");
    }
    let both = r#"{"succeeded":["t:0:0-5"],"failed":["t:0:5"]}"#;
    assert_eq!(desk.post("/trackers/t/acks", both).await.problem(422), "failed[0]");
    let shown = desk.shown("t").await;
    assert_eq!((&shown["missing"], &shown["failed"]), (&json!(10), &json!(0)), "no bit changed");
}

#[tokio::test]
async fn one_call_acks_so_many_ranges_and_items() {
    let desk = Desk::open().await;
    desk.tracker("t", 200_000).await;
    let ranges = vec!["t:0:0"; 501];
    let body = json!({ "succeeded": ranges, "failed": ranges }).to_string();
    assert_eq!(desk.post("/trackers/t/acks", body).await.problem(422), "failed");
    let groups: Vec<String> = (0..14).map(|group| format!("t:{group}:0-7167")).collect();
    let body = json!({ "succeeded": groups }).to_string();
    assert_eq!(desk.post("/trackers/t/acks", body).await.problem(422), "succeeded");
    let body = json!({ "succeeded": groups[..13] }).to_string();
    assert_eq!(desk.post("/trackers/t/acks", body).await.body["acked"], 13 * 7_168);
}

#[tokio::test]
async fn a_tracker_that_is_not_known_is_a_404_whatever_is_asked_of_it() {
    let desk = Desk::open().await;
    for (path, body) in [
        ("items", r#"{"key":"k","count":1}"#),
        ("acks", r#"{"succeeded":["nobody:0:0"]}"#),
        ("seal", ""),
        ("abandon", ""),
        ("cancellations", "{}"),
    ] {
        desk.post(&format!("/trackers/nobody/{path}"), body).await.problem(404);
    }
    desk.get("/trackers/nobody/items?outcome=failed").await.problem(404);
}

#[tokio::test]
async fn a_malformed_id_in_the_path_is_a_400() {
    let desk = Desk::open().await;
    for path in ["/trackers/a:b", "/trackers/a%20b/items?outcome=failed", "/tasks/%ff", "/batches/B1", "/tasks/a%00"] {
        assert_eq!(desk.get(path).await.problem(400), "id", "{path}");
    }
    assert_eq!(desk.post(&format!("/trackers/{}/seal", "x".repeat(65)), "").await.problem(400), "id");
}

#[tokio::test]
async fn a_malformed_parameter_is_a_400_that_names_it() {
    let desk = Desk::open().await;
    desk.tracker("t", 1).await;
    for (query, field) in [
        ("", "outcome"),
        ("outcome=lost", "outcome"),
        ("outcome=failed&outcome=failed", "outcome"),
        ("outcome=failed&limit=0", "limit"),
        ("outcome=failed&limit=1001", "limit"),
        ("outcome=failed&limit=-1", "limit"),
        ("outcome=failed&from=1", "from"),
        ("outcome=failed&from=0:7168", "from"),
        ("outcome=failed&from=0:0-1", "from"),
        ("outcome=failed&colour=red", "colour"),
    ] {
        assert_eq!(desk.get(&format!("/trackers/t/items?{query}")).await.problem(400), field, "{query}");
    }
}

#[tokio::test]
async fn an_unknown_path_is_a_404_and_an_unknown_method_a_405_that_says_which_are_allowed() {
    let desk = Desk::open().await;
    for path in ["/", "/trackers/", "/trackers/t/", "/tasks/a/b", "/openapi"] {
        desk.get(path).await.problem(404);
    }
    for (method, path, allow) in [
        (Method::GET, "/tasks", "POST"),
        (Method::DELETE, "/trackers/t", "GET,HEAD"),
        (Method::PUT, "/trackers/t/items", "POST,GET,HEAD"),
    ] {
        let answer = answer(desk.request(method, path)).await;
        answer.problem(405);
        let sorted = |text: &str| {
            let mut methods: Vec<String> = text.split(',').map(str::to_owned).collect();
            methods.sort();
            methods
        };
        assert_eq!(sorted(&answer.allow), sorted(allow), "{path}");
    }
}
