//! Processing a frozen batch under a session: claim, call, record the outcome. Handed on by messages or pulled by
//! workers, it is the same.
//!
//! The session names the batch, then one conditional write claims it. Recording the outcome is one write, conditional on
//! the revision that the claim made: the acknowledgement. Taking over a claim whose session is over is the same
//! conditional write as a first claim, so a late worker's outcome is refused; losing a claim is an outcome, not an
//! error. One write does what a transaction over session and batch would, for half the price: the batch's revision is
//! all that has to hold.

use super::admit::{Gatekeeper, Passed};
use super::call::{Called, Caller, members};
use super::keeper::{Keeper, lives_until};
pub use super::processor::Processor;
use super::{Error, follow_up};
use crate::domain::batch::{Assumes, Batch, Claim, Duty, Status};
use crate::domain::gate::Scope;
use crate::domain::outcome::{Reason, Results, Verdict, judge};
use crate::domain::retry::MAX_PAUSE_MS;
use crate::domain::time::Timestamp;
use crate::ports::{Downstream, Env, Outbox, Store, Stored};
use crate::routes::{OnReject, Route};

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processed {
    /// Its outcome is recorded, by this worker. What follows from it is still to be done.
    Recorded(Batch),
    /// The call failed for now; the batch is paused.
    CallAgain {
        /// Why.
        reason: Reason,
        /// When the pause is over.
        until: Timestamp,
    },
    /// Another worker has taken the claim over, or this one's session is over: the call's result is dropped.
    ClaimLost,
    /// Another worker recorded the outcome; what follows from it was derived once more.
    FollowedUp(follow_up::Counts),
    /// It waits for a place, a pause's end or another worker; no call was made.
    Waits {
        /// Not before this time, if that is known.
        until: Option<Timestamp>,
    },
    /// There was nothing to do.
    Nothing,
}

/// A batch that this worker has claimed.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// As its claim left it.
    pub batch: Batch,
    /// When its call may start: in a second at most.
    pub start: Timestamp,
    held: Vec<Scope>,
    lease_until: Timestamp,
}

/// What came of trying to claim a batch.
#[derive(Debug)]
pub enum Tried {
    /// It is claimed.
    Claimed(Box<Claimed>),
    /// It is not, and this is why.
    Not(Processed),
}

/// Added to a call's timeout for everything around it, in milliseconds: reading the members, recording the outcome.
const MARGIN_MS: u64 = 10_000;
/// A batch is taken apart for so long at most, in milliseconds: as long as the longest calls of other routes may take.
const BISECTION_MS: u64 = 70_000;

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
    ///
    /// # Errors
    /// As [`process`](Self::process).
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

    /// Gives a claim's places at the gates back.
    ///
    /// # Errors
    /// A port did not answer; the places are free when their lease is over.
    pub(super) async fn leave(&self, claimed: &Claimed) -> Result<(), Error> {
        self.gatekeeper().leave(&claimed.held, &claimed.batch.id, claimed.lease_until).await
    }

    /// Claims a batch that is to be called, if its gates let it through.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    pub async fn try_claim(&self, batch: Batch, keeper: &Keeper<'_, S, E>) -> Result<Tried, Error> {
        let now = self.env.now();
        match batch.duty(now) {
            Duty::Nothing => return Ok(Tried::Not(Processed::Nothing)),
            Duty::LookAgain { at } => return Ok(Tried::Not(Processed::Waits { until: Some(at) })),
            Duty::FollowUp => {
                let route = self.route(&batch)?;
                // Whoever recorded the outcome may have died before it gave its places back.
                self.gatekeeper().clear(route, &batch).await?;
                let counts = follow_up::follow_up(self.store, self.outbox, self.env, route, &batch).await?;
                return Ok(Tried::Not(Processed::FollowedUp(counts)));
            }
            // Our own claim, which an error left behind, is as good as none; one that is in hand is not.
            Duty::AskFor { session } if session == *keeper.id() => {
                if keeper.names(&batch.id).await {
                    return Ok(Tried::Not(Processed::Waits { until: None }));
                }
            }
            Duty::AskFor { session } => {
                if let Some(until) = lives_until(self.store, self.env, &session).await? {
                    return Ok(Tried::Not(Processed::Waits { until: Some(until) }));
                }
            }
            Duty::Call => {}
        }
        let route = self.route(&batch)?;
        let gatekeeper = self.gatekeeper();
        let lease_until = now.plus_ms(self.lease_ms(route));
        let (held, start) = match gatekeeper.admit(route, &batch, lease_until).await? {
            Passed::No { until } => return Ok(Tried::Not(Processed::Waits { until })),
            Passed::Yes { held, start } => (held, start),
        };
        if keeper.name(&batch.id).await?.is_err() || !keeper.is_trusted().await {
            gatekeeper.leave(&held, &batch.id, lease_until).await?;
            return Ok(Tried::Not(Processed::ClaimLost));
        }
        let claimed = batch.claimed(Claim { session: keeper.id().clone() });
        let stored = self.store.store(&claimed, Assumes::At(batch.revision)).await;
        if !matches!(stored, Ok(Stored::Yes)) {
            // Not in hand, even if only the answer was lost: then the claim is there, and made again.
            keeper.forget(&batch.id).await;
        }
        if stored? == Stored::Conflict {
            self.leave_unless_called(&held, &batch, lease_until).await?;
            return Err(Error::Conflict("claiming a batch"));
        }
        Ok(Tried::Claimed(Box::new(Claimed { batch: claimed, start, held, lease_until })))
    }

    /// Records the outcome of a claimed batch: the acknowledgement.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn record(&self, batch: &Batch, results: Results) -> Result<Processed, Error> {
        let settled = batch.settled(results, self.env.now());
        Ok(match self.store.store(&settled, Assumes::At(batch.revision)).await? {
            Stored::Yes => Processed::Recorded(settled),
            Stored::Conflict => Processed::ClaimLost,
        })
    }

    async fn attempt(&self, claimed: &Claimed, keeper: &Keeper<'_, S, E>) -> Result<Processed, Error> {
        let batch = &claimed.batch;
        let route = self.route(batch)?;
        let caller = Caller { processor: *self, route, batch, deadline: claimed.lease_until };
        let tasks = members(self.store, batch).await?;
        let attempted = caller.attempted(&tasks);
        self.env.sleep(claimed.start.since(self.env.now())).await;
        // The last thing before the call: a pause may have begun since the batch was let through.
        if let Some(until) = self.gatekeeper().paused_until(route, batch).await? {
            return self.give_up(batch, batch.held_back(until), Processed::Waits { until: Some(until) }).await;
        }
        let Called { reply, pause_ms } = caller.call(&tasks).await?;
        let paused = match pause_ms {
            // Before anything else, whoever has the claim now: from here on no worker starts a call there.
            Some(ms) => {
                let until = self.env.now().plus_ms(ms.min(MAX_PAUSE_MS));
                self.gatekeeper().pause(route, batch, until).await
            }
            None => Ok(()),
        };
        if !keeper.is_trusted().await {
            return paused.and(Ok(Processed::ClaimLost));
        }
        let delay_ms = |attempts, asked_ms| route.retry.backoff_ms(attempts, asked_ms, self.env.random());
        let processed = match judge(reply, &attempted, route.retry.attempts, delay_ms) {
            Verdict::Settle(results) => self.record(batch, results).await,
            Verdict::CallAgain { reason, retry_after_ms } => {
                let pause_ms = route.retry.backoff_ms(batch.attempts, retry_after_ms, self.env.random());
                let until = self.env.now().plus_ms(pause_ms);
                self.give_up(batch, batch.paused(until), Processed::CallAgain { reason, until }).await
            }
        };
        paused.and(processed)
    }

    /// Gives the claim up, for the same call to be made later.
    async fn give_up(&self, batch: &Batch, mut paused: Batch, outcome: Processed) -> Result<Processed, Error> {
        if let Status::Paused { until } = paused.status
            && self.routes.is_pulled(&batch.target)
        {
            paused = paused.pulled_from(until);
        }
        Ok(match self.store.store(&paused, Assumes::At(batch.revision)).await? {
            Stored::Yes => outcome,
            Stored::Conflict => Processed::ClaimLost,
        })
    }

    async fn leave_unless_called(&self, held: &[Scope], batch: &Batch, lease: Timestamp) -> Result<(), Error> {
        if held.is_empty() {
            return Ok(());
        }
        match self.store.batch(&batch.id).await? {
            Some(Batch { status: Status::InProgress { .. }, .. }) => Ok(()),
            Some(_) | None => self.gatekeeper().leave(held, &batch.id, lease).await,
        }
    }

    pub(super) const fn gatekeeper(&self) -> Gatekeeper<'_, S, E> {
        Gatekeeper { store: self.store, env: self.env }
    }

    /// How long all calls of a claim may take, and so how long its places last if its worker dies: twice the timeout,
    /// since a reset connection is tried again; and time to take a batch apart, where the route says so.
    pub(super) fn lease_ms(&self, route: &Route) -> u64 {
        let calls_ms = 2 * self.timeout_ms(route) + MARGIN_MS;
        match route.on_reject {
            OnReject::Fail => calls_ms,
            OnReject::Bisect => calls_ms.max(BISECTION_MS),
        }
    }

    pub(super) fn timeout_ms(&self, route: &Route) -> u64 {
        route.downstream.timeout_ms().unwrap_or(self.patience_ms)
    }

    fn route(&self, batch: &Batch) -> Result<&Route, Error> {
        let name = batch.target.route();
        self.routes.get(&name).ok_or(Error::UnknownRoute(name))
    }
}
