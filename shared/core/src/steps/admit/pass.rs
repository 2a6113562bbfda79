//! The way through every gate before a call, one after the other.

use super::visit::{Offer, Visit};
use super::{Away, Gatekeeper, Held, Passed, TRIES, Wait};
use crate::domain::gate::{Admission, Asks, Gate, LOOK_MS, Limits, Of, Scope, Ticket};
use crate::domain::retry::between;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates};
use crate::steps::Error;

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
    /// Passes every gate, or waits at one.
    pub(super) async fn pass_all(&self, visit: &Visit<'_>) -> Result<Passed, Error> {
        for _ in 0..TRIES {
            if let Some(passed) = self.pass_each(visit).await? {
                return Ok(passed);
            }
        }
        Ok(Passed::No(Wait::default()))
    }

    /// `None`: it is to ask again, since its Target's gate has just heard that the route goes on slowly.
    async fn pass_each(&self, visit: &Visit<'_>) -> Result<Option<Passed>, Error> {
        let Visit { route, batch, .. } = *visit;
        let (mut held, mut in_trouble, mut have_news) = (Vec::<Held>::new(), Vec::new(), Vec::new());
        let mut start = self.env.now();
        // A batch has one ticket, so it has its turn at one gate. Where its Target has a rate, it is that one.
        let mut paced: Option<(Scope, Option<Timestamp>)> = None;
        let mut seen_open = Timestamp(0);
        let gates = visit.gates();
        for (n, (scope, limits)) in gates.iter().enumerate() {
            let (scope, limits) = (scope.clone(), *limits);
            self.env.sleep(visit.early_ms(&gates, n, self.env.now())).await;
            let ahead_ms = start.since(self.env.now());
            if ahead_ms > 0 {
                // The next gate's time would be past, and calls too near to each other there.
                self.env.sleep(ahead_ms).await;
            }
            let asks = if paced.is_some() { Asks::InTurn } else { visit.asks(&scope) };
            match self.pass(visit, (&scope, limits), asks).await? {
                Went::Through(place) => {
                    if let Some((target, knows)) = &paced
                        && let Some(since) = place.drains.filter(|since| Some(*since) > *knows)
                    {
                        self.change(target, |gate| (gate.drains_with(since), ())).await?;
                        held.retain(|place| place.is_taken);
                        self.leave(&held, &batch.id).await?;
                        return Ok(None);
                    }
                    paced = limits.gap_ms.filter(|_| scope.of() == Of::Target).map(|_| (scope.clone(), place.drains));
                    start = start.max(place.start);
                    if scope == route.pause_scope(&batch.target) {
                        seen_open = place.seen;
                    }
                    have_news.extend(place.has_news.then(|| scope.clone()));
                    in_trouble.extend(place.is_in_trouble.then(|| scope.clone()));
                    held.extend(place.lease.map(|lease| Held { scope, lease, is_taken: place.is_taken }));
                }
                Went::Away(away) => {
                    held.retain(|place| place.is_taken);
                    self.leave(&held, &batch.id).await?;
                    return Ok(Some(Passed::Away(away)));
                }
                Went::ToWait(wait @ Wait { until: Some(until), ticket: Some(_) }) => {
                    // The lease is counted from the time of the ticket.
                    let lease_until = until.plus_ms(visit.lease_until.since(self.env.now()));
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
        Ok(Some(Passed::Yes { held, seen_open, start, in_trouble, have_news }))
    }

    /// Passes one gate, waiting in place for what comes soon.
    async fn pass(&self, visit: &Visit<'_>, (scope, limits): (&Scope, Limits), mut asks: Asks) -> Result<Went, Error> {
        let (mut attempts, mut offer) = (0, visit.offer_at(scope));
        let patient_until = visit.patient_until(self.env.now());
        while attempts < TRIES {
            match self.ask(visit, (scope, limits), asks, offer.take()).await? {
                Heard::Went(went) => return Ok(went),
                Heard::MayBid(next) => offer = Some(next),
                Heard::TooLate => {
                    attempts += 1;
                    self.give_way(attempts).await;
                }
                Heard::Later(gate, ticket, at) => {
                    let now = self.env.now();
                    let is_soon = at <= patient_until.min(now.plus_ms(visit.patience_ms()));
                    let Some(Ticket { number, .. }) = ticket.filter(|_| is_soon) else {
                        return Ok(Went::ToWait(Wait { until: Some(at), ticket }));
                    };
                    asks = Asks::With(number);
                    offer = visit.offer((scope, &gate), number, limits, at);
                    if offer.is_some() {
                        visit.waits.notify_one();
                    }
                    self.env.sleep(at.since(now).max(LOOK_MS)).await;
                }
            }
        }
        let ticket = match asks {
            Asks::With(number) => Some(visit.with((scope, &Gate::default()), number, limits, Timestamp::default())),
            Asks::Anew | Asks::Again | Asks::InTurn => None,
        };
        Ok(Went::ToWait(Wait { until: None, ticket }))
    }

    /// Asks once at a gate: by a bid, or by a look.
    async fn ask(
        &self,
        visit: &Visit<'_>,
        (scope, limits): (&Scope, Limits),
        asks: Asks,
        offer: Option<Offer>,
    ) -> Result<Heard, Error> {
        let (batch, now) = (&visit.batch.id, self.env.now());
        // One call more goes by the lease that its claim knows.
        let lease = if asks == Asks::Again { visit.lease_until } else { visit.lease_from(now) };
        let (has_bid, asked) = (offer.is_some(), lease);
        let gate = match offer {
            Some(Offer { bid, .. }) => {
                let gate = self.store.take_place(scope, &bid, lease, now).await?;
                self.note(scope, &gate, now);
                if bid.is_won(&gate, lease) {
                    if let Some(next) = gate.up_to_date(&bid, lease, now) {
                        // If another one has written it since, or no answer comes, a later bid does this.
                        let _ = self.is_written(scope, Some(visit.signed(next)), now).await;
                    }
                    return Ok(Heard::Went(Went::Through(Place::won(lease, now))));
                }
                gate
            }
            None => self.look(scope).await?,
        };
        let held_back = gate.holds_back(&visit.batch.target.whole(), now);
        match held_back.unwrap_or_else(|| gate.admit(batch, asks, limits, now, lease)) {
            Admission::Admitted(next, start) => {
                if let (Some(_), Asks::With(number), false) = (&next, asks, has_bid) {
                    // A bid is not refused because another batch was faster, unless that has taken the last place.
                    let offer = visit.offer((scope, &gate), number, limits, now);
                    if let Some(offer) = offer.filter(|offer| gate.with_bid(&offer.bid, lease, now).is_some()) {
                        return Ok(Heard::MayBid(offer));
                    }
                }
                // Where no places are limited, the gate counts nobody.
                let lease = next.as_ref().and_then(|gate| gate.lease(batch, now));
                if self.is_written(scope, next.map(|gate| visit.signed(gate)), now).await? {
                    // A bid whose answer was lost may have taken it.
                    let is_taken = gate.lease(batch, now).is_none_or(|until| has_bid && until == asked);
                    let place = Place::of(&gate, (start, lease), is_taken, now);
                    return Ok(Heard::Went(Went::Through(place)));
                }
            }
            Admission::LinesUp { stretch } => {
                if let Some((gate, Wait { until, ticket })) =
                    self.line_up(visit, (scope, limits), (&gate, stretch), now).await?
                {
                    return Ok(Heard::Later(Box::new(gate), ticket, until.unwrap_or(now)));
                }
            }
            Admission::Away { gate: next, back: (from, to), outage } => {
                if self.is_written(scope, next.map(|gate| visit.signed(*gate)), now).await? {
                    let until = between(from, to, self.env.random());
                    return Ok(Heard::Went(Went::Away(Away { until, outage })));
                }
            }
            Admission::Later { gate: next, ticket: number, at } => {
                if self.is_written(scope, next.clone().map(|gate| visit.signed(gate)), now).await? {
                    let gate = next.unwrap_or(gate);
                    let ticket = number.map(|number| visit.with((scope, &gate), number, limits, at));
                    return Ok(Heard::Later(Box::new(gate), ticket, at));
                }
            }
        }
        Ok(Heard::TooLate)
    }

    /// Takes the next ticket, whatever was written since the gate was `seen`: the gate then, and when the batch comes
    /// back. `None`: the line is none of which everybody gets the next ticket.
    pub(super) async fn line_up(
        &self,
        visit: &Visit<'_>,
        (scope, limits): (&Scope, Limits),
        (seen, stretch): (&Gate, Option<u64>),
        now: Timestamp,
    ) -> Result<Option<(Gate, Wait)>, Error> {
        let Some(gate) = self.store.take_ticket(scope, seen, stretch, now).await? else { return Ok(None) };
        self.note(scope, &gate, now);
        let Some((number, own)) = gate.last_ticket(stretch) else { return Ok(None) };
        // If nothing is in its way, it waits for the time that it has, or for no place; nor if it has a place already.
        let free = if limits.in_flight.is_some() { now } else { own };
        let waits = gate.time_for(number, limits, now, visit.lease_from(now));
        let at = waits.filter(|_| gate.lease(&visit.batch.id, now).is_none()).unwrap_or(free);
        let ticket = Some(visit.with((scope, &gate), number, limits, at));
        Ok(Some((gate, Wait { until: Some(at), ticket })))
    }
}

/// What a batch heard that asked at one gate.
enum Heard {
    Went(Went),
    /// It may go, by this bid.
    MayBid(Offer),
    /// It waits, with this ticket, until this time, as this gate says.
    Later(Box<Gate>, Option<Ticket>, Timestamp),
    /// Another one was faster.
    TooLate,
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
    has_news: bool,
    /// Since when what waited here goes on slowly.
    drains: Option<Timestamp>,
}

impl Place {
    /// One that this gate gave at this time.
    fn of(gate: &Gate, (start, lease): (Timestamp, Option<Timestamp>), is_taken: bool, seen: Timestamp) -> Self {
        let (is_in_trouble, has_news) = (gate.health.is_in_trouble(), gate.health.has_news(seen));
        Self { start, lease, seen, is_taken, is_in_trouble, has_news, drains: gate.drains_at(seen) }
    }

    /// One that was bid for: its gate knew of no trouble.
    const fn won(lease: Timestamp, now: Timestamp) -> Self {
        let (is_in_trouble, has_news, drains) = (false, false, None);
        Self { start: now, lease: Some(lease), seen: now, is_taken: true, is_in_trouble, has_news, drains }
    }
}
