//! The OpenAPI document against what is served.

use reqwest::Method;
use serde_json::{Map, Value};

use crate::desk::{Desk, answer};

#[tokio::test]
async fn the_document_has_every_path_that_is_served_and_no_other() {
    let desk = Desk::open().await;
    let document = desk.get("/openapi.json").await.body;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 37, "{:?}", paths.keys());
    for (path, operations) in paths {
        let mut documented: Vec<String> = operations.as_object().unwrap().keys().map(|m| m.to_uppercase()).collect();
        if documented.iter().any(|method| method == "GET") {
            documented.push("HEAD".to_owned());
        }
        documented.sort();
        let answer = answer(desk.request(Method::DELETE, &path.replace("{id}", "x"))).await;
        answer.problem(405);
        let mut served: Vec<&str> = answer.allow.split(',').collect();
        served.sort_unstable();
        assert_eq!(served, documented, "{path}");
    }
}

#[tokio::test]
async fn the_documents_examples_are_calls_that_succeed_and_their_answers() {
    let desk = Desk::open().await;
    let document = desk.get("/openapi.json").await.body;
    for (method, path, status) in [
        ("post", "/tasks", 202),
        ("post", "/trackers", 201),
        ("post", "/trackers/{id}/items", 200),
        ("post", "/trackers/{id}/acks", 200),
        ("get", "/trackers/{id}/items", 200),
        ("get", "/trackers/{id}", 200),
        ("post", "/trackers/{id}/seal", 200),
        ("post", "/trackers/{id}/abandon", 200),
        ("post", "/trackers/{id}/cancellations", 200),
        ("get", "/failed", 200),
        ("post", "/tasks/cancellations", 200),
        ("post", "/tasks/erasures", 200),
        ("get", "/routes", 200),
        ("post", "/failed/retries", 200),
        ("post", "/failed/drops", 200),
        ("post", "/routes/{id}/pause", 200),
        ("get", "/routes/{id}/calls", 200),
        ("post", "/targets/{id}/pause", 200),
        ("get", "/targets/{id}/calls", 200),
        ("post", "/streams", 201),
        ("post", "/streams/{id}/events", 200),
        ("get", "/streams/{id}", 200),
    ] {
        let operation = &document["paths"][path][method];
        let body = operation["requestBody"]["content"]["application/json"]["example"].to_string();
        let (mut filled, mut query) = (path.to_owned(), String::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let Some(example) = parameter["example"].as_str() else {
                assert_eq!(parameter["required"], false, "{method} {path}: {name} has no example");
                continue;
            };
            match parameter["in"].as_str().unwrap() {
                "path" => filled = filled.replace(&format!("{{{name}}}"), example),
                _ => query += &format!("{name}={example}"),
            }
        }
        let request = desk.request(method.to_uppercase().parse().unwrap(), &format!("{filled}?{query}"));
        let answer = answer(request.header("Content-Type", "application/json").body(body)).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        let example = &operation["responses"][status.to_string()]["content"]["application/json"]["example"];
        if !example.is_null() {
            assert_eq!(&answer.body, example, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_problem_is_documented_with_its_media_type_and_every_link_leads_somewhere() {
    let document = Desk::open().await.get("/openapi.json").await.body;
    let operations: Vec<&Value> = objects(&document["paths"]).flat_map(Map::values).collect();
    let ids: Vec<&Value> = operations.iter().map(|operation| &operation["operationId"]).collect();
    for operation in &operations {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let name = format!("{} {status}", operation["operationId"]);
            let content = response["content"].as_object().unwrap();
            let media_type = if status.starts_with('2') { "application/json" } else { "application/problem+json" };
            assert_eq!(content.keys().collect::<Vec<_>>(), [media_type], "{name}");
            assert_eq!(response["headers"].get("Retry-After").is_some(), status == "503", "{name}");
            for link in objects(&response["links"]) {
                assert!(ids.contains(&&link["operationId"]), "{name}: {link:?}");
            }
        }
    }
}

fn objects(parent: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    parent.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_object)
}
