//! The call of one batch: its members' payloads, its body, its answer; and, where a downstream refused it as a whole,
//! the search for the members that it refuses.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::Error;
use super::admit::Passed;
use super::process::Processor;
use crate::domain::batch::{Batch, Member};
use crate::domain::bisection::{self, Bisection};
use crate::domain::id::{BatchId, TaskId};
use crate::domain::outcome::{Attempted, Reason, Reply, Said};
use crate::domain::task::{Task, payload_bytes};
use crate::domain::time::Timestamp;
use crate::ports::{Call, Downstream, Env, Freshness, NoAnswer, Outbox, Store};
use crate::routes::{Item, OnReject, Route};

/// One batch's call.
pub(super) struct Caller<'a, S, Q, D, E> {
    pub(super) processor: Processor<'a, S, Q, D, E>,
    pub(super) route: &'a Route,
    pub(super) batch: &'a Batch,
    /// A refused batch is taken apart until then.
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

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Caller<'_, S, Q, D, E> {
    /// Reads the members. Payloads never change, so half-price reads do; a member that a replica does not show yet, or
    /// shows in an earlier round with fewer attempts, is read again at full price.
    pub(super) async fn members(&self) -> Result<Members, Error> {
        let ids: Vec<TaskId> = self.batch.members.iter().map(|member| member.id.clone()).collect();
        let found = self.processor.store.read(&ids, Freshness::Eventual).await?;
        let mut tasks: Members = found.into_iter().map(|task| (task.id.clone(), task)).collect();
        let stale = |member: &&Member| tasks.get(&member.id).is_none_or(|task| task.round < member.round);
        let stale: Vec<TaskId> = self.batch.members.iter().filter(stale).map(|member| member.id.clone()).collect();
        if !stale.is_empty() {
            let found = self.processor.store.read(&stale, Freshness::Latest).await?;
            tasks.extend(found.into_iter().map(|task| (task.id.clone(), task)));
        }
        Ok(tasks)
    }

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
        let mut called = self.call_part(&self.batch.id, &there, tasks).await;
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

    /// Calls halves, and halves of halves, until only single members are refused, each after passing the gates anew. What
    /// cannot be called for now goes round again.
    async fn take_apart(&self, members: Vec<TaskId>, reason: &Reason, tasks: &Members) -> Result<Called, Error> {
        let Processor { env, .. } = self.processor;
        let mut bisection = Bisection::of(members, reason);
        while let Some(part) = bisection.next_part() {
            let lease_ms = self.processor.lease_ms(self.route);
            let stop = |bisection: Bisection, reason: &Reason, pause_ms| {
                Ok(Called { reply: Reply::PerMember(bisection.stopped(reason)), pause_ms })
            };
            if env.now().plus_ms(self.processor.timeout_ms(self.route)) > self.deadline {
                return stop(bisection, &Reason::new("bisection_out_of_time"), None);
            }
            let lease_until = env.now().plus_ms(lease_ms);
            match self.processor.gatekeeper().admit(self.route, self.batch, lease_until).await? {
                Passed::Yes { start, .. } => env.sleep(start.since(env.now())).await,
                Passed::No { .. } => return stop(bisection, &Reason::new("bisection_held_back"), None),
            }
            let key = bisection::key(&self.batch.id, &part);
            let Called { reply, pause_ms } = self.call_part(&key, bisection.members(&part), tasks).await;
            match reply {
                Reply::PerMember(said) => bisection.answered(said),
                Reply::Refused(reason) => bisection.refused(&part, &reason),
                Reply::Unavailable { reason, .. } => return stop(bisection, &reason, pause_ms),
            }
        }
        Ok(Called { reply: Reply::PerMember(bisection.finished()), pause_ms: None })
    }

    /// Makes one call; a connection that was refused or reset is tried once more at once.
    async fn call_part(&self, key: &BatchId, members: &[TaskId], tasks: &Members) -> Called {
        let items: Vec<Item<'_>> =
            members.iter().filter_map(|id| Some(Item { id: id.as_str(), payload: payload(tasks, id)? })).collect();
        let Self { route, batch, processor, .. } = self;
        let Ok(body) = route.body(key, &batch.target, &items) else {
            return Called { reply: Reply::Refused(Reason::new("body_template")), pause_ms: None };
        };
        let call =
            Call { downstream: &route.downstream, batch: key, fence: batch.fence, attempt: batch.attempts, body };
        let mut answer = processor.downstream.call(&call).await;
        if answer == Err(NoAnswer::Connection) {
            answer = processor.downstream.call(&call).await;
        }
        let reply = route.downstream.response().read(answer, members);
        let pause_ms = match &reply {
            Reply::Unavailable { retry_after_ms, .. } => *retry_after_ms,
            Reply::PerMember(_) | Reply::Refused(_) => None,
        };
        Called { reply, pause_ms }
    }
}

fn payload<'a>(tasks: &'a Members, id: &TaskId) -> Option<&'a RawValue> {
    serde_json::from_str(&tasks.get(id)?.payload).ok()
}
