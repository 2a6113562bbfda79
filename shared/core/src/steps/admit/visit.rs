//! The way in: a batch comes to its gates, and may have to wait before it looks at one.

use tokio::sync::Notify;

use super::{Gatekeeper, Passed, gates};
use crate::domain::batch::Batch;
use crate::domain::gate::{Asks, Bid, Gate, IN_PLACE_MS, Limits, Scope, Ticket};
use crate::domain::id::SessionId;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates};
use crate::routes::Route;
use crate::steps::Error;

/// A batch at its gates.
pub(super) struct Visit<'a> {
    pub(super) route: &'a Route,
    pub(super) batch: &'a Batch,
    by: Option<&'a SessionId>,
    comes: Comes,
    leased_at: Timestamp,
    /// How long its places last, if it does not wait for them.
    pub(super) lease_until: Timestamp,
    /// Hears that it waits in place for its turn.
    pub(super) waits: &'a Notify,
}

/// What for.
enum Comes {
    /// For a call, with this ticket; what it bids for before it looks.
    For(Option<Ticket>, Option<Offer>),
    /// It is being called already, and makes one call more.
    Again,
}

/// What a batch bids for.
#[derive(Clone)]
pub(super) struct Offer {
    /// Where.
    scope: Scope,
    pub(super) bid: Bid,
    /// When.
    at: Timestamp,
}

impl Visit<'_> {
    /// The gates that it passes, in this order, with what they let through.
    pub(super) fn gates(&self) -> Vec<(Scope, Limits)> {
        let Self { route, batch, .. } = self;
        let shared = |(scope, limits): (Scope, Limits)| {
            let share = route.share(scope.of(), &batch.target, batch.priority);
            (scope, Limits { share, ..limits })
        };
        gates(route, &batch.target).into_iter().map(shared).collect()
    }

    /// How it asks at a gate.
    pub(super) fn asks(&self, scope: &Scope) -> Asks {
        match &self.comes {
            Comes::Again => Asks::Again,
            Comes::For(ticket, _) => {
                ticket.filter(|ticket| ticket.of == scope.of()).map_or(Asks::Anew, |ticket| Asks::With(ticket.number))
            }
        }
    }

    /// For how long it waits in place, in milliseconds. A worker that pulls has other batches to look at meanwhile.
    pub(super) fn patience_ms(&self) -> u64 {
        if self.route.is_pulled() { 0 } else { IN_PLACE_MS }
    }

    /// Until when it waits at a gate in place, all in all, that it comes to now: twice as long, if it has not waited at
    /// another one. The time for that is in its places' leases.
    pub(super) fn patient_until(&self, now: Timestamp) -> Timestamp {
        let patience_ms = self.patience_ms();
        now.plus_ms(2 * patience_ms).min(self.leased_at.plus_ms(4 * patience_ms))
    }

    /// How long a place lasts that it takes now.
    pub(super) fn lease_from(&self, now: Timestamp) -> Timestamp {
        self.lease_until.plus_ms(now.since(self.leased_at))
    }

    /// The ticket that it comes with.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        match &self.comes {
            Comes::For(ticket, _) => *ticket,
            Comes::Again => None,
        }
    }

    /// A ticket of this gate, with which it comes back at that time.
    pub(super) fn with(&self, (scope, gate): (&Scope, &Gate), number: u64, limits: Limits, at: Timestamp) -> Ticket {
        Ticket { of: scope.of(), number, attempts: self.batch.attempts, at: gate.own_time(number, limits, at) }
    }

    /// What it may bid for with this ticket at this gate at that time.
    pub(super) fn offer(
        &self,
        (scope, gate): (&Scope, &Gate),
        number: u64,
        limits: Limits,
        at: Timestamp,
    ) -> Option<Offer> {
        let bid = gate.bid((&self.batch.id, self.by?), number, limits)?;
        Some(Offer { scope: scope.clone(), bid, at })
    }

    /// What it bids for at this gate before it looks.
    pub(super) fn offer_at(&self, scope: &Scope) -> Option<Offer> {
        match &self.comes {
            Comes::For(_, offer) => offer.clone().filter(|offer| offer.scope == *scope),
            Comes::Again => None,
        }
    }

    /// A gate as it writes it.
    pub(super) fn signed(&self, gate: Gate) -> Gate {
        self.by.into_iter().fold(gate, Gate::written_by)
    }

    /// For how long it waits in place before it comes to this gate, the `n`th of these, in milliseconds: until the time
    /// of its ticket, if that is soon. The gate says no earlier that it may go. What it takes at the gates before would
    /// be held meanwhile, or cost its time; so it waits before the first that takes something.
    pub(super) fn early_ms(&self, gates: &[(Scope, Limits)], n: usize, now: Timestamp) -> u64 {
        let Some(ticket) = self.ticket().filter(|_| self.patience_ms() > 0) else { return 0 };
        let Some(own) = gates.iter().position(|(scope, _)| scope.of() == ticket.of) else { return 0 };
        let (before, from) = gates.split_at(own);
        let waits_at = if before.iter().all(|(_, limits)| *limits == Limits::default()) { 0 } else { own };
        let Some((scope, limits)) = from.first().filter(|_| n == waits_at) else { return 0 };
        self.offer_at(scope).map_or_else(|| ticket.early_ms(*limits, now), |offer| offer.at.since(now))
    }
}

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
    /// Passes every gate before a call of `batch` by this session, or waits at one. A batch that is in flight already
    /// keeps its places. A lease lasts longer by as much as the batch waits in place for it; that it waits for a place
    /// that is about to be free, `waits` hears.
    ///
    /// # Errors
    /// A port did not answer; places may be held then, until their lease is over.
    pub async fn admit(
        &self,
        route: &Route,
        batch: &Batch,
        by: &SessionId,
        lease_until: Timestamp,
        waits: &Notify,
    ) -> Result<Passed, Error> {
        let comes = Comes::For(batch.turn(), None);
        let mut visit = Visit { route, batch, by: Some(by), comes, leased_at: self.env.now(), lease_until, waits };
        if let Some((wait, offer)) = self.foresee(&visit).await? {
            if wait.until.is_none_or(|until| until.since(self.env.now()) > visit.patience_ms()) {
                return Ok(Passed::No(wait));
            }
            if offer.is_some() {
                waits.notify_one();
            }
            visit.comes = Comes::For(wait.ticket, offer);
        }
        self.pass_all(&visit).await
    }

    /// The same for one call more of a batch that is being called.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub async fn admit_again(&self, route: &Route, batch: &Batch, lease_until: Timestamp) -> Result<Passed, Error> {
        let (by, leased_at, waits) = (batch.claimed_by(), self.env.now(), &Notify::new());
        self.pass_all(&Visit { route, batch, by, comes: Comes::Again, leased_at, lease_until, waits }).await
    }
}
