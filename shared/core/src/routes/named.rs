//! Named limits: one budget for the calls of several routes.
//!
//! A route that names one passes it after its own limits. It has no rate of its own then, and of those that it names
//! one has rates: a batch has its turn at one limit, and would have to pay for it at the other again. That one comes
//! last, the others in the order of their names, so that no two routes wait for each other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use super::limited::Limited;
use super::limits::{self, CallLimits, RateEntry};
use super::{Error, Route};
use crate::domain::batch;
use crate::domain::gate::{Limits, Rate, Rates};
use crate::domain::id::LimitName;

/// A limit that routes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: LimitName,
    /// Its permits and its rates.
    pub limits: Limits,
}

/// A limit of all calls of the routes that name it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NamedLimit")]
#[serde(default, deny_unknown_fields)]
pub(super) struct Entry {
    /// Calls in flight.
    in_flight: Option<Limited<1, 1_000>>,
    /// Rates beside each other, each of another unit or window: for example tokens a minute. A default burst goes by
    /// the largest batch of all its routes.
    #[schemars(length(max = 4))]
    rates: Vec<RateEntry>,
}

/// The limits of a route's calls: its own, and the names of those that it shares.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteLimits {
    pub(super) own: CallLimits,
    pub(super) names: Vec<Spanned<String>>,
}

/// A route's limits as they are written.
enum Written {
    Own(Box<CallLimits>),
    Name(String),
    List(Vec<Spanned<Self>>),
}

struct Reader;

impl<'de> de::Visitor<'de> for Reader {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORM)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Written, E> {
        Ok(Written::List(Vec::new()))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Written, E> {
        Ok(Written::Name(name.to_owned()))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
        CallLimits::deserialize(MapAccessDeserializer::new(map)).map(|own| Written::Own(Box::new(own)))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Written, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Written::List)
    }
}

const FORM: &str = "fields, or a list of names (`on` and `7` in quotes) with at most one entry of fields";
/// Each adds requests to each call of the route.
const MOST_NAMES: usize = 8;

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for RouteLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = match Written::deserialize(deserializer)? {
            Written::Own(own) => return Ok(Self { own: *own, names: Vec::new() }),
            Written::Name(_) => return Err(de::Error::custom(format!("expected {FORM}"))),
            Written::List(list) => list,
        };
        let (mut own, mut names) = (None, Vec::new());
        for Spanned { value, referenced, defined } in list {
            match value {
                Written::Own(limits) if own.is_none() => own = Some(*limits),
                Written::Name(name) => names.push(Spanned::new(name, referenced, defined)),
                Written::Own(_) | Written::List(_) => return Err(de::Error::custom(format!("expected {FORM}"))),
            }
        }
        Ok(Self { own: own.unwrap_or_default(), names })
    }
}

impl JsonSchema for RouteLimits {
    fn schema_name() -> Cow<'static, str> {
        "RouteLimits".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let own = generator.subschema_for::<CallLimits>();
        let name = json_schema!({ "type": "string", "pattern": "^[a-z0-9-]{1,64}$" });
        json_schema!({ "anyOf": [own, { "type": "array", "items": { "anyOf": [name, own] }, "maxItems": MOST_NAMES + 1 }] })
    }
}

/// The limits of a file that have names.
pub(super) type ByName = BTreeMap<String, Spanned<Entry>>;

fn wrong<T>(at: &Spanned<T>, what: String) -> Error {
    Error { line: at.referenced.line(), column: at.referenced.column(), what }
}

impl Entry {
    /// Compiles it for batches of routes that may be as large as these.
    fn compile(&self, batches: &[batch::Limits]) -> Limits {
        let largest =
            |entry: &RateEntry| batches.iter().map(|batch| entry.compile(batch)).max_by_key(|rate| rate.burst);
        let rates = Rates::of(self.rates.iter().filter_map(largest));
        let in_flight = self.in_flight.and_then(|most| usize::try_from(most.0).ok());
        Limits { in_flight, rates, share: None }
    }

    /// Returns why it cannot be; `None` if it can.
    fn refusal(&self) -> Option<String> {
        if self.in_flight.is_none() && self.rates.is_empty() {
            return Some("limits nothing: write `in_flight` or `rates`".to_owned());
        }
        let rates: Vec<Rate> = self.rates.iter().map(|rate| rate.compile(&batch::Limits::default())).collect();
        limits::refused(&rates).map(|what| format!("has {what}"))
    }
}

/// Compiles the named limits of a file whose routes name these limits and make batches as large as these.
pub(super) fn compile(
    entries: &ByName,
    routes: &[(&RouteLimits, batch::Limits)],
) -> Result<BTreeMap<String, Named>, Error> {
    let mut named = BTreeMap::new();
    for (name, entry) in entries {
        let of = |what: &str| wrong(entry, format!("the limit `{name}` {what}"));
        let valid = LimitName::parse(name).map_err(|rule| wrong(entry, rule.to_owned()))?;
        if let Some(what) = entry.value.refusal() {
            return Err(of(&what));
        }
        let names_it = |(limits, batch): &(&RouteLimits, batch::Limits)| {
            limits.names.iter().any(|one| one.value == *name).then_some(*batch)
        };
        let batches: Vec<batch::Limits> = routes.iter().filter_map(names_it).collect();
        if batches.is_empty() {
            return Err(of("is named by no route"));
        }
        named.insert(name.clone(), Named { name: valid, limits: entry.value.compile(&batches) });
    }
    Ok(named)
}

impl RouteLimits {
    /// Returns the limits that it names, in the order in which their permits are acquired.
    pub(super) fn named(&self, all: &BTreeMap<String, Named>) -> Result<Vec<Named>, Error> {
        if let Some(name) = self.names.get(MOST_NAMES) {
            return Err(wrong(
                name,
                format!("`limits` names over {MOST_NAMES} limits: each adds requests to each call"),
            ));
        }
        let mut found: Vec<Named> = Vec::new();
        for name in &self.names {
            let one = all.get(&name.value).ok_or_else(|| {
                wrong(
                    name,
                    format!("`{}` is no limit: `limits` at the top of the file has none of this name", name.value),
                )
            })?;
            if found.contains(one) {
                return Err(wrong(name, format!("`limits` names `{}` twice", one.name)));
            }
            let has_rates = |one: &Named| !one.limits.rates.is_none();
            if let Some(other) = found.iter().find(|other| has_rates(other) && has_rates(one)) {
                let what = "both with rates: a batch that waits at one would miss its time at the other";
                return Err(wrong(name, format!("`limits` names `{}` and `{}`, {what}", other.name, one.name)));
            }
            if let Some(field) = self.own.rate_field() {
                let what = "has its turn at one limit: put that rate into the named limit";
                return Err(wrong(name, format!("`limits.{field}` beside the limit `{}`: a batch {what}", one.name)));
            }
            found.push(one.clone());
        }
        found.sort_by(|a, b| (!a.limits.rates.is_none(), &a.name).cmp(&(!b.limits.rates.is_none(), &b.name)));
        Ok(found)
    }
}

/// Makes the leases of routes that share permits equally long, by which a semaphore tells when one is free. Refuses
/// permits of called and of pulled routes: a worker that pulls says itself how long its leases are. So it does of usual
/// and of long calls: a function has no time for calls of another one's lease.
pub(super) fn level_leases(routes: &mut [Route], entries: &ByName) -> Result<(), Error> {
    let permits = |route: &Route| {
        let with_permits = route.named.iter().filter(|one| one.limits.in_flight.is_some());
        with_permits.map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    loop {
        let mut longest: BTreeMap<LimitName, (u64, Calls)> = BTreeMap::new();
        for route in &*routes {
            for name in permits(route) {
                let (lease_ms, calls) = longest.entry(name.clone()).or_insert((0, Calls::of(route)));
                if let Some(entry) = entries.get(name.as_str()).filter(|_| *calls != Calls::of(route)) {
                    let (one, other) = (calls.in_words(), Calls::of(route).in_words());
                    let what = format!("has permits of routes {one} and of routes {other}");
                    return Err(wrong(entry, format!("the limit `{name}` {what}: name one limit for each kind")));
                }
                *lease_ms = route.lease_ms(0).max(*lease_ms);
            }
        }
        // A route may share with two others that share nothing: then one round is not enough.
        let mut is_level = true;
        for route in &mut *routes {
            let least = permits(route).iter().filter_map(|name| longest.get(name)).map(|(lease_ms, _)| *lease_ms).max();
            is_level &= least <= Some(route.lease_ms(0));
            route.least_lease_ms = least.unwrap_or_default();
        }
        if is_level {
            return Ok(());
        }
    }
}

/// The kind of a route's calls, on which the length of its leases depends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    Usual,
    Long,
    Pulled,
}

impl Calls {
    fn of(route: &Route) -> Self {
        match (route.is_pulled(), route.downstream.is_long()) {
            (true, _) => Self::Pulled,
            (false, true) => Self::Long,
            (false, false) => Self::Usual,
        }
    }

    const fn in_words(self) -> &'static str {
        match self {
            Self::Usual => "that are called",
            Self::Long => "whose calls are long",
            Self::Pulled => "that are pulled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::gate::{Scope, Unit};
    use crate::domain::{RouteName, Target};
    use crate::routes::Routes;

    /// A file with these named limits and a route for each of these limits.
    fn file(named: &str, routes: &[&str]) -> Result<Routes, Error> {
        let http = "downstream: { http: { url: 'https://x', timeout_ms: 1000 } }";
        let route = |(n, limits): (usize, &&str)| {
            let when = "when: \"a == `1`\"";
            format!(
                "  - {{ name: r{n}, target: t, {when}, {http}, batch: {{ max_items: {} }}, {limits} }}\n",
                10 * (n + 1)
            )
        };
        let routes: String = routes.iter().enumerate().map(route).collect();
        Routes::parse(&format!("version: 1\nlimits: {named}\nroutes:\n{routes}"))
    }

    #[test]
    fn routes_share_a_named_limit_beside_limits_of_their_own() {
        let tokens = "{ rates: [{ amount: 15, per: minute, of: items }], in_flight: 2 }";
        let named = format!("{{ tokens: {tokens}, b: {{ in_flight: 3 }}, a: {{ in_flight: 4 }} }}");
        let routes =
            file(&named, &["limits: [tokens, b, { in_flight_per_target: 2 }, a]", "limits: [tokens]"]).unwrap();
        let route = |n: usize| routes.get(&RouteName::new(format!("r{n}"))).unwrap();
        let names: Vec<&str> = route(0).named.iter().map(|named| named.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "tokens"], "rates last, the others by name");
        assert_eq!(route(0).named[2], route(1).named[0], "one limit, with one burst");
        let rate = route(1).named[0].limits.rates.iter().next().unwrap();
        assert_eq!(
            (rate.of, rate.amount, rate.burst),
            (Unit::Items, 15, 15),
            "the largest batch, and no more than all"
        );
        let largest = |n: usize| route(n).for_target(&Target::of(&route(n).name, "t")).batch.max_items;
        assert_eq!([largest(0), largest(1)], [10, 15], "no batch is larger than the burst");
        assert_eq!(route(0).limits_of(&Target::of(&route(0).name, "t")).in_flight, Some(2));
        let of = Scope::Limit(LimitName::new("tokens"));
        let share = |n: usize| route(n).share(&of, &Target::of(&route(n).name, "t"), 0);
        assert!(share(0).is_some() && share(0) != share(1), "routes take turns");
    }

    #[test]
    fn routes_that_share_permits_hold_them_by_leases_of_one_length() {
        let (named, slow) = ("{ p: { in_flight: 1 }, q: { rates: [{ amount: 1, per: day }] } }", "on_reject: bisect");
        let slow = format!("{slow}, limits: [p]");
        let routes = file(named, &["limits: [p, q]", &slow, "limits: [q]"]).unwrap();
        let leases: Vec<u64> = routes.iter().map(|route| route.lease_ms(0)).collect();
        assert_eq!(leases, [70_000, 70_000, 12_000]);
        // The first and the last share with the second only.
        let named = "{ p: { in_flight: 1 }, r: { in_flight: 1 } }";
        let routes = file(named, &["limits: [p]", "limits: [p, r]", &slow.replace("[p]", "[r]")]).unwrap();
        assert!(routes.iter().all(|route| route.lease_ms(0) == 70_000), "{routes:?}");
    }

    #[test]
    fn long_calls_share_no_permits_with_usual_ones() {
        let of = |named: &str| {
            let route = |name: &str, timeout_ms: u64| {
                let when = "when: \"a == `1`\"";
                let http = format!("downstream: {{ http: {{ url: 'https://x', timeout_ms: {timeout_ms} }} }}");
                format!("  - {{ name: {name}, target: t, {when}, {http}, limits: [p] }}\n")
            };
            let routes = route("usual", 30_000) + &route("long", 30_001);
            Routes::parse(&format!("version: 1\nlimits: {named}\nroutes:\n{routes}"))
        };
        let told = of("{ p: { in_flight: 1 } }").unwrap_err().what;
        assert!(told.contains("routes that are called and of routes whose calls are long"), "{told}");
        let routes = of("{ p: { rates: [{ amount: 1, per: day }] } }").unwrap();
        let leases: Vec<u64> = routes.iter().map(|route| route.lease_ms(0)).collect();
        assert_eq!(leases, [70_000, 70_001], "a second call begins within half a minute");
    }

    #[test]
    fn a_mistake_about_a_named_limit_says_where_it_is() {
        let rate = "rates: [{ amount: 1, per: minute }]";
        let (two, a) = (format!("{{ a: {{ {rate} }}, b: {{ {rate} }} }}"), format!("{{ a: {{ {rate} }} }}"));
        let nine = (0..9).map(|n| format!("l{n}: {{ in_flight: 1 }}")).collect::<Vec<_>>().join(", ");
        let nine = format!("{{ {nine} }}");
        let many = "{ a: { rates: [{ amount: 101, per: second }] } }";
        for (named, route, at, said) in [
            (a.as_str(), "limits: [a, c]", (4, 0), "`c` is no limit"),
            (&a, "limits: [a, a]", (4, 0), "names `a` twice"),
            (&a, "limits: {}", (2, 14), "the limit `a` is named by no route"),
            (&a, "limits: [a, { calls_per_minute: 2 }]", (4, 0), "`limits.calls_per_minute` beside the limit `a`"),
            (
                &a,
                "limits: [a, { calls_per_second_per_target: 2 }]",
                (4, 0),
                "`limits.a` beside `calls_per_second_per_target`",
            ),
            (&a, "limits: [a, {}, {}]", (4, 0), "at most one entry of fields"),
            (&a, "limits: [a, { in_fligt: 2 }]", (4, 0), "in_fligt"),
            (&a, "limits: a", (4, 0), "a list of names"),
            (&two, "limits: [a, b]", (4, 0), "names `a` and `b`, both with rates"),
            ("{ a: {} }", "limits: [a]", (2, 14), "limits nothing"),
            (&nine, "limits: [l0, l1, l2, l3, l4, l5, l6, l7, l8]", (4, 0), "names over 8 limits"),
            ("{ on: { in_flight: 1 } }", "limits: [on]", (4, 0), "in quotes"),
            ("{ A: { in_flight: 1 } }", "limits: [A]", (2, 14), "1 to 64 characters out of a-z"),
            (many, "limits: [a]", (2, 14), "over 100 calls a second"),
            ("{ a: { in_flight: 1 }, a: { in_flight: 2 } }", "limits: [a]", (2, 0), "`a` is there twice"),
            ("{ a: { in_flight: 1, share: { by: target } } }", "limits: [a]", (2, 0), "share"),
        ] {
            let Error { line, column, what } = file(named, &[route]).unwrap_err();
            assert!(what.contains(said), "{route}: {what}");
            assert!(line == at.0 && (at.1 == 0 || column == at.1), "{route}: line {line}, column {column}: {what}");
        }
    }
}
