//! Stage 4: records what came of a batch. Every outcome, pause and wait of a batch on the call path is written here.
//!
//! Recording the outcome is one write, conditional on the revision that the claim made: the acknowledgement. If another
//! worker has written the batch since, that worker's claim counts, and this one's result is dropped.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::Processor;
use super::stage::{Called, Claimed, Members, Outcome, Recorded, Stage, Stop, members};
use crate::domain::batch::{Assumes, Batch, Duty, Member, Unlucky};
use crate::domain::gate::FailureClass;
use crate::domain::outcome::{self, Attempted, Failure, Reason, Reply, Results, Said, judge, results};
use crate::domain::output::Outputs;
use crate::domain::retry::between;
use crate::domain::task::{payload_bytes, traces};
use crate::domain::{Retryable, Revision, TaskId, Timestamp};
use crate::ports::{self, Downstream, Env, Outbox, Store, Stored};
use crate::routes::{OnReject, Route};
use crate::steps::admit::{Away, Wait};
use crate::steps::{Error, let_others_go_first};

/// So often a write of a claimed batch is tried again that got no answer.
pub(super) const TRIES: u32 = 6;
/// Parts of outputs that are written at once, at most.
const PARTS_IN_FLIGHT: usize = 4;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Records what a claim's calls came to.
    pub(super) async fn record_call(&self, claimed: &Claimed, called: Called) -> Stage<Recorded> {
        if !self.heartbeat.is_trusted() {
            return Err(Outcome::ClaimLost.into());
        }
        let (tasks, batch) = (&claimed.tasks, called.batch);
        let route = self.route(&batch)?;
        match called.reply {
            Some((Reply::Unavailable(failure), class)) => {
                self.record_failure(route, batch, tasks, failure, class).await
            }
            Some((Reply::Begun(begun), _)) => self.begin_job(claimed, route, batch, begun).await,
            Some((reply @ (Reply::PerMember(_) | Reply::Refused(_)), _)) => {
                let may_be_done = batch.may_be_done();
                self.record_reply(route, &batch, tasks, reply, may_be_done).await
            }
            None => {
                let now = self.env.now();
                Err(self.pause(&batch, now, Outcome::Waits(Wait::until(now))).await?)
            }
        }
    }

    /// Records what was answered, or that a call failed once too often. Says whether an unanswered call of the batch
    /// `may_be_done`.
    pub(super) async fn record_reply(
        &self,
        route: &Route,
        batch: &Batch,
        tasks: &Members,
        reply: Reply,
        may_be_done: bool,
    ) -> Stage<Recorded> {
        let delay_ms = |attempts, asked_ms| route.retry.backoff_ms(attempts, asked_ms, self.env.random());
        let mut members = attempted(batch, tasks, may_be_done);
        if route.retry.waits_outages_out() {
            let (give_up_ms, now) = (route.retry.give_up_ms, self.env.now());
            let came = |id: &TaskId| tasks.get(id).map(|task| task.created_at);
            let is_too_old = |id: &TaskId| came(id).is_none_or(|came| now.since(came) >= give_up_ms);
            reply.spare(&mut members, route.retry.attempts, is_too_old);
        }
        self.record(batch, tasks, judge(reply, &members, route.retry.attempts, delay_ms)).await
    }

    /// Records a call that failed for a reason which says nothing about its tasks.
    async fn record_failure(
        &self,
        route: &Route,
        batch: Batch,
        tasks: &Members,
        failure: Failure,
        class: FailureClass,
    ) -> Stage<Recorded> {
        let (policy, now) = (&route.retry, self.env.now());
        let bisects = route.on_reject == OnReject::Bisect;
        let undone = batch.undone + u32::from(failure.is_undone());
        let batch = Batch { undone, ..batch.excused_by(class, policy) };
        let class = FailureClass { since: self.silent_since(route, &batch, class.since).await, ..class };
        let batch =
            match batch.unlucky(&attempted(&batch, tasks, false), policy, bisects, (class, &failure.reason), now) {
                Unlucky::CallAgain => batch,
                Unlucky::TakeApart(apart) => Batch { apart: Some(Box::new(apart)), ..batch },
                Unlucky::Exhausted => {
                    let may_be_done = batch.was_unanswered();
                    return self.record_reply(route, &batch, tasks, Reply::Unavailable(failure), may_be_done).await;
                }
                Unlucky::GiveUp => return self.record_outage(route, &batch, tasks, &failure.reason).await,
            };
        let (from, to) = class.back.unwrap_or((now, now));
        let until = now.plus_ms(policy.backoff_ms(batch.attempts, None, self.env.random()));
        let until = until.max(between(from, to, self.env.random()));
        let batch = batch.pauses_for(until.since(now));
        let begins_outage = class.begins_outage;
        Err(self.pause(&batch, until, Outcome::CallAgain { reason: failure.reason, until, begins_outage }).await?)
    }

    /// Returns since when people let calls be made and none was answered. Asks the route's limiter about a person's
    /// pause only if the batch would be given up without it.
    async fn silent_since(&self, route: &Route, batch: &Batch, since: Timestamp) -> Timestamp {
        let now = self.env.now();
        if !batch.gives_up(&route.retry, since, now) {
            return since;
        }
        self.gatekeeper().resumed(route, batch).await.map_or(now, |resumed| since.max(resumed))
    }

    /// Records that all members fail of which nothing is known, since their downstream was away for too long.
    async fn record_outage(&self, route: &Route, batch: &Batch, tasks: &Members, last: &Reason) -> Stage<Recorded> {
        let batch = batch.clone().without_expired(tasks, self.env.now());
        let said = batch.given_up(&outcome::outage(last));
        self.record_said(route, &batch, tasks, said).await
    }

    /// Records what was said of a batch's members.
    pub(super) async fn record_said(
        &self,
        route: &Route,
        batch: &Batch,
        tasks: &Members,
        said: BTreeMap<TaskId, Said>,
    ) -> Stage<Recorded> {
        let delay_ms = |attempts, asked_ms| route.retry.backoff_ms(attempts, asked_ms, self.env.random());
        let members = attempted(batch, tasks, batch.was_unanswered());
        self.record(batch, tasks, results(said, &members, route.retry.attempts, delay_ms)).await
    }

    /// Records a batch's outcome: the acknowledgement.
    pub(super) async fn record(&self, batch: &Batch, tasks: &Members, results: Results) -> Stage<Recorded> {
        let settled = batch.settled(results, self.env.now());
        match self.put(&settled, batch.revision).await? {
            Stored::Yes => Ok(Recorded { batch: Box::new(settled), traces: traces(tasks.values()) }),
            Stored::Conflict => Err(Outcome::ClaimLost.into()),
        }
    }

    /// Gives a claim up, for the next call or look to be made later.
    pub(super) async fn pause(&self, batch: &Batch, until: Timestamp, outcome: Outcome) -> Stage<Stop> {
        let paused = batch.paused(until);
        let paused = if self.routes.is_pulled(&batch.target) { paused.pulled_from(until) } else { paused };
        Ok(match self.put(&paused, batch.revision).await? {
            Stored::Yes => outcome.into(),
            Stored::Conflict => Outcome::ClaimLost.into(),
        })
    }

    /// Keeps outputs, for the next write of the batch to name them.
    pub(super) async fn keep(&self, mut batch: Batch, outputs: Outputs) -> Result<Batch, Error> {
        let (parts, now) = (batch.parts_of(outputs), self.env.now());
        let id = &batch.id;
        let keep = |part, kept| self.persist(move || self.store.keep_outputs(id, part, kept, now));
        let keeping: Vec<_> = parts.iter().map(|(part, kept)| keep(part, kept)).collect();
        stream::iter(keeping).buffer_unordered(PARTS_IN_FLIGHT).try_collect::<()>().await?;
        batch.outputs.extend(parts.into_iter().map(|(part, _)| part));
        Ok(batch)
    }

    /// Writes a batch.
    pub(super) async fn put(&self, batch: &Batch, revision: Revision) -> Result<Stored, Error> {
        self.persist(|| self.store.store(batch, Assumes::At(revision))).await
    }

    /// Writes, and tries again for a moment if there is no answer: a claim without its call, or a call without its
    /// outcome, costs an attempt.
    async fn persist<T, F>(&self, write: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = ports::Result<T>> + Send,
    {
        let mut tries = 0;
        loop {
            match write().await {
                Err(error) if tries < TRIES && error.retryable() == Retryable::Yes => {
                    let_others_go_first(self.env, tries).await;
                    tries += 1;
                }
                written => return Ok(written?),
            }
        }
    }

    /// Writes down that a batch comes back later, unless its outage has lasted for as long as its route waits.
    pub(super) async fn stay_away(&self, route: &Route, batch: Batch, away: Away) -> Stage<Stop> {
        if let Some((since, last)) = &away.outage
            && let since = self.silent_since(route, &batch, *since).await
            && batch.gives_up(&route.retry, since, self.env.now())
        {
            let tasks = members(self.store, &batch).await?;
            let recorded = self.record_outage(route, &batch, &tasks, last).await?;
            // It may have kept a permit of its Target's while it waited. If this fails, the lease is over soon, unless
            // it was for a job.
            let cleared = self.gatekeeper().clear(route, &batch).await;
            if route.job().is_some() {
                cleared?;
            }
            return Ok(Stop::Recorded(recorded));
        }
        if batch.pulled || away.until >= batch.due {
            // As a ticket is: if another delivery was faster, it has claimed the batch, or stays away as well.
            let paused = batch.paused(away.until);
            let paused = if batch.pulled { paused.pulled_from(away.until) } else { paused };
            let _: Stored = self.store.store(&paused, Assumes::At(batch.revision)).await?;
        }
        Ok(Outcome::Away(away.until).into())
    }

    /// Writes down until when a batch waits if that is so long that others would look at it meanwhile: sweep, which
    /// would take the batch's message for lost, or a worker that pulls, which has no message.
    pub(super) async fn remember(&self, batch: &Batch, wait: Wait) -> Result<(), Error> {
        let Wait { until: Some(until), ticket } = wait else { return Ok(()) };
        if !batch.pulled && until < batch.due {
            return Ok(());
        }
        let waiting = |batch: &Batch| batch.waiting(ticket, until);
        if self.store.store(&waiting(batch), Assumes::At(batch.revision)).await? == Stored::Yes {
            return Ok(());
        }
        // If another delivery was faster, it has claimed the batch, or its ticket is as good. One that gave up has only
        // written the batch once more.
        if let Some(batch) = self.store.batch(&batch.id).await?
            && batch.ticket.is_none()
            && batch.duty(self.env.now()) == Duty::Call
        {
            let _: Stored = self.store.store(&waiting(&batch), Assumes::At(batch.revision)).await?;
        }
        Ok(())
    }
}

/// Returns the members as a verdict on their batch needs them, except those that it is called without. Says whether an
/// unanswered call of the batch `may_be_done`.
fn attempted(batch: &Batch, tasks: &Members, may_be_done: bool) -> Vec<Attempted> {
    let is_unsure_part = |position| batch.apart.as_deref().is_some_and(|apart| apart.is_unsure_of(position));
    let attempted = |(position, member): (usize, &Member)| {
        let task = tasks.get(&member.id);
        Attempted {
            id: member.id.clone(),
            attempts: task.map_or(0, |task| task.attempts) + batch.calls_of_each(),
            excused: batch.excused.map_or(0, |excused| excused.calls),
            is_unsure: may_be_done || is_unsure_part(position) || task.is_some_and(|task| task.is_unsure),
            bytes: task.map_or(0, |task| payload_bytes(&task.payload)),
            traits: task.map(|task| task.traits).unwrap_or_default(),
        }
    };
    let members = batch.members.iter().enumerate().filter(|(position, _)| batch.omission(*position).is_none());
    members.map(attempted).collect()
}
