//! What each option of a route is priced by: a run with it, beside one that lacks only this option.

use crate::load::Load;
use crate::world::{CallLimits, Setting, Weights};

/// Runs that differ from one by an option each.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they have in common.
    pub name: &'static str,
    /// The run without any option.
    pub plain: Setting,
    /// The others.
    pub options: Vec<Priced>,
}

/// A run with an option.
#[derive(Clone, Debug)]
pub struct Priced {
    /// The option.
    pub name: &'static str,
    /// Whether it is looked up in memory and so costs nothing: no unit, no request, no millisecond.
    pub is_free: bool,
    /// The run.
    pub setting: Setting,
}

/// A route that no task of a run takes, with the options of these tables: a route without them beside it pays nothing.
pub const ELSEWHERE: &str = "  - name: other
    when: '`false`'
    target: truck
    priority: parcel
    collapse: truck
    batch: { weight: parcel, max_weight: 900, close_when: parcel, min_items: 9, quiet_ms: 5, close_at: '0 * * * *' }
    targets: [{ match: 't*', batch: { max_items: 7 } }]
    limits: { calls_per_second: 1, in_flight: 1, in_flight_per_target: 1, share: { by: target } }
    downstream: { http: { url: 'http://downstream.invalid/{target}', headers: { X-Batch: '{batch}' }, compress: gzip } }
";

/// All options, in the order of their tables.
pub fn groups(seed: u64) -> Vec<Group> {
    let burst = |targets| Setting { seed, ..Setting::of(Load::Burst { tasks: 1_000, targets }) };
    let limited = |calls| Setting { calls, max_items: 10, ..burst(10) };
    let rate = CallLimits { per_second: Some(10), pauses_route: true, ..CallLimits::default() };
    let places = CallLimits { in_flight: Some(10), pauses_route: true, ..CallLimits::default() };
    vec![
        elected(burst(1)),
        on_the_express_path(Setting { express: true, ..burst(1) }),
        in_a_trickle(Setting { seed, ..Setting::of(Load::Trickle { per_second: 10.0, seconds: 120, targets: 1 }) }),
        with_limits(limited(CallLimits::default())),
        at_a_limit("100 batches of 10 Targets, 10 calls a second", limited(rate)),
        at_a_limit("100 batches of 10 Targets, 10 calls in flight", limited(places)),
    ]
}

/// A run whose route has these fields of `batch` and these lines beside.
fn with(plain: &Setting, fields: &'static str, lines: &'static str) -> Setting {
    Setting { options: (fields, lines), ..plain.clone() }
}

const WEIGHTS: &str = "weight: \"`2`\", max_weight: 200, ";
const CLOSES_NONE: &str = "close_when: \"parcel < `0`\", ";
const URGENT: &str = "    priority: \"ends_with(to_string(parcel), '7') && `9` || `0`\"\n";

fn elected(plain: Setting) -> Group {
    let priced = |name, fields, lines| Priced { name, is_free: false, setting: with(&plain, fields, lines) };
    let mut options = vec![
        priced("`max_weight` with `weight`", WEIGHTS, ""),
        priced("`close_when`, for no task", CLOSES_NONE, ""),
        priced("`close_when`, for one in a hundred", "close_when: \"ends_with(to_string(parcel), '99')\", ", ""),
        priced("`min_items`, half of `max_items`", "min_items: 50, ", ""),
        priced("`quiet_ms: 500`", "quiet_ms: 500, ", ""),
        priced("`priority`, 0 for all", "", "    priority: '`0`'\n"),
        priced("`priority`, one in ten is urgent", "", URGENT),
        priced("`collapse`, a key each", "", "    collapse: to_string(parcel)\n"),
        priced("`collapse`, one key", "", "    collapse: truck\n"),
    ];
    options.push(Priced {
        name: "`close_at`, every full hour",
        is_free: false,
        setting: Setting { hourly: true, ..plain.clone() },
    });
    options.extend(free(&plain));
    Group { name: "1,000 tasks of one Target, elected", plain, options }
}

fn on_the_express_path(plain: Setting) -> Group {
    let priced = |name, fields, lines| Priced { name, is_free: false, setting: with(&plain, fields, lines) };
    let mut options = vec![
        priced("`max_weight` with `weight`", WEIGHTS, ""),
        priced("`close_when`, for no task", CLOSES_NONE, ""),
        priced("`min_items`, half of `max_items`", "min_items: 50, ", ""),
        priced("`priority`, one in ten is urgent", "", URGENT),
        priced("`collapse`, a key each", "", "    collapse: to_string(parcel)\n"),
    ];
    options.extend(free(&plain));
    Group { name: "the same on the express path", plain, options }
}

fn in_a_trickle(plain: Setting) -> Group {
    let priced = |name, fields| Priced { name, is_free: false, setting: with(&plain, fields, "") };
    let options = vec![
        priced("`min_items: 20`", "min_items: 20, "),
        priced("`quiet_ms: 300`", "quiet_ms: 300, "),
        priced("`close_when`, for no task", CLOSES_NONE),
    ];
    Group { name: "10 tasks a second, elected", plain, options }
}

/// What is looked up in memory, and the kinds of downstreams: what AWS asks for the call itself is no part of this.
fn free(plain: &Setting) -> Vec<Priced> {
    let is_free = |name, setting| Priced { name, is_free: true, setting };
    let to = |name, downstream| is_free(name, Setting { downstream, ..plain.clone() });
    vec![
        is_free(
            "`targets`, none of them comes",
            with(plain, "", "    targets: [{ match: acme, batch: { max_items: 7 } }]\n"),
        ),
        is_free(
            "`targets`, for the one that comes",
            with(plain, "", "    targets: [{ match: 't*', batch: { max_items: 100 } }]\n"),
        ),
        to(
            "`{target}` and `{batch}` in path, query and headers",
            "{ http: { url: 'http://downstream.invalid/{target}?batch={batch}', headers: { X-Target: '{target}' } } }",
        ),
        to("`compress`", "{ http: { url: 'http://downstream.invalid/load', compress: gzip } }"),
        to("`lambda`, waited for", "{ lambda: { function: load } }"),
        to("`lambda` with `mode: async`", "{ lambda: { function: load, mode: async } }"),
        to("`sqs`", "{ sqs: { queue: 'https://sqs.eu-west-1.amazonaws.com/111122223333/load' } }"),
        to("`eventbridge`", "{ eventbridge: { bus: load } }"),
        to(
            "`step_functions`",
            "{ step_functions: { state_machine: 'arn:aws:states:eu-west-1:111122223333:stateMachine:load' } }",
        ),
    ]
}

fn with_limits(plain: Setting) -> Group {
    let limited = |name, calls| Priced { name, is_free: false, setting: Setting { calls, ..plain.clone() } };
    let options = vec![
        limited("`calls_per_second: 10`", CallLimits { per_second: Some(10), ..plain.calls }),
        limited("`calls_per_second_per_target: 1`", CallLimits { per_second_per_target: Some(1), ..plain.calls }),
    ];
    Group { name: "100 batches of 10 Targets", plain, options }
}

fn at_a_limit(name: &'static str, plain: Setting) -> Group {
    let shared = |name, weights| {
        let calls = CallLimits { shared: Some(weights), ..plain.calls };
        Priced { name, is_free: false, setting: Setting { calls, ..plain.clone() } }
    };
    let options = vec![
        shared("`share: { by: target }`", Weights::Equal),
        shared("`share` with `weight`s from 1 to 10", Weights::OneToTen),
        Priced { name: "`priority`, one in ten is urgent", is_free: false, setting: with(&plain, "", URGENT) },
    ];
    Group { name, plain, options }
}
