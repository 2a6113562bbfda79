//! Do the ledger, the tables and the notifications agree?

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use shared::domain::notice::{FAILED, SUCCEEDED};
use shared::domain::task::{Status, Task};

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

/// In which batch a task was settled and how; `None` as fate if the table gives a reason that the downstream never gave.
fn ending(status: &Status) -> Option<(&str, Option<Fate>)> {
    match status {
        Status::Created { .. } | Status::Batched { .. } => None,
        Status::Succeeded { batch } => Some((batch.as_str(), Some(Fate::Succeeded))),
        Status::Failed { batch, reason } => {
            Some((batch.as_str(), (reason.as_str() == "refused").then_some(Fate::Refused)))
        }
    }
}
