//! Calls are held back by hand and let go on.

use reqwest::Method;
use serde_json::json;

use crate::desk::{Desk, answer};

async fn resume(desk: &Desk, path: &str) -> serde_json::Value {
    let answer = answer(desk.request(Method::POST, path)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[tokio::test]
async fn a_route_and_a_target_are_held_and_let_go_on() {
    let desk = Desk::open().await;
    for (path, state, afterwards) in [
        ("/routes/parcels", "/routes/parcels/calls", "draining"),
        ("/targets/parcels:t%207", "/targets/parcels:t%207/calls", "well"),
    ] {
        assert_eq!(desk.get(state).await.body, json!({ "state": "well" }));
        let held = desk.post(&format!("{path}/pause"), r#"{"reason":"deployment 42"}"#).await;
        assert_eq!(
            (held.status, &held.body["state"], &held.body["reason"]),
            (200, &json!("held"), &json!("deployment 42"))
        );
        assert_eq!(desk.get(state).await.body, held.body);
        assert_eq!(
            desk.post(&format!("{path}/pause"), "{}").await.body["reason"],
            json!(null),
            "it has another reason"
        );
        assert_eq!(resume(&desk, &format!("{path}/resume")).await["state"], afterwards);
        assert_eq!(resume(&desk, &format!("{path}/resume")).await["state"], afterwards, "a repeat finds it so");
    }
}

#[tokio::test]
async fn only_calls_of_routes_in_force_are_held_and_for_a_reason_of_one_line() {
    let desk = Desk::open().await;
    assert_eq!(desk.post("/routes/nosuch/pause", "{}").await.problem(404), "");
    assert_eq!(desk.post("/targets/nosuch:t/pause", "{}").await.problem(404), "");
    assert_eq!(desk.post("/targets/parcels/pause", "{}").await.problem(400), "id");
    assert_eq!(desk.post("/routes/Parcels!/pause", "{}").await.problem(400), "id");
    assert_eq!(desk.post("/routes/parcels/pause", r#"{"reason":"two\nlines"}"#).await.problem(422), "reason");
    assert_eq!(desk.post("/routes/parcels/pause", r#"{"why":"x"}"#).await.problem(422), "why");
    assert_eq!(desk.get("/routes/parcels/calls").await.body, json!({ "state": "well" }), "nothing was changed");
}
