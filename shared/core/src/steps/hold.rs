//! Holding the calls of a route or a Target back by hand, and letting them go on.
//!
//! Writes of a gate, conditional on what was read: a repeat finds done what it asks for. A Target's pause is in the
//! gate of its route, which every call reads anyway. A call that has passed its gate by then is made; its batch ends as
//! ever. What waits sleeps until a [`Waker`](super::wake::Waker) sends it a new message, or until its own comes.

use super::Error;
use super::admit::Gatekeeper;
use crate::domain::gate::{Gate, MOST_PAUSED, Scope};
use crate::ports::{Env, Gates};

/// Gates by hand, over their ports.
#[derive(Debug)]
pub struct Holding<'a, S, E> {
    /// The gates.
    pub store: &'a S,
    /// Time.
    pub env: &'a E,
}

/// What a person says of a pause has this many bytes at most.
pub const MAX_REASON_BYTES: usize = 256;

/// What was asked for is not to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The reason is too long, or no single line.
    #[error("a reason is one line of at most {MAX_REASON_BYTES} bytes")]
    BadReason,
    /// More Targets than a gate's item has room for.
    #[error("{MOST_PAUSED} Targets of this route are held back already: pause the route, or resume some of them")]
    TooMany,
}

impl<S: Gates, E: Env> Holding<'_, S, E> {
    /// Holds back the calls behind a gate until they are [resumed](Self::resume). Tasks keep arriving and wait. A
    /// repeat gives another reason.
    ///
    /// # Errors
    /// A port did not answer, or the gate changed too often; the call may be repeated.
    pub async fn pause(&self, scope: &Scope, reason: Option<&str>) -> Result<Result<Gate, Refused>, Error> {
        if reason.is_some_and(|reason| reason.len() > MAX_REASON_BYTES || reason.chars().any(char::is_control)) {
            return Ok(Err(Refused::BadReason));
        }
        let reason = || reason.map(str::to_owned);
        match scope {
            Scope::Route(_) | Scope::Limit(_) => {
                self.gatekeeper().turn(scope, |gate, now| gate.held(reason(), now)).await.map(Ok)
            }
            Scope::Target(target) => {
                let of_route = Scope::Route(target.route());
                let held = |gate: &Gate, now| gate.target_held(target, reason(), now);
                let route = self.gatekeeper().turn(&of_route, held).await?;
                let is_held = route.pauses.targets.contains_key(target);
                let gate = self.store.gate(scope).await?.of_target(target, &route);
                Ok(is_held.then_some(gate).ok_or(Refused::TooMany))
            }
        }
    }

    /// Lets the calls behind a gate go on, whatever holds them back, limits apart: a person, a `Retry-After`, or that
    /// the downstream counts as away. What waited goes on slowly at first; behind a Target that only a person held, at
    /// once.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, scope: &Scope) -> Result<Gate, Error> {
        if let Scope::Target(target) = scope {
            let of_route = Scope::Route(target.route());
            self.gatekeeper().turn(&of_route, |gate, _| gate.target_resumed(target)).await?;
        }
        self.gatekeeper().turn(scope, Gate::resumed).await
    }

    /// A gate as it is now.
    pub async fn show(&self, scope: &Scope) -> Result<Gate, Error> {
        let gate = self.store.gate(scope).await?;
        Ok(match scope {
            Scope::Route(_) | Scope::Limit(_) => gate,
            Scope::Target(target) => gate.of_target(target, &self.store.gate(&Scope::Route(target.route())).await?),
        })
    }

    const fn gatekeeper(&self) -> Gatekeeper<'_, S, E> {
        Gatekeeper { store: self.store, env: self.env }
    }
}
