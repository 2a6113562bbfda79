//! What a routes file says that is allowed and surely not meant.

use jmespath::Rcvar;
use jmespath::ast::{Ast, Comparator, KeyValuePair};
use serde::Serialize;

use super::body::MAX_BODY_BYTES;
use super::downstream::{self, Auth, Downstream, HeaderValue, Http, Secret};
use super::{Expression, Route, Routes, Settings};
use crate::domain::batch;
use crate::domain::gate::{Rates, Unit};
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
            for (field, expression) in [("when", &route.when)].into_iter().chain(route.reads.written()) {
                for what in expression.doubts() {
                    doubt(field, what);
                }
            }
            for (field, what) in never_so(route) {
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
            let kind = if route.downstream.http().is_some() { "http" } else { "lambda" };
            for (field, what) in route.downstream.response().doubts() {
                doubt(&format!("downstream.{kind}.response.{field}"), what);
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
    if let (Some(of_one), Some(of_all)) = (settings.in_flight, route.in_flight)
        && of_one > of_all
    {
        let what = format!("one Target cannot have {of_one} calls in flight where all have {of_all}: see `in_flight`");
        found.push(("limits.in_flight_per_target", what));
    }
    if let Some(most) = at_once(settings.in_flight, settings.rates.gap_ms(), route) {
        found.push(("limits.in_flight_per_target", most));
    }
    found
}

/// Why that number of calls is never in flight at this rate.
fn at_once(in_flight: Option<usize>, gap_ms: Option<u64>, route: &Route) -> Option<String> {
    let (most, gap_ms, timeout_ms) = (in_flight?, gap_ms?, route.downstream.timeout_ms()?);
    // The next call begins no sooner than the first of those is over.
    let at_once = timeout_ms.div_ceil(gap_ms.max(1)).max(1);
    let what = format!("at one call every {gap_ms} ms of at most {timeout_ms} ms each, at most {at_once} overlap");
    (most as u64 > at_once).then_some(what)
}

/// What the whole route says that another field of it keeps from being so.
fn never_so(route: &Route) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let Some(what) = at_once(route.in_flight, route.rates.even().gap_ms(), route) {
        found.push(("limits.in_flight", what));
    }
    let of_targets = route.targets.iter().map(|one| one.settings.in_flight).chain([route.usual().in_flight]);
    let of_named = route.named.iter().map(|named| named.limits.in_flight);
    let counts_calls = of_targets.chain([route.in_flight]).chain(of_named).any(|most| most.is_some());
    if route.keep_timed_out_ms > 0 && !counts_calls {
        let what = "no call counts as in flight without `in_flight` or `in_flight_per_target`";
        found.push(("limits.keep_timed_out_s", what.to_owned()));
    }
    let is_weighed = |rates: &Rates| rates.iter().any(|rate| rate.of == Unit::Weight);
    if !route.weighs() && route.named.iter().any(|named| is_weighed(&named.limits.rates)) {
        let what = "a named limit counts weight, and without `batch.weight` each task of this route weighs 1";
        found.push(("limits", what.to_owned()));
    }
    if route.shares() && !route.is_limited() && route.named.is_empty() {
        let what = "no calls of different Targets wait for each other without `in_flight` or `calls_per_second`";
        found.push(("limits.share", what.to_owned()));
    }
    if route.reads.collapse.is_some() && route.shards > 1 {
        let what = "two shards of a Target may both call a task of one key, each its newest. Write `shards: 1`";
        found.push(("collapse", what.to_owned()));
    }
    if let Downstream::Lambda(lambda) = &route.downstream
        && lambda.ignores_response()
    {
        let what = "nobody waits for the function's answer, see `mode`, so nothing is read of it";
        found.push(("downstream.lambda.response", what.to_owned()));
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
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let what = match value {
            _ if http.auth.as_deref().map_or(&[][..], Auth::headers).iter().any(|set| is(set)) => {
                Some("`auth` sets this header, and overrides it".to_owned())
            }
            HeaderValue::Text(_) if http.compress.is_some() && is("content-encoding") => {
                Some("`compress` sets this header, and overrides it".to_owned())
            }
            HeaderValue::Text(text) => downstream::unknown(text).map(literal),
            HeaderValue::Secret { .. } => None,
        };
        found.extend(what.map(|what| (format!("headers.{name}"), what)));
    }
    let of_job = http.job.iter().flat_map(|job| job.doubts());
    found.extend(of_job.map(|(field, what)| (format!("job.{field}"), what)));
    for (field, secret) in http.secrets() {
        if let Secret::Env(variable) = secret
            && !is_set(variable)
        {
            found.push((field, format!("the environment variable `{variable}` is not set on this machine")));
        }
    }
    if http.tls.is_some() && http.url.as_str().starts_with("http://") {
        found.push(("tls".to_owned(), "a call over http has no certificates: write `https://`".to_owned()));
    }
    found
}

impl Expression {
    /// Whether it holds whatever the payload is.
    fn always_holds(&self) -> bool {
        matches!(self.ast(), Ast::Literal { value, .. } if value.is_truthy())
    }

    /// Comparisons and negations in it that cannot be meant.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut found = Vec::new();
        each_node(self.ast(), &mut |node| match node {
            Ast::Comparison { comparator, lhs, rhs, .. } => {
                for (side, other) in [(lhs, rhs), (rhs, lhs)] {
                    found.extend(self.doubt(comparator, side, other));
                }
            }
            Ast::Subexpr { lhs, .. } if matches!(**lhs, Ast::Not { .. }) => {
                found.push("`!a.b` is `(!a).b`, which is never so. Write `!(a.b)`".to_owned());
            }
            _ => {}
        });
        found
    }

    /// Whether it lists an object's values or keys, whose order is none of the object's.
    pub(super) fn lists_an_object(&self) -> bool {
        fn lists(ast: &Ast) -> bool {
            match ast {
                Ast::ObjectValues { .. } => true,
                Ast::Function { name, args, .. } => match name.as_str() {
                    "keys" | "values" => true,
                    "map" | "reverse" => args.iter().any(lists),
                    _ => false,
                },
                Ast::Projection { lhs: node, .. } | Ast::Flatten { node, .. } => lists(node),
                Ast::Subexpr { lhs, rhs, .. } | Ast::Or { lhs, rhs, .. } => lists(lhs) || lists(rhs),
                _ => false,
            }
        }
        lists(self.ast())
    }

    /// What cannot be meant by this side of a comparison.
    fn doubt(&self, comparator: &Comparator, side: &Ast, other: &Ast) -> Option<String> {
        let is_order = !matches!(comparator, Comparator::Equal | Comparator::NotEqual);
        match side {
            Ast::Field { name, .. } if is_plain(name) && self.as_str().contains(&format!("\"{name}\"")) => {
                Some(format!("`\"{name}\"` is the field of that name. Text is written in single quotes: `'{name}'`"))
            }
            Ast::Literal { value, .. } => text_of(value).and_then(|text| {
                let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| !value.is_string());
                match (is_order, is_json && !is_text(other)) {
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

/// Returns whether a value may be text that says a number: a header, or what a function such as `to_string` gives.
fn is_text(ast: &Ast) -> bool {
    match ast {
        Ast::Function { .. } => true,
        Ast::Subexpr { lhs, .. } => matches!(&**lhs, Ast::Field { name, .. } if name == "headers"),
        _ => false,
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

/// Calls `see` with each node of an expression, however deep it lies.
fn each_node(ast: &Ast, see: &mut impl FnMut(&Ast)) {
    see(ast);
    match ast {
        Ast::Comparison { lhs: one, rhs: other, .. }
        | Ast::Condition { predicate: one, then: other, .. }
        | Ast::Projection { lhs: one, rhs: other, .. }
        | Ast::And { lhs: one, rhs: other, .. }
        | Ast::Or { lhs: one, rhs: other, .. }
        | Ast::Subexpr { lhs: one, rhs: other, .. } => {
            each_node(one, see);
            each_node(other, see);
        }
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => each_node(node, see),
        Ast::Function { args: nodes, .. } | Ast::MultiList { elements: nodes, .. } => {
            nodes.iter().for_each(|node| each_node(node, see));
        }
        Ast::MultiHash { elements, .. } => {
            elements.iter().for_each(|KeyValuePair { value, .. }| each_node(value, see));
        }
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Literal { .. } | Ast::Slice { .. } => {}
    }
}

#[cfg(test)]
mod tests;
