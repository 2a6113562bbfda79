//! The way out: places in flight are given back.

use super::{Gatekeeper, Held, gates};
use crate::domain::batch::Batch;
use crate::domain::gate::{Gate, Scope};
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

    /// Gives permits back as [`leave`](Self::leave) does, once a call has `ended`: its hold time helps to estimate when
    /// the next permit is free. Returns the scopes where that gave nothing back: the lease there is over, or it is a
    /// later one of another delivery.
    ///
    /// # Errors
    /// As [`leave`](Self::leave).
    pub async fn leave_after(
        &self,
        held: &[Held],
        batch: &BatchId,
        ended: Option<Timestamp>,
    ) -> Result<Vec<Scope>, Error> {
        let mut others = Vec::new();
        for Held { scope, lease, .. } in held {
            let left = self.store.give_back(scope, batch, *lease, ended).await?;
            others.extend((left == Stored::Conflict).then(|| scope.clone()));
        }
        Ok(others)
    }

    /// Leaves the permits of a batch to its call, which timed out, until then: the batch's next call needs others. A
    /// crash before this costs the rest of the lease.
    ///
    /// # Errors
    /// A port did not answer, or a gate changed too often.
    pub async fn leave_to_call(&self, held: &[Held], batch: &Batch, until: Timestamp) -> Result<(), Error> {
        let call = BatchId::new(format!("{}~{}", batch.id, batch.attempts));
        for Held { scope, lease, .. } in held {
            let kept = |gate: &Gate| (gate.kept_by_call((&batch.id, *lease), call.clone(), until), ());
            self.change(scope, kept).await?;
        }
        Ok(())
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
