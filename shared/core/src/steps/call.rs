//! The call of one batch: its members' payloads, its body, its answer; and, where a downstream refused it as a whole,
//! the search for the members that it refuses.
//!
//! That search is one claim. A batch that lost its workers is searched through with a write before and after each
//! part's call, so that the worker that takes it over knows which part it was.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::Error;
use super::admit::{Passed, Wait};
use super::processor::Processor;
use crate::domain::answer::Excerpt;
use crate::domain::batch::bisection::{self, Bisection};
use crate::domain::batch::{Batch, Member};
use crate::domain::id::{BatchId, TaskId};
use crate::domain::outcome::{Attempted, Reason, Reply, Said};
use crate::domain::task::{Task, payload_bytes};
use crate::domain::time::Timestamp;
use crate::ports::{Answer, Call, Downstream, Env, Freshness, NoAnswer, Outbox, Store, Stored, Tasks};
use crate::routes::{Item, OnReject, Route, Unmade};

/// One batch's call.
pub(super) struct Caller<'a, S, Q, D, E> {
    pub(super) processor: Processor<'a, S, Q, D, E>,
    pub(super) route: &'a Route,
    pub(super) batch: &'a Batch,
    pub(super) tasks: &'a Members,
    /// No call of it lasts longer.
    pub(super) deadline: Timestamp,
}

/// What a claim's calls came to.
pub(super) struct Called {
    /// The batch as it is now.
    pub(super) batch: Batch,
    /// What was said of the members; of a batch that lost its workers, only once it is known of each.
    pub(super) said: Says,
    /// How long the downstream asked to be left alone, in milliseconds.
    pub(super) pause_ms: Option<u64>,
}

/// What is to be done after a claim's calls.
pub(super) enum Says {
    /// Judge this.
    Reply(Reply),
    /// Call the parts that are left under another claim: the downstream failed for now, or there is no time for more.
    Later(Option<Reason>),
}

/// What one call came to.
struct Answered {
    reply: Reply,
    /// What is kept of an answer that says why the call failed.
    excerpt: Option<(Reason, Excerpt)>,
    pause_ms: Option<u64>,
    /// Whether the halves of what was refused are called.
    is_halved: bool,
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

/// The members as a verdict on their batch needs them.
pub(super) fn attempted(batch: &Batch, tasks: &Members) -> Vec<Attempted> {
    let attempted = |member: &Member| {
        let task = tasks.get(&member.id);
        Attempted {
            id: member.id.clone(),
            attempts: task.map_or(0, |task| task.attempts) + batch.calls_of_each(),
            bytes: task.map_or(0, |task| payload_bytes(&task.payload)),
        }
    };
    batch.members.iter().map(attempted).collect()
}

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Caller<'_, S, Q, D, E> {
    /// Makes the call; takes the batch apart if it is refused as a whole and the route says so, if its body is too
    /// large, or if it is on its way to that. `None`: another worker has the claim.
    pub(super) async fn call(&self) -> Result<Option<Called>, Error> {
        let mut called = match &self.batch.apart {
            Some(apart) => self.take_apart(Bisection::clone(apart)).await?,
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
        let Answered { reply, excerpt, pause_ms, is_halved } = self.call_part(&batch.id, &batch.members).await;
        match reply {
            Reply::Refused(reason) if is_halved && batch.members.len() > 1 => {
                let before = batch.attempts.saturating_sub(1);
                self.take_apart(Bisection::of(batch.members.len(), before, &reason)).await
            }
            reply => Ok(Some(Called { batch: batch.clone().answered(excerpt), said: Says::Reply(reply), pause_ms })),
        }
    }

    /// Calls halves, and halves of halves, until only single members are refused, each after passing the gates anew.
    /// Who is not called before the time is up goes round again, and it counts as no attempt. Of a batch that lost its
    /// workers it is called under another claim instead.
    async fn take_apart(&self, mut apart: Bisection) -> Result<Option<Called>, Error> {
        let (mut batch, mut pause_ms, mut failed) = ((*self.batch).clone(), None, None);
        while failed.is_none() && !apart.is_over() {
            if apart.calling().is_none() {
                if !self.pass_again().await {
                    break;
                }
                apart.begin();
                let Some(noted) = self.note(batch, &apart).await? else { return Ok(None) };
                batch = noted;
            }
            let part = apart.calling().cloned().unwrap_or_default();
            let key = bisection::key(&batch.id, &part);
            let answered = self.call_part(&key, batch.members.get(part).unwrap_or_default()).await;
            batch = batch.answered(answered.excerpt);
            match answered.reply {
                Reply::PerMember(said) => apart.answered(&batch.members, said),
                Reply::Refused(reason) if answered.is_halved => apart.refused(&reason),
                Reply::Refused(reason) => apart.failed(&reason),
                Reply::Unavailable { reason, .. } => {
                    apart.failed_for_now(&reason);
                    (pause_ms, failed) = (answered.pause_ms, Some(reason));
                }
            }
            // The last answer is recorded with the outcome.
            if !apart.is_over() {
                let Some(noted) = self.note(batch, &apart).await? else { return Ok(None) };
                batch = noted;
            }
        }
        let said = if batch.apart.is_some() && !apart.is_over() {
            Says::Later(failed)
        } else {
            Says::Reply(Reply::PerMember(apart.finished(&batch.members)))
        };
        Ok(Some(Called { batch, said, pause_ms }))
    }

    /// Notes in a batch that lost its workers how far it is taken apart. `None`: another worker has the claim.
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

    /// Passes the gates for one call more, waiting for them while there is time for it; `false` if there is not, or if
    /// they do not answer: what is known by then counts for more than an error of theirs.
    async fn pass_again(&self) -> bool {
        let env = self.processor.env;
        loop {
            match self.pass_now().await {
                Ok(Passed::Yes { start, .. }) => {
                    env.sleep(start.since(env.now())).await;
                    return true;
                }
                Ok(Passed::No(wait)) => {
                    let until = wait.until.unwrap_or_else(|| env.now().plus_ms(LOOK_AGAIN_MS));
                    if !self.has_time_from(until) {
                        return false;
                    }
                    env.sleep(until.since(env.now())).await;
                }
                Err(_) => return false,
            }
        }
    }

    async fn pass_now(&self) -> Result<Passed, Error> {
        if !self.has_time_from(self.processor.env.now()) {
            return Ok(Passed::No(Wait { until: Some(self.deadline), ticket: None }));
        }
        // The same lease: places are given back by it.
        self.processor.gatekeeper().admit_again(self.route, self.batch, self.deadline).await
    }

    /// Whether a call that starts then may take all of its time.
    fn has_time_from(&self, start: Timestamp) -> bool {
        start.plus_ms(self.processor.timeout_ms(self.route)) <= self.deadline
    }

    /// Makes one call; a connection that was refused or reset is tried once more at once, if the gates let it.
    async fn call_part(&self, key: &BatchId, members: &[Member]) -> Answered {
        let Made { items, broken, body } = self.make(key, members);
        let ids: Vec<TaskId> = items.iter().map(|item| TaskId::new(item.id)).collect();
        if ids.is_empty() {
            return Answered { excerpt: None, reply: Reply::PerMember(broken), pause_ms: None, is_halved: false };
        }
        let body = match body {
            Ok(body) => body,
            // Halves are smaller.
            Err(why) => {
                let reply = Reply::Refused(why.reason());
                return Answered { excerpt: None, reply, pause_ms: None, is_halved: true };
            }
        };
        let Self { route, batch, processor, .. } = self;
        let call =
            Call { downstream: &route.downstream, batch: key, fence: batch.fence, attempt: batch.attempts, body };
        let mut answer = processor.downstream.call(&call).await;
        if answer == Err(NoAnswer::Connection)
            && let Ok(Passed::Yes { start, .. }) = self.pass_now().await
        {
            processor.env.sleep(start.since(processor.env.now())).await;
            answer = processor.downstream.call(&call).await;
        }
        let excerpt = answer.as_ref().ok().and_then(Answer::excerpt);
        let mut reply = route.downstream.response().read(answer, &ids);
        if let Reply::PerMember(said) = &mut reply {
            said.extend(broken);
        }
        let pause_ms = match &reply {
            Reply::Unavailable { retry_after_ms, .. } => *retry_after_ms,
            Reply::PerMember(_) | Reply::Refused(_) => None,
        };
        let reason = match &reply {
            Reply::Refused(reason) | Reply::Unavailable { reason, .. } => Some(reason.clone()),
            Reply::PerMember(_) => None,
        };
        Answered { excerpt: reason.zip(excerpt), reply, pause_ms, is_halved: route.on_reject == OnReject::Bisect }
    }

    /// The body of a call of these members. One on which the body's template fails is in none, so that it cannot harm
    /// the others.
    fn make(&self, key: &BatchId, members: &[Member]) -> Made<'_> {
        let Self { route, batch, .. } = self;
        let item = |member: &Member| {
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
