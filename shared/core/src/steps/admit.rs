//! Passing the gates before a call, in and out.

use super::Error;
use crate::domain::batch::Batch;
use crate::domain::gate::{Admission, Gate, Limits, Scope};
use crate::domain::id::BatchId;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates, Stored};
use crate::routes::Route;

/// How a batch fared at its gates.
#[derive(Debug)]
pub enum Passed {
    /// It holds places at these gates, and its call starts at this time.
    Yes {
        /// The gates that count it as in flight.
        held: Vec<Scope>,
        /// When the call starts; at most a second ahead.
        start: Timestamp,
    },
    /// It waits; no place is held.
    No {
        /// Not before this time, if that is known.
        until: Option<Timestamp>,
    },
}

/// The gates before a route's calls, over their ports.
#[derive(Debug)]
pub struct Gatekeeper<'a, S, E> {
    /// The gates.
    pub store: &'a S,
    /// Time.
    pub env: &'a E,
}

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
    /// Passes every gate before a call of `batch`, or none. A batch that is in flight already keeps its places.
    ///
    /// # Errors
    /// A port did not answer; places may be held then, until their lease is over.
    pub async fn admit(&self, route: &Route, batch: &Batch, lease_until: Timestamp) -> Result<Passed, Error> {
        let (mut held, mut taken) = (Vec::new(), Vec::new());
        let mut start = self.env.now();
        for (scope, limits) in gates(route, batch) {
            match self.pass(&scope, &batch.id, limits, lease_until).await? {
                Ok(place) => {
                    start = start.max(place.start);
                    if limits.in_flight.is_some() {
                        taken.extend(place.taken.then(|| scope.clone()));
                        held.push(scope);
                    }
                }
                Err(until) => {
                    // A place that the batch had before is that of whoever calls it.
                    self.leave(&taken, &batch.id, lease_until).await?;
                    return Ok(Passed::No { until });
                }
            }
        }
        Ok(Passed::Yes { held, start })
    }

    /// Gives back the places that were taken until `lease`. A crash before this costs the rest of the lease.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn leave(&self, scopes: &[Scope], batch: &BatchId, lease: Timestamp) -> Result<(), Error> {
        for scope in scopes {
            self.change(scope, |gate| gate.left(batch, lease)).await?;
        }
        Ok(())
    }

    /// Gives back whatever places a batch has that nobody calls any more.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn clear(&self, route: &Route, batch: &Batch) -> Result<(), Error> {
        let limited = gates(route, batch).into_iter().filter(|(_, limits)| limits.in_flight.is_some());
        for (scope, _) in limited {
            self.change(&scope, |gate| gate.without(&batch.id)).await?;
        }
        Ok(())
    }

    /// Closes the gate that the route names for it, for every worker.
    ///
    /// # Errors
    /// A port did not answer, or the gate changed too often: it may be open.
    pub async fn pause(&self, route: &Route, batch: &Batch, until: Timestamp) -> Result<(), Error> {
        self.change(&route.pause_scope(&batch.target), |gate| gate.paused(until)).await
    }

    /// Until when the gate that the route names for it is closed, if it is.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn paused_until(&self, route: &Route, batch: &Batch) -> Result<Option<Timestamp>, Error> {
        let gate = self.store.gate(&route.pause_scope(&batch.target)).await?;
        Ok((gate.paused_until > self.env.now()).then_some(gate.paused_until))
    }

    async fn pass(
        &self,
        scope: &Scope,
        batch: &BatchId,
        limits: Limits,
        lease_until: Timestamp,
    ) -> Result<Result<Place, Option<Timestamp>>, Error> {
        for attempt in 0..TRIES {
            let now = self.env.now();
            let gate = self.store.gate(scope).await?;
            match gate.admit(batch, limits, now, lease_until) {
                Admission::Full => return Ok(Err(None)),
                Admission::NotBefore(at) => return Ok(Err(Some(at))),
                Admission::Admitted(None, start) => return Ok(Ok(Place { start, taken: false })),
                Admission::Admitted(Some(next), start) => {
                    if self.store.store_gate(scope, &next, now).await? == Stored::Yes {
                        return Ok(Ok(Place { start, taken: !gate.counts(batch) }));
                    }
                }
            }
            self.give_way(attempt).await;
        }
        Ok(Err(None))
    }

    /// Changes a gate until the change is written or none is needed.
    async fn change(&self, scope: &Scope, change: impl Fn(&Gate) -> Option<Gate> + Send) -> Result<(), Error> {
        for attempt in 0..TRIES {
            let Some(next) = change(&self.store.gate(scope).await?) else { return Ok(()) };
            if self.store.store_gate(scope, &next, self.env.now()).await? == Stored::Yes {
                return Ok(());
            }
            self.give_way(attempt).await;
        }
        Err(Error::Conflict("writing a gate that everybody wants"))
    }

    /// Whoever was too late waits for a moment, longer each time, so that the next round has fewer contenders.
    async fn give_way(&self, attempt: u64) {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some milliseconds"
        )]
        let pause_ms = (self.env.random() * (GIVE_WAY_MS * (attempt + 1)) as f64) as u64;
        self.env.sleep(pause_ms).await;
    }
}

/// A place at one gate.
struct Place {
    /// When the call may start.
    start: Timestamp,
    /// Whether it is new: the batch had none here before.
    taken: bool,
}

/// A gate may be written by somebody else between a read and a write; after so many tries the batch comes back later.
const TRIES: u64 = 16;
/// The longest pause after the first try, in milliseconds.
const GIVE_WAY_MS: u64 = 8;

/// The gates that a call of this batch passes. The Target's comes first: it is the narrower one, and whoever waits there
/// must not keep a place of the route from others. A gate at which nothing is limited or paused is not asked.
fn gates(route: &Route, batch: &Batch) -> Vec<(Scope, Limits)> {
    let target = Limits { in_flight: route.in_flight.per_target, gap_ms: None };
    let whole = Limits { in_flight: route.in_flight.in_all, gap_ms: route.gap_ms };
    let pause = route.pause_scope(&batch.target);
    [(Scope::Target(batch.target.whole()), target), (Scope::Route(route.name.clone()), whole)]
        .into_iter()
        .filter(|(scope, limits)| *limits != Limits::default() || *scope == pause)
        .collect()
}
