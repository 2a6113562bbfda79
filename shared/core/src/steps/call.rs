//! The call of one batch: its members' payloads, its body, its answer; and, where a downstream refused it as a whole,
//! the search for the members that it refuses.
//!
//! That search is one claim, unless there is no time for all of it, or the downstream goes away meanwhile; then the
//! next claim goes on from there. From the second claim on there is a write before and after each part's call, so that
//! the worker that takes the batch over knows which part it was. So it is with a batch that lost its workers, or that
//! failed too often while others were answered.
//!
//! The gate hears of each failure that says nothing about the tasks, and of the answer that ends such failures, right
//! after the call: before anything else, and whichever worker has the claim by then.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::Error;
use super::admit::{Passed, Wait};
use super::processor::Processor;
use crate::domain::answer::{Excerpt, is_oversized};
use crate::domain::batch::bisection::{self, Bisection};
use crate::domain::gate::{Scope, Setback};
use crate::domain::outcome::{Attempted, Failure, Fault, Reason, Reply, Said};
use crate::domain::task::{Task, payload_bytes};
use crate::domain::trace::{CallOf, CallTrace};
use crate::domain::{Batch, BatchId, Member, TaskId, Timestamp};
use crate::ports::{Answer, Call, Downstream, Env, Freshness, Outbox, Store, Stored, Tasks};
use crate::routes::{Item, OnReject, Route, Unmade};

/// One batch's call.
pub(super) struct Caller<'a, S, Q, D, E> {
    pub(super) processor: Processor<'a, S, Q, D, E>,
    pub(super) route: &'a Route,
    pub(super) batch: &'a Batch,
    pub(super) tasks: &'a Members,
    /// No call of it lasts longer.
    pub(super) deadline: Timestamp,
    /// The gates that want to hear of an answer, since calls before it failed.
    pub(super) in_trouble: &'a [Scope],
}

/// What a claim's calls came to.
pub(super) struct Called {
    /// The batch as it is now; on its way to being taken apart, if that is not over.
    pub(super) batch: Batch,
    /// What was said of the members.
    pub(super) said: Says,
    /// Whether the gate heard of it.
    pub(super) told: Result<(), Error>,
}

impl Called {
    /// Returns whether exactly one call reached the downstream, so that its hold time says how long calls take.
    pub(super) fn is_one_call(&self) -> bool {
        let is_made = match &self.said {
            Says::Reply(_) => true,
            Says::Failed(failure, _) => !matches!(failure.fault, Fault::Ours | Fault::Call),
            Says::Later => false,
        };
        is_made && self.batch.apart.is_none()
    }
}

/// What is to be done after a claim's calls.
pub(super) enum Says {
    /// Judge this.
    Reply(Reply),
    /// The call, or that of a part, failed for a reason that says nothing about the tasks.
    Failed(Failure, Setback),
    /// Call the parts that are left under another claim: there is no time for more.
    Later,
}

/// What one call came to.
struct Answered {
    reply: Reply,
    /// What is kept of an answer that says why the call failed.
    excerpt: Option<(Reason, Excerpt)>,
    /// What it means to the batch, if it failed for a reason that says nothing about the tasks.
    setback: Setback,
    told: Result<(), Error>,
    /// Whether the halves of what was refused are called.
    is_halved: bool,
}

impl Answered {
    /// Of members that no call was made of.
    fn uncalled(reply: Reply, is_halved: bool, now: Timestamp) -> Self {
        Self { reply, excerpt: None, setback: Setback::unheard(now), told: Ok(()), is_halved }
    }
}

/// What one call is made of.
struct Made<'a> {
    /// The members that are in it.
    items: Vec<Item<'a>>,
    /// Those on which the body's template fails.
    broken: BTreeMap<TaskId, Said>,
    body: Result<String, Unmade>,
}

/// The members' tasks, by id.
pub(super) type Members = HashMap<TaskId, Task>;

/// Reads a batch's members. Payloads never change, so half-price reads do; a member that a replica does not show yet,
/// or shows in an earlier round with fewer attempts, is read again at full price.
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

/// The members as a verdict on their batch needs them, except those that it is called without.
pub(super) fn attempted(batch: &Batch, tasks: &Members) -> Vec<Attempted> {
    let attempted = |member: &Member| {
        let task = tasks.get(&member.id);
        Attempted {
            id: member.id.clone(),
            attempts: task.map_or(0, |task| task.attempts) + batch.calls_of_each(),
            excused: batch.excused.map_or(0, |excused| excused.calls),
            bytes: task.map_or(0, |task| payload_bytes(&task.payload)),
            traits: task.map(|task| task.traits).unwrap_or_default(),
        }
    };
    let members = batch.members.iter().enumerate().filter(|(position, _)| batch.omission(*position).is_none());
    members.map(|(_, member)| attempted(member)).collect()
}

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Caller<'_, S, Q, D, E> {
    /// Makes the call; takes the batch apart if it is refused as a whole and the route says so, if its body is too
    /// large, or if it is on its way to that. `None`: another worker has the claim.
    pub(super) async fn call(&self) -> Result<Option<Called>, Error> {
        let mut called = match &self.batch.apart {
            Some(apart) => self.take_apart(Bisection::clone(apart), self.in_trouble.to_vec()).await?,
            None => self.call_whole().await?,
        };
        if let Some(Called { said: Says::Reply(Reply::PerMember(said)), .. }) = &mut called {
            // Nobody deletes a task before it is settled; if somebody did, its neighbours go on without it.
            let gone = self.batch.members.iter().filter(|member| self.payload(&member.id).is_none());
            said.extend(gone.map(|member| (member.id.clone(), Said::Failed(Reason::new("task_missing")))));
        }
        Ok(called)
    }

    async fn call_whole(&self) -> Result<Option<Called>, Error> {
        let batch = self.batch;
        let Answered { reply, excerpt, setback, told, is_halved } =
            self.call_part(&batch.id, &batch.members, self.in_trouble).await;
        let said = match reply {
            Reply::Refused(reason) if is_halved && batch.members.len() > 1 => {
                let before = batch.counted().saturating_sub(1);
                return self.take_apart(Bisection::of(batch.members.len(), before, &reason), Vec::new()).await;
            }
            Reply::Unavailable(failure) => Says::Failed(failure, setback),
            reply @ (Reply::PerMember(_) | Reply::Refused(_)) => Says::Reply(reply),
        };
        Ok(Some(Called { batch: batch.clone().answered(excerpt), said, told }))
    }

    /// Calls halves, and halves of halves, until only single members are refused, each after passing the gates anew. A
    /// part whose call fails for a reason that says nothing about its members counts as refused if it did so before,
    /// and others were answered meanwhile; else it is called again after the others, whose answers tell.
    async fn take_apart(&self, mut apart: Bisection, mut in_trouble: Vec<Scope>) -> Result<Option<Called>, Error> {
        let (mut batch, mut failed, mut told) = ((*self.batch).clone(), None, Ok(()));
        while failed.is_none() && !apart.is_over() {
            if apart.calling().is_none() {
                let Some(passed) = self.pass_again().await else { break };
                in_trouble = passed;
                apart.begin();
                let Some(noted) = self.note(batch, &apart).await? else { return Ok(None) };
                batch = noted;
            }
            let part = apart.calling().cloned().unwrap_or_default();
            let key = bisection::key(&batch.id, &part);
            let answered = self.call_part(&key, batch.members.get(part).unwrap_or_default(), &in_trouble).await;
            batch = batch.answered(answered.excerpt);
            told = told.and(answered.told);
            let failed_before = self.is_in_trouble(&in_trouble);
            match answered.reply {
                Reply::PerMember(said) => apart.answered(&batch.members, said),
                Reply::Refused(reason) if answered.is_halved => apart.refused(&reason),
                Reply::Refused(reason) => apart.failed(&reason),
                Reply::Unavailable(failure) => {
                    if answered.setback.counted > 0 {
                        apart.refused(&failure.reason);
                    } else if self.route.retry.waits_outages_out() {
                        apart.put_back();
                        let is_away = failed_before || !apart.has_others();
                        failed = is_away.then_some((failure, answered.setback));
                    } else {
                        apart.failed_for_now(&failure.reason);
                        failed = Some((failure, answered.setback));
                    }
                }
            }
            // The last answer is recorded with the outcome.
            if !apart.is_over() {
                let Some(noted) = self.note(batch, &apart).await? else { return Ok(None) };
                batch = noted;
            }
        }
        if apart.is_over() {
            let said = Says::Reply(Reply::PerMember(apart.finished(&batch.members)));
            return Ok(Some(Called { batch, said, told }));
        }
        let said = failed.map_or(Says::Later, |(failure, setback)| Says::Failed(failure, setback));
        Ok(Some(Called { batch: Batch { apart: Some(Box::new(apart)), ..batch }, said, told }))
    }

    /// Notes how far a batch is taken apart, from its second claim on. `None`: another worker has the claim.
    async fn note(&self, batch: Batch, apart: &Bisection) -> Result<Option<Batch>, Error> {
        if self.batch.apart.is_none() {
            return Ok(Some(batch));
        }
        let noted = batch.taken_apart(apart.clone());
        Ok(match self.processor.put(&noted, batch.revision).await? {
            Stored::Yes => Some(noted),
            Stored::Conflict => None,
        })
    }

    /// Passes the gates for one call more, waiting for them while there is time for it; says which of them want to hear
    /// of an answer. `None` if there is no time, or if they do not answer: what is known by then counts for more than
    /// an error of theirs.
    async fn pass_again(&self) -> Option<Vec<Scope>> {
        let env = self.processor.env;
        loop {
            match self.pass_now().await {
                Ok(Passed::Yes { start, in_trouble, .. }) => {
                    env.sleep(start.since(env.now())).await;
                    return Some(in_trouble);
                }
                Ok(Passed::No(wait)) => {
                    let until = wait.until.unwrap_or_else(|| env.now().plus_ms(LOOK_AGAIN_MS));
                    if !self.has_time_from(until) {
                        return None;
                    }
                    env.sleep(until.since(env.now())).await;
                }
                Ok(Passed::Away(_)) | Err(_) => return None,
            }
        }
    }

    async fn pass_now(&self) -> Result<Passed, Error> {
        if !self.has_time_from(self.processor.env.now()) {
            return Ok(Passed::No(Wait { until: Some(self.deadline), ticket: None }));
        }
        // The same lease: places are given back by it.
        Box::pin(self.processor.gatekeeper().admit_again(self.route, self.batch, self.deadline)).await
    }

    /// Whether a call that starts then may take all of its time.
    fn has_time_from(&self, start: Timestamp) -> bool {
        start.plus_ms(self.processor.timeout_ms(self.route)) <= self.deadline
    }

    /// Whether calls behind the gate with the breaker failed before. The route's gate may hear of a failure on another
    /// Target.
    fn is_in_trouble(&self, in_trouble: &[Scope]) -> bool {
        in_trouble.contains(&self.route.pause_scope(&self.batch.target))
    }

    /// Makes one call, and tells the gate. A connection that breaks is not tried again: the downstream may have done
    /// the work, so a repeat is an attempt of its own.
    async fn call_part(&self, key: &BatchId, members: &[Member], in_trouble: &[Scope]) -> Answered {
        let Self { route, batch, processor, .. } = self;
        let Made { items, broken, body } = self.make(key, members);
        let ids: Vec<TaskId> = items.iter().map(|item| TaskId::new(item.id)).collect();
        if ids.is_empty() {
            return Answered::uncalled(Reply::PerMember(broken), false, processor.env.now());
        }
        let body = match body {
            Ok(body) => body,
            // Halves are smaller.
            Err(why) => return Answered::uncalled(Reply::Refused(why.reason()), true, processor.env.now()),
        };
        let trace = self.trace(key, &ids);
        let (fence, attempt) = (batch.fence, batch.attempts);
        let target = &batch.target;
        let call = Call { downstream: &route.downstream, batch: key, target, fence, attempt, body, trace };
        let answer = processor.downstream.call(&call).await;
        let excerpt = answer.as_ref().ok().map(Answer::excerpt);
        let is_oversized = is_oversized(&answer);
        let mut reply = route.read(answer, &ids, *key == batch.id && batch.may_be_done());
        let told = self.tell(key, &reply, in_trouble).await;
        let reason = match &mut reply {
            Reply::PerMember(said) => {
                said.extend(broken);
                None
            }
            Reply::Refused(reason) | Reply::Unavailable(Failure { reason, .. }) => Some(reason.clone()),
        };
        let (setback, told) = match told {
            Ok(setback) => (setback, Ok(())),
            Err(error) => (Setback::unheard(processor.env.now()), Err(error)),
        };
        if let Reply::Unavailable(Failure { reason, fault: Fault::Settings, .. }) = &reply
            && is_oversized
            && !setback.begins_outage
        {
            // The answers to halves are smaller, and that to a single member is never read.
            reply = Reply::Refused(reason.clone());
        }
        let is_halved = is_oversized || route.on_reject == OnReject::Bisect;
        Answered { reply, excerpt: reason.zip(excerpt), setback, told, is_halved }
    }

    /// What a call of these members belongs to.
    fn trace(&self, key: &BatchId, members: &[TaskId]) -> Option<CallTrace> {
        let call = CallOf { batch: &self.batch.id, key, attempt: self.batch.attempts };
        let of_members = members.iter().filter_map(|id| self.tasks.get(id)?.trace);
        CallTrace::of(call, of_members, self.processor.downstream.is_collected())
    }

    /// Tells the gate what came of a call.
    async fn tell(&self, key: &BatchId, reply: &Reply, in_trouble: &[Scope]) -> Result<Setback, Error> {
        let (gatekeeper, now) = (self.processor.gatekeeper(), self.processor.env.now());
        match reply {
            Reply::Unavailable(failure) if failure.fault != Fault::Conflict => {
                let setback = gatekeeper.failed(self.route, self.batch, key, failure).await?;
                if setback.begins_outage {
                    let scope = self.route.failure_scope(&self.batch.target, failure.fault);
                    self.processor.announce(self.route, &[scope]).await;
                }
                Ok(setback)
            }
            Reply::PerMember(_) | Reply::Refused(_) | Reply::Unavailable(_) => {
                let have_news = gatekeeper.answered(in_trouble, key).await;
                self.processor.announce(self.route, &have_news).await;
                match reply {
                    Reply::Unavailable(failure) => gatekeeper.failed(self.route, self.batch, key, failure).await,
                    Reply::PerMember(_) | Reply::Refused(_) => Ok(Setback::unheard(now)),
                }
            }
        }
    }

    /// The body of a call of these members, except those that the batch is called without. One on which the body's
    /// template fails is in none, so that it cannot harm the others.
    fn make(&self, key: &BatchId, members: &[Member]) -> Made<'_> {
        let Self { route, batch, .. } = self;
        let omitted = batch.omitted_ids();
        let item = |member: &Member| {
            if omitted.contains(&member.id) {
                return None;
            }
            let (id, task) = self.tasks.get_key_value(&member.id)?;
            Some(Item { id: id.as_str(), payload: serde_json::from_str(&task.payload).ok()? })
        };
        let items: Vec<Item<'_>> = members.iter().filter_map(item).collect();
        let body = route.body(key, &batch.target, &items);
        let Err(Unmade::Template(reason)) = &body else { return Made { items, broken: BTreeMap::new(), body } };
        let found = route.renderable(key, &batch.target, &items, reason);
        let of = |position: usize| items.get(position).copied();
        let failed = |(position, why)| Some((TaskId::new(of(position)?.id), Said::Failed(why)));
        let broken = found.broken.into_iter().filter_map(failed).collect();
        let items: Vec<Item<'_>> = found.sound.into_iter().filter_map(of).collect();
        let body = route.body(key, &batch.target, &items);
        Made { items, broken, body }
    }

    fn payload(&self, id: &TaskId) -> Option<&RawValue> {
        serde_json::from_str(&self.tasks.get(id)?.payload).ok()
    }
}

/// How soon a full gate is looked at again within a batch that is being taken apart, in milliseconds.
const LOOK_AGAIN_MS: u64 = 1_000;
