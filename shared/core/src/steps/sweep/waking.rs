//! Batches that sleep behind a limit or a breaker which lets them through by now; see [`wake`](crate::steps::wake).

use std::collections::BTreeMap;

use super::shelf::Tally;
use super::{Report, Sweep};
use crate::domain::batch::GRACE_MS;
use crate::domain::id::{BatchId, RouteName};
use crate::domain::time::Timestamp;
use crate::ports::{Env, Outbox, Store, Unfinished};
use crate::steps::wake::{SOON_MS, Waker, oversleeps};

/// Batches of each route that come back in a while, by when.
#[derive(Default)]
pub(super) struct Asleep(BTreeMap<RouteName, Vec<(Timestamp, BatchId)>>);

/// Batches of a route that are kept in mind, at most.
const MOST: usize = 50_000;
/// Batches that are looked at together. If none of them is woken, those behind them have their reasons, too.
const TOGETHER: usize = 16;

impl Asleep {
    /// Notes an entry of the index if its batch comes back later than soon.
    pub(super) fn add(&mut self, entry: &Unfinished, now: Timestamp) {
        let grace_ms = if entry.is_pulled { 0 } else { GRACE_MS };
        if entry.due > now.plus_ms(SOON_MS + grace_ms) {
            let of_route = self.0.entry(entry.route.clone()).or_default();
            if of_route.len() < MOST {
                of_route.push((entry.due, entry.id.clone()));
            }
        }
    }
}

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    /// Wakes the batches of each route, those first that come back first, until some in a row sleep on.
    pub(super) async fn wake(&self, Asleep(asleep): Asleep, until: Timestamp) -> Tally {
        let mut tally = Tally::default();
        for (route, mut batches) in asleep {
            let Some(route) = self.routes.get(&route) else { continue };
            batches.sort_unstable();
            let ids: Vec<BatchId> = batches.into_iter().map(|(_, id)| id).collect();
            let mut waker = Waker::new(self.store, self.outbox, self.env, route);
            for together in ids.chunks(TOGETHER) {
                let now = self.env.now();
                let woken = waker.wake(together, |batch, turn| oversleeps(route, batch, turn, now)).await;
                let goes_on = woken.as_ref().is_ok_and(|woken| *woken > 0) && self.env.now() < until;
                tally.count(woken.map(|batches| Report { batches, ..Report::default() }));
                if !goes_on {
                    break;
                }
            }
        }
        tally
    }
}
