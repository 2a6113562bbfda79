use super::*;

fn doubts(routes: &str) -> Vec<(u64, String, String)> {
    let yaml = format!("version: 1\nroutes:\n{routes}");
    let doubts = Routes::parse(&yaml).unwrap().doubts(|name| name == "GROUPAGE_SECRET_SET");
    doubts.into_iter().map(|Doubt { line, field, what, .. }| (line, field, what)).collect()
}

fn of_one(fields: &str) -> Vec<(String, String)> {
    let route = format!("  - name: a\n    target: t\n    downstream: pull\n    {fields}\n");
    doubts(&route).into_iter().map(|(_, field, what)| (field, what)).collect()
}

#[test]
fn a_route_that_an_earlier_one_hides_is_told_with_its_line() {
    let route = |name: &str, when: &str| format!("  - {{ name: {name}, target: t, downstream: pull{when} }}\n");
    let narrow = ", when: \"type == 'a'\"";
    let [(line, field, what)] = &doubts(&(route("all", "") + &route("a", narrow)))[..] else { panic!() };
    assert_eq!((*line, field.as_str()), (4, "when"));
    assert!(what.contains("`all`, before it, takes all tasks"), "{what}");
    assert_eq!(doubts(&(route("a", narrow) + &route("all", ""))), []);
    let twice = doubts(&(route("a", narrow) + &route("b", narrow) + &route("all", "")));
    assert!(twice.len() == 1 && twice[0].2.contains("`a`, before it, has the same `when`"), "{twice:?}");
}

#[test]
fn a_comparison_that_cannot_be_meant_is_told_with_what_to_write() {
    for (when, told) in [
        (
            r#"'type == "parcel"'"#,
            "`\"parcel\"` is the field of that name. Text is written in single quotes: `'parcel'`",
        ),
        (r#""a.b[?c == '5'] && d""#, "`'5'` is text and equals no number"),
        (r#""weight > '5'""#, "text has no order, so this never holds. Write `5` in backticks"),
        (r#""weight >= 'heavy'""#, "only numbers have an order"),
        (r#""open == 'true'""#, "equals no number or truth value"),
    ] {
        let found = of_one(&format!("when: {when}"));
        let [(field, what)] = &found[..] else { panic!("{when}: {found:?}") };
        assert!(field == "when" && what.contains(told), "{what}");
    }
    for fine in [
        r#""headers.code == '469'""#,
        r#""type == 'parcel'""#,
        r#""weight > `5`""#,
        r#"'"a b" == c'"#,
        r#""a == b""#,
        r#""to_string(n) == '5'""#,
    ] {
        assert_eq!(of_one(&format!("when: {fine}")), [], "{fine}");
    }
}

#[test]
fn every_expression_that_is_read_for_grouping_is_looked_into() {
    for (field, fields) in [
        ("batch.close_when", r#"batch: { close_when: 'type == "last"' }"#),
        ("batch.close_when", r#"batch: { close_when: "page == '5'" }"#),
        ("batch.weight", r#"batch: { max_weight: 5, weight: "length(parts[?size > '5'])" }"#),
        ("priority", r#"priority: "kind == '1' && `9` || `0`""#),
        ("collapse", r#"collapse: "(draft == 'true') && id""#),
    ] {
        let found = of_one(fields);
        assert!(found.len() == 1 && found[0].0 == field, "{fields}: {found:?}");
    }
    assert_eq!(of_one(r#"batch: { close_when: "type == 'last' && page == `5`" }"#), []);
}

#[test]
fn a_limit_that_is_never_reached_is_told() {
    let http = "downstream: { http: { url: 'https://x', timeout_ms: 1000 } }";
    for (fields, field) in [
        ("batch: { max_items: 2, max_bytes: 600000 }", "batch.max_bytes"),
        ("batch: { max_items: 1, wait_ms: 60000 }", "batch.wait_ms"),
        ("batch: { max_items: 5, min_items: 6 }", "batch.min_items"),
        ("batch: { wait_ms: 500, quiet_ms: 500 }", "batch.quiet_ms"),
        ("limits: { in_flight: 2, in_flight_per_target: 3 }", "limits.in_flight_per_target"),
        ("limits: { calls_per_second: 2, keep_timed_out_s: 60 }", "limits.keep_timed_out_s"),
        ("limits: { in_flight: 20, calls_per_second: 10 }", "limits.in_flight"),
        ("limits: { in_flight_per_target: 20, calls_per_second_per_target: 10 }", "limits.in_flight_per_target"),
        ("limits: { in_flight_per_target: 3, share: { by: target } }", "limits.share"),
        ("retry: { base_ms: 61000 }", "retry.base_ms"),
        ("batch: { max_items: 10, max_weight: 10 }", "batch.max_weight"),
        ("batch: { weight: w }", "batch.weight"),
        ("batch: { max_items: 1, close_when: last }", "batch.close_when"),
        ("collapse: key\n    shards: 2", "collapse"),
    ] {
        let found = doubts(&format!("  - name: a\n    target: t\n    {http}\n    {fields}\n"));
        assert!(found.len() == 1 && found[0].1 == field, "{fields}: {found:?}");
    }
    for fine in [
        "batch: { max_items: 1 }",
        "collapse: key\n    shards: 1",
        "batch: { max_items: 10, max_weight: 5, close_when: last }",
        "batch: { weight: w, max_weight: 1000 }",
        "limits: { in_flight: 10, calls_per_second: 10, in_flight_per_target: 10 }",
        "limits: { in_flight: 3, share: { by: target } }",
    ] {
        assert_eq!(doubts(&format!("  - name: a\n    target: t\n    {http}\n    {fine}\n")), [], "{fine}");
    }
}

#[test]
fn what_is_said_of_some_targets_is_doubted_like_the_rest() {
    let of = |fields: &str| of_one(&format!("batch: {{ max_items: 50 }}\n    targets: [{fields}]"));
    let [(field, what)] = &of("{ match: 'acme-1', batch: { max_items: 5, min_items: 6 } }")[..] else { panic!() };
    assert_eq!(field, "targets.acme-1.batch.min_items");
    assert!(what.contains("5 tasks at most"), "{what}");
    let narrower_last = "{ match: 'a*', batch: { max_items: 5 } }, { match: ab, batch: { max_items: 9 } }";
    let [(field, what)] = &of(narrower_last)[..] else { panic!() };
    assert!(field == "targets.ab" && what.contains("`a*`, before it"), "{what}");
    let [(_, what)] = &of("{ match: ab, batch: { max_items: 50 } }")[..] else { panic!() };
    assert!(what.contains("says what the route says"), "{what}");
    assert_eq!(of("{ match: ab, batch: { max_items: 5 } }, { match: 'a*', batch: { max_items: 9 } }"), []);
}

#[test]
fn a_secret_that_is_not_set_is_told_by_its_header() {
    let header = |name: &str| format!("Authorization: {{ secret: {{ env: {name} }} }}");
    let of = |name| {
        let headers = header(name);
        let http = format!("downstream: {{ http: {{ url: 'https://x', headers: {{ {headers} }} }} }}");
        doubts(&format!("  - name: a\n    target: t\n    {http}\n"))
    };
    assert_eq!(of("GROUPAGE_SECRET_SET"), []);
    let [(_, field, what)] = &of("GROUPAGE_SECRET_LOST")[..] else { panic!() };
    assert_eq!(field, "downstream.http.headers.Authorization");
    assert!(what.contains("`GROUPAGE_SECRET_LOST` is not set"), "{what}");
}

#[test]
fn a_placeholder_that_stands_for_nothing_is_told() {
    let of = |http: &str| {
        let found = doubts(&format!("  - name: a\n    target: t\n    downstream: {{ http: {{ {http} }} }}\n"));
        found.into_iter().map(|(_, field, what)| format!("{field}: {what}")).collect::<Vec<_>>()
    };
    let [url] = &of("url: 'https://x/{tarrget}'")[..] else { panic!() };
    assert!(url.starts_with("downstream.http.url: `{tarrget}` stands for nothing"), "{url}");
    let [header] = &of("url: 'https://x/{target}', headers: { A: '{id}', B: '{batch}' }")[..] else { panic!() };
    assert!(header.starts_with("downstream.http.headers.A: `{id}`"), "{header}");
    let [encoding] = &of("url: 'https://x', compress: gzip, headers: { Content-Encoding: br }")[..] else { panic!() };
    assert!(encoding.contains("overrides it"), "{encoding}");
}

#[test]
fn a_batch_that_is_larger_than_a_message_is_told() {
    let of = |downstream: &str, bytes: u64| {
        let batch = format!("batch: {{ max_bytes: {bytes} }}");
        doubts(&format!("  - name: a\n    target: t\n    {batch}\n    downstream: {{ {downstream} }}\n"))
    };
    let queue = "sqs: { queue: 'https://sqs.eu-west-1.amazonaws.com/1/q' }";
    let machine = "step_functions: { state_machine: 'arn:aws:states:eu-west-1:1:stateMachine:m' }";
    let waited = "lambda: { function: f }";
    for (downstream, most) in
        [(queue, 1_000_000), ("lambda: { function: f, mode: async }", 1_000_000), (machine, 262_144)]
    {
        assert_eq!(of(downstream, most), [], "{downstream}");
        let [(_, field, what)] = &of(downstream, most + 1)[..] else { panic!("{downstream}") };
        assert!(field == "batch.max_bytes" && what.contains(&format!("{most} bytes")), "{what}");
    }
    assert_eq!(of(waited, 5_000_000), []);
}

#[test]
fn how_to_read_an_answer_that_nobody_waits_for_is_told() {
    let of =
        |lambda: &str| doubts(&format!("  - name: a\n    target: t\n    downstream: {{ lambda: {{ {lambda} }} }}\n"));
    for response in ["{ results: body.r, succeeded: ok }", "{ ignore_body: true }"] {
        let [(_, field, what)] = &of(&format!("function: f, mode: async, response: {response}"))[..] else { panic!() };
        assert!(field == "downstream.lambda.response" && what.contains("`mode`"), "{what}");
        assert_eq!(of(&format!("function: f, response: {response}")), []);
    }
    assert_eq!(of("function: f, mode: async"), []);
}

#[test]
fn an_expression_that_looks_past_the_answer_is_told() {
    let of = |response: &str| {
        let http = format!("{{ http: {{ url: 'https://a.example/', response: {{ {response} }} }} }}");
        doubts(&format!("  - name: a\n    target: t\n    downstream: {http}\n"))
    };
    for (response, field, says) in [
        ("results: items, succeeded: ok", "results", "`body.NAME`"),
        ("all_succeeded: '!body.errors'", "all_succeeded", "`!(a.b)`"),
        ("failures: body.f, id: id, retryable: \"code == '7'\"", "retryable", "`7`"),
    ] {
        let [(_, of, what)] = &of(response)[..] else { panic!("{response}") };
        assert!(*of == format!("downstream.http.response.{field}") && what.contains(says), "{response}: {what}");
    }
    assert_eq!(of("all_succeeded: '`true`'"), []);
    assert_eq!(of("results: body.items, succeeded: '!(error.code)', id: '@'"), []);
}

#[test]
fn the_default_route_of_all_fields_is_well() {
    assert_eq!(of_one("shards: 1"), []);
}
