//! Processing a frozen batch under a session: claim, call, record the outcome. Handed on by messages or pulled by
//! workers, it is the same.
//!
//! How a batch is claimed is in `claim.rs`. Recording the outcome is one write, conditional on the revision that the
//! claim made: the acknowledgement.

use super::Error;
use super::admit::Wait;
use super::call::{Called, Caller, Says, attempted};
pub use super::claim::{Claimed, Processed, Tried};
use super::keeper::Keeper;
pub use super::processor::Processor;
use crate::domain::batch::Batch;
use crate::domain::outcome::{Verdict, judge};
use crate::domain::retry::MAX_PAUSE_MS;
use crate::domain::time::Timestamp;
use crate::ports::{Downstream, Env, Outbox, Store, Stored};

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
        // Places name the batch, not the worker: if somebody else has claimed it meanwhile, they are that worker's now.
        if !matches!(processed, Ok(Processed::ClaimLost)) {
            // What came of the call counts for more than an error here: the places' lease is over soon.
            let _ = self.leave(&claimed).await;
        }
        processed
    }

    async fn attempt(&self, claimed: &Claimed, keeper: &Keeper<'_, S, E>) -> Result<Processed, Error> {
        let Claimed { batch, tasks, lease_until: deadline, .. } = claimed;
        let route = self.route(batch)?;
        let caller = Caller { processor: *self, route, batch, tasks, deadline: *deadline };
        let Some(Called { batch, said, pause_ms }) = caller.call().await? else { return Ok(Processed::ClaimLost) };
        let paused = match pause_ms {
            // Before anything else, whichever worker has the claim now: from here on no worker starts a call there.
            Some(ms) => {
                let until = self.env.now().plus_ms(ms.min(MAX_PAUSE_MS));
                self.gatekeeper().pause(route, &batch, until).await
            }
            None => Ok(()),
        };
        if !keeper.is_trusted().await {
            return paused.and(Ok(Processed::ClaimLost));
        }
        let delay_ms = |attempts, asked_ms| route.retry.backoff_ms(attempts, asked_ms, self.env.random());
        let verdict = match said {
            Says::Reply(reply) => judge(reply, &attempted(&batch, tasks), route.retry.attempts, delay_ms),
            Says::Later(Some(reason)) => Verdict::CallAgain { reason, retry_after_ms: pause_ms },
            Says::Later(None) => {
                let until = self.env.now();
                return self.give_up(&batch, until, Processed::Waits(Wait::until(until))).await;
            }
        };
        let processed = match verdict {
            Verdict::Settle(results) => self.record(&batch, results).await,
            Verdict::CallAgain { reason, retry_after_ms } => {
                let pause_ms = route.retry.backoff_ms(batch.attempts, retry_after_ms, self.env.random());
                let until = self.env.now().plus_ms(pause_ms);
                self.give_up(&batch, until, Processed::CallAgain { reason, until }).await
            }
        };
        paused.and(processed)
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
