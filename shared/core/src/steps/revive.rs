//! Driving everything on from the tables, for a stack whose queues lost their messages.
//!
//! Every message is derived from what the tables say, as if the lost one were delivered again: each held lock gets its
//! leader's message, each unsettled task gets what drives it on. Steps may be repeated at any time, so it does no harm
//! where a message was not lost after all. It reads whole tables: right for one machine's restart, not for a schedule.
//!
//! Tables that were restored to an earlier moment need more. A leader of that moment has made batches since then, and
//! their ids follow from its fence. If it went on, it would make other batches of the same ids, and a downstream that
//! knows their `Idempotency-Key` would not carry them out. So each leader is replaced, by a new one with a new fence.
//! And as each table was copied at a moment of its own, they are reconciled first: module `reconcile`.

use std::collections::{BTreeMap, HashSet};

use super::drive_on::{Next, drive_on, due_message};
use super::election_messages::{election_messages, elections};
use super::reconcile::reconcile;
use super::{Error, lease_ms};
use crate::domain::batch::Pace;
use crate::domain::id::WorkflowId;
use crate::domain::lock::{Bid, Holder, Lock, bid};
use crate::domain::message::{Group, Lead};
use crate::domain::{Candidate, Copies, Target, Term};
use crate::ports::{Acquired, Batches, Census, Env, Locks, Outbox, Outgoing, Tasks, Waiting, send_all};
use crate::routes::{Assigned, Routes};

/// What becomes of those that lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaders {
    /// They go on: the tables are as they were left.
    GoOn,
    /// Others take their place, under new fences: the tables are those of an earlier moment, and nobody works on them.
    AreReplaced,
}

/// What was driven on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Leaders that go on, or were replaced.
    pub leaders: usize,
    /// Waiting tasks that get an election.
    pub waiting: usize,
    /// Batches that go on.
    pub batches: usize,
    /// Tasks in batches that will be called, or are still filled.
    pub batched: usize,
    /// Tasks whose batch has an outcome: they are not called in it.
    pub recorded: usize,
    /// Tasks that no route wants any more; they stay as they are.
    pub stranded: usize,
}

/// Drives everything on.
///
/// # Errors
/// A port did not answer. The whole may be repeated.
pub async fn revive<S: Tasks + Batches + Census + Locks>(
    store: &S,
    outbox: &impl Outbox,
    env: &impl Env,
    routes: &Routes,
    leaders: Leaders,
) -> Result<Report, Error> {
    let mut report = Report::default();
    let mut messages = Vec::new();
    if leaders == Leaders::AreReplaced {
        reconcile(store, routes).await?;
    }
    for (target, lock) in store.held_locks().await? {
        let term = match leaders {
            Leaders::GoOn => lock.holder.map(|holder| Term { target, workflow: holder.workflow, fence: lock.fence }),
            Leaders::AreReplaced => replace(store, env, routes, target, lock).await?,
        };
        if let Some(term) = term {
            let (tasks, copies) = (Vec::new(), Copies::NONE);
            let lead = Lead { term, tasks, verify: true, pace: Pace::UNKNOWN, resume: None, wakes: false, copies };
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
    let mut of_batches = Vec::new();
    for next in drive_on(store, env, found).await {
        match next? {
            Next::Elect(task) => waiting.entry(task.target.clone()).or_default().push(task),
            Next::Send(message) => {
                report.batched += 1;
                of_batches.push(message);
            }
            Next::FollowUp(message) => {
                report.recorded += 1;
                of_batches.push(message);
            }
            Next::Due(at, Waiting { target, candidate, .. }) => {
                messages.extend(due_message(&target, vec![candidate], at, env.now()));
            }
            Next::Ack(..) | Next::Nothing => {}
        }
    }
    // Many tasks may belong to one batch; it needs its message once.
    let mut driven = HashSet::new();
    of_batches.retain(|message: &Outgoing| driven.insert(message.body.clone()));
    report.batches = of_batches.len();
    messages.extend(of_batches);
    report.waiting = waiting.values().map(Vec::len).sum();
    messages.extend(election_messages(waiting.into_iter().flat_map(|(target, tasks)| {
        let since = tasks.iter().map(|task| task.since).min().unwrap_or_else(|| env.now());
        let candidates: Vec<Candidate> = tasks.into_iter().map(|task| task.candidate).collect();
        elections(env, &target, &candidates, since, 0)
    })));
    send_all(outbox, messages).await?;
    Ok(report)
}

/// Gives a held lock to a new leader, as if its lease were over, whatever the restored clock says: nobody leads by it.
/// The new leader first finishes the open batch. `None` if no route has the Target any more, or somebody who was
/// elected meanwhile leads.
async fn replace<S: Locks>(
    store: &S,
    env: &impl Env,
    routes: &Routes,
    target: Target,
    lock: Lock,
) -> Result<Option<Term>, Error> {
    let Some(route) = routes.get(&target.route()) else { return Ok(None) };
    let now = lock.holder.as_ref().map_or(env.now(), |holder| holder.lease_until.max(env.now()));
    let wait_ms = route.for_target(&target).batch.wait_ms;
    let (workflow, lease_until) = (WorkflowId::new(env.fresh_id()), now.plus_ms(lease_ms(wait_ms)));
    let bidder = Holder { workflow: workflow.clone(), waits_since: now, lease_until };
    let Bid::Acquire(acquisition) = bid(Some(&lock), &target, &bidder, now) else { return Ok(None) };
    let fence = acquisition.next.fence;
    Ok(match store.acquire(&target, &acquisition).await? {
        Acquired::Yes => Some(Term { target, workflow, fence }),
        Acquired::No(_) => None,
    })
}
