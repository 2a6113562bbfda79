//! Driving everything on from the tables, for a stack whose queues lost their messages.
//!
//! Every message is derived from what the tables say, as if the lost one were delivered again: each held lock gets its
//! leader's message, each unsettled task gets what drives it on. Steps may be repeated at any time, so it does no harm
//! where a message was not lost after all. It reads whole tables: right for one machine's restart, not for a schedule.

use std::collections::{BTreeMap, HashSet};

use super::Error;
use super::ballot::{election_messages, elections};
use super::drive_on::{Next, drive_on, due_message};
use crate::domain::batch::Pace;
use crate::domain::message::{Group, Lead};
use crate::domain::{Candidate, Target, Term};
use crate::ports::{Batches, Census, Env, Outbox, Outgoing, Tasks, Waiting, send_all};
use crate::routes::{Assigned, Routes};

/// What was driven on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Leaders that go on leading.
    pub leaders: usize,
    /// Waiting tasks that get an election.
    pub waiting: usize,
    /// Batches that go on.
    pub batches: usize,
    /// Tasks that no route wants any more; they stay as they are.
    pub stranded: usize,
}

/// Drives everything on.
///
/// # Errors
/// A port did not answer. The whole may be repeated.
pub async fn revive<S: Tasks + Batches + Census>(
    store: &S,
    outbox: &impl Outbox,
    env: &impl Env,
    routes: &Routes,
) -> Result<Report, Error> {
    let mut report = Report::default();
    let mut messages = Vec::new();
    for (target, lock) in store.held_locks().await? {
        if let Some(holder) = lock.holder {
            let term = Term { target, workflow: holder.workflow, fence: lock.fence };
            let lead = Lead { term, tasks: Vec::new(), verify: true, pace: Pace::UNKNOWN, resume: None };
            messages.push(Outgoing::group(&Group::Lead(lead), 0));
            report.leaders += 1;
        }
    }
    let mut found = Vec::new();
    for task in store.unsettled_tasks().await? {
        match routes.assign(&task.payload) {
            Ok(Assigned { target, .. }) => found.push((task, target)),
            Err(_) => report.stranded += 1,
        }
    }
    let mut waiting: BTreeMap<Target, Vec<Waiting>> = BTreeMap::new();
    let mut driven = HashSet::new();
    for next in drive_on(store, env, found).await {
        match next? {
            Next::Elect(task) => waiting.entry(task.target.clone()).or_default().push(task),
            // Many tasks may belong to one batch; it needs its message once.
            Next::Send(message) => {
                if driven.insert(message.body.clone()) {
                    messages.push(message);
                    report.batches += 1;
                }
            }
            Next::Due(at, Waiting { target, candidate, .. }) => {
                messages.extend(due_message(&target, vec![candidate], at, env.now()));
            }
            Next::Ack(..) | Next::Nothing => {}
        }
    }
    report.waiting = waiting.values().map(Vec::len).sum();
    messages.extend(election_messages(waiting.into_iter().flat_map(|(target, tasks)| {
        let since = tasks.iter().map(|task| task.since).min().unwrap_or_else(|| env.now());
        let candidates: Vec<Candidate> = tasks.into_iter().map(|task| task.candidate).collect();
        elections(env, &target, &candidates, since, 0)
    })));
    send_all(outbox, messages).await?;
    Ok(report)
}
