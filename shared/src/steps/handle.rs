//! batch-handler: claims a frozen batch, makes its one call, and records the outcome.
//!
//! The claim keeps other deliveries away while the call is made. Recording the outcome is one write, conditional on
//! the revision that the claim made: the acknowledgement. Only the claim's holder can make it, so however often the
//! call is repeated, its outcome is recorded once; a late worker's result is dropped.
//!
//! Waiting is not failing: for a slot, or for another worker's claim, the message goes round by a delayed copy and no
//! attempt is counted. A call that failed for now comes back by the message's visibility timeout.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::follow_up::follow_up;
use super::{CONCURRENCY, Error};
use crate::domain::batch::{Assumes, Batch, Claim, Duty, Member};
use crate::domain::id::{TaskId, WorkerId};
use crate::domain::message::Handle;
use crate::domain::outcome::{Attempted, Reason, Reply, Said, Verdict, judge};
use crate::domain::retry::slot_delay_ms;
use crate::domain::slots::Scope;
use crate::domain::task::{Task, payload_bytes};
use crate::domain::time::Timestamp;
use crate::ports::{
    Batches, Call, Downstream, Env, Freshness, Inbox, NoAnswer, Outbox, Outgoing, SlotStore, Stored, Tasks, send_all,
};
use crate::routes::{Item, Route, Routes};

/// What became of a batch in this delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its outcome is recorded, by this delivery's call.
    Settled {
        /// Members that succeeded.
        succeeded: usize,
        /// Members that failed for good.
        failed: usize,
        /// Members on their way back to waiting.
        returned: usize,
    },
    /// The call failed for now. The message must stay: it comes again after the pause.
    CallAgain {
        /// Why.
        reason: Reason,
    },
    /// Another delivery recorded the outcome; what follows from it was derived once more.
    FollowedUp,
    /// It waits for a slot or for another worker; a delayed copy is on its way.
    Waits,
    /// There was nothing to do.
    Nothing,
}

/// batch-handler, over its ports.
#[derive(Debug)]
pub struct HandleBatch<'a, S, Q, D, E> {
    /// Tasks, batches and slots.
    pub store: &'a S,
    /// Where messages go, and come from.
    pub queue: &'a Q,
    /// Where calls go.
    pub downstream: &'a D,
    /// Time and randomness.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
}

/// Added to a call's timeout for everything around it, in milliseconds: reading the members, one call more after a
/// reset connection, recording the outcome.
const CLAIM_MARGIN_MS: u64 = 10_000;

impl<S, Q, D, E> HandleBatch<'_, S, Q, D, E>
where
    S: Tasks + Batches + SlotStore,
    Q: Outbox + Inbox,
    D: Downstream,
    E: Env,
{
    /// Handles one message; `receipt` is its receipt handle.
    ///
    /// # Errors
    /// A port did not answer, the route is unknown, or another delivery is at work. The message comes again.
    pub async fn run(&self, message: Handle, receipt: &str) -> Result<Outcome, Error> {
        let Some(batch) = self.store.batch(&message.batch).await? else {
            // Handed on only after it was frozen, and kept longer than any message: it settled and expired.
            return Ok(Outcome::Nothing);
        };
        match batch.duty(self.env.now()) {
            Duty::Nothing => Ok(Outcome::Nothing),
            Duty::LookAgain { at } => self.wait(message, at.since(self.env.now())).await,
            Duty::FollowUp => {
                follow_up(self.store, self.queue, self.route(&batch)?, &batch).await?;
                Ok(Outcome::FollowedUp)
            }
            Duty::Call => self.call(message, batch, receipt).await,
        }
    }

    async fn call(&self, message: Handle, batch: Batch, receipt: &str) -> Result<Outcome, Error> {
        let route = self.route(&batch)?;
        let claim = Claim { worker: WorkerId::new(self.env.fresh_id()), until: self.claim_until(route) };
        let mut held = Vec::new();
        for (scope, limit) in scopes(route, &batch) {
            if !self.take_slot(&scope, limit, &batch, claim.until).await? {
                self.free_slots_unless_claimed(&held, &batch).await?;
                let delay_ms = slot_delay_ms(message.waits, self.env.random());
                return self.wait(message, delay_ms).await;
            }
            held.push(scope);
        }
        let claimed = batch.claimed(claim);
        if self.store.store(&claimed, Assumes::At(batch.revision)).await? == Stored::Conflict {
            self.free_slots_unless_claimed(&held, &batch).await?;
            return Err(Error::Conflict("claiming a batch"));
        }
        let outcome = self.attempt(route, &claimed, receipt).await;
        if !matches!(outcome, Err(Error::Conflict(_))) {
            self.free_slots(&held, &batch).await?;
        }
        outcome
    }

    async fn attempt(&self, route: &Route, batch: &Batch, receipt: &str) -> Result<Outcome, Error> {
        let tasks = self.members(batch).await?;
        let attempted: Vec<Attempted> = batch
            .members
            .iter()
            .map(|member| {
                let task = tasks.get(&member.id);
                Attempted {
                    id: member.id.clone(),
                    attempts: task.map_or(0, |task| task.attempts) + batch.attempts,
                    bytes: task.map_or(0, |task| payload_bytes(&task.payload)),
                }
            })
            .collect();
        let reply = self.reply(route, batch, &tasks).await;
        let delay_ms = |attempts, asked_ms| route.retry.backoff_ms(attempts, asked_ms, self.env.random());
        match judge(reply, &attempted, route.retry.attempts, delay_ms) {
            Verdict::Settle(results) => {
                let settled = batch.settled(results, self.env.now());
                if self.store.store(&settled, Assumes::At(batch.revision)).await? == Stored::Conflict {
                    return Err(Error::Conflict("recording an outcome whose claim was lost"));
                }
                let counts = follow_up(self.store, self.queue, route, &settled).await?;
                Ok(Outcome::Settled { succeeded: counts.succeeded, failed: counts.failed, returned: counts.returned })
            }
            Verdict::CallAgain { reason, retry_after_ms } => {
                let pause_ms = route.retry.backoff_ms(batch.attempts, retry_after_ms, self.env.random());
                let paused = batch.paused(self.env.now().plus_ms(pause_ms));
                if self.store.store(&paused, Assumes::At(batch.revision)).await? == Stored::Conflict {
                    return Err(Error::Conflict("pausing a batch whose claim was lost"));
                }
                self.queue.postpone(receipt, pause_ms).await?;
                Ok(Outcome::CallAgain { reason })
            }
        }
    }

    /// Makes the call; a connection that was refused or reset is tried once more at once.
    async fn reply(&self, route: &Route, batch: &Batch, tasks: &HashMap<TaskId, Task>) -> Reply {
        let payload = |id| tasks.get(id).and_then(|task| serde_json::from_str::<&RawValue>(&task.payload).ok());
        let (there, gone): (Vec<&Member>, Vec<&Member>) =
            batch.members.iter().partition(|member| payload(&member.id).is_some());
        let items: Vec<Item<'_>> = there
            .iter()
            .filter_map(|member| Some(Item { id: member.id.as_str(), payload: payload(&member.id)? }))
            .collect();
        let Ok(body) = route.body(batch, &items) else {
            return Reply::Refused(Reason::new("body_template"));
        };
        let call =
            Call { downstream: &route.downstream, batch: &batch.id, fence: batch.fence, attempt: batch.attempts, body };
        let mut answer = self.downstream.call(&call).await;
        if answer == Err(NoAnswer::Connection) {
            answer = self.downstream.call(&call).await;
        }
        let members: Vec<TaskId> = there.iter().map(|member| member.id.clone()).collect();
        let mut reply = route.downstream.response().read(answer, &members);
        if let Reply::PerMember(said) = &mut reply {
            // Nobody deletes a task before it is settled; if somebody did, its neighbours go on without it.
            said.extend(gone.iter().map(|member| (member.id.clone(), Said::Failed(Reason::new("task_missing")))));
        }
        reply
    }

    /// Reads the members' payloads. They never change, so half-price reads do; one that a replica does not show yet is
    /// read again at full price.
    async fn members(&self, batch: &Batch) -> Result<HashMap<TaskId, Task>, Error> {
        let ids: Vec<TaskId> = batch.members.iter().map(|member| member.id.clone()).collect();
        let found = self.store.read(&ids, Freshness::Eventual).await?;
        let mut tasks: HashMap<_, _> = found.into_iter().map(|task| (task.id.clone(), task)).collect();
        let missing: Vec<TaskId> = ids.into_iter().filter(|id| !tasks.contains_key(id)).collect();
        if !missing.is_empty() {
            let found = self.store.read(&missing, Freshness::Latest).await?;
            tasks.extend(found.into_iter().map(|task| (task.id.clone(), task)));
        }
        Ok(tasks)
    }

    async fn wait(&self, message: Handle, delay_ms: u64) -> Result<Outcome, Error> {
        let again = Handle { waits: message.waits.saturating_add(1), ..message };
        send_all(self.queue, vec![Outgoing::handle(&again, delay_ms)]).await?;
        Ok(Outcome::Waits)
    }

    async fn take_slot(&self, scope: &Scope, limit: usize, batch: &Batch, until: Timestamp) -> Result<bool, Error> {
        for _ in 0..CONCURRENCY {
            let now = self.env.now();
            let slots = self.store.slots(scope).await?;
            let Some(next) = slots.with(&batch.id, limit, now, until) else {
                return Ok(false);
            };
            if self.store.store_slots(scope, &next, now).await? == Stored::Yes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Slots name the batch, not the worker: if somebody else has claimed it meanwhile, they are that worker's now.
    async fn free_slots_unless_claimed(&self, scopes: &[Scope], batch: &Batch) -> Result<(), Error> {
        if scopes.is_empty() {
            return Ok(());
        }
        let claimed = self.store.batch(&batch.id).await?.is_some_and(|batch| batch.is_claimed(self.env.now()));
        if claimed { Ok(()) } else { self.free_slots(scopes, batch).await }
    }

    /// Gives slots back. A crash before this costs the rest of their lease.
    async fn free_slots(&self, scopes: &[Scope], batch: &Batch) -> Result<(), Error> {
        for scope in scopes {
            for _ in 0..CONCURRENCY {
                let Some(next) = self.store.slots(scope).await?.without(&batch.id) else { break };
                if self.store.store_slots(scope, &next, self.env.now()).await? == Stored::Yes {
                    break;
                }
            }
        }
        Ok(())
    }

    fn claim_until(&self, route: &Route) -> Timestamp {
        self.env.now().plus_ms(2 * route.downstream.timeout_ms() + CLAIM_MARGIN_MS)
    }

    fn route(&self, batch: &Batch) -> Result<&Route, Error> {
        let name = batch.target.route();
        self.routes.get(&name).ok_or(Error::UnknownRoute(name))
    }
}

/// The limits that a call of this batch counts against. The Target's comes first: it is the narrower one, and whoever
/// waits there must not keep a slot of the route from others.
fn scopes(route: &Route, batch: &Batch) -> impl Iterator<Item = (Scope, usize)> {
    let per_target = route.in_flight.per_target.map(|limit| (Scope::Target(batch.target.clone()), limit));
    let in_all = route.in_flight.in_all.map(|limit| (Scope::Route(route.name.clone()), limit));
    per_target.into_iter().chain(in_all)
}
