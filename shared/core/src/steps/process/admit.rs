//! Stage 1: sees whether a batch's call is due, and acquires what its limits ask for; and gives permits back.

use super::stage::{Admitted, Claimed, Outcome, Recorded, Stage, Stop, members};
use super::{Processor, follow_up, tell_of_omitted};
use crate::domain::batch::{Batch, Duty, Lost};
use crate::domain::gate::Scope;
use crate::domain::{SessionId, Timestamp};
use crate::ports::{Downstream, Env, Outbox, Store, Stored};
use crate::routes::{OnReject, Route};
use crate::steps::Error;
use crate::steps::admit::{Held, Passed, Wait};
use crate::steps::heartbeat::lives_until;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Admits a batch whose call is due, or writes down until when it waits.
    pub(super) async fn admit(&self, batch: Batch) -> Stage<Admitted> {
        let route = self.route(&batch)?;
        let batch = self.due(route, batch).await?;
        // The process that left them out may have died before all observers had heard.
        let batch = tell_of_omitted(self.store, self.outbox, self.env, route, batch).await?;
        let deadline = self.env.now().plus_ms(self.lease_ms(route));
        match Box::pin(self.gatekeeper().admit(route, &batch, self.heartbeat.id(), deadline)).await? {
            Passed::Yes { held, start, seen_open, in_trouble, have_unsent } => {
                // The worker that was to send them may have died, or its queue refused.
                self.announce(route, &have_unsent).await;
                Ok(Admitted { batch, held, start, seen_open, in_trouble, deadline })
            }
            Passed::No(wait) => {
                self.remember(&batch, wait).await?;
                Err(Outcome::Waits(wait).into())
            }
            Passed::Away(away) => Err(self.stay_away(route, batch, away).await?),
        }
    }

    /// Returns a batch that is to be called now. All others end here.
    async fn due(&self, route: &Route, batch: Batch) -> Stage<Batch> {
        Err(match batch.duty(self.env.now()) {
            Duty::Call => return Ok(batch),
            // Our own claim, which an error left behind, is as good as none; one that is in hand is not.
            Duty::AskFor { session } if session == *self.heartbeat.id() => {
                if !self.heartbeat.names(&batch.id).await {
                    return Ok(batch);
                }
                Outcome::Waits(Wait::default()).into()
            }
            Duty::AskFor { session } => return self.take_over(route, batch, &session).await,
            Duty::Look => Box::pin(self.look(route, batch)).await?,
            Duty::LookAgain { at } => Outcome::Waits(Wait::until(at)).into(),
            Duty::FollowUp => {
                // The worker that recorded the outcome may have died before it gave its permits back.
                self.gatekeeper().clear(route, &batch).await?;
                self.release_job(&batch).await?;
                let counts = follow_up(self.store, self.outbox, self.env, route, &batch, None).await?;
                Outcome::FollowedUp(counts).into()
            }
            Duty::Nothing => {
                if batch.ticket.is_some() {
                    // While it waited at one limit with the permit of a narrower one, another delivery called it.
                    self.gatekeeper().clear(route, &batch).await?;
                }
                Outcome::Nothing.into()
            }
        })
    }

    /// Takes over a claim whose worker is lost: a call that may have been made.
    async fn take_over(&self, route: &Route, batch: Batch, session: &SessionId) -> Stage<Batch> {
        if let Some(until) = lives_until(self.store, self.env, session).await? {
            return Err(Outcome::Waits(Wait::until(until)).into());
        }
        match batch.lost(route.retry.attempts, route.on_reject == OnReject::Bisect) {
            Lost::CallAgain => Ok(batch),
            Lost::TakeApart(apart) => Ok(Batch { apart: Some(Box::new(apart)), ..batch }),
            Lost::Settle(said) => {
                let tasks = members(self.store, &batch).await?;
                let recorded = self.record_said(route, &batch, &tasks, said).await?;
                // The lost worker's permits; if this fails, they are free when their lease is over.
                let cleared = self.gatekeeper().clear(route, &batch).await;
                // It may have lasted for a job: then the follow-up is not done before they are given back.
                if route.job().is_some() {
                    cleared?;
                }
                Err(Stop::Recorded(recorded))
            }
        }
    }

    /// Gives a claim's permits back, once its call has `ended` if it made exactly one. Returns the scopes where another
    /// delivery, which found the claim made and went away, has renewed them. A permit that a worker has acquired which
    /// took the batch over has a later lease and stays.
    pub(super) async fn release(&self, claimed: &Claimed, ended: Option<Timestamp>, timed_out: bool) -> Vec<Scope> {
        let (keep_ms, has_jobs) =
            self.route(&claimed.batch).map_or((0, false), |route| (route.keep_timed_out_ms, route.job().is_some()));
        // A lease that was to last for a job says nothing of how long its call took.
        let ended = ended.filter(|_| !has_jobs);
        if timed_out && keep_ms > 0 {
            let until = self.env.now().plus_ms(keep_ms);
            let _ = self.gatekeeper().leave_to_call(&claimed.held, &claimed.batch, until).await;
            return Vec::new();
        }
        // If that fails, permits are free when their lease is over.
        self.gatekeeper().leave_after(&claimed.held, &claimed.batch.id, ended).await.unwrap_or_default()
    }

    /// Gives back what [`release`](Self::release) left, as far as no other delivery can need it. If that fails, it is
    /// free when its lease is over.
    pub(super) async fn release_renewed(
        &self,
        scopes: &[Scope],
        batch: &Batch,
        recorded: &Stage<Recorded>,
        ended: Timestamp,
    ) {
        let _ = match recorded {
            Ok(_) | Err(Stop::Recorded(_)) => self.release_settled(scopes, batch).await,
            Err(Stop::Ended(Outcome::CallAgain { .. } | Outcome::Waits(_))) => {
                self.release_claimed(scopes, batch, ended).await
            }
            Err(Stop::Ended(_) | Stop::Failed(_)) => Ok(()),
        };
    }

    /// Gives back the permits of a batch whose outcome is recorded, by whichever lease: nobody calls it any more.
    pub(in crate::steps) async fn release_settled(&self, scopes: &[Scope], batch: &Batch) -> Result<(), Error> {
        self.gatekeeper().leave_until(scopes, &batch.id, Timestamp(u64::MAX)).await
    }

    /// Gives back the permits of a batch whose claim stood `until` then: a lease from before is that of a delivery that
    /// could not claim it.
    pub(in crate::steps) async fn release_claimed(
        &self,
        scopes: &[Scope],
        batch: &Batch,
        until: Timestamp,
    ) -> Result<(), Error> {
        let last = Timestamp(until.plus_ms(self.lease_ms(self.route(batch)?)).0 - 1);
        self.gatekeeper().leave_until(scopes, &batch.id, last).await
    }

    /// Gives back the permits of a batch that this delivery does not call. Those that it acquired are its own. One that
    /// the batch had before may have been kept while it waited, or it is that of a delivery that calls it, or is about
    /// to. So the batch is written once more: nobody calls it then without asking its limits again.
    pub(super) async fn release_unclaimed(&self, held: Vec<Held>, batch: &Batch) -> Result<(), Error> {
        let (acquired, renewed): (Vec<Held>, Vec<Held>) = held.into_iter().partition(|permit| permit.is_taken);
        self.gatekeeper().leave(&acquired, &batch.id).await?;
        if renewed.is_empty() {
            return Ok(());
        }
        let is_called = match self.store.batch(&batch.id).await? {
            // They are the job's that another delivery has begun.
            Some(batch) if batch.under_way().is_some() => true,
            Some(batch) => match batch.duty(self.env.now()) {
                Duty::Call => self.put(&batch.clone().noted(), batch.revision).await? == Stored::Conflict,
                Duty::AskFor { .. } => true,
                Duty::Look | Duty::LookAgain { .. } | Duty::FollowUp | Duty::Nothing => false,
            },
            None => false,
        };
        if is_called { Ok(()) } else { self.gatekeeper().leave(&renewed, &batch.id).await }
    }
}
