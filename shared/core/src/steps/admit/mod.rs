//! Passing the gates before a call, in and out.

mod leave;
mod observe;
mod pass;

use super::Error;
use crate::domain::batch::Batch;
use crate::domain::gate::{Gate, IN_PLACE_MS, Limits, Scope, Ticket};
use crate::domain::id::Target;
use crate::domain::outcome::Reason;
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
        have_unsent: Vec<Scope>,
    },
    /// It waits. At the gate where it waits it holds no permit. With a ticket there it keeps the permits that it has at
    /// narrower ones, so that no other batch stands in its way when its time has come.
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

/// A gate may be written by somebody else between a read and a write; after this many tries the batch comes back later.
const TRIES: u64 = 16;
/// The longest pause after the first try, in milliseconds.
const GIVE_WAY_MS: u64 = 8;

/// The gates that a call for this Target passes. The Target's comes first: it is the narrower one, and a batch that
/// waits there must not keep a place of the route from others. The route's is always asked, since a person may hold
/// calls back there; the Target's only if something is limited or paused there. Limits that routes share come last, in
/// one order for all of them: all calls of a route pass them, so a permit may be kept meanwhile.
pub(super) fn gates(route: &Route, of: &Target) -> Vec<(Scope, Limits)> {
    let limits = route.limits_of(of);
    let target = Scope::Target(of.whole());
    let is_asked = limits != Limits::default() || target == route.pause_scope(of);
    let named = route.named.iter().map(|named| (Scope::Limit(named.name.clone()), named.limits));
    let own = is_asked.then_some((target, limits)).into_iter();
    own.chain([(Scope::Route(route.name.clone()), route.limits())]).chain(named).collect()
}

/// Returns the gates that a call of this batch passes, with its share and its cost.
pub(super) fn gates_of(route: &Route, batch: &Batch) -> impl Iterator<Item = (Scope, Limits)> {
    gates(route, &batch.target).into_iter().map(|(scope, limits)| {
        let share = route.share(&scope, &batch.target, batch.priority);
        (scope, Limits { share, rates: limits.rates.costing(|of| batch.cost(of)), ..limits })
    })
}
