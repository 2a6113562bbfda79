//! What a routes file says that is allowed and surely not meant.

use jmespath::Rcvar;
use jmespath::ast::{Ast, Comparator, KeyValuePair};
use serde::Serialize;

use super::downstream::Secret;
use super::{Downstream, Expression, Route, Routes};
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
            for (header, variable) in variables(&route.downstream) {
                if !is_set(variable) {
                    let field = format!("downstream.http.headers.{header}");
                    doubt(&field, format!("the environment variable `{variable}` is not set on this machine"));
                }
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

/// Limits that another limit keeps from ever being reached.
fn never_reached(route: &Route) -> Vec<(&'static str, String)> {
    let batch::Limits { max_items, max_bytes, wait_ms, min_items, quiet_ms } = route.batch;
    let usual = batch::Limits::default();
    let mut found = Vec::new();
    let most_bytes = (max_items as u64).saturating_mul(MAX_MESSAGE_BYTES as u64);
    if max_bytes > most_bytes && max_bytes != usual.max_bytes {
        let what = format!("{max_items} tasks of {MAX_MESSAGE_BYTES} bytes, the most that a task may have, are fewer");
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
    if let (Some(of_one), Some(of_all)) = (route.in_flight.per_target, route.in_flight.in_all)
        && of_one > of_all
    {
        let what = format!("one Target cannot have {of_one} calls in flight where all have {of_all}: see `in_flight`");
        found.push(("limits.in_flight_per_target", what));
    }
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

/// The environment variables that calls need, each with its header.
fn variables(downstream: &Downstream) -> impl Iterator<Item = (&str, &str)> {
    let headers = match downstream {
        Downstream::Http(http) => Some(&http.headers),
        Downstream::Lambda(_) | Downstream::Pull => None,
    };
    headers.into_iter().flatten().filter_map(|(name, value)| match value.secret() {
        Some(Secret::Env(variable)) => Some((name.as_str(), variable.as_str())),
        Some(Secret::SecretsManager(_)) | None => None,
    })
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
        ] {
            let found = doubts(&format!("  - name: a\n    target: t\n    {http}\n    {fields}\n"));
            assert!(found.len() == 1 && found[0].1 == field, "{fields}: {found:?}");
        }
        for fine in [
            "batch: { max_items: 1 }",
            "limits: { in_flight: 10, calls_per_second: 10, in_flight_per_target: 10 }",
            "limits: { in_flight: auto, calls_per_second: 1 }",
            "limits: { in_flight: 3, share: { by: target } }",
        ] {
            assert_eq!(doubts(&format!("  - name: a\n    target: t\n    {http}\n    {fine}\n")), [], "{fine}");
        }
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
    fn the_default_route_of_all_fields_is_well() {
        assert_eq!(of_one("shards: 1"), []);
    }
}
