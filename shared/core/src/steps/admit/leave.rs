//! The way out: places in flight are given back.

use super::{Gatekeeper, Held, gates};
use crate::domain::batch::Batch;
use crate::domain::gate::{Fared, Gate, Scope};
use crate::domain::id::BatchId;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates, Stored};
use crate::routes::Route;
use crate::steps::Error;

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
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

    /// Makes the places that a batch has last until then. Says whether it still has all of them.
    ///
    /// # Errors
    /// A port did not answer, or a gate changed too often.
    pub async fn renew(&self, held: &mut [Held], batch: &BatchId, until: Timestamp) -> Result<bool, Error> {
        let mut has_all = true;
        for Held { scope, lease, .. } in held {
            let renewed = |gate: &Gate| (gate.kept(batch, until), gate.lease(batch, self.env.now()).is_some());
            has_all &= self.change(scope, renewed).await?;
            *lease = until.max(*lease);
        }
        Ok(has_all)
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
            let is_left = match self.change(&scope, left).await {
                // Everybody writes this gate: it learns nothing of this call, and the place is free all the same.
                Err(Error::Conflict(_)) => self.store.give_back(&scope, &batch.id, *lease, None).await? == Stored::Yes,
                is_left => is_left?,
            };
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
}
