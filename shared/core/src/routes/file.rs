//! The routes file as it is written: the types its JSON Schema is generated from.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_saphyr::Spanned;

use super::answer::Otherwise;
use super::closing::Closing;
use super::downstream::Downstream;
use super::expression::Expression;
use super::limited::Limited;
use super::limits::CallLimits;
use super::named::{self, Named, RouteLimits};
use super::targets::{self, Settings, a_second};
use super::traits::Reads;
use super::{Error, Ordered, Route, Routes, mistake};
use crate::domain::batch;
use crate::domain::failed::KEEP_DAYS;
use crate::domain::gate::Rates;
use crate::domain::lane::OnFailure;
use crate::domain::retry;
use crate::domain::time::DAY_MS;
use crate::domain::{NotificationQueue, RouteName, Turn};

/// Routes in a file, and entries of `targets` in a route, at most: a task is held against each.
const MAX_ROUTES: usize = 500;
const MAX_TARGETS: usize = 200;

/// How tasks become calls.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Routes")]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Version of this format.
    #[allow(dead_code, reason = "read and checked by its type")]
    version: Limited<1, 1>,
    /// Limits that routes share, each by its name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, named::Entry>")]
    limits: named::ByName,
    /// A task takes the first route whose `when` holds.
    #[schemars(length(min = 1))]
    #[schemars(with = "Vec<RouteEntry>")]
    routes: Vec<Spanned<RouteEntry>>,
}

/// One kind of task.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Route")]
#[serde(deny_unknown_fields)]
struct RouteEntry {
    /// 1 to 64 characters out of a-z, 0-9 and -. Waiting tasks know their route by it: renaming one strands them.
    #[serde(deserialize_with = "route_name")]
    name: RouteName,
    /// Which tasks take this route: JMESPath over the payload. Absent: all that no earlier route took.
    when: Option<Expression>,
    /// What a task is grouped by: JMESPath over the payload that gives a string.
    target: Expression,
    /// How many shards each Target of this route has. More than one is for Targets that get over 500 tasks a second,
    /// which is what one partition of the index and one leader take. Waiting tasks are spread over the shards. While
    /// there is much to do, shards get leaders of their own. Not for ordered routes.
    #[serde(default = "one_shard")]
    shards: Limited<1, 64>,
    /// How urgent a task is: JMESPath over the payload that gives a whole number from 0 to 9, or null for 0. The more
    /// urgent fill the next batch of their Target first, and of ten places one is left for the others. Batches with
    /// tasks above 0 go first at limits, in nine of ten turns. Absent: 0.
    priority: Option<Expression>,
    /// The collapse key: JMESPath over the payload that gives a string, or null for a task that replaces no other. Of
    /// waiting tasks with one Target and one key only the newest is called; the others end as `superseded`. Absent:
    /// every task is called. Not for ordered routes.
    collapse: Option<Expression>,
    /// The order key: JMESPath over the payload that gives a string. Tasks with the same key reach the downstream one
    /// after the other, in the order in which they were accepted; each waits until the one before it is settled.
    /// Absent: in any order.
    ordered_by: Option<Expression>,
    /// How the tasks of an order key follow each other.
    order: Option<Order>,
    /// How much one call carries.
    #[serde(default)]
    batch: BatchLimits,
    /// Targets of which something else holds; the first entry that names a Target counts.
    #[serde(default)]
    targets: Vec<targets::Entry>,
    /// Where the call goes.
    downstream: Downstream,
    /// When and how often to try again, and for how long.
    #[serde(default)]
    retry: Retry,
    /// Limits of its calls: fields of its own, or a list of these and of the names of limits that it shares.
    #[serde(default)]
    limits: RouteLimits,
    /// What happens to a batch that the downstream refuses as a whole.
    #[serde(default)]
    on_reject: OnReject,
    /// Which queues are told of settled tasks, and of outages.
    #[serde(default)]
    notify: Notify,
    /// For how many days a failed task is listed and can be run again.
    #[serde(default = "keep_failed_days")]
    keep_failed_days: Limited<1, 365>,
}

/// How much one call carries, and how long a batch waits to be full.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BatchLimits {
    /// Tasks in one call at most.
    max_items: Limited<1, 1_000>,
    /// Bytes of payloads in one call at most.
    max_bytes: Limited<1, 5_000_000>,
    /// How long a batch that is not full waits for more, in milliseconds.
    wait_ms: Limited<0, 300_000>,
    /// A batch with at least this many tasks waits for no more; with fewer it waits for `wait_ms`. Absent: it waits
    /// until it is full.
    min_items: Option<Limited<1, 1_000>>,
    /// A batch to which no task has come for so long waits for no more, in milliseconds; `wait_ms` stays the longest
    /// wait. Absent: it waits until it is full.
    quiet_ms: Option<Limited<1, 300_000>>,
    /// When the clock closes the windows: tasks wait until the next such moment, and then become batches as if they had
    /// all come at once. As crontab has it, with the time zone behind it, UTC if there is none: `0 * * * *` is every
    /// hour, `0 6 * * 1-5 Europe/Berlin` at six on weekdays. Absent: a window begins with its first task. Not for
    /// ordered routes.
    close_at: Option<Closing>,
    /// What the tasks of one call may weigh together. Absent: any weight.
    max_weight: Option<Limited<1, 1_000_000_000>>,
    /// What a task weighs: JMESPath over the payload that gives a whole number from 0 to 1,000,000. Absent: 1.
    weight: Option<Expression>,
    /// Which tasks end the wait of their batch: JMESPath over the payload, for example for a file's last page. Such a
    /// batch waits for no more, and takes all that waits as far as it fits. Absent: none.
    close_when: Option<Expression>,
    /// Whether tasks that arrive together and fill a batch become one at once. It costs less than half, but such tasks
    /// overtake those that wait: `false` lets the longest waiting go first.
    express: bool,
}

impl Default for BatchLimits {
    fn default() -> Self {
        let batch::Limits { max_items, max_bytes, wait_ms, .. } = batch::Limits::default();
        let (max_bytes, wait_ms) = (Limited(max_bytes), Limited(wait_ms));
        let max_items = Limited(max_items as u64);
        Self {
            max_items,
            max_bytes,
            wait_ms,
            min_items: None,
            quiet_ms: None,
            close_at: None,
            max_weight: None,
            weight: None,
            close_when: None,
            express: true,
        }
    }
}

/// How the tasks of an order key follow each other.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Order {
    /// The task's number within its key: JMESPath over the payload that gives a whole number. A task waits for those
    /// with lower numbers, even if it comes first. Absent: tasks are numbered as they are accepted.
    sequence: Option<Expression>,
    /// The number of a key's first task, if tasks bring their numbers along.
    first: Limited<0, 1_000_000_000>,
    /// What a failed task means to those behind it.
    on_failure: OnFailure,
}

impl Default for Order {
    fn default() -> Self {
        Self { sequence: None, first: Limited(1), on_failure: OnFailure::default() }
    }
}

/// When and how often to try again, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Retry {
    /// Calls a task may be part of before it fails. One that fails for a reason that says nothing about the task counts
    /// only if others are answered meanwhile.
    attempts: Limited<1, 50>,
    /// The longest pause after the first attempt, in milliseconds; it doubles with each.
    base_ms: Limited<1, 900_000>,
    /// The longest pause after any attempt, in milliseconds.
    cap_ms: Limited<1, 900_000>,
    /// How long an outage of the downstream is waited out, in seconds. 0: not at all, and each failure is an attempt.
    give_up_after_s: Limited<0, 1_209_600>,
    /// The longest pause that a `Retry-After` may ask for, in seconds.
    longest_pause_s: Limited<1, 39_600>,
    /// HTTP statuses that are taken for an outage, beside 401, 403, 408, 425, 429 and 500 to 599.
    on: BTreeSet<Status>,
    /// HTTP statuses that are taken for a refusal for good.
    never: BTreeSet<Status>,
}

/// An HTTP status other than success.
type Status = Limited<300, 599>;

impl Default for Retry {
    fn default() -> Self {
        let retry::Policy { attempts, base_ms, cap_ms, give_up_ms, longest_pause_ms } = retry::Policy::default();
        Self {
            attempts: Limited(attempts.into()),
            base_ms: Limited(base_ms),
            cap_ms: Limited(cap_ms),
            give_up_after_s: Limited(give_up_ms / 1_000),
            longest_pause_s: Limited(longest_pause_ms / 1_000),
            on: BTreeSet::new(),
            never: BTreeSet::new(),
        }
    }
}

/// What happens to a batch that the downstream refuses as a whole, or that alone fails time and again while others are
/// answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnReject {
    /// Every member fails.
    #[default]
    Fail,
    /// Each half is called again, until only the members that are refused alone fail.
    Bisect,
}

/// Which queues are told of settled tasks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// Told of each task that failed.
    pub failure: NotificationQueue,
    /// Told of each task that succeeded.
    pub success: NotificationQueue,
    /// Told when a downstream begins to count as away, and when it answers again.
    pub outage: NotificationQueue,
}

impl Notify {
    /// Every queue that it names.
    #[must_use]
    pub const fn queues(&self) -> [&NotificationQueue; 3] {
        [&self.failure, &self.success, &self.outage]
    }
}

impl Default for Notify {
    fn default() -> Self {
        let (default, none) = (NotificationQueue::Default, NotificationQueue::None);
        Self { failure: default.clone(), success: none, outage: default }
    }
}

impl File {
    pub(super) fn parse(yaml: &str) -> Result<Self, Error> {
        serde_saphyr::from_str(yaml).map_err(|error| mistake::told(yaml, &error))
    }

    pub(super) fn compile(self) -> Result<Routes, Error> {
        if self.routes.is_empty() {
            let what = "`routes` is empty: no task could ever be accepted".to_owned();
            return Err(Error { line: 0, column: 0, what });
        }
        if let Some(Spanned { referenced, .. }) = self.routes.get(MAX_ROUTES) {
            let what = format!("a file has at most {MAX_ROUTES} routes");
            return Err(Error { line: referenced.line(), column: referenced.column(), what });
        }
        let mut names = HashSet::new();
        for Spanned { value: entry, referenced, .. } in &self.routes {
            let whole = |what: String| Error { line: referenced.line(), column: referenced.column(), what };
            if entry.downstream.is_pulled() && entry.on_reject == OnReject::Bisect {
                let what = format!("`on_reject: bisect` of route `{}` needs a downstream that is called", entry.name);
                return Err(whole(what));
            }
            if entry.ordered_by.is_none() && entry.order.is_some() {
                return Err(whole(format!("`order` of route `{}` says nothing without `ordered_by`", entry.name)));
            }
            if entry.ordered_by.is_some() && entry.shards.0 > 1 {
                let what = "is ordered: its Targets cannot have `shards`, which have leaders that work side by side";
                return Err(whole(format!("route `{}` {what}", entry.name)));
            }
            let closes = || entry.batch.close_at.is_some() || entry.targets.iter().any(targets::Entry::closes);
            if entry.ordered_by.is_some() && closes() {
                let what = "is ordered: a task that waits for `close_at` would hold back those behind it";
                return Err(whole(format!("route `{}` {what}", entry.name)));
            }
            if entry.ordered_by.is_some() && entry.collapse.is_some() {
                let what =
                    "is ordered: each of its tasks is called in its turn, so none can replace another (`collapse`)";
                return Err(whole(format!("route `{}` {what}", entry.name)));
            }
            let has_rate = || {
                let CallLimits { calls_per_second_per_target: of_one, .. } = entry.limits.own;
                of_one.is_some() || entry.targets.iter().any(targets::Entry::has_rate)
            };
            if let Some(what) = entry.limits.own.refusal() {
                return Err(whole(format!("route `{}` has {what}", entry.name)));
            }
            let in_flight = entry.limits.own.in_flight.map(|_| "in_flight");
            let named = || entry.limits.names.first().map(|name| name.value.as_str());
            let of_all = in_flight.or_else(|| entry.limits.own.rate_field()).or_else(named);
            if let Some(field) = of_all.filter(|_| has_rate()) {
                let what =
                    "`calls_per_second_per_target`: a batch that waits for its route would miss its Target's time";
                return Err(whole(format!("route `{}` has `limits.{field}` beside {what}", entry.name)));
            }
            if let Some(Limited(status)) = entry.retry.on.intersection(&entry.retry.never).next() {
                return Err(whole(format!("`retry` of route `{}` has {status} in `on` and in `never`", entry.name)));
            }
            if entry.targets.len() > MAX_TARGETS {
                let what = format!("`targets` of route `{}` has over {MAX_TARGETS} entries", entry.name);
                return Err(whole(what));
            }
            if let Some(what) = entry.downstream.response().contradiction() {
                return Err(whole(format!("`response` of route `{}` {what}", entry.name)));
            }
            let job = entry.downstream.http().and_then(|http| Some((http, http.job.as_ref()?)));
            if let Some(what) = job.and_then(|(http, job)| job.contradiction(&http.response)) {
                return Err(whole(format!("route `{}` {what}", entry.name)));
            }
            if job.is_some() && entry.on_reject == OnReject::Bisect {
                let what = "has `job` beside `on_reject: bisect`: a job is one for all of its batch";
                return Err(whole(format!("route `{}` {what}", entry.name)));
            }
            if let Some(name) = entry.downstream.unknown_secret() {
                let what = format!("names `{{secrets.{name}}}`, and its `secrets` have no `{name}`");
                return Err(whole(format!("route `{}` {what}", entry.name)));
            }
            if !names.insert(&entry.name) {
                return Err(whole(format!("two routes are named `{}`", entry.name)));
            }
        }
        let limits_of: Vec<_> = self.routes.iter().map(|one| (&one.value.limits, one.value.batch_limits())).collect();
        let all = named::compile(&self.limits, &limits_of)?;
        let compiled = |entry: Spanned<RouteEntry>| -> Result<Route, Error> {
            let named = entry.value.limits.named(&all)?;
            Ok(entry.value.compile(entry.referenced.line(), named))
        };
        let mut routes = self.routes.into_iter().map(compiled).collect::<Result<Vec<_>, _>>()?;
        named::level_leases(&mut routes, &self.limits)?;
        Ok(Routes { routes, gone: Vec::new() })
    }
}

impl RouteEntry {
    /// Returns how much one call carries, before any rate's burst bounds it.
    fn batch_limits(&self) -> batch::Limits {
        batch::Limits {
            max_items: usize::try_from(self.batch.max_items.0).unwrap_or(usize::MAX),
            max_bytes: self.batch.max_bytes.0,
            wait_ms: self.batch.wait_ms.0,
            min_items: self.batch.min_items.and_then(|least| usize::try_from(least.0).ok()),
            quiet_ms: self.batch.quiet_ms.map(|quiet| quiet.0),
            max_weight: self.batch.max_weight.map(|most| most.0),
            closes: self.batch.close_when.is_some(),
            collapses: self.collapse.is_some(),
            urgent_first: self.priority.is_some(),
        }
    }

    fn compile(self, line: u64, named: Vec<Named>) -> Route {
        let mut usual = Settings {
            batch: self.batch_limits(),
            closing: self.batch.close_at,
            in_flight: self.limits.own.in_flight_per_target.and_then(|limit| usize::try_from(limit.0).ok()),
            rates: self.limits.own.calls_per_second_per_target.map(a_second).unwrap_or_default(),
        };
        let rates = Rates::of(self.limits.own.rates(&usual.batch).map(|(_, rate)| rate));
        // One of all these has rates.
        let bursts = named.iter().map(|named| named.limits.rates).find(|rates| !rates.is_none()).unwrap_or(rates);
        usual.batch = usual.batch.within(&bursts);
        Route {
            name: self.name,
            line,
            when: self.when.unwrap_or_else(Expression::always),
            target: self.target,
            ordered: self.ordered_by.map(|by| self.order.unwrap_or_default().compile(by)),
            shards: u8::try_from(self.shards.0).unwrap_or(u8::MAX),
            reads: Reads {
                weight: self.batch.weight,
                close_when: self.batch.close_when,
                collapse: self.collapse,
                priority: self.priority,
            },
            targets: self.targets.into_iter().map(|one| one.compile(&usual, &bursts)).collect(),
            usual,
            express: self.batch.express,
            body: self.downstream.body(),
            downstream: self.downstream,
            retry: retry::Policy {
                attempts: u32::try_from(self.retry.attempts.0).unwrap_or(u32::MAX),
                base_ms: self.retry.base_ms.0,
                cap_ms: self.retry.cap_ms.0,
                give_up_ms: self.retry.give_up_after_s.0 * 1_000,
                longest_pause_ms: self.retry.longest_pause_s.0 * 1_000,
            },
            otherwise: Otherwise { outages: statuses(&self.retry.on), refusals: statuses(&self.retry.never) },
            in_flight: self.limits.own.in_flight.and_then(|most| usize::try_from(most.0).ok()),
            keep_timed_out_ms: self.limits.own.keep_timed_out_s.map_or(0, |seconds| seconds.0 * 1_000),
            rates,
            named,
            least_lease_ms: 0,
            sharing: self.limits.own.share,
            pause: self.limits.own.pause,
            on_reject: self.on_reject,
            notify: self.notify,
            keep_failed_ms: self.keep_failed_days.0 * DAY_MS,
        }
    }
}

impl Order {
    fn compile(self, by: Expression) -> Ordered {
        let Self { sequence, first, on_failure } = self;
        Ordered { by, sequence, first: Turn(first.0), on_failure }
    }
}

/// The JSON Schema of the routes file.
pub fn schema() -> Schema {
    schema_for!(File)
}

const fn one_shard() -> Limited<1, 64> {
    Limited(1)
}

const fn keep_failed_days() -> Limited<1, 365> {
    Limited(KEEP_DAYS)
}

fn statuses(statuses: &BTreeSet<Status>) -> BTreeSet<u16> {
    statuses.iter().filter_map(|status| u16::try_from(status.0).ok()).collect()
}

fn route_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RouteName, D::Error> {
    RouteName::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}
