//! Does the downstream's ledger agree with what the task table says?

use std::collections::HashMap;

use groupage_core::domain::task::{Status, Task};

use super::ledger::{Answer, Ledger, Outcome, Parcel};
use super::owner::{Data, Notice};
use super::trucks::MAX_KG;

/// The reason that the API gives for a parcel that is too heavy.
const TOO_HEAVY: &str = "too_heavy";

/// Everything on which the two do not agree, and everything that the ledger objects to. Empty if all is well.
pub fn disagreements(parcels: &[Parcel], tasks: &[Task], ledger: &Ledger) -> Vec<String> {
    let tasks: HashMap<&str, &Task> = tasks.iter().map(|task| (task.id.as_str(), task)).collect();
    let violations = ledger.violations().iter().map(ToString::to_string);
    let differing = parcels.iter().filter_map(|parcel| {
        disagreement(parcel, tasks.get(parcel.id.as_str()).copied(), ledger.answer(&parcel.id))
            .map(|what| format!("{}: {what}", parcel.id))
    });
    violations.chain(differing).collect()
}

/// What the owner was told, compared with what there was to tell.
pub fn told_otherwise(parcels: &[Parcel], notices: &[Notice]) -> Vec<String> {
    let failed = parcels.iter().filter(|parcel| parcel.kg > MAX_KG).count() as u64;
    let items = parcels.len() as u64;
    let all = Data { items, succeeded: items - failed, failed };
    let mut otherwise = Vec::new();
    if notices.is_empty() {
        otherwise.push("the owner was not told that all are done".to_owned());
    }
    if notices.windows(2).any(|pair| pair[0].id != pair[1].id) {
        otherwise.push("the owner was told twice that all are done, under two ids".to_owned());
    }
    otherwise.extend(
        notices
            .iter()
            .filter(|notice| notice.data != all)
            .map(|notice| format!("the owner was told {:?} and there was {all:?}", notice.data)),
    );
    otherwise
}

fn disagreement(parcel: &Parcel, task: Option<&Task>, answer: Option<&Answer>) -> Option<String> {
    let Some(task) = task else { return Some("was sent and is not in the task table".to_owned()) };
    let said = match &task.status {
        Status::Scheduled { .. } | Status::Queued | Status::Created { .. } | Status::Batched { .. } => {
            return Some(format!("is not settled: {}", task.status.word()));
        }
        Status::Succeeded { batch } => (batch.as_str(), Outcome::Loaded),
        Status::Failed { batch: Some(batch), reason } if reason.as_str() == TOO_HEAVY => {
            (batch.as_str(), Outcome::TooHeavy)
        }
        Status::Failed { reason, .. } => return Some(format!("failed for another reason: {reason}")),
    };
    let Some(answer) = answer else { return Some("is settled, and the ledger does not know it".to_owned()) };
    let expected = if parcel.kg > MAX_KG { Outcome::TooHeavy } else { Outcome::Loaded };
    if said != (answer.batch.as_str(), answer.outcome) {
        Some(format!("is {said:?} in the task table and {:?} in the ledger", (&answer.batch, answer.outcome)))
    } else if answer.outcome != expected {
        Some(format!("should be {expected:?} and is {:?}", answer.outcome))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use groupage_core::domain::{BatchId, Reason, Target, TaskId, Timestamp};

    use super::*;

    fn parcel(kg: u64) -> Parcel {
        Parcel { id: "p".to_owned(), truck: "t".to_owned(), kg }
    }

    fn task(status: Status) -> Task {
        let task = Task::new(TaskId::new("p"), Target::new("r:t"), "{}".to_owned(), String::new(), Timestamp(0));
        Task { status, ..task }
    }

    fn succeeded() -> Status {
        Status::Succeeded { batch: BatchId::new("k1") }
    }

    fn ledger(parcel: &Parcel, key: &str) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.call(key, "t", std::slice::from_ref(parcel), Instant::now());
        ledger.load(key, std::slice::from_ref(parcel), MAX_KG);
        ledger
    }

    fn check(parcel: &Parcel, task: Option<Task>, ledger: &Ledger) -> usize {
        let tasks: Vec<Task> = task.into_iter().collect();
        disagreements(std::slice::from_ref(parcel), &tasks, ledger).len()
    }

    #[test]
    fn a_ledger_that_says_the_same_agrees() {
        let light = parcel(1);
        assert_eq!(check(&light, Some(task(succeeded())), &ledger(&light, "k1")), 0);
        let heavy = parcel(MAX_KG + 1);
        let failed = Status::Failed { batch: Some(BatchId::new("k1")), reason: Reason::new(TOO_HEAVY) };
        assert_eq!(check(&heavy, Some(task(failed)), &ledger(&heavy, "k1")), 0);
    }

    #[test]
    fn whatever_differs_is_found() {
        let light = parcel(1);
        let waits = Status::Created { target: Target::new("r:t") };
        let gave_up = Status::Failed { batch: Some(BatchId::new("k1")), reason: Reason::new("http_503") };
        assert_eq!(check(&light, None, &ledger(&light, "k1")), 1, "lost");
        assert_eq!(check(&light, Some(task(waits)), &ledger(&light, "k1")), 1, "not settled");
        assert_eq!(check(&light, Some(task(gave_up)), &ledger(&light, "k1")), 1, "loaded and reported as failed");
        assert_eq!(check(&light, Some(task(succeeded())), &Ledger::default()), 1, "never called");
        assert_eq!(check(&light, Some(task(succeeded())), &ledger(&light, "k2")), 1, "another batch");
        let heavy = parcel(MAX_KG + 1);
        assert_eq!(check(&heavy, Some(task(succeeded())), &ledger(&heavy, "k1")), 1, "another outcome");
    }

    #[test]
    fn what_the_ledger_objects_to_counts() {
        let light = parcel(1);
        let mut ledger = ledger(&light, "k1");
        ledger.call("k1", "t", &[], Instant::now());
        assert_eq!(check(&light, Some(task(succeeded())), &ledger), 1);
    }
}
