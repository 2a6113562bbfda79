//! Waking: batches that sleep behind a limit or a breaker come sooner if it lets them through sooner than they knew.
//!
//! A batch that waits sleeps until shortly before its estimated turn, and a sent SQS delay cannot be shortened. Nothing
//! records that a limit has changed, a person has resumed, or an outage is over. Instead the waker admits the sleepers
//! one after the other on copies of their limiters, as these and the routes file are now, in the order in which they
//! would come back. A batch that is admitted soon, and would come much later, gets a new message, which supersedes the
//! one that it has; one that workers pull gets an earlier time in their index. Those with a later turn sleep on, until
//! their time or a later sweep. So nothing comes before its turn, and a waker that dies is followed by the next one.
//!
//! The batch is written before its message is sent. If the process dies in between, sweep sends the message.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::admit::gates_of;
use super::handle::PATIENCE_MS;
use super::{CONCURRENCY, Error};
use crate::domain::batch::{Assumes, Batch, GRACE_MS, Status};
use crate::domain::gate::{Admission, Gate, IN_PLACE_MS, Scope};
use crate::domain::id::{BatchId, Part};
use crate::domain::message::Handle;
use crate::domain::retry::turn_delay_ms;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Look, Outbox, Outgoing, Store, Stored, send_all};
use crate::routes::Route;

/// Wakes the batches of one route.
#[derive(Debug)]
pub struct Waker<'a, S, Q, E> {
    store: &'a S,
    outbox: &'a Q,
    env: &'a E,
    route: &'a Route,
    /// The limiters as they are once those before are admitted.
    gates: HashMap<Scope, Gate>,
    /// The number of batches among those that it has looked at whose job is under way: these wait for no limiter.
    under_way: usize,
}

/// A batch that comes back within this time is not woken, in milliseconds.
pub(super) const SOON_MS: u64 = 60_000;
/// A batch with a turn within this time is woken now, in milliseconds: the next sweep comes well before.
const NEAR_MS: u64 = 120_000;
/// Batches that are woken together, at most; the next sweep goes on.
const MOST_WOKEN: usize = 200;
/// Batches of each part of a route that are looked at for a person, at most.
const MOST_READ: usize = 1_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

impl<'a, S: Store, Q: Outbox, E: Env> Waker<'a, S, Q, E> {
    /// Returns a waker over its ports.
    pub fn new(store: &'a S, outbox: &'a Q, env: &'a E, route: &'a Route) -> Self {
        Self { store, outbox, env, route, gates: HashMap::new(), under_way: 0 }
    }

    /// Wakes the first batches behind a limiter that a person has resumed, whatever they wait for. Sweep wakes the
    /// rest.
    ///
    /// # Errors
    /// A port did not answer; a repeat, or the next sweep, goes on.
    pub async fn wake_behind(&mut self, scope: &Scope) -> Result<usize, Error> {
        let (mut waiting, later) = (Vec::new(), self.env.now().plus_ms(DAY_MS));
        for part in Part::all() {
            let part = if self.route.is_pulled() { part.pulled() } else { part };
            waiting.extend(self.store.unfinished(&self.route.name, Look::at(part, later, MOST_READ)).await?.all());
        }
        let is_behind = |batch: &Batch| match scope {
            Scope::Route(_) | Scope::Limit(_) => true,
            Scope::Target(target) => batch.target.whole() == *target,
        };
        self.wake(&waiting, |batch, _| is_behind(batch)).await
    }

    /// Wakes those of these batches that have a turn soon and come late for it. Returns how many.
    ///
    /// # Errors
    /// A port did not answer; the next sweep goes on.
    pub(super) async fn wake(
        &mut self,
        batches: &[BatchId],
        is_late: impl Fn(&Batch, Timestamp) -> bool + Send,
    ) -> Result<usize, Error> {
        let store = self.store;
        let reads = batches.iter().cloned().map(|id| async move { store.batch(&id).await }).collect::<Vec<_>>();
        let found: Vec<Option<Batch>> = stream::iter(reads).buffered(CONCURRENCY).try_collect().await?;
        let mut found: Vec<Batch> = found.into_iter().flatten().collect();
        found.sort_by_key(|batch| (back_at(batch), batch.ticket.map(|ticket| ticket.number)));
        let (now, mut woken) = (self.env.now(), 0);
        for batch in found {
            let turn = self.turn(&batch, now).await?.filter(|turn| *turn <= now.plus_ms(NEAR_MS));
            if let Some(turn) = turn.filter(|turn| is_late(&batch, *turn)) {
                woken += usize::from(self.send_anew(&batch, turn, now).await?);
            }
            if woken >= MOST_WOKEN {
                break;
            }
        }
        Ok(woken)
    }

    /// Returns how many batches it has come across since the last time that have a job under way.
    pub(super) fn take_under_way(&mut self) -> usize {
        std::mem::take(&mut self.under_way)
    }

    /// Returns when a batch would be admitted; `None`: a breaker or a person holds it back, or it does not wait.
    async fn turn(&mut self, batch: &Batch, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let (mut turn, target) = (now, batch.target.whole());
        if batch.under_way().is_some() {
            self.under_way += 1;
            return Ok(None);
        }
        if batch.woken(now).is_none() {
            return Ok(None);
        }
        for (scope, limits) in gates_of(self.route, batch) {
            let lease_until = now.plus_ms(self.route.lease_ms(PATIENCE_MS));
            let gate = match self.gates.remove(&scope) {
                Some(gate) => gate,
                None => self.store.gate(&scope).await?,
            };
            let asks = batch.asks(scope.of());
            let said = gate.holds_back(&target, now);
            let said = said.unwrap_or_else(|| gate.admit(&batch.id, asks, limits, now, lease_until));
            let (next, at) = match said {
                Admission::Admitted(next, start) => (next, Some(start)),
                Admission::Later { gate: next, at, .. } => (next, Some(at)),
                Admission::LinesUp { flow, behind } => {
                    let next = gate.with_ticket(flow, behind);
                    let tag = next.as_ref().and_then(|gate| gate.queue.flows.get(&flow)).map(|flow| flow.last);
                    let at = tag.and_then(|tag| gate.time_of(tag, limits, lease_until, now));
                    (next, Some(at.unwrap_or(now)))
                }
                Admission::Away { .. } => (None, None),
            };
            self.gates.insert(scope, next.unwrap_or(gate));
            let Some(at) = at else { return Ok(None) };
            turn = turn.max(at);
        }
        Ok(Some(turn))
    }

    async fn send_anew(&self, batch: &Batch, turn: Timestamp, now: Timestamp) -> Result<bool, Error> {
        let Some(woken) = batch.woken(turn) else { return Ok(false) };
        if self.store.store(&woken, Assumes::At(batch.revision)).await? == Stored::Conflict {
            return Ok(false);
        }
        if !woken.pulled {
            let ahead_ms = turn.since(now);
            let delay_ms = if ahead_ms > IN_PLACE_MS { turn_delay_ms(ahead_ms) } else { 0 };
            send_all(self.outbox, vec![Outgoing::handle(&Handle::about(&woken), delay_ms)]).await?;
        }
        Ok(true)
    }
}

/// Returns whether a batch comes back much later than its turn, and not because of a back-off after its own failure.
pub(super) fn oversleeps(route: &Route, batch: &Batch, turn: Timestamp, now: Timestamp) -> bool {
    let backs_off_ms = route.retry.backoff_ms(batch.attempts, None, 1.0);
    let backs_off = matches!(batch.status, Status::Paused { until } if until.since(now) <= backs_off_ms);
    !backs_off && back_at(batch) > turn.plus_ms(SOON_MS)
}

/// Returns when a batch that waits comes back by itself, at the latest.
fn back_at(batch: &Batch) -> Timestamp {
    if batch.pulled { batch.due } else { Timestamp(batch.due.0.saturating_sub(GRACE_MS)) }
}
