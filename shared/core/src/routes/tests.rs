//! A routes file's mistakes are found with their place; a payload finds its route.

use super::*;
use crate::domain::gate::{Admission, Asks};
use crate::domain::traits::Collapse;
use crate::domain::{BatchId, Gate, LaneId, NotificationQueue, Reason, Timestamp, Turn};

pub(super) const GOOD: &str = r#"version: 1
routes:
  - name: parcels
    when: "type == 'parcel'"
    target: truck
    batch: { max_items: 10, max_bytes: 100 }
    downstream:
      http:
        url: "https://trucks.example/load"
        headers: { X-Api-Key: { secret: { env: TRUCK_KEY } }, X-Team: blue }
  - name: rest
    target: "join('-', [type, kind])"
    downstream: { lambda: { function: load-rest } }
"#;

fn error(from: &str, to: &str) -> Error {
    assert!(GOOD.contains(from), "the test's own mistake");
    Routes::parse(&GOOD.replacen(from, to, 1)).expect_err("must be refused")
}

#[test]
fn a_good_file_is_taken_with_its_defaults() {
    let routes = Routes::parse(GOOD).unwrap();
    let route = routes.get(&RouteName::new("parcels")).unwrap();
    assert_eq!((route.usual().batch.max_items, route.usual().batch.wait_ms), (10, 1_000));
    assert_eq!(route.retry.attempts, 5);
    assert_eq!(route.shards, 1);
    assert_eq!(route.downstream.timeout_ms(), Some(10_000));
    assert_eq!(route.notify.failure, NotificationQueue::Default);
}

#[test]
fn each_mistake_is_reported_with_its_line_and_field() {
    for (from, to, line, says) in [
        ("target: truck", "target: truck\n    colour: red", 6, "colour"),
        ("target: truck", "target: \"truck[\"", 5, "JMESPath"),
        ("target: truck", "target: truck\n    shards: 65", 6, "from 1 to 64"),
        ("max_items: 10", "max_items: 0", 6, "from 1 to 1000"),
        ("max_items: 10", "max_items: many", 6, "whole number"),
        ("name: parcels", "name: Parcels!", 3, "a-z"),
        ("https://trucks.example/load", "ftp://trucks.example", 9, "http"),
        ("X-Team: blue", "Idempotency-Key: mine", 10, "set by Groupage"),
        ("version: 1", "version: 2", 1, "must be 1, not 2"),
    ] {
        let error = error(from, to);
        assert!(error.what.contains(says), "{to}: {error}");
        assert_eq!(error.line, line, "{to}: {error}");
    }
}

#[test]
fn a_route_has_one_rate_by_the_second_minute_or_hour_and_a_burst_beside_it() {
    let of = |limits: &str| {
        let route = "name: a\n    target: t\n    downstream: pull";
        Routes::parse(&format!("version: 1\nroutes:\n  - {route}\n    limits: {{ {limits} }}\n"))
    };
    for (limits, gap_ms, burst) in [
        ("calls_per_second: 10", 100, 1),
        ("calls_per_minute: 30, burst: 5", 2_000, 5),
        ("calls_per_hour: 7000", 515, 1),
    ] {
        let routes = of(limits).unwrap();
        let route = routes.iter().next().unwrap();
        let bursts: Vec<u64> = route.rates.iter().map(|rate| rate.burst).collect();
        assert_eq!((route.rates.gap_ms(), bursts), (Some(gap_ms), vec![burst]), "{limits}");
    }
    for limits in [
        "burst: 5",
        "in_flight: 2, burst: 5",
        "calls_per_second: 1, calls_per_minute: 9",
        "rates: [{ amount: 9, per: minute }, { amount: 8, per: minute, of: calls }]",
        "rates: [{ amount: 6001, per: minute }]",
        "calls_per_minute: 9, rates: [{ amount: 9, per: minute }]",
    ] {
        let error = of(limits).unwrap_err();
        assert!(error.line == 3 && error.what.contains("rate"), "{limits}: {error}");
    }
    let error = of("calls_per_minute: 9, calls_per_second_per_target: 1").unwrap_err();
    assert!(error.what.contains("`limits.calls_per_minute` beside"), "{error}");
}

/// Calls that start in a second behind these limits, if there is always one that may.
fn calls_in_a_second(limits: &str) -> usize {
    let route = "name: a\n    target: t\n    downstream: pull";
    let routes = Routes::parse(&format!("version: 1\nroutes:\n  - {route}\n    limits: {{ {limits} }}\n")).unwrap();
    let (limits, mut gate, mut now, mut calls) = (routes.iter().next().unwrap().limits(), Gate::default(), 1_000, 0);
    while now < 2_000 {
        match gate.admit(&BatchId::new("b"), Asks::Again, limits, Timestamp(now), Timestamp(9_000)) {
            Admission::Admitted(Some(next), start) => {
                (gate, now, calls) = (next, start.0, calls + usize::from(start.0 < 2_000));
            }
            other => panic!("{other:?}"),
        }
    }
    calls
}

#[test]
fn a_rate_that_no_whole_milliseconds_divide_is_used_whole() {
    for rate in [1, 7, 30, 60] {
        assert_eq!(calls_in_a_second(&format!("calls_per_second: {rate}")), rate);
    }
}

#[test]
fn a_rate_has_a_unit_and_a_window_and_no_batch_costs_more_than_its_burst() {
    let route = "name: a\n    target: t\n    batch: { max_items: 100, weight: w }\n    downstream: pull";
    let rates = "{ amount: 60000, per: minute, of: weight, burst: 8000 }, { amount: 50, per: day, of: items }, \
                 { amount: 9000, per: hour, of: bytes }";
    let targets = "targets: [{ match: b, batch: { max_items: 500, max_weight: 9000 } }]";
    let file = format!("version: 1\nroutes:\n  - {route}\n    limits: {{ rates: [{rates}] }}\n    {targets}\n");
    let routes = Routes::parse(&file).unwrap();
    let route = routes.iter().next().unwrap();
    let bursts: Vec<u64> = route.rates.iter().map(|rate| rate.burst).collect();
    assert_eq!(bursts, [8_000, 50, 9_000], "the largest batch, and at most the amount");
    for batch in [route.usual().batch, route.for_target(&Target::of(&route.name, "b")).batch] {
        assert_eq!((batch.max_items, batch.max_bytes, batch.max_weight), (50, 9_000, Some(8_000)));
    }
    let accepts = |w: u64| routes.assign(&format!(r#"{{"t":"x","w":{w}}}"#)).is_ok();
    assert!(accepts(8_000) && !accepts(8_001), "alone it could never go");
}

#[test]
fn a_rate_of_each_target_stands_beside_no_limit_of_the_route() {
    let of = |limits: &str, targets: &str| {
        let fields = format!("limits: {{ {limits} }}\n    targets: [{{ match: b, limits: {{ {targets} }} }}]");
        Routes::parse(&format!("version: 1\nroutes:\n  - name: a\n    target: t\n    downstream: pull\n    {fields}\n"))
    };
    let rate = "calls_per_second_per_target: 2";
    for (limits, targets) in [
        (format!("{rate}, in_flight: 3"), ""),
        (format!("{rate}, calls_per_second: 3"), ""),
        ("calls_per_second: 3".to_owned(), rate),
    ] {
        let error = of(&limits, targets).unwrap_err();
        assert!(error.line == 3 && error.what.contains("`calls_per_second_per_target`"), "{limits}: {error}");
    }
    let routes = of(&format!("{rate}, in_flight_per_target: 3"), "calls_per_second_per_target: null").unwrap();
    let route = routes.iter().next().unwrap();
    let limits = |target| route.limits_of(&Target::of(&route.name, target));
    assert_eq!((limits("a").in_flight, limits("a").rates.gap_ms()), (Some(3), Some(500)));
    assert_eq!((limits("b").in_flight, limits("b").rates.gap_ms()), (Some(3), None));
    assert!(of("calls_per_second: 3", "calls_per_second_per_target: null").is_ok(), "there is none");
}

#[test]
fn shards_are_a_number_from_1_to_64() {
    for shards in [1, 64] {
        let file = GOOD.replacen("target: truck", &format!("target: truck\n    shards: {shards}"), 1);
        assert_eq!(Routes::parse(&file).unwrap().get(&RouteName::new("parcels")).unwrap().shards, shards);
    }
}

#[test]
fn a_downstream_that_nobody_could_call_is_refused_in_words() {
    let lambda = "lambda: { function: load-rest }";
    for (to, says) in [
        ("sqs: { queue: loads }", "https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"),
        ("step_functions: { state_machine: load }", "arn:aws:states:REGION:ACCOUNT:stateMachine:NAME"),
        ("eventbridge: { bus: b, source: aws.ec2 }", "only AWS's own events"),
        ("eventbridge: { bus: b, detail_type: '' }", "from 1 to 128 bytes"),
        ("lambda: { function: f, mode: later }", "async"),
        ("http: { url: 'https://{target}.example/' }", "path and query only"),
        ("http: { url: 'https://a.example/', compress: br }", "gzip"),
    ] {
        let error = error(lambda, to);
        assert!(error.what.contains(says), "{to}: {error}");
        assert_eq!(error.line, 13, "{to}: {error}");
    }
}

#[test]
fn two_routes_of_one_name_and_a_file_without_routes_are_refused() {
    assert!(error("name: rest", "name: parcels").what.contains("two routes"));
    assert!(Routes::parse("version: 1\nroutes: []\n").unwrap_err().what.contains("empty"));
}

#[test]
fn a_bad_template_is_found_when_the_file_is_read() {
    let error = error("url: \"https", "body: \"{% for i in %}\"\n        url: \"https");
    assert!(error.what.contains("template"), "{error}");
}

#[test]
fn a_payload_takes_the_first_route_that_wants_it() {
    let routes = Routes::parse(GOOD).unwrap();
    let Assigned { route, target, .. } = routes.assign(r#"{"type":"parcel","truck":"t7"}"#).unwrap();
    assert_eq!((route.name.as_str(), target.as_str()), ("parcels", "parcels:t7"));
    let Assigned { target, .. } = routes.assign(r#"{"type":"letter","kind":"air"}"#).unwrap();
    assert_eq!(target.as_str(), "rest:letter-air");
}

#[test]
fn a_payload_that_cannot_be_grouped_says_why_without_quoting_it() {
    let routes = Routes::parse(GOOD).unwrap();
    for (payload, code) in [
        (r#"{"type":"parcel","truck":7}"#, Code::BadTarget),
        (r#"{"type":"parcel"}"#, Code::BadTarget),
        (r#"{"type":"parcel","truck":""}"#, Code::BadTarget),
        (r#"{"type":"letter","kind":4111}"#, Code::BadTarget),
        (&format!(r#"{{"type":"parcel","truck":"t","x":"{}"}}"#, "4111".repeat(40)), Code::TooLarge),
    ] {
        let rejection = routes.assign(payload).unwrap_err();
        assert_eq!(rejection.code, code);
        assert!(!rejection.detail.contains("4111"));
    }
}

fn traits(fields: &str, payload: &str) -> Result<Traits, Code> {
    let yaml = format!("version: 1\nroutes:\n  - name: a\n    target: t\n    downstream: pull\n{fields}");
    Routes::parse(&yaml).unwrap().assign(payload).map(|assigned| assigned.traits).map_err(|rejection| {
        assert!(!rejection.detail.contains("4111"), "a value is repeated: {rejection}");
        rejection.code
    })
}

#[test]
fn a_route_reads_weight_end_priority_and_key_out_of_a_payload() {
    let fields = "    batch: { weight: w, max_weight: 50, close_when: last }\n    collapse: k\n    priority: p\n";
    let of = |payload| traits(fields, payload);
    let usual = Traits::default();
    assert_eq!(traits("", r#"{"t":"x","w":7,"last":true,"k":"7","p":3}"#), Ok(usual), "it asks for none");
    assert_eq!(of(r#"{"t":"x","w":1}"#), Ok(usual));
    let keyed = of(r#"{"t":"x","w":0,"last":true,"k":"7","p":9}"#).unwrap();
    assert_eq!(keyed, Traits { weight: 0, closes: true, priority: 9, collapse: Some(Collapse::of("7")) });
    assert_eq!(of(r#"{"t":"x","w":50,"last":false,"k":null,"p":null}"#), Ok(Traits { weight: 50, ..usual }));
    for (payload, code) in [
        (r#"{"t":"x"}"#, Code::BadWeight),
        (r#"{"t":"x","w":4111}"#, Code::BadWeight),
        (r#"{"t":"x","w":-1}"#, Code::BadWeight),
        (r#"{"t":"x","w":1.5}"#, Code::BadWeight),
        (r#"{"t":"x","w":"4111"}"#, Code::BadWeight),
        (r#"{"t":"x","w":1,"k":4111}"#, Code::BadCollapse),
        (r#"{"t":"x","w":1,"k":""}"#, Code::BadCollapse),
        (r#"{"t":"x","w":1,"p":10}"#, Code::BadPriority),
        (r#"{"t":"x","w":1,"p":"4111"}"#, Code::BadPriority),
    ] {
        assert_eq!(of(payload), Err(code), "{payload}");
    }
}

#[test]
fn no_task_of_an_ordered_route_replaces_another() {
    let error = ordered("    ordered_by: account\n    collapse: account\n").unwrap_err();
    assert!(error.what.contains("`collapse`") && error.line == 3, "{error}");
    assert!(ordered("    ordered_by: account\n    priority: p\n").is_ok());
}

fn ordered(lines: &str) -> Result<Routes, Error> {
    Routes::parse(&format!("version: 1\nroutes:\n  - name: payments\n    target: bank\n    downstream: pull\n{lines}"))
}

fn order(routes: &Routes, payload: &str) -> Result<Option<Order>, Code> {
    routes.assign(payload).map(|assigned| assigned.order).map_err(|rejection| {
        assert!(!rejection.detail.contains("4111"), "a value is repeated: {rejection}");
        rejection.code
    })
}

#[test]
fn an_ordered_route_finds_each_tasks_lane_and_number() {
    let lane = LaneId::of(&RouteName::new("payments"), "x");
    let by_arrival = ordered("    ordered_by: account\n").unwrap();
    let expected = Order { lane: lane.clone(), numbering: Numbering::ByArrival, sequence: None };
    assert_eq!(order(&by_arrival, r#"{"bank":"b","account":"x"}"#), Ok(Some(expected)));
    let by_sequence = ordered("    ordered_by: account\n    order: { sequence: n, first: 0 }\n").unwrap();
    let expected = |n| {
        let numbering = Numbering::BySequence { first: Turn(0) };
        Ok(Some(Order { lane: lane.clone(), numbering, sequence: Some(Turn(n)) }))
    };
    assert_eq!(order(&by_sequence, r#"{"bank":"b","account":"x","n":7}"#), expected(7));
    assert_eq!(order(&by_sequence, r#"{"bank":"b","account":"x","n":2251799813685247}"#), expected((1 << 51) - 1));
    assert_eq!(order(&ordered("").unwrap(), r#"{"bank":"b"}"#), Ok(None));
}

#[test]
fn a_payload_without_an_order_says_why_without_quoting_it() {
    let routes = ordered("    ordered_by: account\n    order: { sequence: n }\n").unwrap();
    for payload in [
        r#"{"bank":"b","n":1}"#,
        r#"{"bank":"b","n":1,"account":4111}"#,
        r#"{"bank":"b","n":1,"account":""}"#,
        &format!(r#"{{"bank":"b","n":1,"account":"{}"}}"#, "4111".repeat(200)),
        r#"{"bank":"b","account":"x"}"#,
        r#"{"bank":"b","account":"x","n":"4111"}"#,
        r#"{"bank":"b","account":"x","n":4111.5}"#,
        r#"{"bank":"b","account":"x","n":-4111}"#,
        r#"{"bank":"b","account":"x","n":9007199254740992}"#,
    ] {
        assert_eq!(order(&routes, payload), Err(Code::BadOrder), "{payload}");
    }
}

#[test]
fn an_order_without_a_key_is_refused() {
    assert!(ordered("    ordered_by: account\n    shards: 2\n").unwrap_err().what.contains("cannot have `shards`"));
    assert!(ordered("    order: { on_failure: skip }\n").unwrap_err().what.contains("`ordered_by`"));
    assert!(ordered("    ordered_by: account\n    order: { on_failure: stop }\n").unwrap_err().what.contains("hold"));
}

#[test]
fn an_expression_that_could_make_too_much_is_refused_where_it_is_written() {
    let yaml = "version: 1\nroutes:\n  - { name: r, when: a, target: '[@,@][]|[@,@][]|[@,@][]|[@,@][]|[@,@][]|[@,@][]|@', \
                downstream: pull }";
    let told = Routes::parse(yaml).unwrap_err().to_string();
    assert!(told.contains("line 3") && told.contains("32 times"), "{told}");
}

#[test]
fn a_target_that_is_a_large_integer_is_exact() {
    let yaml = "version: 1\nroutes: [{ name: r, target: account, downstream: pull }]";
    let routes = Routes::parse(yaml).unwrap();
    let target = |payload: &str| routes.assign(payload).map(|assigned| assigned.target.value().to_owned());
    assert_eq!(target(r#"{"account":9007199254740993}"#).as_deref(), Ok("9007199254740993"));
    assert_eq!(target(r#"{"account":18446744073709551617}"#).unwrap_err().code, Code::BadTarget);
}

fn key() -> (BatchId, Target) {
    (BatchId::new("b1"), Target::of(&RouteName::new("parcels"), "t7"))
}

#[test]
fn the_default_body_carries_payloads_as_they_were_written() {
    let routes = Routes::parse(GOOD).unwrap();
    let payload = serde_json::from_str(r#"{"n":12345678901234567890123,"f":1.10}"#).unwrap();
    let items = [Item { id: "a", payload }];
    let (key, target) = key();
    assert_eq!(
        routes.get(&RouteName::new("parcels")).unwrap().body(&key, &target, &items).unwrap().text,
        r#"{"batch":"b1","target":"t7","items":[{"id":"a","payload":{"n":12345678901234567890123,"f":1.10}}]}"#
    );
}

#[test]
fn a_template_makes_a_body_of_its_own_shape_and_a_missing_field_fails() {
    let yaml = GOOD.replacen(
        "url: \"https",
        "body: \"{% for i in items %}{\\\"index\\\":{\\\"_id\\\":{{ i.id | tojson }}}}\\n{{ i.payload | tojson }}\\n{% endfor %}\"\n        url: \"https",
        1,
    );
    let routes = Routes::parse(&yaml).unwrap();
    let route = routes.get(&RouteName::new("parcels")).unwrap();
    let payload = serde_json::from_str(r#"{"x":1}"#).unwrap();
    let (key, target) = key();
    let body = route.body(&key, &target, &[Item { id: "a", payload }]).unwrap();
    assert_eq!(body.text, "{\"index\":{\"_id\":\"a\"}}\n{\"x\": 1}\n");
    // An `if` without its `else` is empty, and not missing.
    let yaml = GOOD.replacen("url: \"https", "body: \"[{{ 1 if items[0].payload.x == 2 }}]\"\n        url: \"https", 1);
    let routes = Routes::parse(&yaml).unwrap();
    let route = routes.get(&RouteName::new("parcels")).unwrap();
    assert_eq!(route.body(&key, &target, &[Item { id: "a", payload }]).unwrap().text, "[]");
    let yaml = GOOD.replacen("url: \"https", "body: \"{{ items[0].payload.nope }}\"\n        url: \"https", 1);
    let routes = Routes::parse(&yaml).unwrap();
    let route = routes.get(&RouteName::new("parcels")).unwrap();
    assert_eq!(
        route.body(&key, &target, &[Item { id: "a", payload }]),
        Err(super::Unmade::Template(Reason::new("template_error:1:undefined")))
    );
}
