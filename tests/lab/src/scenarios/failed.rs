//! Stories of failed tasks that a person runs again, soon after their failure. Sweep runs in all of them: it finds what
//! a person who died had let wait again.

use crate::downstream::Seen;
use crate::fan_out::FanOut;
use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("a failed batch, run again", 4, |world| world.send(&parcels(4, 2))).answering(refused_once),
        Scenario::new("failed members of a fan-out, run again", 4, |world| {
            world.fan_out_later(0, FanOut::of(&[&parcels(4, 1)]));
        })
        .answering(fails_once),
        ordered("a failure in order, held and run again", "hold"),
        ordered("a failure in order, skipped and not run again", "skip"),
        ordered("a failure in order with the rest behind it, run again", "fail_rest"),
    ];
    stories.map(|story| story.swept().setting(|setting| setting.retries = 1)).into()
}

fn ordered(name: &'static str, on_failure: &str) -> Scenario {
    let send = |world: &World| world.send(&(0..3).map(|n| keyed(n, 0, 0, n + 1)).collect::<Vec<_>>());
    let order = format!("ordered_by: key\n    order: {{ on_failure: {on_failure} }}");
    Scenario::new(name, 3, send).route(&order).answering(fails_once)
}

/// Every batch is refused in which its first task is called for the first time.
fn refused_once(seen: &Seen, _: usize) -> Result<Answer, NoAnswer> {
    Ok(if seen.batches_before == 0 { status(400, None) } else { ok("") })
}

/// `p1` fails for good the first time.
fn fails_once(seen: &Seen, _: usize) -> Result<Answer, NoAnswer> {
    let result = |id: &String| {
        let fails = id == "p1" && seen.batches_before == 0;
        let status = if fails { "failed" } else { "succeeded" };
        serde_json::json!({ "id": id, "status": status, "reason": "too_heavy" })
    };
    let results: Vec<_> = seen.items.iter().map(result).collect();
    Ok(ok(&serde_json::json!({ "results": results }).to_string()))
}
