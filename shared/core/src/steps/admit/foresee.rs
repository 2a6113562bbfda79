//! What a process can say of a batch's turn without a look: by what it saw of the gates a moment ago.

use super::visit::{Offer, Visit};
use super::{Gatekeeper, Wait};
use crate::domain::gate::{Foretold, Recalls};
use crate::ports::{Env, Gates};
use crate::steps::Error;

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
    /// How long a batch has to wait that has a ticket, and what it may bid for then. A new ticket is taken from the
    /// line as that is now. `None`: the batch is to look.
    pub(super) async fn foresee(&self, visit: &Visit<'_>) -> Result<Option<(Wait, Option<Offer>)>, Error> {
        let now = self.env.now();
        let lease_ms = visit.lease_from(now).since(now);
        let mut since = now;
        for (scope, limits) in visit.gates() {
            let sight = self.sightings.and_then(|sightings| sightings.recent(&scope, now));
            let Some((gate, seen_at)) = sight else { return Ok(None) };
            since = since.min(seen_at);
            let is_new = visit.ticket().is_none() && visit.batch.claimed_by().is_none();
            let (batch, asks) = (&visit.batch.id, visit.asks(&scope));
            let who = Recalls { batch, is_new, asks, lease_ms, seen_at, since };
            return Ok(match gate.foretells(&who, limits, now) {
                Foretold::AllPass => continue,
                Foretold::Nothing => None,
                Foretold::LinesUp(stretch) => {
                    let lined_up = self.line_up(visit, (&scope, limits), (&gate, stretch), now).await?;
                    lined_up.map(|(_, wait)| (wait, None))
                }
                Foretold::Waits { number, until } => {
                    let ticket = Some(visit.with((&scope, &gate), number, limits, until));
                    let offer = visit.offer((&scope, &gate), number, limits, until);
                    (offer.is_some() || until > now).then_some((Wait { until: Some(until), ticket }, offer))
                }
            });
        }
        Ok(None)
    }
}
