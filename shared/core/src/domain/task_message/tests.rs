//! What a task message may be, and how it is refused.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn code(body: &str) -> Code {
    parse(body, "m1").expect_err("must be refused").code
}

#[test]
fn a_message_without_an_id_takes_the_message_id() {
    let message = parse(r#"{"payload": {"a": 1.0}}"#, "m1").unwrap();
    assert_eq!(message.id.as_str(), "m1");
    assert_eq!(message.payload, r#"{"a":1.0}"#);
}

#[test]
fn a_message_is_sent_as_it_was_understood() {
    for body in [
        r#"{"payload":{"a":1.0}}"#,
        r#"{"id":"a\"\\","payload":{"a":"\u00e9"},"item":"t:1:2","list":"l-1"}"#,
        r#"{"payload":{},"event":"s:1700000000123:4711"}"#,
    ] {
        let message = parse(body, "m1").unwrap();
        assert_eq!(parse(&message.body(), "other"), Ok(message));
    }
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_trace_is_carried_and_makes_no_other_task() {
    let plain = parse(r#"{"payload":{}}"#, "m1").unwrap();
    let traced = parse(&format!(r#"{{"payload":{{}},"traceparent":"{TRACE}"}}"#), "m1").unwrap();
    assert_eq!(traced.trace.map(|trace| trace.to_string()).as_deref(), Some(TRACE));
    assert_eq!(parse(&traced.body(), "other"), Ok(traced.clone()));
    assert_eq!(traced.digest(), plain.digest());
}

#[test]
fn a_trace_that_is_none_is_ignored() {
    for wrong in ["7", "null", "{}", r#""""#, r#""00-1""#, r#"["00"]"#] {
        let body = format!(r#"{{"payload":{{}},"traceparent":{wrong}}}"#);
        assert_eq!(parse(&body, "m1"), parse(r#"{"payload":{}}"#, "m1"), "{wrong}");
    }
}

#[test]
fn a_message_that_is_too_large_with_its_trace_goes_without() {
    let of = |bytes: usize| {
        let message = parse(r#"{"id":"a","payload":{}}"#, "m1").unwrap();
        let payload = format!(r#"{{"x":"{}"}}"#, "x".repeat(bytes));
        TaskMessage { payload, trace: TraceParent::parse(TRACE).ok(), ..message }
    };
    let around = of(0).body().len();
    let fits = of(MAX_MESSAGE_BYTES - around);
    assert_eq!(fits.fitting_body(), Some(fits.body()));
    let tight = of(MAX_MESSAGE_BYTES - around + 1);
    assert_eq!(tight.fitting_body(), Some(TaskMessage { trace: None, ..tight }.body()));
    assert_eq!(of(MAX_MESSAGE_BYTES).fitting_body(), None);
}

#[test]
fn each_kind_of_bad_message_has_one_clear_answer() {
    assert_eq!(code("{"), Code::NotJson);
    assert_eq!(code(""), Code::NotJson);
    assert_eq!(code("[1]"), Code::NotAnObject);
    assert_eq!(code(r#"{"payload":[]}"#), Code::NotAnObject);
    assert_eq!(code("{}"), Code::MissingField);
    assert_eq!(code(r#"{"payload":{},"color":1}"#), Code::UnknownField);
    assert_eq!(code(r#"{"payload":{},"version":2}"#), Code::BadField);
    assert_eq!(code(r#"{"payload":{},"id":7}"#), Code::BadId);
    assert_eq!(code(r#"{"payload":{},"payload":{}}"#), Code::DuplicateField);
    assert_eq!(code(r#"{"payload":{"truck":"a\u0000"}}"#), Code::BadText);
    assert_eq!(code(r#"{"payload":{"truck":"\ud800"}}"#), Code::BadText);
    assert_eq!(code(r#"{"payload":{"kg":1e400}}"#), Code::BadNumber);
    assert_eq!(code(&format!(r#"{{"payload":{{"a":{}{}}}}}"#, "[".repeat(200), "]".repeat(200))), Code::TooDeep);
    assert_eq!(code(r#"{"payload":{},"list":7}"#), Code::BadList);
    assert_eq!(code(r#"{"payload":{},"list":"a b"}"#), Code::BadList);
    assert_eq!(code(r#"{"payload":{},"event":7}"#), Code::BadEvent);
    assert_eq!(code(r#"{"payload":{},"event":"s:1"}"#), Code::BadEvent);
    assert_eq!(code(r#"{"payload":{},"event":"s:1:2","list":"l"}"#), Code::BadEvent);
    assert_eq!(code(&format!(r#"{{"payload":{{}},"id":"{}"}}"#, "x".repeat(200))), Code::BadId);
    assert_eq!(code(&format!(r#"{{"payload":{{"a":"{}"}}}}"#, "x".repeat(256_000))), Code::TooLarge);
}

#[test]
fn a_field_that_is_null_counts_as_absent_and_version_one_as_known() {
    let body = r#"{"version":1,"id":null,"payload":{},"item":null,"list":null,"event":null,"not_before":null,"expires_at":null}"#;
    assert_eq!(parse(body, "m1"), parse(r#"{"payload":{}}"#, "m1"));
}

#[test]
fn the_published_contract_names_the_fields_that_are_understood() {
    let schema = serde_json::to_value(schema()).unwrap();
    let fields: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let all: Vec<String> = fields.iter().map(|field| format!("\"{field}\":null")).collect();
    assert_eq!(code(&format!("{{{}}}", all.join(","))), Code::NotAnObject, "the payload is none, the rest is known");
    assert_eq!((fields.len(), &schema["additionalProperties"]), (9, &false.into()));
}

#[test]
fn a_message_may_be_as_large_as_allowed() {
    let body = |bytes: usize| format!(r#"{{"payload":{{"a":"{}"}}}}"#, "x".repeat(bytes - 20));
    assert_eq!(body(100).len(), 100);
    assert!(parse(&body(MAX_MESSAGE_BYTES), "m1").is_ok());
    assert_eq!(code(&body(MAX_MESSAGE_BYTES + 1)), Code::TooLarge);
}

#[test]
fn a_repeat_has_the_digest_of_its_original_and_another_task_has_not() {
    let digest = |fields: &str| parse(&format!(r#"{{"id":"a","payload":{{}}{fields}}}"#), "m").unwrap().digest();
    assert_eq!(digest(""), digest(r#","list":"l""#), "it is the same task before and after its release");
    let other_payload = parse(r#"{"id":"a","payload":{"b":1}}"#, "m").unwrap().digest();
    let (item, event) = (r#","item":"t:0:1""#, r#","event":"s:1:2""#);
    let digests = [digest(""), other_payload, digest(item), digest(event), digest(&format!("{item}{event}"))];
    assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), 5);
}

#[test]
fn a_refused_message_fails_the_item_and_the_event_that_it_names() {
    let refused = parse(r#"{"payload":7,"item":"t:0:1","event":"s:1:2"}"#, "m").unwrap_err();
    assert_eq!(refused.item, ItemId::parse("t:0:1").ok());
    assert_eq!(refused.event.map(|event| *event), EventId::parse("s:1:2").ok());
}

#[test]
fn a_code_is_shown_as_the_word_that_programs_get() {
    use Code::*;
    let of_the_body = [NotJson, NotAnObject, UnknownField, MissingField, BadField, TooLarge, Panicked];
    let of_fields = [BadId, BadItem, BadList, BadEvent, IdConflict, ListClosed];
    for code in of_the_body.into_iter().chain(of_fields).chain([NoRoute, BadTarget, BadOrder, BadSequence]) {
        assert_eq!(serde_json::to_value(code).unwrap(), code.to_string());
    }
}

#[test]
fn a_refusal_names_the_field_and_never_a_value() {
    let rejection = parse(r#"{"payload":"4111111111111111"}"#, "m").unwrap_err();
    assert!(!rejection.to_string().contains("4111"));
    let rejection = parse(r#"{"payload":{},"id":{"card":"4111"}}"#, "m").unwrap_err();
    assert!(!rejection.to_string().contains("4111"));
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert_eq!(parse("\u{feff}{\"payload\":{}}", "m"), parse("{\"payload\":{}}", "m"));
}

#[test]
fn a_refusal_stays_short_whatever_the_field_is_called() {
    let body = format!(r#"{{"payload":{{}},"{}":1}}"#, "x".repeat(200_000));
    assert!(parse(&body, "m").unwrap_err().detail.len() < 1_000);
}

#[test]
fn what_json_takes_and_a_queue_does_not_is_escaped() {
    let body = "{\"id\":\"a\",\"payload\":{\"a\u{ffff}\":\"\u{fffe}\u{fffd}\"}}";
    let message = parse(body, "m").unwrap();
    assert_eq!(message.payload, "{\"a\\uffff\":\"\\ufffe\u{fffd}\"}");
    let sent = parse(&message.body(), "m").unwrap();
    assert_eq!((sent.digest(), &sent), (message.digest(), &message));
}

proptest! {
    #[test]
    fn no_body_makes_the_parser_panic(body in ".*") {
        let _ = parse(&body, "m");
    }
}
