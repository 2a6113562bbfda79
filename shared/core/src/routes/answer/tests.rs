//! Answers are read as they are meant.

use super::*;
use crate::domain::RouteName;
use crate::routes::Routes;
use crate::routes::tests::GOOD;

fn read(mapping: &str, answer: Result<Answer, NoAnswer>) -> Reply {
    let mapping: ResponseMapping = serde_saphyr::from_str(mapping).unwrap();
    mapping.read(answer, &[TaskId::new("a"), TaskId::new("b")], &Otherwise::default(), false)
}

fn ok(body: &str) -> Result<Answer, NoAnswer> {
    Ok(Answer { status: 200, retry_after_ms: None, body: body.as_bytes().to_vec() })
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
    let by_id = r#"{ results: results, id: id, succeeded: "status == 'succeeded'" }"#;
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
    let bulk = r#"{ results: items, succeeded: "index.status < `300`", reason: index.error.type }"#;
    let answer = r#"{"items":[{"index":{"status":201}},{"index":{"status":400,"error":{"type":"mapper"}}}]}"#;
    assert_eq!(read(bulk, ok(answer)), said(Said::Succeeded, Said::Failed(Reason::new("mapper"))));
    let by_id = r#"{ results: rows, id: key, succeeded: "ok", retryable: "busy" }"#;
    let answer = r#"{"rows":[{"key":"b","ok":true},{"key":"a","ok":false,"busy":true}]}"#;
    assert_eq!(read(by_id, ok(answer)), said(Said::again(Reason::new("unspecified")), Said::Succeeded));
    assert!(matches!(read(bulk, ok(r#"{"items":[]}"#)), Reply::Unavailable { .. }), "of wrong length");
}

#[test]
fn a_member_that_asks_to_be_left_alone_is_asked_for_how_long_in_seconds() {
    let later = |asked_ms| Said::Retry { reason: Reason::new("busy"), asked_ms };
    let mapped = r#"{ results: rows, succeeded: "ok", retryable: "why == 'busy'", reason: why, retry_after: wait }"#;
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
    Ok(Answer { status, retry_after_ms: Some(5), body: Vec::new() })
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
    let read = |otherwise: &Otherwise, may_be_done| ResponseMapping::OWN.read(status(409), &[], otherwise, may_be_done);
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
        let answer = Ok(Answer { status: 200, retry_after_ms: None, body: body.to_vec() });
        assert_eq!(at_fault(answer), (reason.to_owned(), Fault::Settings));
        assert!(Reason::new(reason).remedy().is_some());
    }
    assert_eq!(at_fault(Err(NoAnswer::TooLarge)), ("answer_too_large".to_owned(), Fault::Settings));
    let dense = format!("[{}1]", "1,".repeat(100_000));
    let Reply::Unavailable(failure) = read("{ results: '@' }", ok(&dense)) else { panic!("it is read") };
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
    let is_outage = |answer| matches!(route.read(status(answer), &[], false), Reply::Unavailable(_));
    assert_eq!([404, 501, 403, 503, 422].map(is_outage), [true, false, false, true, false]);
    let error = Routes::parse(&with("{ on: [404], never: [404] }")).unwrap_err();
    assert!(error.what.contains("404 in `on` and in `never`"), "{error}");
    assert!(Routes::parse(&with("{ on: [204] }")).unwrap_err().what.contains("from 300 to 599"));
}
