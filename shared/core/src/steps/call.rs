//! The call of one batch: its members' payloads, its body, its answer; and, where a downstream refused it as a whole,
//! the search for the members that it refuses.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::Error;
use super::admit::Passed;
use super::processor::Processor;
use crate::domain::batch::{Batch, Member};
use crate::domain::bisection::{self, Bisection};
use crate::domain::id::{BatchId, TaskId};
use crate::domain::outcome::{Attempted, Reason, Reply, Said};
use crate::domain::task::{Task, payload_bytes};
use crate::domain::time::Timestamp;
use crate::ports::{Call, Downstream, Env, Freshness, NoAnswer, Outbox, Store, Tasks};
use crate::routes::{Item, OnReject, Route};

/// One batch's call.
pub(super) struct Caller<'a, S, Q, D, E> {
    pub(super) processor: Processor<'a, S, Q, D, E>,
    pub(super) route: &'a Route,
    pub(super) batch: &'a Batch,
    /// No call of it lasts longer.
    pub(super) deadline: Timestamp,
}

/// What a call came to.
pub(super) struct Called {
    /// What was said of the members.
    pub(super) reply: Reply,
    /// How long the downstream asked to be left alone, in milliseconds.
    pub(super) pause_ms: Option<u64>,
}

/// The members' tasks, by id.
pub(super) type Members = HashMap<TaskId, Task>;

/// Reads a batch's members. Payloads never change, so half-price reads do; a member that a replica does not show yet, or
/// shows in an earlier round with fewer attempts, is read again at full price.
pub(super) async fn members(store: &impl Tasks, batch: &Batch) -> Result<Members, Error> {
    let ids: Vec<TaskId> = batch.members.iter().map(|member| member.id.clone()).collect();
    let found = store.read(&ids, Freshness::Eventual).await?;
    let mut tasks: Members = found.into_iter().map(|task| (task.id.clone(), task)).collect();
    let stale = |member: &&Member| tasks.get(&member.id).is_none_or(|task| task.round < member.round);
    let stale: Vec<TaskId> = batch.members.iter().filter(stale).map(|member| member.id.clone()).collect();
    if !stale.is_empty() {
        let found = store.read(&stale, Freshness::Latest).await?;
        tasks.extend(found.into_iter().map(|task| (task.id.clone(), task)));
    }
    Ok(tasks)
}

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Caller<'_, S, Q, D, E> {
    /// The members as the verdict needs them.
    pub(super) fn attempted(&self, tasks: &Members) -> Vec<Attempted> {
        let attempted = |member: &Member| {
            let task = tasks.get(&member.id);
            Attempted {
                id: member.id.clone(),
                attempts: task.map_or(0, |task| task.attempts) + self.batch.attempts,
                bytes: task.map_or(0, |task| payload_bytes(&task.payload)),
            }
        };
        self.batch.members.iter().map(attempted).collect()
    }

    /// Makes the call; takes the batch apart if it is refused as a whole and the route says so.
    pub(super) async fn call(&self, tasks: &Members) -> Result<Called, Error> {
        // Nobody deletes a task before it is settled; if somebody did, its neighbours go on without it.
        let (there, gone): (Vec<TaskId>, Vec<TaskId>) =
            self.batch.members.iter().map(|member| member.id.clone()).partition(|id| payload(tasks, id).is_some());
        let mut called = self.call_part(&self.batch.id, &there, tasks).await?;
        if let Reply::Refused(reason) = &called.reply
            && self.route.on_reject == OnReject::Bisect
            && there.len() > 1
        {
            called = self.take_apart(there, reason, tasks).await?;
        }
        if let Reply::PerMember(said) = &mut called.reply {
            said.extend(gone.into_iter().map(|id| (id, Said::Failed(Reason::new("task_missing")))));
        }
        Ok(called)
    }

    /// Calls halves, and halves of halves, until only single members are refused, each after passing the gates anew. Who
    /// is not called before the time is up goes round again, and it counts as no attempt.
    async fn take_apart(&self, members: Vec<TaskId>, reason: &Reason, tasks: &Members) -> Result<Called, Error> {
        let mut bisection = Bisection::of(members, reason);
        let mut pause_ms = None;
        while self.pass_again().await?
            && let Some(part) = bisection.next_part()
        {
            let key = bisection::key(&self.batch.id, &part);
            let called = self.call_part(&key, bisection.members(&part), tasks).await?;
            match called.reply {
                Reply::PerMember(said) => bisection.answered(said),
                Reply::Refused(reason) => bisection.refused(&part, &reason),
                Reply::Unavailable { reason, .. } => {
                    bisection.failed_for_now(&part, &reason);
                    pause_ms = called.pause_ms;
                    break;
                }
            }
        }
        Ok(Called { reply: Reply::PerMember(bisection.finished()), pause_ms })
    }

    /// Passes the gates for one call more, waiting for them while there is time for it; `false` if there is not.
    async fn pass_again(&self) -> Result<bool, Error> {
        let env = self.processor.env;
        loop {
            match self.pass_now().await? {
                Passed::Yes { start, .. } => {
                    env.sleep(start.since(env.now())).await;
                    return Ok(true);
                }
                Passed::No { until } => {
                    let until = until.unwrap_or_else(|| env.now().plus_ms(LOOK_AGAIN_MS));
                    if !self.has_time_from(until) {
                        return Ok(false);
                    }
                    env.sleep(until.since(env.now())).await;
                }
            }
        }
    }

    async fn pass_now(&self) -> Result<Passed, Error> {
        if !self.has_time_from(self.processor.env.now()) {
            return Ok(Passed::No { until: Some(self.deadline) });
        }
        // The same lease: places are given back by it.
        self.processor.gatekeeper().admit(self.route, self.batch, self.deadline).await
    }

    /// Whether a call that starts then may take all of its time.
    fn has_time_from(&self, start: Timestamp) -> bool {
        start.plus_ms(self.processor.timeout_ms(self.route)) <= self.deadline
    }

    /// Makes one call; a connection that was refused or reset is tried once more at once, if the gates let it.
    async fn call_part(&self, key: &BatchId, members: &[TaskId], tasks: &Members) -> Result<Called, Error> {
        let items: Vec<Item<'_>> =
            members.iter().filter_map(|id| Some(Item { id: id.as_str(), payload: payload(tasks, id)? })).collect();
        let Self { route, batch, processor, .. } = self;
        let Ok(body) = route.body(key, &batch.target, &items) else {
            return Ok(Called { reply: Reply::Refused(Reason::new("body_template")), pause_ms: None });
        };
        let call =
            Call { downstream: &route.downstream, batch: key, fence: batch.fence, attempt: batch.attempts, body };
        let mut answer = processor.downstream.call(&call).await;
        if answer == Err(NoAnswer::Connection)
            && let Passed::Yes { start, .. } = self.pass_now().await?
        {
            processor.env.sleep(start.since(processor.env.now())).await;
            answer = processor.downstream.call(&call).await;
        }
        let reply = route.downstream.response().read(answer, members);
        let pause_ms = match &reply {
            Reply::Unavailable { retry_after_ms, .. } => *retry_after_ms,
            Reply::PerMember(_) | Reply::Refused(_) => None,
        };
        Ok(Called { reply, pause_ms })
    }
}

/// How soon a full gate is looked at again within a batch that is being taken apart, in milliseconds.
const LOOK_AGAIN_MS: u64 = 1_000;

fn payload<'a>(tasks: &'a Members, id: &TaskId) -> Option<&'a RawValue> {
    serde_json::from_str(&tasks.get(id)?.payload).ok()
}
