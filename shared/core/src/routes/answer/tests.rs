//! Answers are read as they are meant.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::domain::RouteName;
use crate::domain::outcome::Said;
use crate::domain::output::Output;
use crate::routes::Routes;
use crate::routes::tests::GOOD;

fn read(mapping: &str, answer: Result<Answer, NoAnswer>) -> Reply {
    let mapping: ResponseMapping = serde_saphyr::from_str(mapping).unwrap();
    mapping.read(answer, &[TaskId::new("a"), TaskId::new("b")], &Otherwise::default(), Earlier::OfNone).reply
}

fn repeated(is_repeated: bool) -> Earlier<'static> {
    if is_repeated { Earlier::OfAll } else { Earlier::OfNone }
}

fn ok(body: &str) -> Result<Answer, NoAnswer> {
    Ok(Answer { status: 200, body: body.as_bytes().to_vec(), ..Answer::default() })
}

/// What the best-known batch APIs answer, as their documentation has it.
#[test]
fn answers_of_the_worlds_batch_apis_are_read_as_they_are_meant() {
    const CORPUS: &str = include_str!("../../../../../tests/corpus/apis.jsonl");
    let cases: Vec<Value> = CORPUS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 30);
    for case in &cases {
        let http = json!({ "url": "https://a.example/", "response": case["response"] });
        let route = json!({ "name": "r", "target": "t", "downstream": { "http": http } });
        let routes = Routes::parse(&json!({ "version": 1, "routes": [route] }).to_string());
        let routes = routes.unwrap_or_else(|error| panic!("{}: {error}", case["api"]));
        let answer = Answer {
            status: serde_json::from_value(case["status"].clone()).unwrap(),
            retry_after_ms: None,
            headers: serde_json::from_value(case["headers"].clone()).unwrap(),
            body: case["body"].as_str().unwrap().into(),
            is_cut: false,
        };
        let members = ["a", "b"].map(TaskId::new);
        let reply = routes.iter().next().unwrap().read(Ok(answer), &members, repeated(case["repeated"] == true)).reply;
        assert_eq!(in_words(reply), case["says"], "{}", case["api"]);
    }
}

fn in_words(reply: Reply) -> Value {
    let member = |said: Said| match said {
        Said::Succeeded => "succeeded".to_owned(),
        Said::Failed(reason) => format!("failed {reason}"),
        Said::Retry { reason, .. } => format!("retry {reason}"),
    };
    match reply {
        Reply::PerMember(said) => said.into_iter().map(|(id, said)| (id.to_string(), member(said))).collect(),
        Reply::Refused(reason) => format!("refused {reason}").into(),
        Reply::Unavailable(Failure { reason, retry_after_ms: Some(ms), .. }) => {
            format!("unavailable {reason} {ms}").into()
        }
        Reply::Unavailable(Failure { reason, .. }) => format!("unavailable {reason}").into(),
        Reply::Begun(_) => "a job has begun".into(),
    }
}

#[test]
fn a_mapping_that_contradicts_itself_is_refused() {
    for (response, says) in [
        ("{ results: body.r, failures: body.f, succeeded: ok }", "both `results` and `failures`"),
        ("{ results: body.r }", "without `succeeded`"),
        ("{ id: id }", "neither `results` nor `failures`"),
        ("{ unmentioned: failed }", "neither `results` nor `failures`"),
        ("{ failures: body.f, id: id, index: n }", "both `id` and `index`"),
        ("{ ignore_body: true, format: text, all_succeeded: body }", "`ignore_body`"),
        ("{ ignore_body: true, failures: body.f }", "`ignore_body`"),
        ("{ format: xml }", "what became of the members?"),
    ] {
        let http = format!("{{ http: {{ url: 'https://a.example/', response: {response} }} }}");
        let yaml = format!("version: 1\nroutes: [{{ name: r, target: t, downstream: {http} }}]");
        let told = Routes::parse(&yaml).unwrap_err().to_string();
        assert!(told.contains(says), "{response}: {told}");
    }
}

#[test]
fn xml_is_read_within_bounds() {
    let read = |body: &str| {
        Format::Xml.parse(body.as_bytes()).map(|data| -> Value { serde_json::from_str(&data.to_json()).unwrap() })
    };
    assert_eq!(
        read("<s:a xmlns:s='urn:s' n='1'><b>x</b><b><c/></b> t <!-- no --></s:a>").unwrap(),
        json!({ "a": { "@n": "1", "b": ["x", { "c": [""] }], "#text": "t" } })
    );
    for (body, why) in [
        ("<a><b></a>".to_owned(), "answer_not_xml"),
        ("<a><b>".to_owned(), "answer_cut"),
        ("{}".to_owned(), "answer_not_xml"),
        ("<!DOCTYPE html><html><br></html>".to_owned(), "answer_html"),
        ("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>".to_owned(), "answer_not_xml"),
        ("<a>".repeat(300) + &"</a>".repeat(300), "answer_not_xml"),
        ("<a>".repeat(45_000) + &"</a>".repeat(45_000), "answer_not_xml"),
        (format!("<a>{}</a>", "<b/>".repeat(150_000)), "answer_too_large"),
    ] {
        assert_eq!(read(&body).unwrap_err().as_str(), why, "{}", &body[..body.len().min(40)]);
    }
}

#[test]
fn a_member_that_is_settled_has_an_output_and_one_that_is_retried_has_none() {
    let outputs = |mapping: &str, body: &str| -> Value {
        let mapping: ResponseMapping = serde_saphyr::from_str(mapping).unwrap();
        let members = ["a", "b", "c", "d"].map(TaskId::new);
        let read = mapping.read(ok(body), &members, &Otherwise::default(), Earlier::OfNone);
        let shown = |(id, output)| (id, serde_json::to_value::<Output>(output).unwrap());
        read.outputs.into_iter().map(shown).map(|(id, json)| (id.to_string(), json)).collect()
    };
    let mapping = "{ results: body.rows, succeeded: ok, retryable: busy, output: 'number || why' }";
    let rows = r#"[{"ok":1,"number":"N 7"},{"why":{"weight":[31]}},{"busy":1,"number":"N 8"},{"ok":1}]"#;
    let kept = json!({ "a": "N 7", "b": { "weight": [31] } });
    assert_eq!(outputs(mapping, &format!(r#"{{"rows":{rows}}}"#)), kept);
    let failures = "{ failures: body, id: id, retryable: busy, output: why }";
    assert_eq!(outputs(failures, r#"[{"id":"b","why":"heavy"}]"#), json!({ "b": "heavy" }));
    let own = r#"{"results":[{"id":"a","status":"succeeded","output":"N 7"},{"id":"c","status":"retry","output":1},
        {"id":"b","status":"failed","output":{"weight":[31]}},{"id":"d","status":"succeeded","output":null}]}"#;
    assert_eq!(outputs("{}", own), kept);
    assert_eq!(outputs("{ results: body.rows, succeeded: ok, output: number }", r#"{"rows":[{}]}"#), json!({}));
}

#[test]
fn what_lambda_takes_for_no_failures_is_no_failure() {
    for body in ["{}", " { } ", r#"{"batchItemFailures":null}"#, r#"{"batchItemFailures":[]}"#] {
        assert_eq!(read("{}", ok(body)), said(Said::Succeeded, Said::Succeeded), "{body}");
    }
}

fn said(a: Said, b: Said) -> Reply {
    Reply::PerMember(BTreeMap::from([(TaskId::new("a"), a), (TaskId::new("b"), b)]))
}

#[test]
fn groupages_own_forms_need_no_mapping() {
    let failed = |reason: &str| Said::Failed(Reason::new(reason));
    assert_eq!(read("{}", ok("")), said(Said::Succeeded, Said::Succeeded));
    assert_eq!(
        read("{}", ok(r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#)),
        said(Said::Succeeded, Said::again(Reason::new("item_failure")))
    );
    assert_eq!(
        read("{}", ok(r#"{"results":[{"id":"a","status":"succeeded"},{"id":"b","status":"failed","reason":"x"}]}"#)),
        said(Said::Succeeded, failed("x"))
    );
    for no_text in ["null", "404", "{}"] {
        let results =
            r#"{"results":[{"id":"a","status":"succeeded","reason":R},{"id":"b","status":"failed","reason":R}]}"#;
        assert_eq!(read("{}", ok(&results.replace('R', no_text))), said(Said::Succeeded, failed("unspecified")));
    }
}

#[test]
fn an_answer_that_says_two_things_of_one_member_is_not_believed() {
    let by_id = r#"{ results: body.results, id: id, succeeded: "status == 'succeeded'" }"#;
    for (mapping, second, believed) in [("{}", "succeeded", true), ("{}", "failed", false), (by_id, "failed", false)] {
        let one = |id: &str, status: &str| format!(r#"{{"id":"{id}","status":"{status}"}}"#);
        let entries = [one("a", "succeeded"), one("b", "succeeded"), one("a", second)].join(",");
        match read(mapping, ok(&format!(r#"{{"results":[{entries}]}}"#))) {
            Reply::Unavailable(failure) => {
                assert_eq!((failure.reason.as_str(), believed), ("answer_contradicts_itself", false))
            }
            reply => assert_eq!((reply, believed), (said(Said::Succeeded, Said::Succeeded), true)),
        }
    }
}

/// `a10` comes before `a2` among an object's fields.
#[test]
fn the_entries_of_an_object_need_an_id() {
    for (results, is_taken) in [
        ("values(@)", false),
        ("keys(rows)", false),
        ("*", false),
        ("rows.*.status", false),
        ("rows", true),
        ("values(@) | [?ok]", false),
        ("rows[?contains(values(tags), `1`)]", true),
        ("values(@)', id: 'id", true),
    ] {
        let response =
            format!("http: {{ url: 'https://a.example/', response: {{ results: '{results}', succeeded: ok }} }}");
        let yaml = format!("version: 1\nroutes: [{{ name: r, target: t, downstream: {{ {response} }} }}]");
        let told = Routes::parse(&yaml).map(drop).map_err(|error| error.to_string());
        assert_eq!(told.is_ok(), is_taken, "{results}: {told:?}");
        assert!(told.is_ok() || told.is_err_and(|told| told.contains("say in `id`")), "{results}");
    }
}

#[test]
fn an_answer_of_another_shape_is_read_by_its_mapping_in_order_or_by_id() {
    let bulk = r#"{ results: body.items, succeeded: "index.status < `300`", reason: index.error.type }"#;
    let answer = r#"{"items":[{"index":{"status":201}},{"index":{"status":400,"error":{"type":"mapper"}}}]}"#;
    assert_eq!(read(bulk, ok(answer)), said(Said::Succeeded, Said::Failed(Reason::new("mapper"))));
    let by_id = r#"{ results: body.rows, id: key, succeeded: "ok", retryable: "busy" }"#;
    let answer = r#"{"rows":[{"key":"b","ok":true},{"key":"a","ok":false,"busy":true}]}"#;
    assert_eq!(read(by_id, ok(answer)), said(Said::again(Reason::new("unspecified")), Said::Succeeded));
    assert!(matches!(read(bulk, ok(r#"{"items":[]}"#)), Reply::Unavailable { .. }), "of wrong length");
}

#[test]
fn a_member_that_asks_to_be_left_alone_is_asked_for_how_long_in_seconds() {
    let later = |asked_ms| Said::Retry { reason: Reason::new("busy"), asked_ms };
    let mapped =
        r#"{ results: body.rows, succeeded: "ok", retryable: "why == 'busy'", reason: why, retry_after: wait }"#;
    let asked = [("7", Some(7_000)), ("0.25", Some(250)), ("-1", None), ("1e300", None), ("null", None), ("[1]", None)];
    for (seconds, asked_ms) in asked {
        let answer = r#"{"rows":[{"ok":true},{"why":"busy","wait":N}]}"#.replace('N', seconds);
        assert_eq!(read(mapped, ok(&answer)), said(Said::Succeeded, later(asked_ms)), "{seconds}");
        let own = r#"{"results":[{"id":"a","status":"succeeded"},{"id":"b","status":"retry","reason":"busy","retry_after":N}]}"#;
        assert_eq!(read("{}", ok(&own.replace('N', seconds))), said(Said::Succeeded, later(asked_ms)), "{seconds}");
    }
    let answer = r#"{"rows":[{"ok":true},{"why":"busy","wait":"7"}]}"#;
    assert_eq!(read(mapped, ok(answer)), said(Said::Succeeded, later(Some(7_000))), "as text");
}

fn status(status: u16) -> Result<Answer, NoAnswer> {
    Ok(Answer { status, retry_after_ms: Some(5), ..Answer::default() })
}

#[test]
fn statuses_decide_between_an_outage_and_a_refusal() {
    let failure = |reason: &str, retry_after_ms| {
        Reply::Unavailable(Failure { reason: Reason::new(reason), retry_after_ms, fault: Fault::Downstream })
    };
    for outage in [401, 403, 408, 425, 429, 500, 503, 599] {
        assert_eq!(read("{}", status(outage)), failure(&format!("http_{outage}"), Some(5)));
    }
    for refusal in [400, 404, 409, 410, 413, 422] {
        assert_eq!(read("{}", status(refusal)), Reply::Refused(Reason::new(format!("http_{refusal}"))));
    }
    for redirect in [301, 302, 307, 308] {
        assert_eq!(read("{}", status(redirect)), Reply::Refused(Reason::new(format!("redirect_{redirect}"))));
    }
    assert_eq!(read("{ ignore_body: true }", ok("OK")), said(Said::Succeeded, Said::Succeeded));
}

#[test]
fn a_conflict_is_a_refusal_unless_an_earlier_call_of_its_key_may_be_done() {
    let read = |otherwise: &Otherwise, may_be_done| {
        ResponseMapping::OWN.read(status(409), &[], otherwise, repeated(may_be_done)).reply
    };
    let (refused, usual) = (Reply::Refused(Reason::new("http_409")), Otherwise::default());
    let later = Failure { reason: Reason::new("http_409"), retry_after_ms: Some(5), fault: Fault::Conflict };
    assert_eq!([false, true].map(|may| read(&usual, may)), [refused.clone(), Reply::Unavailable(later)]);
    let never = Otherwise { refusals: [409].into(), ..Otherwise::default() };
    assert_eq!(read(&never, true), refused);
}

#[test]
fn an_answer_that_cannot_be_read_has_a_reason_of_its_kind_and_is_a_fault_of_the_settings() {
    let at_fault = |answer| match read("{}", answer) {
        Reply::Unavailable(failure) => (failure.reason.to_string(), failure.fault),
        reply => panic!("{reply:?}"),
    };
    for (body, reason) in [
        (&b"OK"[..], "answer_not_json"),
        (br#"{"ok":true}"#, "answer_not_understood"),
        (b"<?xml version=\"1.0\"?><ok/>", "answer_xml"),
        (b"\xff\xfe{\0}\0", "answer_utf16"),
        (b"{\0}\0", "answer_utf16"),
    ] {
        let answer = Ok(Answer { status: 200, body: body.to_vec(), ..Answer::default() });
        assert_eq!(at_fault(answer), (reason.to_owned(), Fault::Settings));
        assert!(Reason::new(reason).remedy().is_some());
    }
    assert_eq!(at_fault(Err(NoAnswer::TooLarge)), ("answer_too_large".to_owned(), Fault::Settings));
    let dense = format!("[{}1]", "1,".repeat(100_000));
    let Reply::Unavailable(failure) = read("{ results: body }", ok(&dense)) else { panic!("it is read") };
    assert_eq!((failure.reason.as_str(), failure.fault), ("answer_too_large", Fault::Settings));
    for (body, reason) in
        [("\n<!DOCTYPE HTML><title>Sign in</title>", "answer_html"), (r#"{"results":["#, "answer_cut")]
    {
        assert_eq!(at_fault(ok(body)), (reason.to_owned(), Fault::Downstream), "it is of a machine in between");
    }
    let marked = format!("\u{feff}{}", r#"{"batchItemFailures":[]}"#);
    assert_eq!(read("{}", ok(&marked)), said(Said::Succeeded, Said::Succeeded));
}

#[test]
fn a_fault_of_ours_is_told_apart() {
    let reply = read("{}", Err(NoAnswer::Misconfigured(Reason::new("secret_unavailable"))));
    let Reply::Unavailable(failure) = reply else { panic!("nothing is known of the members") };
    assert_eq!(failure.fault, Fault::Ours);
}

#[test]
fn a_route_may_say_otherwise_of_statuses() {
    let with = |retry: &str| GOOD.replacen("target: truck\n", &format!("target: truck\n    retry: {retry}\n"), 1);
    let routes = Routes::parse(&with("{ on: [404], never: [501, 403], give_up_after_s: 60 }")).unwrap();
    let route = routes.get(&RouteName::new("parcels")).unwrap();
    assert_eq!((route.retry.give_up_ms, route.retry.longest_pause_ms), (60_000, 900_000));
    let is_outage = |answer| matches!(route.read(status(answer), &[], Earlier::OfNone).reply, Reply::Unavailable(_));
    assert_eq!([404, 501, 403, 503, 422].map(is_outage), [true, false, false, true, false]);
    let error = Routes::parse(&with("{ on: [404], never: [404] }")).unwrap_err();
    assert!(error.what.contains("404 in `on` and in `never`"), "{error}");
    assert!(Routes::parse(&with("{ on: [204] }")).unwrap_err().what.contains("from 300 to 599"));
}
