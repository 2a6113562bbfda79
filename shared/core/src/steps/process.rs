//! Processing a frozen batch under a session: claim, call, record the outcome. Handed on by messages or pulled by
//! workers, it is the same.
//!
//! How a batch is claimed is in `claim.rs`. Recording the outcome is one write, conditional on the revision that the
//! claim made: the acknowledgement.

use super::Error;
use super::admit::Wait;
use super::call::{Called, Caller, Members, Says, attempted};
pub use super::claim::{Claimed, Processed, Tried};
use super::keeper::Keeper;
pub use super::processor::Processor;
use crate::domain::TaskId;
use crate::domain::batch::{Batch, Unlucky};
use crate::domain::gate::Setback;
use crate::domain::outcome::{Failure, Reply, judge};
use crate::domain::retry::between;
use crate::domain::time::Timestamp;
use crate::ports::{Downstream, Env, Outbox, Store, Stored};
use crate::routes::{OnReject, Route};

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Does what is to be done with a batch.
    ///
    /// # Errors
    /// A port did not answer, the route is unknown, or another worker is at work.
    pub async fn process(&self, batch: Batch, keeper: &Keeper<'_, S, E>) -> Result<Processed, Error> {
        match self.try_claim(batch, keeper).await? {
            Tried::Claimed(claimed) => self.finish(*claimed, keeper).await,
            Tried::Not(why) => Ok(why),
        }
    }

    /// Makes a claimed batch's call and records what came of it.
    pub async fn finish(&self, claimed: Claimed, keeper: &Keeper<'_, S, E>) -> Result<Processed, Error> {
        let processed = self.attempt(&claimed, keeper).await;
        keeper.forget(&claimed.batch.id).await;
        processed
    }

    /// Makes the call, and gives its places back while it records what came of it: the call has ended, and the next may
    /// start. Should the process die before the record, the worker that takes the batch over passes the gates anew.
    async fn attempt(&self, claimed: &Claimed, keeper: &Keeper<'_, S, E>) -> Result<Processed, Error> {
        let Claimed { batch, tasks, deadline, in_trouble, .. } = claimed;
        let route = match self.route(batch) {
            Ok(route) => route,
            Err(error) => {
                let _ = self.leave_after(claimed, None).await;
                return Err(error);
            }
        };
        let called = Caller { processor: *self, route, batch, tasks, deadline: *deadline, in_trouble }.call().await;
        // If that fails, places are free when their lease is over. A place that another worker has taken meanwhile,
        // with the batch, has a later lease and stays.
        match called {
            Ok(Some(called)) => {
                let ended = self.env.now();
                let leaving = self.leave_after(claimed, called.is_one_call().then_some(ended));
                let (processed, left) = futures::join!(self.conclude(route, tasks, called, keeper), leaving);
                // A delivery that found the claim made may have renewed the lease, and went away.
                let others = left.unwrap_or_default();
                let _ = match &processed {
                    Ok(Processed::Recorded(..)) => self.leave_settled(&others, batch).await,
                    Ok(Processed::CallAgain { .. } | Processed::Waits(_)) => {
                        self.leave_claimed(&others, batch, ended).await
                    }
                    Ok(_) | Err(_) => Ok(()),
                };
                processed
            }
            Ok(None) => Ok(Processed::ClaimLost),
            Err(error) => {
                let _ = self.leave_after(claimed, None).await;
                Err(error)
            }
        }
    }

    /// Records what a call came to.
    async fn conclude(
        &self,
        route: &Route,
        tasks: &Members,
        Called { batch, said, told }: Called,
        keeper: &Keeper<'_, S, E>,
    ) -> Result<Processed, Error> {
        if !keeper.is_trusted() {
            return told.and(Ok(Processed::ClaimLost));
        }
        let processed = match said {
            Says::Reply(reply) => self.judge(route, &batch, tasks, reply).await,
            Says::Failed(failure, setback) => self.fail(route, batch, tasks, (failure, setback)).await,
            Says::Later => {
                let until = self.env.now();
                self.give_up(&batch, until, Processed::Waits(Wait::until(until))).await
            }
        };
        told.and(processed)
    }

    async fn judge(&self, route: &Route, batch: &Batch, tasks: &Members, reply: Reply) -> Result<Processed, Error> {
        let delay_ms = |attempts, asked_ms| route.retry.backoff_ms(attempts, asked_ms, self.env.random());
        let mut members = attempted(batch, tasks);
        if route.retry.waits_outages_out() {
            let (give_up_ms, now) = (route.retry.give_up_ms, self.env.now());
            let came = |id: &TaskId| tasks.get(id).map(|task| task.created_at);
            let is_too_old = |id: &TaskId| came(id).is_none_or(|came| now.since(came) >= give_up_ms);
            reply.spare(&mut members, route.retry.attempts, is_too_old);
        }
        self.record(batch, tasks, judge(reply, &members, route.retry.attempts, delay_ms)).await
    }

    /// A call failed for a reason that says nothing about its tasks.
    async fn fail(
        &self,
        route: &Route,
        batch: Batch,
        tasks: &Members,
        (failure, setback): (Failure, Setback),
    ) -> Result<Processed, Error> {
        let (policy, now) = (&route.retry, self.env.now());
        let bisects = route.on_reject == OnReject::Bisect;
        let undone = batch.undone + u32::from(failure.is_undone());
        let batch = Batch { undone, ..batch.set_back(setback, policy) };
        let batch = match batch.unlucky(&attempted(&batch, tasks), policy, bisects, (setback, &failure.reason), now) {
            Unlucky::CallAgain => batch,
            Unlucky::TakeApart(apart) => Batch { apart: Some(Box::new(apart)), ..batch },
            Unlucky::Exhausted => return self.judge(route, &batch, tasks, Reply::Unavailable(failure)).await,
            Unlucky::GiveUp => return self.give_up_on(&batch, tasks, &failure.reason).await,
        };
        let (from, to) = setback.back.unwrap_or((now, now));
        let until = now.plus_ms(policy.backoff_ms(batch.attempts, None, self.env.random()));
        let until = until.max(between(from, to, self.env.random()));
        let batch = batch.pauses_for(until.since(now));
        let begins_outage = setback.begins_outage;
        self.give_up(&batch, until, Processed::CallAgain { reason: failure.reason, until, begins_outage }).await
    }

    /// Gives the claim up, for the next call to be made later.
    async fn give_up(&self, batch: &Batch, until: Timestamp, outcome: Processed) -> Result<Processed, Error> {
        let mut paused = batch.paused(until);
        if self.routes.is_pulled(&batch.target) {
            paused = paused.pulled_from(until);
        }
        Ok(match self.put(&paused, batch.revision).await? {
            Stored::Yes => outcome,
            Stored::Conflict => Processed::ClaimLost,
        })
    }
}
