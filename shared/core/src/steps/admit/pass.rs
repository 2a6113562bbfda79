//! The way in: every gate before a call, one after the other.

use super::{Away, Gatekeeper, Held, Passed, TRIES, Wait, gates_of};
use crate::domain::batch::Batch;
use crate::domain::gate::{Admission, Asks, Gate, IN_PLACE_MS, LOOK_MS, Limits, Scope, Ticket};
use crate::domain::id::SessionId;
use crate::domain::retry::between;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates};
use crate::routes::Route;
use crate::steps::Error;
use crate::steps::drive_on::MAX_DELAY_MS;

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
    /// Passes every gate before a call of `batch` by this session, or waits at one. A batch that is in flight already
    /// keeps its places. A lease lasts longer by as much as the batch waits in place for it.
    ///
    /// # Errors
    /// A port did not answer; places may be held then, until their lease is over.
    pub async fn admit(
        &self,
        route: &Route,
        batch: &Batch,
        by: &SessionId,
        lease_until: Timestamp,
    ) -> Result<Passed, Error> {
        self.pass_all(route, (batch, Some(by)), |scope| batch.asks(scope.of()), lease_until).await
    }

    /// The same for one call more of a batch that is being called.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub async fn admit_again(&self, route: &Route, batch: &Batch, lease_until: Timestamp) -> Result<Passed, Error> {
        self.pass_all(route, (batch, batch.claimed_by()), |_| Asks::Again, lease_until).await
    }

    async fn pass_all(
        &self,
        route: &Route,
        of: (&Batch, Option<&SessionId>),
        asks: impl Fn(&Scope) -> Asks + Send + Sync,
        lease_until: Timestamp,
    ) -> Result<Passed, Error> {
        let begun = self.env.now();
        for _ in 0..TRIES {
            if let Some(passed) = self.pass_each(route, of, &asks, (begun, lease_until)).await? {
                return Ok(passed);
            }
        }
        Ok(Passed::No(Wait::default()))
    }

    /// `None`: it is to ask again, since its Target's gate has just heard that the route goes on slowly.
    async fn pass_each(
        &self,
        route: &Route,
        (batch, by): (&Batch, Option<&SessionId>),
        asks: &(impl Fn(&Scope) -> Asks + Send + Sync),
        (begun, lease_until): (Timestamp, Timestamp),
    ) -> Result<Option<Passed>, Error> {
        let (mut held, mut in_trouble, mut have_unsent) = (Vec::<Held>::new(), Vec::new(), Vec::new());
        let mut start = self.env.now();
        // A batch has one ticket, so it has its turn at one gate. Where its Target has a rate, it is that one.
        let mut paced: Option<(Scope, Option<Timestamp>)> = None;
        let mut seen_open = Timestamp(0);
        for (scope, limits) in gates_of(route, batch) {
            let ahead_ms = start.since(self.env.now());
            if ahead_ms > 0 {
                // The next gate's time would be past, and calls too near to each other there.
                self.env.sleep(ahead_ms).await;
            }
            let asks = if paced.is_some() { Asks::InTurn } else { asks(&scope) };
            match self.pass(route, (batch, by), (&scope, limits), asks, (begun, lease_until)).await? {
                Went::Through(place) => {
                    if let Some((target, knows)) = &paced
                        && let Some(since) = place.drains.filter(|since| Some(*since) > *knows)
                    {
                        self.change(target, |gate| (gate.drains_with(since), ())).await?;
                        held.retain(|place| place.is_taken);
                        self.leave(&held, &batch.id).await?;
                        return Ok(None);
                    }
                    paced = Some(limits.rates)
                        .filter(|rates| !rates.is_none() && matches!(scope, Scope::Target(_)))
                        .map(|_| (scope.clone(), place.drains));
                    start = start.max(place.start);
                    if scope == route.pause_scope(&batch.target) {
                        seen_open = place.seen;
                    }
                    have_unsent.extend(place.has_unsent.then(|| scope.clone()));
                    in_trouble.extend(place.is_in_trouble.then(|| scope.clone()));
                    held.extend(place.lease.map(|lease| Held { scope, lease, is_taken: place.is_taken }));
                }
                Went::Away(away) => {
                    held.retain(|place| place.is_taken);
                    self.leave(&held, &batch.id).await?;
                    return Ok(Some(Passed::Away(away)));
                }
                Went::ToWait(wait @ Wait { until: Some(until), ticket: Some(_) }) => {
                    // The lease is counted from the time of the ticket, or from when the batch's message is back before
                    // and keeps the permit for as long again. One that it needs no more, after a push, lapses soon.
                    let now = self.env.now();
                    let lease_until = until.min(now.plus_ms(MAX_DELAY_MS)).plus_ms(lease_until.since(now));
                    for Held { scope, .. } in &held {
                        self.change(scope, |gate| (gate.kept(&batch.id, lease_until), ())).await?;
                    }
                    return Ok(Some(Passed::No(wait)));
                }
                Went::ToWait(wait) => {
                    // A place that the batch had before is that of the worker that calls it.
                    held.retain(|place| place.is_taken);
                    self.leave(&held, &batch.id).await?;
                    return Ok(Some(Passed::No(wait)));
                }
            }
        }
        Ok(Some(Passed::Yes { held, seen_open, start, in_trouble, have_unsent }))
    }

    /// Passes one gate, waiting in place for what comes soon.
    async fn pass(
        &self,
        route: &Route,
        (batch, by): (&Batch, Option<&SessionId>),
        (scope, limits): (&Scope, Limits),
        mut asks: Asks,
        (leased_at, lease_until): (Timestamp, Timestamp),
    ) -> Result<Went, Error> {
        // A worker that pulls has other batches to look at meanwhile.
        let patience_ms = if route.is_pulled() { 0 } else { IN_PLACE_MS };
        let (mut attempts, is_again) = (0, asks == Asks::Again);
        let patient_until = self.env.now().plus_ms(2 * patience_ms);
        let ticket = |number| Ticket { of: scope.of(), number, attempts: batch.attempts };
        let signed = |gate: Gate| by.into_iter().fold(gate, Gate::written_by);
        while attempts < TRIES {
            let now = self.env.now();
            // One call more goes by the lease that its claim knows.
            let lease = if is_again { lease_until } else { lease_until.plus_ms(now.since(leased_at)) };
            let gate = self.store.gate(scope).await?;
            let held_back = gate.holds_back(&batch.target.whole(), now);
            match held_back.unwrap_or_else(|| gate.admit(&batch.id, asks, limits, now, lease)) {
                Admission::Admitted(next, start) => {
                    // Where no places are limited, the gate counts nobody.
                    let lease = next.as_ref().and_then(|gate| gate.lease(&batch.id, now));
                    if self.is_written(scope, next.map(signed), now).await? {
                        let is_taken = gate.lease(&batch.id, now).is_none();
                        let (is_in_trouble, has_unsent) = (gate.breaker.streak.is_some(), gate.outbox.is_due(now));
                        let (drains, seen) = (gate.drains_at(now), now);
                        let place = Place { start, lease, seen, is_taken, is_in_trouble, has_unsent, drains };
                        return Ok(Went::Through(place));
                    }
                }
                Admission::LinesUp { flow, behind } => {
                    if let Some(gate) = self.store.take_ticket(scope, flow, behind).await?
                        && let Some(tag) = gate.queue.flows.get(&flow).map(|flow| flow.last)
                    {
                        asks = Asks::With(tag);
                        let at = gate.time_of(tag, limits, lease, now).unwrap_or(now);
                        if !self.waits_in_place(at, now, patient_until, patience_ms).await {
                            return Ok(Went::ToWait(Wait { until: Some(at), ticket: Some(ticket(tag)) }));
                        }
                        continue;
                    }
                }
                Admission::Away { gate: next, back: (from, to), outage } => {
                    if self.is_written(scope, next.map(|gate| signed(*gate)), now).await? {
                        let until = between(from, to, self.env.random());
                        return Ok(Went::Away(Away { until, outage }));
                    }
                }
                Admission::Later { gate: next, ticket: number, at } => {
                    if self.is_written(scope, next.map(signed), now).await? {
                        asks = number.map_or(asks, Asks::With);
                        if number.is_none() || !self.waits_in_place(at, now, patient_until, patience_ms).await {
                            return Ok(Went::ToWait(Wait { until: Some(at), ticket: number.map(ticket) }));
                        }
                        continue;
                    }
                }
            }
            attempts += 1;
            self.give_way(attempts).await;
        }
        let ticket = match asks {
            Asks::With(number) => Some(ticket(number)),
            Asks::Anew | Asks::Again | Asks::InTurn => None,
        };
        Ok(Went::ToWait(Wait { until: None, ticket }))
    }

    /// Sleeps until then, and says so, if that is soon.
    async fn waits_in_place(&self, at: Timestamp, now: Timestamp, until: Timestamp, patience_ms: u64) -> bool {
        let is_soon = at <= until.min(now.plus_ms(patience_ms));
        if is_soon {
            self.env.sleep(at.since(now).max(LOOK_MS)).await;
        }
        is_soon
    }
}

/// How a batch fared at one gate.
enum Went {
    Through(Place),
    ToWait(Wait),
    Away(Away),
}

/// A place at one gate.
struct Place {
    /// When the call may start.
    start: Timestamp,
    /// How long it lasts, if places are limited here.
    lease: Option<Timestamp>,
    /// When the gate was seen as it let the batch through.
    seen: Timestamp,
    /// Whether it is new: the batch had none here before.
    is_taken: bool,
    /// Whether calls behind this gate failed before, and none was answered since.
    is_in_trouble: bool,
    /// Whether people are to be told of an outage.
    has_unsent: bool,
    /// Since when what waited here goes on slowly.
    drains: Option<Timestamp>,
}
