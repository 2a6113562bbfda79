//! Do the ledger, the tables and the notifications agree?

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use groupage_core::domain::notice::{FAILED, SUCCEEDED};
use groupage_core::domain::task::{Status, Task};

use super::ledger::{Fate, Ledger};
use super::tables::Notice;

/// What a run came to.
pub struct Verdict {
    rows: Vec<(String, u64)>,
    lost: Vec<String>,
    /// Settled twice, or otherwise than the downstream did.
    wrong: Vec<String>,
    untold: Vec<String>,
}

impl Verdict {
    pub fn of(ids: &[String], tasks: &[Task], notices: &[Notice], ledger: &Ledger) -> Self {
        let tasks: HashMap<&str, &Task> = tasks.iter().map(|task| (task.id.as_str(), task)).collect();
        let mut told: HashMap<&str, BTreeSet<&Notice>> = HashMap::new();
        for notice in notices {
            told.entry(&notice.subject).or_default().insert(notice);
        }
        let distinct: usize = told.values().map(BTreeSet::len).sum();
        let mut verdict =
            Self { rows: Vec::new(), lost: Vec::new(), wrong: ledger.violations.clone(), untold: Vec::new() };
        let mut succeeded = 0;
        for id in ids {
            let Some((batch, fate)) = tasks.get(id.as_str()).and_then(|task| ending(&task.status)) else {
                verdict.lost.push(format!("{id}: {:?}", tasks.get(id.as_str()).map(|task| &task.status)));
                continue;
            };
            succeeded += u64::from(fate == Some(Fate::Succeeded));
            let entry = ledger.settled(id).map(|(key, fate)| (key.as_str(), Some(*fate)));
            if entry != Some((batch, fate)) {
                verdict.wrong.push(format!("{id}: {:?} in the ledger, {:?} in the table", entry, (batch, fate)));
            }
            let kind = if fate == Some(Fate::Succeeded) { SUCCEEDED } else { FAILED };
            let expected = Notice { id: format!("{batch}/{id}"), kind: kind.to_owned(), subject: id.clone() };
            match told.get(id.as_str()) {
                Some(notices) if notices.iter().eq([&&expected]) => {}
                notices => verdict.untold.push(format!("{id}: {notices:?} instead of {expected:?}")),
            }
        }
        verdict.count("tasks", ids.len() as u64);
        verdict.count("  succeeded", succeeded);
        verdict.count("  failed", ids.len() as u64 - succeeded - verdict.lost.len() as u64);
        verdict.count("batches called", ledger.keys() as u64);
        verdict.count("calls", ledger.calls.values().sum());
        for (ending, calls) in &ledger.calls {
            verdict.count(&format!("  {ending}"), *calls);
        }
        verdict.count("notifications", notices.len() as u64);
        verdict.count("  repeats", (notices.len() - distinct) as u64);
        verdict.count("lost", verdict.lost.len() as u64);
        verdict.count("settled twice or wrong", verdict.wrong.len() as u64);
        verdict.count("notifications missing", verdict.untold.len() as u64);
        verdict
    }

    fn count(&mut self, what: &str, number: u64) {
        self.rows.push((what.to_owned(), number));
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for (what, number) in &self.rows {
            writeln!(text, "  {what:26} {number:>7}").unwrap();
        }
        text
    }

    pub fn is_well(&self) -> bool {
        self.complaints().is_empty()
    }

    /// The first of each kind.
    pub fn complaints(&self) -> Vec<&String> {
        [&self.lost, &self.wrong, &self.untold].into_iter().flat_map(|kind| kind.iter().take(10)).collect()
    }
}

/// In which batch a task was settled and how; `None` as fate if the table gives a reason that the downstream never
/// gave.
fn ending(status: &Status) -> Option<(&str, Option<Fate>)> {
    match status {
        Status::Scheduled { .. } | Status::Queued | Status::Created { .. } | Status::Batched { .. } => None,
        Status::Succeeded { batch } => Some((batch.as_str(), Some(Fate::Succeeded))),
        Status::Failed { batch, reason } => {
            Some((batch.as_ref()?.as_str(), (reason.as_str() == "refused").then_some(Fate::Refused)))
        }
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::{BatchId, Reason, Target, TaskId, Timestamp};

    use super::*;

    /// A ledger in which some key settled the task, that key, and how.
    fn ledger(id: &str) -> (Ledger, String) {
        let mut ledger = Ledger::default();
        // The dice may ask for the task again: then another key settles it.
        for n in 0.. {
            let key = format!("k{n}");
            ledger.call(&key, &[id.to_owned()]);
            ledger.answer("seed", &key);
            if ledger.settled(id).is_some() {
                return (ledger, key);
            }
        }
        unreachable!()
    }

    fn task(id: &str, status: Status) -> Task {
        let task = Task::new(TaskId::new(id), Target::new("r:t"), "{}".to_owned(), String::new(), Timestamp(0));
        Task { status, ..task }
    }

    fn notice(key: &str, id: &str, kind: &str) -> Notice {
        Notice { id: format!("{key}/{id}"), kind: kind.to_owned(), subject: id.to_owned() }
    }

    /// How many are lost, wrong and untold.
    fn counts(id: &str, task: Option<Task>, notices: &[Notice], ledger: &Ledger) -> [usize; 3] {
        let verdict = Verdict::of(&[id.to_owned()], &task.into_iter().collect::<Vec<_>>(), notices, ledger);
        [verdict.lost.len(), verdict.wrong.len(), verdict.untold.len()]
    }

    #[test]
    fn what_agrees_is_well_and_repeated_notifications_are_no_harm() {
        let (mut ledger, key) = ledger("a");
        ledger.call(&key, &["a".to_owned()]);
        ledger.answer("seed", &key);
        let done = task("a", Status::Succeeded { batch: BatchId::new(&key) });
        let told = notice(&key, "a", SUCCEEDED);
        assert_eq!(counts("a", Some(done), &[told.clone(), told], &ledger), [0, 0, 0]);
    }

    #[test]
    fn whatever_does_not_agree_is_found() {
        let (ledger, key) = ledger("a");
        let told = [notice(&key, "a", SUCCEEDED)];
        let done = |batch: &str| Some(task("a", Status::Succeeded { batch: BatchId::new(batch) }));
        let failed = Status::Failed { batch: Some(BatchId::new(&key)), reason: Reason::new("http_503") };
        assert_eq!(counts("a", None, &told, &ledger)[0], 1, "not there");
        let waits = task("a", Status::Created { target: Target::new("r:t") });
        assert_eq!(counts("a", Some(waits), &told, &ledger)[0], 1, "not settled");
        assert_eq!(counts("a", done("other"), &told, &ledger)[1], 1, "another batch");
        assert_eq!(counts("a", Some(task("a", failed)), &told, &ledger)[1], 1, "done and reported as failed");
        assert_eq!(counts("a", done(&key), &told, &Ledger::default())[1], 1, "never done");
        assert_eq!(counts("a", done(&key), &[], &ledger)[2], 1, "nobody told");
        let lie = notice(&key, "a", FAILED);
        assert_eq!(counts("a", done(&key), &[told[0].clone(), lie], &ledger)[2], 1, "told two things");
    }

    #[test]
    fn a_task_under_two_keys_and_members_that_change_are_found() {
        let (mut ledger, key) = ledger("a");
        let mut second = 1_000;
        while ledger.violations.is_empty() {
            second += 1;
            ledger.call(&second.to_string(), &["a".to_owned()]);
            ledger.answer("seed", &second.to_string());
        }
        ledger.call(&key, &["a".to_owned(), "b".to_owned()]);
        assert_eq!(ledger.violations.len(), 2, "{:?}", ledger.violations);
    }
}
