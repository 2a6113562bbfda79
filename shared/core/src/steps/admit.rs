//! Passing the gates before a call, in and out.

use super::Error;
use crate::domain::batch::Batch;
use crate::domain::gate::{
    Admission, Asks, Fared, Gate, Heeds, IN_PLACE_MS, LOOK_MS, Limits, Now, Of, Scope, Setback, Ticket, Tried,
};
use crate::domain::id::{BatchId, SessionId, Target};
use crate::domain::notice::NotificationQueue;
use crate::domain::outcome::{Failure, Fault, Reason};
use crate::domain::retry::between;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates, Stored};
use crate::routes::Route;

/// How a batch fared at its gates.
#[derive(Debug)]
pub enum Passed {
    /// It holds places at these gates, and its call starts at this time.
    Yes {
        /// Where it is counted as in flight.
        held: Vec<Held>,
        /// The gate that pauses and outages close was open then.
        seen_open: Timestamp,
        /// When the call starts; some seconds ahead at most.
        start: Timestamp,
        /// Gates behind which calls failed before it: they want to hear of an answer.
        in_trouble: Vec<Scope>,
        /// Gates that have something to tell people.
        have_news: Vec<Scope>,
    },
    /// It waits. At the gate where it waits it holds no place. With a ticket of its route's gate it keeps the place
    /// that it has at its Target's, so that no other batch of the Target stands in its way when its time has come.
    No(Wait),
    /// Its downstream is away, or a person holds calls back. It holds no place that it did not have before.
    Away(Away),
}

/// A place in flight that a batch has at a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// At which gate.
    pub scope: Scope,
    /// How long it lasts: no other delivery of the batch that knows a place there knows this lease.
    pub lease: Timestamp,
    /// Whether this delivery took it: the batch had none there before.
    pub is_taken: bool,
}

/// For how long a batch stays away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// When it comes back.
    pub until: Timestamp,
    /// Since when no call was answered, and why; `None`: a person holds calls back.
    pub outage: Option<(Timestamp, Reason)>,
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
        let ticket = batch.ticket.filter(|ticket| ticket.attempts == batch.attempts);
        let asks = |scope: &Scope| {
            ticket.filter(|ticket| ticket.of == scope.of()).map_or(Asks::Anew, |ticket| Asks::With(ticket.number))
        };
        self.pass_all(route, (batch, Some(by)), asks, lease_until).await
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
        let (mut held, mut in_trouble, mut have_news) = (Vec::<Held>::new(), Vec::new(), Vec::new());
        let mut start = self.env.now();
        // A batch has one ticket, so it has its turn at one gate. Where its Target has a rate, it is that one.
        let mut paced: Option<(Scope, Option<Timestamp>)> = None;
        let mut seen_open = Timestamp(0);
        for (scope, limits) in gates(route, &batch.target) {
            let share = route.share(scope.of(), &batch.target, batch.priority);
            let limits = Limits { share, ..limits };
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
                    let lease_until = until.plus_ms(lease_until.since(self.env.now()));
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

    /// Gives places back, each by its lease: one that another delivery has renewed stays. A crash before this costs the
    /// rest of the lease.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn leave(&self, held: &[Held], batch: &BatchId) -> Result<(), Error> {
        for Held { scope, lease, .. } in held {
            // Nothing has to be read for that, and nobody has to try twice.
            self.store.give_back(scope, batch, *lease, None).await?;
        }
        Ok(())
    }

    /// Gives back the places that a batch has at these gates by a lease that lasts until `last` or less.
    ///
    /// # Errors
    /// As [`leave`](Self::leave).
    pub async fn leave_until(&self, scopes: &[Scope], batch: &BatchId, last: Timestamp) -> Result<(), Error> {
        for scope in scopes {
            self.store.give_back(scope, batch, last, None).await?;
        }
        Ok(())
    }

    /// As [`leave`](Self::leave), once a call has ended that fared so: limits that follow how calls fare learn from it.
    /// Says where that gave nothing back: the lease there is over, or it is a later one of another delivery.
    ///
    /// # Errors
    /// As [`leave`](Self::leave).
    pub async fn leave_after(
        &self,
        (route, batch): (&Route, &Batch),
        held: &[Held],
        fared: Option<Fared>,
    ) -> Result<Vec<Scope>, Error> {
        let mut others = Vec::new();
        for (scope, limits) in gates(route, &batch.target) {
            let Some(Held { lease, .. }) = held.iter().find(|place| place.scope == scope) else { continue };
            if limits.least.is_none() {
                let ended = fared.map(|_| self.env.now());
                let left = self.store.give_back(&scope, &batch.id, *lease, ended).await?;
                others.extend((left == Stored::Conflict).then_some(scope));
                continue;
            }
            let left = |gate: &Gate| {
                let left = gate.left_after(&batch.id, *lease, limits, fared, self.env.now());
                let is_left = left.is_some();
                (left, is_left)
            };
            let is_left = self.change(&scope, left).await?;
            others.extend((!is_left).then_some(scope));
        }
        Ok(others)
    }

    /// Gives back whatever places a batch has that nobody calls any more.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn clear(&self, route: &Route, batch: &Batch) -> Result<(), Error> {
        let limited = gates(route, &batch.target).into_iter().filter(|(_, limits)| limits.in_flight.is_some());
        for (scope, _) in limited {
            self.change(&scope, |gate| (gate.without(&batch.id), ())).await?;
        }
        Ok(())
    }

    /// Tells the gate that the route names for it that a call under this key failed, for every worker: from here on
    /// none starts a call that the gate holds back. Says what that means to the batch.
    ///
    /// # Errors
    /// A port did not answer, or the gate changed too often: it may know nothing.
    pub async fn failed(
        &self,
        route: &Route,
        batch: &Batch,
        call: &BatchId,
        failure: &Failure,
    ) -> Result<Setback, Error> {
        let (policy, scope) = (&route.retry, route.pause_scope(&batch.target));
        let unheard = Setback::unheard(self.env.now());
        if failure.fault == Fault::Call {
            return Ok(Setback { counted: 1, ..unheard });
        }
        if policy.waits_outages_out() {
            let heeds = Heeds {
                longest_pause_ms: policy.longest_pause_ms,
                tells: route.notify.outage != NotificationQueue::None,
            };
            let failed = |gate: &Gate| gate.failed((call, &batch.id), failure, heeds, self.env.now());
            let setback: Setback = self.change(&scope, failed).await?;
            return Ok(match scope {
                Scope::Target(_) if setback.is_alone && failure.fault == Fault::Downstream => {
                    let suspected = |gate: &Gate| gate.suspected(call, failure, self.env.now());
                    // If that gate does not hear of it, one failure more is excused.
                    let counted = self.change(&Scope::Route(route.name.clone()), suspected).await.unwrap_or(0);
                    // An answer of this Target is told to both.
                    Setback { counted: setback.counted.max(counted), ..setback }
                }
                Scope::Target(_) | Scope::Route(_) => setback,
            });
        }
        let mut setback = unheard;
        if let Some(asked_ms) = failure.retry_after_ms {
            let until = self.env.now().plus_ms(asked_ms.min(policy.longest_pause_ms));
            self.change(&scope, |gate| (gate.paused(until, self.env.now()), ())).await?;
            setback.back = Some((until, until));
        }
        Ok(setback)
    }

    /// Tells these gates that a call under this key was answered, after others had failed. If one does not hear of it,
    /// the next answer tells. Says which of them have something to tell people.
    pub async fn answered(&self, in_trouble: &[Scope], call: &BatchId) -> Vec<Scope> {
        let mut have_news = Vec::new();
        for scope in in_trouble {
            let answered = |gate: &Gate| {
                let next = gate.answered(call, self.env.now());
                let has_news = next.as_ref().is_some_and(|gate| gate.health.has_news(self.env.now()));
                (next, has_news)
            };
            let has_news = self.change(scope, answered).await.unwrap_or(false);
            have_news.extend(has_news.then(|| scope.clone()));
        }
        have_news
    }

    /// Writes down what came of telling people what a gate had to tell.
    ///
    /// # Errors
    /// As [`failed`](Self::failed): it is told again.
    pub(super) async fn announced(&self, scope: &Scope, tried: &[Tried]) -> Result<(), Error> {
        self.change(scope, |gate| (gate.announced(tried, self.env.now()), ())).await
    }

    /// Changes what a person has a say in; says what the gate is then.
    ///
    /// # Errors
    /// As [`failed`](Self::failed).
    pub(super) async fn turn(
        &self,
        scope: &Scope,
        turned: impl Fn(&Gate, Timestamp) -> Option<Gate> + Send + Sync,
    ) -> Result<Gate, Error> {
        let turn = |gate: &Gate| {
            let next = turned(gate, self.env.now());
            (next.clone(), next.unwrap_or_else(|| gate.clone()))
        };
        self.change(scope, turn).await
    }

    /// What the gate that the route names for it says right before the call. If the batch has waited in place for its
    /// time, the route's gate is asked, too: a person may have held calls back there since it let the batch through.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn says_now(&self, route: &Route, batch: &Batch, has_waited: bool) -> Result<Now, Error> {
        let (scope, of_all) = (route.pause_scope(&batch.target), Scope::Route(route.name.clone()));
        let is_held = async {
            if !has_waited || scope == of_all {
                return Ok(None);
            }
            let (gate, now) = (self.store.gate(&of_all).await?, self.env.now());
            Ok::<_, Error>(gate.holds_back(&batch.target.whole(), now).map_or_else(
                || Some(gate.says_now(&batch.id, now)).filter(|said| *said != Now::Go),
                |_| Some(Now::Closed(None)),
            ))
        };
        let (gate, held) = futures::join!(self.store.gate(&scope), is_held);
        let said = gate?.says_now(&batch.id, self.env.now());
        Ok(if said == Now::Go { held?.unwrap_or(Now::Go) } else { said })
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
                        let (is_taken, health) = (gate.lease(&batch.id, now).is_none(), &gate.health);
                        let (is_in_trouble, has_news) = (health.is_in_trouble(), health.has_news(now));
                        let (drains, seen) = (gate.drains_at(now), now);
                        let place = Place { start, lease, seen, is_taken, is_in_trouble, has_news, drains };
                        return Ok(Went::Through(place));
                    }
                }
                Admission::LinesUp { stretch } => {
                    if let Some(gate) = self.store.take_ticket(scope, &gate, stretch, now).await?
                        && let Some((number, at)) = gate.last_ticket(stretch)
                    {
                        let at = gate.time_for(number, limits, now, lease).unwrap_or(at);
                        return Ok(Went::ToWait(Wait { until: Some(at), ticket: Some(ticket(number)) }));
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
                        if at > patient_until.min(now.plus_ms(patience_ms)) || number.is_none() {
                            return Ok(Went::ToWait(Wait { until: Some(at), ticket: number.map(ticket) }));
                        }
                        asks = number.map_or(asks, Asks::With);
                        self.env.sleep(at.since(now).max(LOOK_MS)).await;
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

    async fn is_written(&self, scope: &Scope, gate: Option<Gate>, now: Timestamp) -> Result<bool, Error> {
        let Some(gate) = gate else { return Ok(true) };
        Ok(self.store.store_gate(scope, &gate, now).await? == Stored::Yes)
    }

    /// Changes a gate until the change is written or none is needed; says what the change came to.
    async fn change<T: Send>(
        &self,
        scope: &Scope,
        change: impl Fn(&Gate) -> (Option<Gate>, T) + Send,
    ) -> Result<T, Error> {
        for attempt in 0..TRIES {
            let (next, came_to) = change(&self.store.gate(scope).await?);
            if self.is_written(scope, next, self.env.now()).await? {
                return Ok(came_to);
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

/// A gate may be written by somebody else between a read and a write; after this many tries the batch comes back later.
const TRIES: u64 = 16;
/// The longest pause after the first try, in milliseconds.
const GIVE_WAY_MS: u64 = 8;

/// The gates that a call for this Target passes. The Target's comes first: it is the narrower one, and a batch that
/// waits there must not keep a place of the route from others. The route's is always asked, since a person may hold
/// calls back there; the Target's only if something is limited or paused there.
pub(super) fn gates(route: &Route, of: &Target) -> Vec<(Scope, Limits)> {
    let limits = route.limits_of(of);
    let target = Scope::Target(of.whole());
    let is_asked = limits != Limits::default() || target == route.pause_scope(of);
    is_asked
        .then_some((target, limits))
        .into_iter()
        .chain([(Scope::Route(route.name.clone()), route.limits())])
        .collect()
}
