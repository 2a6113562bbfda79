//! What a routes file says that is allowed and surely not meant.

use jmespath::Rcvar;
use jmespath::ast::{Ast, Comparator, KeyValuePair};
use serde::Serialize;

use super::body::MAX_BODY_BYTES;
use super::downstream::{self, HeaderValue, Http, Secret};
use super::{Expression, Route, Routes, Settings};
use crate::domain::batch;
use crate::domain::id::RouteName;
use crate::domain::task_message::MAX_MESSAGE_BYTES;

/// Something that a route says and that cannot be meant, in words that end a sentence about its field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// Where the route begins in the file, counted from 1.
    pub line: u64,
    /// The route.
    pub route: RouteName,
    /// The field, as the file writes it.
    pub field: String,
    /// What is wrong with it, and what to write instead.
    pub what: String,
}

impl Routes {
    /// What is allowed and surely not meant. `is_set` says whether an environment variable has a value where the calls
    /// will be made.
    pub fn doubts(&self, is_set: impl Fn(&str) -> bool) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        for (at, route) in self.routes.iter().enumerate() {
            let mut doubt = |field: &str, what: String| {
                doubts.push(Doubt { line: route.line, route: route.name.clone(), field: field.to_owned(), what });
            };
            if let Some(what) = hidden(route, &self.routes[..at]) {
                doubt("when", what);
            }
            for what in route.when.doubts() {
                doubt("when", what);
            }
            for (field, what) in never_reached(route) {
                doubt(field, what);
            }
            let of_all = never_reached_by(route.usual(), route);
            for (field, what) in &of_all {
                doubt(field, what.clone());
            }
            for (at, one) in route.targets.iter().enumerate() {
                let entry = format!("targets.{}", one.names.written());
                if let Some(first) = route.targets[..at].iter().find(|first| first.names.cover(&one.names)) {
                    let before = first.names.written();
                    let what =
                        format!("no Target comes here: `{before}`, before it, has them all. Put the narrower first");
                    doubt(&entry, what);
                }
                if one.settings == *route.usual() {
                    doubt(&entry, "it says what the route says of all Targets".to_owned());
                }
                for (field, what) in
                    never_reached_by(&one.settings, route).into_iter().filter(|one| !of_all.contains(one))
                {
                    doubt(&format!("{entry}.{field}"), what);
                }
            }
            for (field, what) in route.downstream.http().into_iter().flat_map(|http| of_http(http, &is_set)) {
                doubt(&format!("downstream.http.{field}"), what);
            }
        }
        doubts
    }
}

/// Why no task ever takes this route, if those before it take them all.
fn hidden(route: &Route, before: &[Route]) -> Option<String> {
    let first = before.iter().find(|other| other.when.always_holds() || other.when.as_str() == route.when.as_str())?;
    let why = if first.when.always_holds() { "takes all tasks" } else { "has the same `when`" };
    Some(format!("no task takes this route: `{}`, before it, {why}. Put the narrower route first", first.name))
}

/// Limits of Targets that another limit keeps from ever being reached.
fn never_reached_by(settings: &Settings, route: &Route) -> Vec<(&'static str, String)> {
    let batch::Limits { max_items, max_bytes, wait_ms, min_items, quiet_ms, max_weight, .. } = settings.batch;
    let usual = batch::Limits::default();
    let mut found = Vec::new();
    let most_bytes = (max_items as u64).saturating_mul(MAX_MESSAGE_BYTES as u64);
    if max_bytes > most_bytes && max_bytes != usual.max_bytes {
        let what = format!("{max_items} tasks of {MAX_MESSAGE_BYTES} bytes, the most that a task may have, are fewer");
        found.push(("batch.max_bytes", what));
    }
    let body = route.downstream.max_body_bytes();
    if body < MAX_BODY_BYTES && max_bytes > body as u64 {
        let what = format!("one call of this downstream carries {body} bytes at most: a larger batch goes in halves");
        found.push(("batch.max_bytes", what));
    }
    if max_items == 1 && wait_ms != 0 && wait_ms != usual.wait_ms {
        found.push(("batch.wait_ms", "a batch of one task is full at once, and waits for no other".to_owned()));
    }
    if min_items.is_some_and(|least| least > max_items) {
        let what = format!("a batch has {max_items} tasks at most, see `max_items`, and waits for no more then");
        found.push(("batch.min_items", what));
    }
    if quiet_ms.is_some_and(|quiet_ms| quiet_ms >= wait_ms) {
        found.push(("batch.quiet_ms", format!("a batch waits for {wait_ms} ms at most: see `wait_ms`")));
    }
    if max_weight.is_some_and(|most| most >= max_items as u64) && !route.weighs() {
        let what = format!("without `weight` each task weighs 1, and a batch has {max_items} tasks at most");
        found.push(("batch.max_weight", what));
    }
    if max_weight.is_none() && route.weighs() {
        found.push(("batch.weight", "nothing is limited by it: write `max_weight`".to_owned()));
    }
    if max_items == 1 && settings.batch.closes {
        found.push(("batch.close_when", "a batch of one task is full at once, and waits for no other".to_owned()));
    }
    if let (Some(of_one), Some(of_all)) = (settings.in_flight, route.in_flight.in_all)
        && of_one > of_all
    {
        let what = format!("one Target cannot have {of_one} calls in flight where all have {of_all}: see `in_flight`");
        found.push(("limits.in_flight_per_target", what));
    }
    found
}

/// Limits of the whole route that another limit keeps from ever being reached.
fn never_reached(route: &Route) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let (Some(in_all), Some(gap_ms), Some(timeout_ms)) =
        (route.in_flight.in_all, route.gap_ms, route.downstream.timeout_ms())
        && route.in_flight.least.is_none()
    {
        // The next call begins no sooner than the first of those is over.
        let at_once = timeout_ms.div_ceil(gap_ms.max(1)).max(1);
        if in_all as u64 > at_once {
            let what =
                format!("at one call every {gap_ms} ms of at most {timeout_ms} ms each, at most {at_once} overlap");
            found.push(("limits.in_flight", what));
        }
    }
    if route.shares() && !route.is_limited() {
        let what = "no calls of different Targets wait for each other without `in_flight` or `calls_per_second`";
        found.push(("limits.share", what.to_owned()));
    }
    if route.retry.base_ms > route.retry.cap_ms {
        let what = format!("no pause is longer than `cap_ms`, which is {} ms", route.retry.cap_ms);
        found.push(("retry.base_ms", what));
    }
    found
}

/// What cannot be meant of an HTTP API: fields of it, each with what is wrong.
fn of_http(http: &Http, is_set: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let literal =
        |name: &str| format!("`{{{name}}}` stands for nothing and is sent as it is: write `{{target}}` or `{{batch}}`");
    found.extend(downstream::unknown(http.url.as_str()).map(|name| ("url".to_owned(), literal(name))));
    for (name, value) in &http.headers {
        let what = match value {
            HeaderValue::Text(_) if http.compress.is_some() && name.eq_ignore_ascii_case("content-encoding") => {
                Some("`compress` sets this header, and overrides it".to_owned())
            }
            HeaderValue::Text(text) => downstream::unknown(text).map(literal),
            HeaderValue::Secret { secret: Secret::Env(variable) } if !is_set(variable) => {
                Some(format!("the environment variable `{variable}` is not set on this machine"))
            }
            HeaderValue::Secret { secret: Secret::Env(_) | Secret::SecretsManager(_) } => None,
        };
        found.extend(what.map(|what| (format!("headers.{name}"), what)));
    }
    found
}

impl Expression {
    /// Whether it holds whatever the payload is.
    fn always_holds(&self) -> bool {
        matches!(self.ast(), Ast::Literal { value, .. } if value.is_truthy())
    }

    /// Comparisons in it that cannot be meant.
    fn doubts(&self) -> Vec<String> {
        let mut found = Vec::new();
        each_comparison(self.ast(), &mut |comparator, sides| {
            for side in sides {
                found.extend(self.doubt(comparator, side));
            }
        });
        found
    }

    /// What cannot be meant by this side of a comparison.
    fn doubt(&self, comparator: &Comparator, side: &Ast) -> Option<String> {
        let is_order = !matches!(comparator, Comparator::Equal | Comparator::NotEqual);
        match side {
            Ast::Field { name, .. } if is_plain(name) && self.as_str().contains(&format!("\"{name}\"")) => {
                Some(format!("`\"{name}\"` is the field of that name. Text is written in single quotes: `'{name}'`"))
            }
            Ast::Literal { value, .. } => text_of(value).and_then(|text| {
                let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| !value.is_string());
                match (is_order, is_json) {
                    (true, true) => Some(format!("text has no order, so this never holds. Write `{text}` in backticks")),
                    (true, false) => Some(format!("only numbers have an order, and `'{text}'` is text: it never holds")),
                    (false, true) => Some(format!(
                        "`'{text}'` is text and equals no number or truth value. Those are written in backticks: `{text}`"
                    )),
                    (false, false) => None,
                }
            }),
            _ => None,
        }
    }
}

fn text_of(value: &Rcvar) -> Option<String> {
    value.as_string().cloned()
}

/// Whether a field's name needs no quotes.
fn is_plain(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Calls `see` with each comparison in an expression, however deep it lies: its operator and its two sides.
fn each_comparison(ast: &Ast, see: &mut impl FnMut(&Comparator, [&Ast; 2])) {
    match ast {
        Ast::Comparison { comparator, lhs, rhs, .. } => {
            see(comparator, [lhs, rhs]);
            each_comparison(lhs, see);
            each_comparison(rhs, see);
        }
        Ast::Condition { predicate: one, then: other, .. }
        | Ast::Projection { lhs: one, rhs: other, .. }
        | Ast::And { lhs: one, rhs: other, .. }
        | Ast::Or { lhs: one, rhs: other, .. }
        | Ast::Subexpr { lhs: one, rhs: other, .. } => {
            each_comparison(one, see);
            each_comparison(other, see);
        }
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => each_comparison(node, see),
        Ast::Function { args: nodes, .. } | Ast::MultiList { elements: nodes, .. } => {
            nodes.iter().for_each(|node| each_comparison(node, see));
        }
        Ast::MultiHash { elements, .. } => {
            elements.iter().for_each(|KeyValuePair { value, .. }| each_comparison(value, see));
        }
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Literal { .. } | Ast::Slice { .. } => {}
    }
}

#[cfg(test)]
mod tests {
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
        for fine in [r#""type == 'parcel'""#, r#""weight > `5`""#, r#"'"a b" == c'"#, r#""a == b""#] {
            assert_eq!(of_one(&format!("when: {fine}")), [], "{fine}");
        }
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
            ("limits: { in_flight: 20, calls_per_second: 10 }", "limits.in_flight"),
            ("limits: { in_flight_per_target: 3, share: { by: target } }", "limits.share"),
            ("retry: { base_ms: 61000 }", "retry.base_ms"),
            ("batch: { max_items: 10, max_weight: 10 }", "batch.max_weight"),
            ("batch: { weight: w }", "batch.weight"),
            ("batch: { max_items: 1, close_when: last }", "batch.close_when"),
        ] {
            let found = doubts(&format!("  - name: a\n    target: t\n    {http}\n    {fields}\n"));
            assert!(found.len() == 1 && found[0].1 == field, "{fields}: {found:?}");
        }
        for fine in [
            "batch: { max_items: 1 }",
            "batch: { max_items: 10, max_weight: 5, close_when: last }",
            "batch: { weight: w, max_weight: 1000 }",
            "limits: { in_flight: 10, calls_per_second: 10, in_flight_per_target: 10 }",
            "limits: { in_flight: auto, calls_per_second: 1 }",
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
        let [encoding] = &of("url: 'https://x', compress: gzip, headers: { Content-Encoding: br }")[..] else {
            panic!()
        };
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
    fn the_default_route_of_all_fields_is_well() {
        assert_eq!(of_one("shards: 1"), []);
    }
}
