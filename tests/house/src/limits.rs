//! The table of limits: each number is that of the code, so the page cannot say another.

use serde_json::Value;

use crate::reference::grouped;

/// Where a number is said.
pub enum Bound {
    /// A constant: the file below `shared/core/src` or `api/src`, and its name.
    Constant(&'static str, &'static str),
    /// The highest value of a field of the routes file: its type and its name.
    Field(&'static str, &'static str),
}
use Bound::{Constant, Field};

/// A row: what is limited, the limit with `{}` for each number, and the numbers, each with what it is divided by.
type Row = (&'static str, &'static str, &'static [(Bound, u64)]);

const MINUTE_MS: u64 = 60_000;
const HOUR_S: u64 = 3_600;
const MIB: u64 = 1024 * 1024;

/// All rows.
pub const ROWS: [Row; 27] = [
    (
        "a task message",
        "{} bytes; on a list, with the id that it waits under",
        &[(Constant("shared/core/src/domain/task_message.rs", "MAX_MESSAGE_BYTES"), 1)],
    ),
    (
        "a task's id",
        "{} visible ASCII characters",
        &[(Constant("shared/core/src/domain/id/outside.rs", "MAX_TASK_ID_BYTES"), 1)],
    ),
    ("a Target", "{} bytes", &[(Constant("shared/core/src/domain/id/target.rs", "MAX_TARGET_BYTES"), 1)]),
    ("a payload's depth", "{} levels", &[(Constant("shared/core/src/domain/json.rs", "MAX_DEPTH"), 1)]),
    (
        "a batch",
        "{} members, {} bytes of payloads",
        &[(Field("BatchLimits", "max_items"), 1), (Field("BatchLimits", "max_bytes"), 1)],
    ),
    ("a window (`wait_ms`)", "{} minutes", &[(Field("BatchLimits", "wait_ms"), MINUTE_MS)]),
    (
        "a call",
        "{} s, [a long one](../guides/downstreams.md#long-calls) {} minutes; a body of {} MiB, an answer of {} MiB",
        &[
            (Field("Lambda", "timeout_ms"), 1_000),
            (Field("Http", "timeout_ms"), MINUTE_MS),
            (Constant("shared/core/src/routes/body.rs", "MAX_BODY_BYTES"), MIB),
            (Constant("shared/core/src/domain/answer.rs", "MAX_ANSWER_BYTES"), MIB),
        ],
    ),
    (
        "a [job](../guides/jobs.md)",
        "a URL of {} bytes, looks up to {} minutes apart, {} days; results of {} MiB",
        &[
            (Constant("shared/core/src/routes/downstream/looks.rs", "MAX_URL_BYTES"), 1),
            (Field("Job", "every_s"), 60),
            (Field("Job", "deadline_s"), 24 * 60 * 60),
            (Constant("shared/core/src/domain/answer.rs", "MAX_ANSWER_BYTES"), MIB),
        ],
    ),
    (
        "a body for a queue, a bus, or a function that is not waited for; for a state machine",
        "{} bytes; {} KiB",
        &[
            (Constant("shared/core/src/routes/downstream/kind.rs", "MAX_MESSAGE_BODY_BYTES"), 1),
            (Constant("shared/core/src/routes/downstream/step_functions.rs", "MAX_INPUT_BYTES"), 1024),
        ],
    ),
    ("a reason", "64 letters, digits and `_-.:`", &[]),
    (
        "a task's output",
        "{} KiB of JSON; those of one answer together {} MiB",
        &[
            (Constant("shared/core/src/domain/output.rs", "MAX_OUTPUT_BYTES"), 1_024),
            (Constant("shared/core/src/domain/answer.rs", "MAX_ANSWER_BYTES"), MIB),
        ],
    ),
    ("attempts of a task", "{}", &[(Field("Retry", "attempts"), 1)]),
    (
        "`Retry-After`",
        "15 minutes; `retry.longest_pause_s` allows {} hours",
        &[(Field("Retry", "longest_pause_s"), HOUR_S)],
    ),
    ("an outage", "24 hours; `retry.give_up_after_s` allows {} days", &[(Field("Retry", "give_up_after_s"), 86_400)]),
    (
        "limits of a route, and those that routes share",
        "{} calls in flight, {} calls a second",
        &[(Field("CallLimits", "in_flight_per_target"), 1), (Field("CallLimits", "calls_per_second"), 1)],
    ),
    ("shards of a Target", "{}", &[(Field("Route", "shards"), 1)]),
    (
        "a number that orders a route's tasks",
        "{} ahead of the one whose turn it is",
        &[(Constant("shared/core/src/domain/lane.rs", "MAX_AHEAD"), 1)],
    ),
    ("days that a failed task is listed", "{}", &[(Field("Route", "keep_failed_days"), 1)]),
    (
        "an expression (`when`, `target`, …)",
        "{} brackets and operators",
        &[(Constant("shared/core/src/routes/expression.rs", "MAX_PARTS"), 1)],
    ),
    (
        "a request to the HTTP API",
        "{} MiB; [each call](http-api.md) has limits of its own",
        &[(Constant("api/src/body.rs", "MAX_BODY_BYTES"), MIB)],
    ),
    (
        "items of a tracker",
        "{}, of which one call adds {}",
        &[
            (Constant("shared/core/src/domain/tracker/mod.rs", "MAX_ITEMS"), 1),
            (Constant("shared/core/src/domain/tracker/mod.rs", "MAX_ADDED"), 1),
        ],
    ),
    (
        "names of trackers, lists and streams",
        "{}, {} and {} letters, digits, `_` and `-`",
        &[
            (Constant("shared/core/src/domain/id/outside.rs", "MAX_TRACKER_ID_BYTES"), 1),
            (Constant("shared/core/src/domain/id/outside.rs", "MAX_LIST_ID_BYTES"), 1),
            (Constant("shared/core/src/domain/id/outside.rs", "MAX_STREAM_ID_BYTES"), 1),
        ],
    ),
    (
        "a call that puts tasks on a list",
        "{} tasks, {} bytes",
        &[
            (Constant("shared/core/src/domain/list/mod.rs", "MAX_PUT"), 1),
            (Constant("shared/core/src/domain/list/mod.rs", "MAX_PUT_BYTES"), 1),
        ],
    ),
    ("a release", "{} tasks", &[(Constant("shared/core/src/domain/list/mod.rs", "MAX_RELEASED"), 1)]),
    (
        "releases of one list that are under way",
        "{}; further ones are told to wait",
        &[(Constant("shared/core/src/domain/list/head.rs", "MAX_RESERVATIONS"), 1)],
    ),
    (
        "a call that feeds a stream",
        "{} events; the stream's `window` bounds how many may be unsettled",
        &[(Constant("shared/core/src/domain/stream/mod.rs", "MAX_FED"), 1)],
    ),
    ("a reason to pause calls", "{} bytes", &[(Constant("shared/core/src/steps/hold.rs", "MAX_REASON_BYTES"), 1)]),
];

/// The table, with `constant` for the value of a file's constant and the JSON Schema of the routes file.
pub fn table(constant: impl Fn(&str, &str) -> Option<u64>, schema: &Value) -> Option<String> {
    let mut written = "| thing | limit |\n|---|---|\n".to_owned();
    for (thing, limit, bounds) in &ROWS {
        let mut limit = (*limit).to_owned();
        for (bound, divided_by) in *bounds {
            let number = match bound {
                Constant(file, name) => constant(file, name)?,
                Field(of, name) => schema["$defs"][of]["properties"][name]["maximum"].as_u64()?,
            };
            limit = limit.replacen("{}", &grouped(number / divided_by), 1);
        }
        written += &format!("| {thing} | {limit} |\n");
    }
    Some(written)
}

/// The value of a constant in a Rust source: a product of numbers and of `group`, which stands for `GROUP_SIZE`.
pub fn constant(source: &str, name: &str, group: u64) -> Option<u64> {
    let (_, rest) = source.split_once(&format!("const {name}: "))?;
    let (_, value) = rest.split_once(';')?.0.split_once('=')?;
    let factor = |factor: &str| match factor.trim().trim_end_matches(" as u64") {
        "GROUP_SIZE" => Some(group),
        number => number.replace('_', "").parse().ok(),
    };
    value.split('*').map(factor).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_numbers_and_products() {
        let source = "pub const A: usize = 256_000;\nconst B: u64 = 1_000 * GROUP_SIZE as u64;\nconst C: u8 = f();";
        let value = |name| constant(source, name, 7);
        assert_eq!((value("A"), value("B"), value("C"), value("D")), (Some(256_000), Some(7_000), None, None));
    }

    #[test]
    fn a_limit_that_the_code_does_not_say_makes_no_table() {
        assert_eq!(table(|_, _| None, &Value::Null), None);
    }
}
