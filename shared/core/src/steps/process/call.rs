//! Stage 3: makes the call of a claimed batch, and tells the circuit breaker.
//!
//! The breaker learns of each failure that says nothing about the tasks, and of the answer that ends such failures,
//! right after the call: before anything else, and whichever worker has the claim by then. If it does not answer, the
//! next call tells it.

use std::collections::{BTreeMap, HashSet};

use tokio::task::yield_now;

use super::Processor;
use super::stage::{Called, Claimed, Stage};
use crate::domain::answer::{Excerpt, is_oversized};
use crate::domain::batch::bisection::Bisection;
use crate::domain::gate::{FailureClass, Scope};
use crate::domain::outcome::{Begun, Failure, Fault, Reading, Reason, Reply, Said};
use crate::domain::output::Outputs;
use crate::domain::trace::{CallOf, CallTrace};
use crate::domain::{Batch, BatchId, Member, TaskId};
use crate::ports::{Answer, Call, Downstream, Env, Outbox, Store};
use crate::routes::{Body, Earlier, Item, OnReject, Route, Unmade};

/// The result of the call of one part.
pub(super) struct Answered {
    pub(super) reply: Reply,
    /// The outputs of members that it settles.
    pub(super) outputs: Outputs,
    /// What is kept of an answer that says why the call failed.
    pub(super) excerpt: Option<(Reason, Excerpt)>,
    /// What it means to the batch, if it failed for a reason that says nothing about the tasks.
    pub(super) class: FailureClass,
    /// Whether the halves of what was refused are called.
    pub(super) is_halved: bool,
    /// Whether it may have been carried out, although no answer says so.
    pub(super) may_be_done: bool,
}

/// The parts of one call.
struct Made<'a> {
    /// The members that are in it.
    items: Vec<Item<'a>>,
    /// Those on which the body's template fails.
    broken: BTreeMap<TaskId, Reason>,
    body: Result<Body, Unmade>,
}

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Makes the call; takes the batch apart if it is refused as a whole and the route says so, if its body is too
    /// large, or if it is on its way to that.
    pub(super) async fn call(&self, claimed: &Claimed) -> Stage<Called> {
        let Claimed { batch, in_trouble, .. } = claimed;
        let mut called = match &batch.apart {
            Some(apart) => self.take_apart(claimed, Bisection::clone(apart), in_trouble.clone()).await?,
            None => {
                let may_be_done = batch.may_be_done();
                let answered = self.call_part(claimed, &batch.id, &batch.members, in_trouble, may_be_done).await?;
                match answered.reply {
                    Reply::Refused(reason) if answered.is_halved && batch.members.len() > 1 => {
                        let before = batch.counted().saturating_sub(1);
                        let may_be_done = may_be_done || answered.may_be_done;
                        let apart = Bisection::of(batch.members.len(), before, &reason, may_be_done);
                        self.take_apart(claimed, apart, Vec::new()).await?
                    }
                    reply @ (Reply::PerMember(_) | Reply::Refused(_) | Reply::Begun(_) | Reply::Unavailable(_)) => {
                        let batch = batch.clone().answered(answered.excerpt);
                        let batch = self.keep(batch, answered.outputs).await?;
                        Called { batch, reply: Some((reply, answered.class)) }
                    }
                }
            }
        };
        // Nobody deletes a task before it is settled; if somebody did, its neighbours go on without it.
        let gone = batch.members.iter().filter(|member| claimed.item(member).is_none());
        let gone = gone.map(|member| (member.id.clone(), Reason::new("task_missing")));
        match &mut called.reply {
            Some((Reply::PerMember(said), _)) => said.extend(gone.map(|(id, reason)| (id, Said::Failed(reason)))),
            Some((Reply::Begun(begun), _)) => begun.uncalled.extend(gone),
            Some((Reply::Refused(_) | Reply::Unavailable(_), _)) | None => {}
        }
        Ok(called)
    }

    /// Makes one call, and tells the breaker. Says of an earlier call of these members that it `may_be_done`. A
    /// connection that breaks is not tried again: the downstream may have done the work, so a repeat is an attempt of
    /// its own.
    pub(super) async fn call_part(
        &self,
        claimed: &Claimed,
        key: &BatchId,
        members: &[Member],
        in_trouble: &[Scope],
        may_be_done: bool,
    ) -> Stage<Answered> {
        let (batch, route) = (&claimed.batch, self.route(&claimed.batch)?);
        let Made { items, broken, body } = self.make(claimed, route, key, members).await;
        let ids: Vec<TaskId> = items.iter().map(|item| TaskId::new(item.id)).collect();
        let uncalled = |reply, is_halved| {
            let (class, outputs) = (FailureClass::unobserved(self.env.now()), Outputs::new());
            Ok(Answered { reply, outputs, excerpt: None, class, is_halved, may_be_done: false })
        };
        let body = match body {
            _ if ids.is_empty() => return uncalled(Reply::PerMember(failed(broken).collect()), false),
            Ok(body) => body,
            // Halves are smaller.
            Err(why) => return uncalled(Reply::Refused(why.reason()), route.job().is_none()),
        };
        let unsure: HashSet<TaskId> =
            ids.iter().filter(|id| claimed.tasks.get(*id).is_some_and(|task| task.is_unsure)).cloned().collect();
        let earlier = if may_be_done { Earlier::OfAll } else { Earlier::Of(&unsure) };
        let answer = self.downstream.call(&self.request(claimed, route, key, &ids, body)).await;
        let excerpt = answer.as_ref().ok().map(Answer::excerpt);
        let is_oversized = is_oversized(&answer);
        let Reading { mut reply, outputs } = self.env.compute(|| match route.begun(&answer, key, &batch.target) {
            None => route.read(answer, &ids, earlier),
            Some(Ok(url)) => Reply::Begun(Begun { url, uncalled: BTreeMap::new() }).into(),
            Some(Err(reason)) => Reply::Refused(reason).into(),
        });
        let is_unsure = matches!(&reply, Reply::Unavailable(failure) if !failure.is_undone());
        let class = self.tell_breaker(route, batch, key, &reply, in_trouble).await;
        let reason = match &mut reply {
            Reply::PerMember(said) => {
                said.extend(failed(broken));
                None
            }
            Reply::Begun(begun) => {
                begun.uncalled = broken;
                None
            }
            Reply::Refused(reason) | Reply::Unavailable(Failure { reason, .. }) => Some(reason.clone()),
        };
        if let Reply::Unavailable(Failure { reason, fault: Fault::Settings, .. }) = &reply
            && is_oversized
            && !class.begins_outage
        {
            // The answers to halves are smaller, and that to a single member is never read.
            reply = Reply::Refused(reason.clone());
        }
        // A job is one for all of its batch.
        let is_halved = route.job().is_none() && (is_oversized || route.on_reject == OnReject::Bisect);
        let excerpt = reason.zip(excerpt);
        Ok(Answered { reply, outputs, excerpt, class, is_halved, may_be_done: is_unsure })
    }

    /// Makes the body, in the turn of its route.
    async fn make<'a>(&self, claimed: &'a Claimed, route: &Route, key: &BatchId, members: &[Member]) -> Made<'a> {
        let turn = route.rendering().await;
        let made = self.env.compute(|| make(claimed, route, key, members));
        if turn.is_some() {
            // Claims are renewed before the next one computes.
            yield_now().await;
        }
        made
    }

    fn request<'r>(
        &self,
        claimed: &'r Claimed,
        route: &'r Route,
        key: &'r BatchId,
        ids: &[TaskId],
        body: Body,
    ) -> Call<'r> {
        let Batch { id, target, fence, attempts, .. } = &claimed.batch;
        let (fence, attempt) = (*fence, *attempts);
        let of_members = ids.iter().filter_map(|id| claimed.tasks.get(id)?.trace);
        let trace = CallTrace::of(CallOf { batch: id, key, attempt }, of_members, self.downstream.is_collected());
        let Body { text: body, secrets } = body;
        Call { downstream: &route.downstream, batch: key, target, fence, attempt, body, secrets, trace, look: None }
    }

    /// Tells the breaker what came of a call, and people if that opened or closed it.
    async fn tell_breaker(
        &self,
        route: &Route,
        batch: &Batch,
        key: &BatchId,
        reply: &Reply,
        in_trouble: &[Scope],
    ) -> FailureClass {
        let gatekeeper = self.gatekeeper();
        let failure = match reply {
            Reply::Unavailable(failure) => Some(failure),
            Reply::PerMember(_) | Reply::Begun(_) | Reply::Refused(_) => None,
        };
        // A conflict is an answer, too.
        if failure.is_none_or(|failure| failure.fault == Fault::Conflict) {
            let have_unsent = gatekeeper.answered(in_trouble, key).await;
            self.announce(route, &have_unsent).await;
        }
        let Some(failure) = failure else { return FailureClass::unobserved(self.env.now()) };
        let Ok(class) = gatekeeper.failed(route, batch, key, failure).await else {
            // Its failure is not counted, and it waits as long as it was asked to.
            return gatekeeper.unobserved(&route.retry, failure);
        };
        if class.begins_outage {
            self.announce(route, &[route.failure_scope(&batch.target, failure.fault)]).await;
        }
        class
    }
}

impl Claimed {
    /// A member as the body's template sees it, if its task is there.
    fn item(&self, member: &Member) -> Option<Item<'_>> {
        let (id, task) = self.tasks.get_key_value(&member.id)?;
        Some(Item { id: id.as_str(), payload: serde_json::from_str(&task.payload).ok()? })
    }
}

fn failed(broken: BTreeMap<TaskId, Reason>) -> impl Iterator<Item = (TaskId, Said)> {
    broken.into_iter().map(|(id, reason)| (id, Said::Failed(reason)))
}

/// Makes the body of a call of these members, except those that the batch is called without. One on which the body's
/// template fails is in none, so that it cannot harm the others.
fn make<'a>(claimed: &'a Claimed, route: &Route, key: &BatchId, members: &[Member]) -> Made<'a> {
    let batch = &claimed.batch;
    let omitted = batch.omitted_ids();
    let called = members.iter().filter(|member| !omitted.contains(&member.id));
    let items: Vec<Item<'_>> = called.filter_map(|member| claimed.item(member)).collect();
    let body = route.body(key, &batch.target, &items);
    let Err(Unmade::Template(reason)) = &body else { return Made { items, broken: BTreeMap::new(), body } };
    let found = route.renderable(key, &batch.target, &items, reason);
    let of = |position: usize| items.get(position).copied();
    let broken = |(position, why)| Some((TaskId::new(of(position)?.id), why));
    let broken = found.broken.into_iter().filter_map(broken).collect();
    let items: Vec<Item<'_>> = found.sound.into_iter().filter_map(of).collect();
    let body = if items.is_empty() { body } else { route.body(key, &batch.target, &items) };
    Made { items, broken, body }
}
