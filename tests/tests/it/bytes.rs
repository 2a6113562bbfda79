//! Every parser of bytes from outside, on bytes that mean no good: none panics, and none says more than it may.
//!
//! `GROUPAGE_FUZZ=60 cargo test -p groupage-tests --test it bytes -- --nocapture --test-threads 2` gives each an hour.

use aws_lambda_events::event::sqs::SqsEvent;
use groupage_aws::entry::{self, RouteSource};
use groupage_core::domain::failed::Filed;
use groupage_core::domain::message::{Group, Handle};
use groupage_core::domain::outcome::Reply;
use groupage_core::routes::{Earlier, Item};
use groupage_lab::fuzz::fuzz;
use groupage_lab::prelude::*;
use serde_json::Value;

/// The texts of a file of the corpus, as `tests/e2e/hostile.py` reads them.
fn corpus(file: &str, field: &str) -> Vec<String> {
    let text = |parts: &Value| match parts {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => String::new(),
    };
    file.lines().map(|line| text(&serde_json::from_str::<Value>(line).unwrap()[field])).collect()
}

fn part(part: &Value) -> String {
    match (part.as_str(), part["repeat"].as_str(), part["times"].as_u64()) {
        (Some(text), _, _) => text.to_owned(),
        (None, Some(unit), Some(times)) => unit.repeat(usize::try_from(times.min(500)).unwrap()),
        _ => String::new(),
    }
}

fn messages() -> Vec<String> {
    corpus(include_str!("../../corpus/messages.jsonl"), "body")
}

fn bytes_of(texts: &[String]) -> Vec<&[u8]> {
    texts.iter().map(String::as_bytes).collect()
}

#[test]
fn a_task_message_is_understood_as_it_is_sent_on_or_refused_in_few_words() {
    fuzz("task message", &bytes_of(&messages()), |bytes| {
        let body = String::from_utf8_lossy(bytes);
        match task_message::parse(&body, "m1") {
            Ok(message) => assert_eq!(task_message::parse(&message.body(), "m2").as_ref(), Ok(&message)),
            Err(refused) => assert!(!refused.detail.is_empty() && refused.detail.len() < 1_000, "{refused}"),
        }
        let _ = (Rest::parse(&body), json::check(&body));
    });
}

#[test]
fn a_routes_file_is_compiled_or_refused_with_a_reason() {
    let mut seeds = corpus(include_str!("../../corpus/routes.jsonl"), "yaml");
    seeds.extend(
        [include_str!("../../../infra/routes.yaml"), include_str!("../../../examples/guides/routes.yaml")]
            .map(str::to_owned),
    );
    fuzz("routes file", &bytes_of(&seeds), |bytes| match Routes::parse(&String::from_utf8_lossy(bytes)) {
        Ok(routes) => {
            let _ = routes.assign(r#"{"type":"parcel","truck":"7","n":[1,{"a":null}]}"#);
        }
        Err(refused) => assert!(!refused.what.is_empty()),
    });
}

/// A route with this block under `http`.
fn with(block: &Value) -> Option<Routes> {
    let http = serde_json::json!({ "url": "https://a.example/" });
    let mut route = serde_json::json!({ "name": "r", "target": "to", "downstream": { "http": http } });
    for (name, value) in block.as_object()? {
        route["downstream"]["http"][name] = value.clone();
    }
    Routes::parse(&serde_json::json!({ "version": 1, "routes": [route] }).to_string()).ok()
}

#[test]
fn a_template_makes_a_body_of_any_payload_or_says_why_not() {
    let seeds: [&[u8]; 5] = [
        b"{% for i in items %}{\"index\":{\"_id\":{{ i.id | tojson }}}}\n{{ i.payload | tojson }}\n{% endfor %}",
        b"{{ items[0].payload.a.b.c | default('x') | upper }}{% if batch %}{{ target }}{% else %}{{ items | length }}{% endif %}",
        b"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(items | map(attribute='id') | join(',')) }}",
        b"{% set ns = namespace(n=0) %}{% for k, v in items[0].payload | items %}{{ k ~ v }}{% endfor %}{{ 1 // 0 }}{{ 9 ** 9 }}",
        b"{{ items | sort(attribute='payload.n') | first | tojson(indent=2) }}{{ range(3) | list }}{{ 'a' * 3 }}",
    ];
    let payload = r#"{"a":{"b":[1,2.5,"x",null]},"n":12345678901234567890}"#;
    fuzz("template", &seeds, |bytes| {
        let template = String::from_utf8_lossy(bytes);
        let Some(routes) = with(&serde_json::json!({ "body": template })) else { return };
        let items = ["a", "b"].map(|id| Item { id, payload: serde_json::from_str(payload).unwrap() });
        let target = Target::of(&RouteName::new("r"), "t");
        let _ = routes.get(&RouteName::new("r")).unwrap().body(&BatchId::new("b"), &target, &items);
    });
}

#[test]
fn an_answer_settles_nobody_but_the_members_of_its_call() {
    let seeds: Vec<String> = corpus(include_str!("../../corpus/answers.jsonl"), "body")
        .into_iter()
        .map(|body| body.replace("$ID", "a"))
        .collect();
    let mappings = [
        serde_json::json!({}),
        serde_json::json!({ "results": "body.rows", "id": "key", "succeeded": "ok", "retryable": "busy", "reason": "why" }),
        serde_json::json!({ "results": "body.items", "succeeded": "status == 'ok'", "reason": "why" }),
        serde_json::json!({ "accept": "status", "failures": "body.errors", "index": "at", "reason": "code" }),
        serde_json::json!({ "format": "xml", "results": "body.r.item[]", "id": "\"@id\"", "succeeded": "ok" }),
        serde_json::json!({ "format": "ndjson", "results": "body", "succeeded": "ok", "unmentioned": "failed" }),
        serde_json::json!({ "format": "text", "all_succeeded": "body == 'done'", "pause": "body", "error": "body" }),
    ];
    let routes: Vec<Routes> =
        mappings.iter().map(|mapping| with(&serde_json::json!({ "response": mapping })).unwrap()).collect();
    let members = ["a", "b"].map(TaskId::new);
    fuzz("answer", &bytes_of(&seeds), |bytes| {
        for (routes, status) in routes.iter().flat_map(|routes| [(routes, 200), (routes, 422)]) {
            let route = routes.get(&RouteName::new("r")).unwrap();
            let answer = Answer { status, body: bytes.to_vec(), ..Answer::default() };
            let excerpt = answer.excerpt();
            assert!(excerpt.text.len() <= 200 && !excerpt.text.chars().any(char::is_control));
            if let Reply::PerMember(said) = route.read(Ok(answer), &members, Earlier::OfNone).reply {
                assert!(said.keys().all(|id| members.contains(id)), "{said:?}");
            }
        }
    });
}

fn stack() -> entry::Stack<MemoryStore, MemoryQueues, TestEnv> {
    // Without the express path a task is registered at once, and no rest of it is sent on.
    let routes = "version: 1\nroutes: [{ name: r, target: to, batch: { express: false }, downstream: pull }]\n";
    let routes = RouteSource::Fixed(Routes::parse(routes).unwrap().into());
    entry::Stack::new(MemoryStore::new(), MemoryQueues::new(), TestEnv::new(1), routes)
}

#[test]
fn an_event_is_handled_record_by_record_whatever_is_in_it() {
    let mut seeds = messages();
    seeds.extend(
        [
            include_str!("../../../infra/events/register-task.json"),
            include_str!("../../../infra/events/elect-leader.json"),
            include_str!("../../../infra/events/group-batch.json"),
            include_str!("../../../infra/events/batch-handler.json"),
        ]
        .map(str::to_owned),
    );
    fuzz("SQS event", &bytes_of(&seeds), |bytes| {
        // The whole event, as the runtime reads it.
        let _ = serde_json::from_slice::<SqsEvent>(bytes);
        // One record's body, beside a neighbour, at each of the four steps.
        let body = String::from_utf8_lossy(bytes).into_owned();
        let event =
            |good: &str| entry::event([("bad".to_owned(), body.clone(), 1), ("good".to_owned(), good.to_owned(), 1)]);
        in_virtual_time(async {
            let stack = stack();
            let handled = entry::register_task(&stack, event(r#"{"id":"neighbour","payload":{"to":"t"}}"#)).await;
            assert!(handled.response.batch_item_failures.is_empty(), "a message is taken or rejected");
            assert!(stack.store.tasks().iter().any(|task| task.id.as_str() == "neighbour"));
            let understood = (
                serde_json::from_str::<Elect>(&body).is_ok(),
                serde_json::from_str::<Group>(&body).is_ok(),
                serde_json::from_str::<Handle>(&body).is_ok(),
            );
            for (understood, kept) in [
                (understood.0, entry::elect_leader(&stack, event("{}")).await.response),
                (understood.1, entry::group_batch(&stack, event("{}")).await.response),
                (understood.2, {
                    let downstream = Scripted::new(Box::new(|_, _| Ok(ok(""))));
                    entry::batch_handler(&stack, &Destination::Handle, &downstream, event("{}")).await.response
                }),
            ] {
                let kept: Vec<&str> = kept.batch_item_failures.iter().map(|of| of.item_identifier.as_str()).collect();
                assert!(kept.contains(&"good"), "no step understands `{{}}`");
                assert!(understood || kept.contains(&"bad"), "what is not understood comes again: {body}");
            }
        });
    });
}

#[test]
fn ids_offsets_and_cursors_are_read_as_they_are_written_or_refused() {
    let seeds: [&[u8]; 8] = [
        b"000000000000001#p1",
        b"t:0:1",
        b"s:1700000000123:4711",
        b"12/345",
        b"labels:printer",
        b"labels/5:printer",
        b"https://sqs.example/1/failures",
        b"999999999999999#!~",
    ];
    fuzz("cursor", &seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(filed) = text.parse::<Filed>() {
            assert_eq!(filed.to_string().parse(), Ok(filed));
        }
        if let Ok(item) = ItemId::parse(&text) {
            assert_eq!(ItemId::parse(&item.to_string()), Ok(item));
        }
        if let Ok(event) = EventId::parse(&text) {
            assert_eq!(EventId::parse(&event.to_string()), Ok(event));
        }
        if let Ok(offset) = Offset::parse(&text) {
            assert_eq!(offset.as_str(), text);
        }
        if let Ok(queue) = NotificationQueue::parse(&text) {
            assert_eq!(NotificationQueue::parse(&queue.to_string()), Ok(queue));
        }
        let target = Target::new(text.clone());
        let _ = (target.route(), target.shard(), target.value().len(), TaskId::parse(&text), ListId::parse(&text));
    });
}
