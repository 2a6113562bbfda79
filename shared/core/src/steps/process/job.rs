//! Jobs: a call that has begun one leaves its batch under way, and later passes look at it instead of calling.
//!
//! The permits of the call become the job's before the job is written down. A process that dies in between leaves a
//! claim whose call is made again: it has those permits, and gives them back. They are given back after the outcome is
//! recorded and before its follow-up, which finds what a dead process left. So no crash leaves them to their leases.
//!
//! A look needs no claim. It is made again by whichever pass comes next, and its write is conditional on the revision.

use std::collections::BTreeMap;

use super::Processor;
use super::record::TRIES;
use super::stage::{Claimed, Members, Outcome, Recorded, Stage, Stop, members};
use crate::domain::TaskId;
use crate::domain::answer::{Answer, Excerpt, NoAnswer};
use crate::domain::batch::{Batch, Job};
use crate::domain::outcome::{Begun, Failure, Reading, Reason, Reply, Said};
use crate::domain::output::Outputs;
use crate::domain::time::Timestamp;
use crate::ports::{Call, Downstream, Env, Outbox, Store, Stored};
use crate::routes::{Earlier, JobMapping, Progress, Route};
use crate::steps::{Error, let_others_go_first};

/// The knowledge that a pass has of a job.
enum Learnt {
    /// It runs, and asks to be left alone for so long, in milliseconds.
    Runs(Option<u64>),
    /// Its outcome.
    Over { reply: Reply, outputs: Outputs, excerpt: Option<Excerpt>, tasks: Option<Members> },
    /// Nothing: the look failed, or the results could not be fetched or read.
    Nothing { failure: Failure, excerpt: Option<Excerpt>, has_ended: bool },
}

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Writes down the job that a call has begun. If its permits cannot be renewed, they lapse with their leases, and a
    /// call more than the limits allow may be made while it runs.
    pub(super) async fn begin_job(
        &self,
        claimed: &Claimed,
        route: &Route,
        batch: Batch,
        begun: Begun,
    ) -> Stage<Recorded> {
        let now = self.env.now();
        let Begun { url, uncalled } = begun;
        let positions = batch.members.iter().enumerate();
        let uncalled = positions.filter_map(|(n, member)| Some((n, uncalled.get(&member.id)?.clone()))).collect();
        let permits = claimed.held.iter().map(|held| held.scope.key()).collect();
        let deadline = route.job().map_or(now, |job| job.deadline(now));
        let job = Job { url, since: now, deadline, failed: None, unread: false, uncalled, permits };
        self.keep_permits(claimed, deadline).await;
        let until = job.next_look(now, every_ms(route));
        Err(self.pause(&batch.with_job(job), until, Outcome::UnderWay { until }).await?)
    }

    async fn keep_permits(&self, claimed: &Claimed, until: Timestamp) {
        let (mut held, mut tries) = (claimed.held.clone(), 0);
        while self.gatekeeper().renew(&mut held, &claimed.batch.id, until).await.is_err() && tries < TRIES {
            let_others_go_first(self.env, tries).await;
            tries += 1;
        }
    }

    /// Looks at the job of a batch, and records its outcome if it has one.
    pub(super) async fn look(&self, route: &Route, batch: Batch) -> Stage<Stop> {
        let Some(job) = batch.under_way().cloned() else { return Ok(Outcome::Nothing.into()) };
        let is_last = job.is_over(self.env.now());
        let (job, asked_ms, excerpt) = match self.learn(route, &batch, &job).await? {
            Learnt::Over { reply, outputs, excerpt, tasks } => {
                let batch = match &reply {
                    Reply::Refused(reason) => batch.answered(Some(reason.clone()).zip(excerpt)),
                    Reply::PerMember(_) | Reply::Begun(_) | Reply::Unavailable(_) => batch,
                };
                return self.end_job(route, batch, tasks, (reply, outputs)).await;
            }
            Learnt::Runs(asked_ms) => (job.runs(), asked_ms, None),
            Learnt::Nothing { failure, excerpt, has_ended } => {
                (job.looked_in_vain(&failure, has_ended), failure.retry_after_ms, excerpt)
            }
        };
        // For people: what was said last beside why its members fail, if no look comes to more.
        let batch = batch.answered(Some(job.reason()).zip(excerpt));
        if is_last {
            return self.end_job(route, batch, None, (Reply::Refused(job.reason()), Outputs::new())).await;
        }
        let asked_ms = asked_ms.map_or(0, |asked_ms: u64| asked_ms.min(route.retry.longest_pause_ms));
        let until = job.next_look(self.env.now(), every_ms(route).max(asked_ms));
        self.pause(&batch.with_job(job), until, Outcome::UnderWay { until }).await
    }

    /// Reads a job's status and, once it has ended, its results.
    async fn learn(&self, route: &Route, batch: &Batch, job: &Job) -> Result<Learnt, Error> {
        if route.job().is_none() {
            // The routes file has changed, and nobody can say by it whether the job has ended.
            return Ok(Learnt::Runs(None));
        }
        let answer = self.get(route, batch, &job.url).await;
        let said = answer.as_ref().ok().map(Answer::excerpt);
        let results = match self.env.compute(|| route.looked(answer, &job.url)) {
            Progress::Runs { asked_ms } => return Ok(Learnt::Runs(asked_ms)),
            Progress::Lost(reason) => {
                let (reply, outputs) = (Reply::Refused(reason), Outputs::new());
                return Ok(Learnt::Over { reply, outputs, excerpt: said, tasks: None });
            }
            Progress::Failed(failure) => return Ok(Learnt::Nothing { failure, excerpt: said, has_ended: false }),
            Progress::Ended(answer) => Ok(answer),
            Progress::EndedAt(url) => self.get(route, batch, &url).await,
        };
        let excerpt = results.as_ref().ok().map(Answer::excerpt);
        let called = batch.called_by(job);
        let tasks = members(self.store, batch).await?;
        let unsure = tasks.values().filter(|task| task.is_unsure).map(|task| task.id.clone()).collect();
        let earlier = if batch.may_be_done() { Earlier::OfAll } else { Earlier::Of(&unsure) };
        let read = || route.read_results(results, &called, earlier);
        let Reading { reply, outputs } = self.env.compute(read);
        Ok(match reply {
            Reply::Unavailable(failure) => Learnt::Nothing { failure, excerpt, has_ended: true },
            other @ (Reply::PerMember(_) | Reply::Refused(_) | Reply::Begun(_)) => {
                Learnt::Over { reply: other, outputs, excerpt, tasks: Some(tasks) }
            }
        })
    }

    async fn get(&self, route: &Route, batch: &Batch, url: &str) -> Result<Answer, NoAnswer> {
        let Batch { id, target, fence, attempts, .. } = batch;
        let (downstream, body) = (&route.downstream, String::new());
        let look = Some(url);
        let (fence, attempt, secrets, trace) = (*fence, *attempts, Vec::new(), None);
        let call = Call { downstream, batch: id, target, fence, attempt, body, secrets, trace, look };
        self.downstream.call(&call).await
    }

    /// Records what a job has come to, and gives its permits back. If that fails, the pass is repeated.
    async fn end_job(
        &self,
        route: &Route,
        batch: Batch,
        tasks: Option<Members>,
        (reply, outputs): (Reply, Outputs),
    ) -> Stage<Stop> {
        let tasks = match tasks {
            Some(tasks) => tasks,
            None => members(self.store, &batch).await?,
        };
        let reply = with_uncalled(&batch, reply);
        let batch = self.keep_seen(batch, outputs).await?;
        let recorded = self.record_reply(route, &batch, &tasks, reply, batch.may_be_done()).await?;
        self.release_job(&batch).await?;
        Ok(Stop::Recorded(recorded))
    }

    /// Keeps the outputs that a look has found. Another look may have found some, too: only this one knows the revision
    /// that it writes before, and so the keys of its parts.
    async fn keep_seen(&self, batch: Batch, outputs: Outputs) -> Stage<Batch> {
        if outputs.is_empty() {
            return Ok(batch);
        }
        let noted = batch.clone().noted();
        match self.put(&noted, batch.revision).await? {
            Stored::Yes => Ok(self.keep(noted, outputs).await?),
            Stored::Conflict => Err(Outcome::ClaimLost.into()),
        }
    }

    /// Gives the permits of a batch's job back, if it has a job.
    pub(super) async fn release_job(&self, batch: &Batch) -> Result<(), Error> {
        match &batch.job {
            Some(job) => self.release_settled(&job.scopes(), batch).await,
            None => Ok(()),
        }
    }
}

fn every_ms(route: &Route) -> u64 {
    route.job().map_or(JobMapping::EVERY_MS, JobMapping::every_ms)
}

/// Adds what is known of the members that the call was made without.
fn with_uncalled(batch: &Batch, reply: Reply) -> Reply {
    let Some(job) = batch.under_way() else { return reply };
    let failed = |id: TaskId, reason: &Reason| (id, Said::Failed(reason.clone()));
    let of = |(position, reason): &(usize, Reason)| Some(failed(batch.members.get(*position)?.id.clone(), reason));
    let mut said: BTreeMap<TaskId, Said> = match reply {
        Reply::PerMember(said) => said,
        Reply::Refused(reason) => batch.called_by(job).into_iter().map(|id| failed(id, &reason)).collect(),
        other @ (Reply::Begun(_) | Reply::Unavailable(_)) => return other,
    };
    said.extend(job.uncalled.iter().filter_map(of));
    Reply::PerMember(said)
}
