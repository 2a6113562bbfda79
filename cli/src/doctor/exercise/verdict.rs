//! What became of the canaries.

use std::collections::BTreeMap;

use groupage_core::domain::{TaskId, Timestamp};
use groupage_doctor::{Check, Finding, Verdict};
use serde::Serialize;

use super::canary::{Canary, Does, WAIT_MS};
use super::echo::Heard;

/// The batch of the trickle comes so long after its window at the latest, in milliseconds. If its leader's messages end
/// before it does, sweep finishes the batch, and not before a minute is over.
const LATE_MS: u64 = 25_000;

/// A canary that was sent.
pub struct Sent {
    pub canary: Canary,
    pub at: Timestamp,
}

/// What became of all of them.
pub struct Outcome {
    pub sent: Vec<Sent>,
    /// What the task table says of each that it knows.
    pub statuses: BTreeMap<TaskId, &'static str>,
    pub heard: BTreeMap<TaskId, Heard>,
}

/// What the doctor's own requests came to: sending, working and looking. The functions' are told in their metrics.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Costs {
    pub read_units: f64,
    pub write_units: f64,
    pub sqs_requests: u64,
    pub dollars: f64,
}

/// The parts of the exercise, as canaries are named by them.
const PARTS: [&str; 4] = ["burst", "refused", "retried", TRICKLE];
/// The part whose batch is not full, and waits.
const TRICKLE: &str = "trickle";

/// One finding for each part.
pub fn judge(outcome: &Outcome, costs: &Costs) -> Vec<Finding> {
    let mut found: Vec<Finding> = PARTS.iter().map(|part| judge_part(outcome, part)).collect();
    let what = format!(
        "the doctor's own requests cost ${:.6}: {:.0} write and {:.0} read units, {} of SQS",
        costs.dollars, costs.write_units, costs.read_units, costs.sqs_requests
    );
    found.push(finding("cost", Verdict::Well, what, None));
    found
}

fn finding(part: &str, verdict: Verdict, what: String, todo: Option<&str>) -> Finding {
    let (check, of) = (Check::Exercise, vec![part.to_owned()]);
    Finding { check, of, verdict, what, todo: todo.map(str::to_owned), see: check.page() }
}

fn judge_part(outcome: &Outcome, part: &str) -> Finding {
    let sent: Vec<&Sent> = outcome.sent.iter().filter(|sent| sent.canary.part == part).collect();
    let wrong: Vec<String> = sent.iter().filter_map(|sent| trouble(outcome, &sent.canary)).collect();
    if let Some(first) = wrong.first() {
        let what = format!("{} of {} canaries: {first}", wrong.len(), sent.len());
        let todo = "`groupage status task ID` says where it stands; the other checks, why";
        return finding(part, Verdict::Wrong, what, Some(todo));
    }
    let mut delays: Vec<u64> = sent.iter().filter_map(|sent| delay_ms(outcome, sent)).collect();
    delays.sort_unstable();
    let at = |share: f64| delays.get(((delays.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or_default();
    let (half_s, all_ms) = (at(0.5) as f64 / 1e3, at(1.0));
    if part == TRICKLE && all_ms > WAIT_MS + LATE_MS {
        let what = format!("its batch came after {} s, and not after {}", all_ms / 1_000, WAIT_MS / 1_000);
        let todo =
            "its leader's messages came to an end: see the check `loops`, and the dead letters of the group queue";
        return finding(part, Verdict::Wrong, what, Some(todo));
    }
    let chain = if part == TRICKLE { ", after more than 20 invocations in one chain" } else { "" };
    let what = format!(
        "{} settled once each; half within {half_s:.1} s, all within {:.1} s{chain}",
        sent.len(),
        all_ms as f64 / 1e3
    );
    finding(part, Verdict::Well, what, None)
}

fn delay_ms(outcome: &Outcome, sent: &Sent) -> Option<u64> {
    let heard = outcome.heard.get(&sent.canary.id)?;
    heard.settled_at.map(|at| at.since(sent.at))
}

/// What is wrong about a canary.
fn trouble(outcome: &Outcome, canary: &Canary) -> Option<String> {
    let id = &canary.id;
    let wanted = match canary.does {
        Does::Succeed | Does::RetryOnce => "succeeded",
        Does::Fail => "failed",
    };
    let times = outcome.heard.get(id).map_or(0, |heard| heard.settled.len());
    match (times, outcome.statuses.get(id)) {
        (_, None) => Some(format!("{id} is not registered")),
        (0, Some(status)) => Some(format!("{id} was never called; it is {status}")),
        (1, Some(status)) if *status == wanted => came_back(outcome, canary),
        (1, Some(status)) => Some(format!("{id} is {status}, not {wanted}")),
        (times, Some(_)) => Some(format!("{id} was settled in {times} batches")),
    }
}

/// A canary that asks to come once more must have come twice.
fn came_back(outcome: &Outcome, canary: &Canary) -> Option<String> {
    let came = outcome.heard.get(&canary.id).map_or(0, |heard| heard.batches.len());
    let is_right = canary.does != Does::RetryOnce || came == 2;
    (!is_right).then(|| format!("{} came in {came} batches, not in 2", canary.id))
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::BatchId;
    use groupage_core::domain::batch::{Pace, next_look_ms};

    use super::super::canary::{FULL, WAITING};
    use super::*;

    const COSTS: Costs = Costs { read_units: 1.0, write_units: 2.0, sqs_requests: 3, dollars: 0.000_004 };

    /// Everything went well.
    fn well() -> Outcome {
        let (mut sent, mut statuses, mut heard) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for (part, does, status, batches) in [
            ("burst", Does::Succeed, "succeeded", 1),
            ("refused", Does::Fail, "failed", 1),
            ("retried", Does::RetryOnce, "succeeded", 2),
            ("trickle", Does::Succeed, "succeeded", 1),
        ] {
            let canary = Canary::new("run", (part, "x"), 0, does);
            let batches = (0..batches).map(|n| BatchId::new(format!("{part}-{n}"))).collect();
            let settled = [BatchId::new(format!("{part}-0"))].into();
            statuses.insert(canary.id.clone(), status);
            heard.insert(canary.id.clone(), Heard { batches, settled, settled_at: Some(Timestamp(2_500)) });
            sent.push(Sent { canary, at: Timestamp(1_000) });
        }
        Outcome { sent, statuses, heard }
    }

    /// The parts that are wrong, and why.
    fn wrong(plant: impl FnOnce(&mut Outcome)) -> Vec<(String, String)> {
        let mut outcome = well();
        plant(&mut outcome);
        let found = judge(&outcome, &COSTS).into_iter().filter(|finding| finding.verdict != Verdict::Well);
        found.map(|finding| (finding.of.join(","), finding.what)).collect()
    }

    fn id(part: &'static str) -> TaskId {
        Canary::new("run", (part, "x"), 0, Does::Succeed).id
    }

    #[test]
    fn an_exercise_that_went_well_says_its_delays_its_chain_and_its_cost() {
        let found = judge(&well(), &COSTS);
        assert!(found.iter().all(|finding| finding.verdict == Verdict::Well), "{found:#?}");
        let what: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(what[0], "1 settled once each; half within 1.5 s, all within 1.5 s");
        assert!(what[3].ends_with("more than 20 invocations in one chain"));
        assert!(what[4].starts_with("the doctor's own requests cost $0.000004"));
    }

    #[test]
    fn a_canary_that_was_lost_settled_twice_or_otherwise_than_it_asked_is_found_by_its_part() {
        let part = |plant: fn(&mut Outcome)| wrong(plant).into_iter().map(|(part, _)| part).collect::<Vec<_>>();
        assert_eq!(part(|it| it.statuses.retain(|task, _| *task != id("burst"))), ["burst"]);
        assert_eq!(part(|it| it.heard.retain(|task, _| *task != id("trickle"))), ["trickle"]);
        assert_eq!(part(|it| it.statuses.extend([(id("refused"), "succeeded")])), ["refused"]);
        let twice = |it: &mut Outcome| {
            it.heard.get_mut(&id("burst")).unwrap().settled.insert(BatchId::new("another"));
        };
        assert_eq!(wrong(twice)[0].1, format!("1 of 1 canaries: {} was settled in 2 batches", id("burst")));
        let once = |it: &mut Outcome| {
            it.heard.get_mut(&id("retried")).unwrap().batches.pop_last();
        };
        assert_eq!(wrong(once)[0].0, "retried");
    }

    #[test]
    fn a_chain_that_was_cut_is_found_by_the_sweep_that_ended_the_wait() {
        let ended_after = |ms: u64| {
            move |it: &mut Outcome| {
                it.heard.get_mut(&id("trickle")).unwrap().settled_at = Some(Timestamp(1_000 + WAIT_MS + ms));
            }
        };
        assert_eq!(wrong(ended_after(5_000)), []);
        let cut = wrong(ended_after(40_000));
        assert_eq!(
            (cut[0].0.as_str(), cut[0].1.as_str()),
            ("trickle", "its batch came after 160 s, and not after 120")
        );
    }

    #[test]
    fn the_batch_of_the_trickle_is_looked_at_by_more_than_20_messages() {
        for late_ms in [0, 300, 1_000] {
            let (mut age_ms, mut messages) = (0, 0);
            while age_ms < WAIT_MS {
                let look_in_ms = next_look_ms(WAIT_MS - age_ms, age_ms, WAITING, FULL - WAITING, Pace::UNKNOWN);
                // What is shorter is slept. SQS counts a delay in whole seconds.
                let is_message = look_in_ms >= 1_000;
                messages += usize::from(is_message);
                age_ms += if is_message { look_in_ms.next_multiple_of(1_000) + late_ms } else { look_in_ms };
            }
            assert!(messages > 20, "{messages} messages if each is {late_ms} ms late");
        }
    }
}
