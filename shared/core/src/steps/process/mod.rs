//! The call path: what a worker does with a frozen batch. A message hands it on, or a worker pulls it; it is one path.
//!
//! | stage | does | hands on |
//! |---|---|---|
//! | `admit` | sees whether a call is due, and acquires what its limits ask for | `Admitted` |
//! | `claim` | names the batch in the session, reads the members, writes the claim | [`Claimed`] |
//! | `call` | makes the call, or those of its parts, and tells the circuit breaker | `Called` |
//! | `record` | writes what came of it: the outcome, or a pause | `Recorded` |
//! | `settle` | derives statuses, acks, turns and returns from the outcome | [`Counts`] |
//! | `notify` | sends the notices, of tasks and of outages | |
//!
//! A batch whose call has begun a job takes another way: `admit` finds it, and `job` looks whether that has ended.
//!
//! A stage that hands nothing on returns `Stop`. So the path may end after each of them, and is repeated from its
//! beginning by the next delivery: what was written says where it stands.

mod admit;
mod bisect;
mod call;
mod claim;
mod job;
pub mod notify;
mod record;
mod returns;
mod settle;
mod stage;
mod traces;

use self::notify::Announced;
pub(super) use self::returns::put_back;
pub(super) use self::settle::tell_of_omitted;
pub use self::settle::{Counts, follow_up};
use self::stage::Recorded;
pub use self::stage::{Claimed, Outcome};
pub(super) use self::stage::{Stage, Stop, scopes};
use super::Error;
use super::admit::Gatekeeper;
use super::heartbeat::Heartbeat;
use crate::domain::Batch;
use crate::ports::{Downstream, Env, Outbox, Store};
use crate::routes::{Route, Routes};

/// The dependencies of the call path.
#[derive(Debug)]
pub struct Processor<'a, S, Q, D, E> {
    /// All tables.
    pub store: &'a S,
    /// Where messages go.
    pub outbox: &'a Q,
    /// Where calls go.
    pub downstream: &'a D,
    /// Time and randomness.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// How long a call may take if its route does not say, in milliseconds.
    pub patience_ms: u64,
    /// Notes which notices of outages are refused.
    pub announced: &'a Announced,
    /// The session under which batches are claimed.
    pub heartbeat: &'a Heartbeat<'a, S, E>,
}

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Takes a batch through the stages that need its claim.
    pub(super) async fn process(&self, batch: Batch) -> Stage<Recorded> {
        let claimed = self.claim_one(batch).await?;
        self.finish(&claimed).await
    }

    /// Takes a batch to its claim. The call may be made at once.
    pub(super) async fn claim_one(&self, batch: Batch) -> Stage<Claimed> {
        let admitted = self.admit(batch).await?;
        self.claim(admitted).await
    }

    /// Makes a claimed batch's call and records what came of it. Its permits are given back meanwhile: the call has
    /// ended, and the next may start. Should the process die before the record, the worker that takes the batch over
    /// acquires permits anew.
    pub(super) async fn finish(&self, claimed: &Claimed) -> Stage<Recorded> {
        let called = self.call(claimed).await;
        let ended = self.env.now();
        let one_call_ended = called.as_ref().is_ok_and(stage::Called::is_one_call).then_some(ended);
        let timed_out = called.as_ref().is_ok_and(stage::Called::timed_out);
        let has_begun_job = called.as_ref().is_ok_and(stage::Called::has_begun_job);
        let recording = async { self.record_call(claimed, called?).await };
        let releasing = async {
            // Its permits are the job's.
            if has_begun_job { Vec::new() } else { self.release(claimed, one_call_ended, timed_out).await }
        };
        let (recorded, renewed) = futures::join!(recording, releasing);
        self.release_renewed(&renewed, &claimed.batch, &recorded, ended).await;
        self.heartbeat.forget(&claimed.batch.id).await;
        recorded
    }

    /// Derives what follows from an outcome, if this pass recorded one. It needs no claim.
    ///
    /// # Errors
    /// A port did not answer before an outcome was recorded.
    pub(super) async fn settle(&self, stage: Stage<Recorded>) -> Result<Outcome, Error> {
        match stage {
            Ok(recorded) | Err(Stop::Recorded(recorded)) => {
                let Recorded { batch, traces } = recorded;
                let Self { store, outbox, env, .. } = *self;
                let route = self.route(&batch)?;
                let followed = follow_up(store, outbox, env, route, &batch, Some(traces)).await;
                Ok(Outcome::Settled(followed.unwrap_or_else(|error| Counts::interrupted(&batch, error))))
            }
            Err(Stop::Ended(outcome)) => Ok(outcome),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    pub(super) const fn gatekeeper(&self) -> Gatekeeper<'_, S, E> {
        Gatekeeper { store: self.store, env: self.env }
    }

    pub(super) fn lease_ms(&self, route: &Route) -> u64 {
        route.lease_ms(self.patience_ms)
    }

    fn timeout_ms(&self, route: &Route) -> u64 {
        route.downstream.timeout_ms().unwrap_or(self.patience_ms)
    }

    pub(super) fn route(&self, batch: &Batch) -> Result<&Route, Error> {
        let name = batch.target.route();
        self.routes.get(&name).ok_or(Error::UnknownRoute(name))
    }
}
