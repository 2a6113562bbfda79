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
/// Batches that are looked at together. If as many in a row sleep on, those behind them have their reasons, too. Those
/// with a job do not count: they come back for a look, whatever their limiters say.
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
            let mut sleep_on = 0;
            for together in ids.chunks(TOGETHER) {
                let now = self.env.now();
                let woken = waker.wake(together, |batch, turn| oversleeps(route, batch, turn, now)).await;
                let under_way = waker.take_under_way();
                sleep_on = match woken {
                    Ok(0) => sleep_on + together.len() - under_way,
                    Ok(_) => 0,
                    Err(_) => TOGETHER,
                };
                let goes_on = sleep_on < TOGETHER && self.env.now() < until;
                tally.count(woken.map(|batches| Report { batches, ..Report::default() }));
                if !goes_on {
                    break;
                }
            }
        }
        tally
    }
}
