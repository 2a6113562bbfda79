//! What one Target's batches and calls may be, where the routes file says something else for it than for the others.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use wildmatch::WildMatchPattern;

use super::closing::Closing;
use super::limited::Limited;
use super::limits::MOST_CALLS_A_SECOND;
use super::{MAX_TARGET_BYTES, Route};
use crate::domain::gate::{Rate, Rates};
use crate::domain::id::Target;
use crate::domain::time::Timestamp;
use crate::domain::{batch, gate};

/// What may be another for each Target. Whatever asks for it asks [`Route::for_target`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How much one call carries, and how long a batch waits.
    pub batch: batch::Limits,
    /// When the windows close, if the clock says so.
    pub closing: Option<Closing>,
    /// How many calls for the Target may be in flight; `None` is no limit.
    pub in_flight: Option<usize>,
    /// The rates at which calls for the Target start.
    pub rates: Rates,
}

impl Settings {
    /// When a task that comes `now` waits for a batch, if not at once. Its sender may want it to be later.
    pub fn due(&self, not_before: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let from = not_before.map_or(now, |not_before| not_before.max(now));
        let due = match &self.closing {
            Some(closing) => closing.next(from).unwrap_or(from),
            None => from,
        };
        (due > now).then_some(due)
    }
}

/// Targets of which something else holds.
#[derive(Clone, Debug)]
pub(super) struct Exception {
    pub(super) names: Names,
    pub(super) settings: Settings,
}

/// Names of Targets: one, or a pattern in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Names(WildMatchPattern<'*', '\0'>);

impl Names {
    fn has(&self, value: &str) -> bool {
        self.0.matches(value)
    }

    /// Whether all names that `other` has are among these. A `*` is matched by nothing but a `*`.
    pub(super) fn cover(&self, other: &Self) -> bool {
        self.has(&other.0.to_string())
    }

    pub(super) fn written(&self) -> String {
        self.0.to_string()
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        match written.len() {
            0 => Err(de::Error::custom("is empty, and no Target is")),
            1..=MAX_TARGET_BYTES => Ok(Self(WildMatchPattern::new(&written))),
            _ => Err(de::Error::custom(format!("is over {MAX_TARGET_BYTES} bytes, and no Target is"))),
        }
    }
}

/// What holds for some Targets in place of what the route says.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ForTargets")]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The Target as the route's `target` gives it, or a pattern: `*` stands for any text, as in `acme-*`.
    #[serde(rename = "match")]
    #[schemars(with = "String", length(min = 1, max = 512))]
    names: Names,
    /// How much one of their calls carries. What is absent is as the route says.
    #[serde(default)]
    batch: Batch,
    /// When one of their calls may start. What is absent is as the route says.
    #[serde(default)]
    limits: Limits,
}

/// How much one call for some Targets carries, and how long their batches wait.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "BatchForTargets")]
#[serde(default, deny_unknown_fields)]
struct Batch {
    /// Tasks in one call at most.
    max_items: Option<Limited<1, 1_000>>,
    /// Bytes of payloads in one call at most.
    max_bytes: Option<Limited<1, 5_000_000>>,
    /// How long a batch that is not full waits for more, in milliseconds.
    wait_ms: Option<Limited<0, 300_000>>,
    /// A batch with at least this many tasks waits for no more. `null`: it waits until it is full.
    #[serde(deserialize_with = "said")]
    #[schemars(with = "Option<Limited<1, 1_000>>")]
    min_items: Said<Limited<1, 1_000>>,
    /// A batch to which no task has come for so long waits for no more, in milliseconds. `null`: it waits for
    /// `wait_ms`.
    #[serde(deserialize_with = "said")]
    #[schemars(with = "Option<Limited<1, 300_000>>")]
    quiet_ms: Said<Limited<1, 300_000>>,
    /// What the tasks of one call may weigh together. `null`: no limit.
    #[serde(deserialize_with = "said")]
    #[schemars(with = "Option<Limited<1, 1_000_000_000>>")]
    max_weight: Said<Limited<1, 1_000_000_000>>,
    /// When the clock closes their windows. `null`: it closes none.
    #[serde(deserialize_with = "said")]
    #[schemars(with = "Option<Closing>")]
    close_at: Said<Closing>,
}

/// When a call for some Targets may start. Limits of the whole route are not for some of its Targets.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "LimitsForTargets")]
#[serde(default, deny_unknown_fields)]
struct Limits {
    /// Calls in flight for each one of them. `null`: no limit.
    #[serde(deserialize_with = "said")]
    #[schemars(with = "Option<Limited<1, 1_000>>")]
    in_flight_per_target: Said<Limited<1, 1_000>>,
    /// Calls that start in a second for each one of them. `null`: no limit.
    #[serde(deserialize_with = "said")]
    #[schemars(with = "Option<Limited<1, MOST_CALLS_A_SECOND>>")]
    calls_per_second_per_target: Said<Limited<1, MOST_CALLS_A_SECOND>>,
}

/// What an entry says of something that need not be: nothing, or what there is. `null` says that there is none.
type Said<T> = Option<Option<T>>;

fn said<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Said<T>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Entry {
    /// Compiles it with the settings that its route has for all others, within the bursts of its rates.
    pub(super) fn compile(self, usual: &Settings, rates: &Rates) -> Exception {
        let Batch { max_items, max_bytes, wait_ms, min_items, quiet_ms, max_weight, close_at } = self.batch;
        let Limits { in_flight_per_target, calls_per_second_per_target } = self.limits;
        let items = |limit: Limited<1, 1_000>| usize::try_from(limit.0).unwrap_or(usize::MAX);
        let settings = Settings {
            batch: batch::Limits {
                max_items: max_items.map_or(usual.batch.max_items, items),
                max_bytes: max_bytes.map_or(usual.batch.max_bytes, |limit| limit.0),
                wait_ms: wait_ms.map_or(usual.batch.wait_ms, |limit| limit.0),
                min_items: min_items.map_or(usual.batch.min_items, |least| least.map(items)),
                quiet_ms: quiet_ms.map_or(usual.batch.quiet_ms, |quiet| quiet.map(|quiet| quiet.0)),
                max_weight: max_weight.map_or(usual.batch.max_weight, |most| most.map(|most| most.0)),
                ..usual.batch
            }
            .within(rates),
            closing: close_at.unwrap_or_else(|| usual.closing.clone()),
            in_flight: in_flight_per_target.map_or(usual.in_flight, |most| most.map(items)),
            rates: calls_per_second_per_target.map_or(usual.rates, |rate| rate.map(a_second).unwrap_or_default()),
        };
        Exception { names: self.names, settings }
    }

    pub(super) const fn closes(&self) -> bool {
        matches!(self.batch.close_at, Some(Some(_)))
    }

    /// Whether it limits calls a second.
    pub(super) const fn has_rate(&self) -> bool {
        matches!(self.limits.calls_per_second_per_target, Some(Some(_)))
    }
}

/// This rate, in calls a second.
pub(super) fn a_second(calls: Limited<1, MOST_CALLS_A_SECOND>) -> Rates {
    Rates::of([Rate { amount: calls.0, ..Rate::every(1_000) }])
}

impl Route {
    /// What holds for this Target: what the first entry of `targets` says that names it, else what the route says.
    pub fn for_target(&self, target: &Target) -> &Settings {
        let value = target.value();
        self.targets.iter().find(|one| one.names.has(value)).map_or(&self.usual, |one| &one.settings)
    }

    /// What the gate of this Target lets through.
    pub fn limits_of(&self, target: &Target) -> gate::Limits {
        let Settings { in_flight, rates, .. } = *self.for_target(target);
        gate::Limits { in_flight, rates, share: None }
    }

    /// What holds for the Targets of which the file says nothing else.
    pub const fn usual(&self) -> &Settings {
        &self.usual
    }

    /// The names of the Targets of which the file says something else, as it writes them, and what that is.
    pub fn exceptions(&self) -> impl Iterator<Item = (String, &Settings)> {
        self.targets.iter().map(|one| (one.names.written(), &one.settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RouteName;
    use crate::routes::Routes;

    fn route(fields: &str) -> Result<Route, crate::routes::Error> {
        let yaml = format!("version: 1\nroutes:\n  - name: a\n    target: t\n    downstream: pull\n    {fields}\n");
        Routes::parse(&yaml).map(|routes| routes.iter().next().unwrap().clone())
    }

    fn target(value: &str) -> Target {
        Target::of(&RouteName::new("a"), value)
    }

    #[test]
    fn the_first_entry_that_names_a_target_counts_and_what_it_leaves_out_is_as_the_route_says() {
        let fields = "batch: { max_items: 50, min_items: 5 }\n    limits: { in_flight_per_target: 2 }\n    targets:\n\
                      \x20     - { match: acme-1, batch: { max_items: 500 } }\n\
                      \x20     - { match: 'acme-*', batch: { wait_ms: 9 }, limits: { in_flight_per_target: 7 } }";
        let route = route(fields).unwrap();
        let of = |value: &str| {
            let Settings { batch, in_flight, .. } = route.for_target(&target(value));
            (batch.max_items, batch.wait_ms, batch.min_items, *in_flight)
        };
        assert_eq!(of("acme-1"), (500, 1_000, Some(5), Some(2)));
        assert_eq!(of("acme-12"), (50, 9, Some(5), Some(7)));
        assert_eq!(of("acme"), (50, 1_000, Some(5), Some(2)));
        let shard = target("acme-1").in_shard(crate::domain::Shard(3));
        assert_eq!(route.for_target(&shard).batch.max_items, 500, "a shard is its Target's");
        assert_eq!(route.exceptions().map(|(names, _)| names).collect::<Vec<_>>(), ["acme-1", "acme-*"]);
    }

    #[test]
    fn null_is_none_where_an_option_need_not_be() {
        let of_all = "batch: { min_items: 5, quiet_ms: 9, max_weight: 7, close_at: '0 * * * *' }\n    \
                      limits: { in_flight_per_target: 2, calls_per_second_per_target: 4 }";
        let none = "batch: { min_items: null, quiet_ms: null, max_weight: ~, close_at: null }, \
                    limits: { in_flight_per_target: null, calls_per_second_per_target: null }";
        let route = route(&format!("{of_all}\n    targets:\n      - {{ match: b, {none} }}")).unwrap();
        let told = |Settings { batch, closing, in_flight, rates }: &Settings| {
            (batch.min_items, batch.quiet_ms, batch.max_weight, closing.is_some(), *in_flight, rates.gap_ms())
        };
        assert_eq!(told(route.usual()), (Some(5), Some(9), Some(7), true, Some(2), Some(250)));
        assert_eq!(told(route.for_target(&target("b"))), (None, None, None, false, None, None));
    }

    /// Text of a payload is matched, so it must not be able to say anything.
    #[test]
    fn only_a_star_of_the_file_stands_for_other_text() {
        let route = route("targets:\n      - { match: 'a?[b]', batch: { max_items: 3 } }").unwrap();
        let is_named = |value: &str| route.for_target(&target(value)) != route.usual();
        assert_eq!(["a?[b]", "ax[b]", "a*", "*", "a?b", ""].map(is_named), [true, false, false, false, false, false]);
    }

    #[test]
    fn limits_of_the_whole_route_are_not_for_some_targets() {
        for (fields, says) in [
            ("limits: { calls_per_second: 5 }", "calls_per_second"),
            ("limits: { in_flight: 5 }", "in_flight"),
            ("limits: { calls_per_second_per_target: 0 }", "from 1 to 100,"),
            ("batch: { express: false }", "express"),
            ("batch: { max_items: 0 }", "from 1 to 1000"),
        ] {
            let error = route(&format!("targets:\n      - {{ match: b, {fields} }}")).unwrap_err();
            assert!(error.what.contains(says) && error.line == 7, "{error}");
        }
        let error = route("targets:\n      - { match: '' }").unwrap_err();
        assert!(error.what.contains("is empty"), "{error}");
    }

    #[test]
    fn a_task_is_due_when_its_window_closes_and_not_before_its_sender_wants() {
        let of = |at: &str| Timestamp::parse(&format!("2026-11-25T{at}Z")).unwrap();
        let route =
            route("batch: { close_at: '0 * * * *' }\n    targets:\n      - { match: b, batch: { max_items: 3 } }");
        let hourly = route.unwrap().for_target(&target("b")).clone();
        let (now, later) = (of("20:30:00"), of("22:10:00"));
        assert_eq!(hourly.due(None, now), Some(of("21:00:00")));
        assert_eq!(hourly.due(Some(later), now), Some(of("23:00:00")));
        assert_eq!(hourly.due(Some(now), later), Some(of("23:00:00")), "what lies behind says nothing");
        assert_eq!(hourly.due(None, of("21:00:00")), None, "it closes now");
        let at_once = Settings { closing: None, ..hourly };
        assert_eq!([at_once.due(None, now), at_once.due(Some(later), now)], [None, Some(later)]);
    }

    #[test]
    fn a_pattern_covers_another_if_it_has_all_its_names() {
        let names = |written: &str| Names(WildMatchPattern::new(written));
        for (first, second, covers) in
            [("*", "a", true), ("a*", "ab*", true), ("a*", "a*", true), ("ab*", "a*", false), ("a", "*", false)]
        {
            assert_eq!(names(first).cover(&names(second)), covers, "{first} {second}");
        }
    }
}
