//! Passing the gates before a call, in and out.

use super::Error;
use crate::domain::batch::Batch;
use crate::domain::gate::{Admission, Asks, Gate, IN_PLACE_MS, Limits, Of, Scope, Ticket};
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
        /// When the call starts; some seconds ahead at most.
        start: Timestamp,
    },
    /// It waits. At the gate where it waits it holds no place. With a ticket of its route's gate it keeps the place
    /// that it has at its Target's, so that no other batch of the Target stands in its way when its time has come.
    No(Wait),
}

/// Until when a batch waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Not before this time, if that is known.
    pub until: Option<Timestamp>,
    /// Its number in the line, if it has one: it is to come back just before that time.
    pub ticket: Option<Ticket>,
}

impl Wait {
    /// Without a ticket.
    #[must_use]
    pub const fn until(at: Timestamp) -> Self {
        Self { until: Some(at), ticket: None }
    }

    /// When a worker should look at the batch again: early enough to wait in place for a ticket's time.
    #[must_use]
    pub fn back_at(&self) -> Option<Timestamp> {
        let early_ms = self.ticket.map_or(0, |_| IN_PLACE_MS);
        self.until.map(|until| Timestamp(until.0.saturating_sub(early_ms)))
    }
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
    /// Passes every gate before a call of `batch`, or waits at one. A batch that is in flight already keeps its places.
    ///
    /// # Errors
    /// A port did not answer; places may be held then, until their lease is over.
    pub async fn admit(&self, route: &Route, batch: &Batch, lease_until: Timestamp) -> Result<Passed, Error> {
        let ticket = batch.ticket.filter(|ticket| ticket.attempts == batch.attempts);
        let is_due_at_route = ticket.is_some_and(|ticket| ticket.of == Of::Route);
        // What the gate of a Target without limits says is asked for again right before the call.
        let asked = |(_, limits): &(Scope, Limits)| !is_due_at_route || *limits != Limits::default();
        let gates: Vec<_> = gates(route, batch).into_iter().filter(asked).collect();
        let asks = |scope: &Scope| {
            ticket.filter(|ticket| ticket.of == scope.of()).map_or(Asks::Anew, |ticket| Asks::With(ticket.number))
        };
        self.pass_all(route, batch, gates, asks, lease_until).await
    }

    /// The same for one call more of a batch that is being called.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub async fn admit_again(&self, route: &Route, batch: &Batch, lease_until: Timestamp) -> Result<Passed, Error> {
        self.pass_all(route, batch, gates(route, batch), |_| Asks::Again, lease_until).await
    }

    async fn pass_all(
        &self,
        route: &Route,
        batch: &Batch,
        gates: Vec<(Scope, Limits)>,
        asks: impl Fn(&Scope) -> Asks + Send,
        lease_until: Timestamp,
    ) -> Result<Passed, Error> {
        let (mut held, mut taken) = (Vec::new(), Vec::new());
        let mut start = self.env.now();
        for (scope, limits) in gates {
            let asks = asks(&scope);
            match self.pass(route, batch, (&scope, limits), asks, lease_until).await? {
                Ok(place) => {
                    start = start.max(place.start);
                    if limits.in_flight.is_some() {
                        taken.extend(place.taken.then(|| scope.clone()));
                        held.push(scope);
                    }
                }
                Err(wait @ Wait { until: Some(until), ticket: Some(_) }) => {
                    // The lease is counted from the time of the ticket.
                    let lease_until = until.plus_ms(lease_until.since(self.env.now()));
                    for scope in &held {
                        self.change(scope, |gate| gate.kept(&batch.id, lease_until)).await?;
                    }
                    return Ok(Passed::No(wait));
                }
                Err(wait) => {
                    // A place that the batch had before is that of the worker that calls it.
                    self.leave(&taken, &batch.id, lease_until).await?;
                    return Ok(Passed::No(wait));
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
        self.change(&route.pause_scope(&batch.target), |gate| gate.paused(until, self.env.now())).await
    }

    /// Until when the gate that the route names for it is closed, if it is.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn paused_until(&self, route: &Route, batch: &Batch) -> Result<Option<Timestamp>, Error> {
        let gate = self.store.gate(&route.pause_scope(&batch.target)).await?;
        Ok((gate.paused_until > self.env.now()).then_some(gate.paused_until))
    }

    /// Passes one gate, waiting in place for what comes soon.
    async fn pass(
        &self,
        route: &Route,
        batch: &Batch,
        (scope, limits): (&Scope, Limits),
        mut asks: Asks,
        lease_until: Timestamp,
    ) -> Result<Result<Place, Wait>, Error> {
        // A worker that pulls has other batches to look at meanwhile.
        let patience_ms = if route.is_pulled() { 0 } else { IN_PLACE_MS };
        let mut attempts = 0;
        let patient_until = self.env.now().plus_ms(patience_ms);
        let ticket = |number| Ticket { of: scope.of(), number, attempts: batch.attempts };
        while attempts < TRIES {
            let now = self.env.now();
            let gate = self.store.gate(scope).await?;
            match gate.admit(&batch.id, asks, limits, now, lease_until) {
                Admission::Admitted(next, start) => {
                    if self.is_written(scope, next, now).await? {
                        return Ok(Ok(Place { start, taken: !gate.counts(&batch.id) }));
                    }
                }
                Admission::LinesUp => {
                    if let Some(gate) = self.store.take_ticket(scope, &gate, now).await? {
                        let (number, at) = gate.last_ticket();
                        return Ok(Err(Wait { until: Some(at), ticket: Some(ticket(number)) }));
                    }
                }
                Admission::Later { gate: next, ticket: number, at } => {
                    if self.is_written(scope, next, now).await? {
                        if at > patient_until || number.is_none() {
                            return Ok(Err(Wait { until: Some(at), ticket: number.map(ticket) }));
                        }
                        asks = number.map_or(asks, Asks::With);
                        // It may be sooner: a place that waits is lost, a look is not much.
                        self.env.sleep((at.since(now) / 2).max(LOOK_MS)).await;
                        continue;
                    }
                }
            }
            attempts += 1;
            self.give_way(attempts).await;
        }
        let ticket = match asks {
            Asks::With(number) => Some(ticket(number)),
            Asks::Anew | Asks::Again => None,
        };
        Ok(Err(Wait { until: None, ticket }))
    }

    async fn is_written(&self, scope: &Scope, gate: Option<Gate>, now: Timestamp) -> Result<bool, Error> {
        let Some(gate) = gate else { return Ok(true) };
        Ok(self.store.store_gate(scope, &gate, now).await? == Stored::Yes)
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

    /// A worker that was too late waits for a moment, longer each time, so that the next round has fewer contenders.
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

/// A gate may be written by somebody else between a read and a write; after this many tries the batch comes back later.
const TRIES: u64 = 16;
/// The shortest pause before another look at a gate that is full, in milliseconds.
const LOOK_MS: u64 = 30;
/// The longest pause after the first try, in milliseconds.
const GIVE_WAY_MS: u64 = 8;

/// The gates that a call of this batch passes. The Target's comes first: it is the narrower one, and a batch that waits
/// there must not keep a place of the route from others. A gate at which nothing can be limited or paused is not asked.
fn gates(route: &Route, batch: &Batch) -> Vec<(Scope, Limits)> {
    let target = Limits { in_flight: route.in_flight.per_target, gap_ms: None };
    let whole = Limits { in_flight: route.in_flight.in_all, gap_ms: route.gap_ms };
    let pause = route.pause_scope(&batch.target);
    [(Scope::Target(batch.target.whole()), target), (Scope::Route(route.name.clone()), whole)]
        .into_iter()
        .filter(|(scope, limits)| *limits != Limits::default() || *scope == pause)
        .collect()
}
