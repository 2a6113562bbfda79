//! Stage 2: claims a batch under the worker's session. It is the last write before the call.
//!
//! Whatever can fail comes before the claim: passing the limits, naming the batch in the session, reading the members,
//! waiting for the call's time, looking whether a pause has begun. So a claim is a call, and an error of ours, for
//! however long, uses up no attempt. A claim whose worker is lost is a call that may have been made: it counts, and the
//! worker that takes it over asks [`Batch::lost`] what the batch comes to.
//!
//! The session names the batch, then one conditional write claims it. Taking over a claim whose session is over is the
//! same conditional write as a first claim, so a late worker's outcome is refused; losing a claim is an outcome, not an
//! error. One write does what a transaction over session and batch would, for half the price: the batch's revision is
//! all that has to hold.

use super::Processor;
use super::stage::{Admitted, Claimed, Members, Outcome, Stage, Stop, members, scopes};
use crate::domain::batch::{Batch, Claim};
use crate::domain::ended::Ended;
use crate::domain::gate::Now;
use crate::domain::outcome::Results;
use crate::ports::{Downstream, Env, Outbox, Store, Stored};
use crate::steps::Error;
use crate::steps::admit::Wait;

/// How soon a batch asks again whose breaker has opened while it was on its way to its call, in milliseconds.
const ASK_AGAIN_MS: u64 = 1_000;
/// A breaker that was closed so long ago is not looked at once more before a call, in milliseconds: the claim and the
/// way to the downstream take about as long.
const JUST_NOW_MS: u64 = 50;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Claims an admitted batch. If that comes to nothing, its permits are given back.
    pub(super) async fn claim(&self, admitted: Admitted) -> Stage<Claimed> {
        let stop = match self.try_claim(&admitted).await {
            Ok((batch, tasks)) => {
                let Admitted { held, in_trouble, deadline, .. } = admitted;
                return Ok(Claimed { batch, tasks, held, deadline, in_trouble });
            }
            Err(stop) => stop,
        };
        let Admitted { batch, held, in_trouble, .. } = admitted;
        // Not in hand, even if only the answer was lost: then the claim is there, and made again.
        self.heartbeat.forget(&batch.id).await;
        let released = match stop {
            Stop::Recorded(_) => {
                self.gatekeeper().ended_uncalled(&in_trouble, &batch.id).await;
                self.release_settled(&scopes(&held), &batch).await
            }
            Stop::Ended(_) | Stop::Failed(_) => self.release_unclaimed(held, &batch).await,
        };
        match (stop, released) {
            // The first error counts; the permits' lease is over soon.
            (Stop::Failed(error), _) | (_, Err(error)) => Err(error.into()),
            (stop, Ok(())) => Err(stop),
        }
    }

    async fn try_claim(&self, admitted: &Admitted) -> Stage<(Batch, Members)> {
        let batch = &admitted.batch;
        let (named, tasks) = futures::join!(self.heartbeat.name(&batch.id), members(self.store, batch));
        named??;
        let tasks = tasks?;
        self.wait_for_start(admitted).await?;
        if !self.heartbeat.is_trusted() {
            return Err(Outcome::ClaimLost.into());
        }
        let (route, now) = (self.route(batch)?, self.env.now());
        // Those that nobody wants any more are called no more.
        let called = batch.clone().without_expired(&tasks, now);
        if called.omits_all() {
            return Err(Stop::Recorded(self.record(&called, &tasks, Results::new()).await?));
        }
        if called.has_expired(&tasks, now) {
            let said = called.given_up(&Ended::Expired.reason());
            return Err(Stop::Recorded(self.record_said(route, &called, &tasks, said).await?));
        }
        let claimed = called.claimed(Claim { session: self.heartbeat.id().clone() });
        match self.put(&claimed, batch.revision).await? {
            Stored::Yes => Ok((claimed, tasks)),
            Stored::Conflict => Err(Error::Conflict("claiming a batch").into()),
        }
    }

    /// Waits for the call's time. A pause may have begun since the batch was let through.
    async fn wait_for_start(&self, Admitted { batch, start, seen_open, .. }: &Admitted) -> Stage<()> {
        let ahead_ms = start.since(self.env.now());
        self.env.sleep(ahead_ms).await;
        if self.env.now().since(*seen_open) <= JUST_NOW_MS {
            return Ok(());
        }
        match self.gatekeeper().says_now(self.route(batch)?, batch, ahead_ms > 0).await? {
            Now::Go => Ok(()),
            Now::Closed(Some(until)) => Err(Outcome::Waits(Wait::until(until)).into()),
            // The breaker says for how long when it is asked again.
            Now::Closed(None) => Err(Outcome::Away(self.env.now().plus_ms(ASK_AGAIN_MS)).into()),
        }
    }
}
