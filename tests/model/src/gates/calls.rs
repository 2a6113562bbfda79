//! What a call breaks, at the moment in which it begins.

use super::promises::Promise;
use super::setting::{Setting, number};
use super::world::{Asker, Began, World};
use crate::prelude::*;
use crate::steps::ports::CALL_MS;

impl World {
    /// A call begins.
    pub(super) fn call(&mut self, key: &BatchId, items: &[TaskId], asker: Asker<'_>) {
        let (now, n, of) = (self.now, number(key), asker.of);
        let Some(batch) = self.batches.get(usize::from(n)).cloned() else { return };
        let is_open = self.paused_until <= now || self.paused_at == now || asker.is_late;
        self.promise(is_open, Promise::PauseKept);
        let outlives = |is_late: bool| is_late && of.stall_ms >= of.lease_ms();
        if !outlives(asker.is_late) {
            let lasts = |call: &Began| call.at + CALL_MS > now && !outlives(call.is_late);
            let others = self.calls.iter().filter(|(key, calls)| number(key) != n && calls.iter().any(lasts));
            let others: Vec<u8> = others.map(|(key, _)| number(key)).collect();
            let target = |n: &u8| of.batches.get(usize::from(*n)).map(|arrival| arrival.target);
            let of_target = others.iter().filter(|other| target(other) == target(&n)).count();
            let fits = |places: Option<u8>, others: usize| places.is_none_or(|places| others < usize::from(places));
            self.promise(fits(of.places, others.len()) && fits(of.per_target, of_target), Promise::PlacesKept);
        }
        if !asker.is_late {
            let target = |n: u8| of.batches.get(usize::from(n)).map(|arrival| arrival.target);
            let gap_ms = |other: &BatchId| {
                let of_target = of.target_gap_ms.filter(|_| target(number(other)) == target(n));
                of.gap_ms.max(of_target).unwrap_or_default()
            };
            let is_far = |(other, call): (&BatchId, &Began)| call.is_late || now - call.at >= gap_ms(other);
            let mut calls = self.calls.iter().flat_map(|(other, calls)| calls.iter().map(move |call| (other, call)));
            self.promise(calls.all(is_far), Promise::GapKept);
        }
        self.promise(!self.overtakes(n, of), Promise::FirstComeFirst);
        if !asker.has_called {
            self.claims[usize::from(n)].0 += 1;
        }
        let calls = self.calls.entry(key.clone()).or_default();
        calls.push(Began { at: now, is_late: asker.is_late });
        let most = if items.len() == batch.members.len() { of.attempts } else { 1 };
        let is_allowed = calls.len() <= usize::from(most);
        self.promise(is_allowed || of.poison.is_none(), Promise::CalledAsAllowed);
    }

    /// Whether a batch is called before one of its Target that came before it.
    fn overtakes(&self, n: u8, of: &Setting) -> bool {
        let Some((_, came)) = self.arrived.iter().find(|(arrived, _)| *arrived == n) else { return false };
        let is_before = |(other, before): &&(u8, u64)| {
            let (own, its) = (of.batches[usize::from(n)].target, of.batches[usize::from(*other)].target);
            let by_places = of.places.is_none() && of.per_target.is_none() || came - before > of.overtakes_ms;
            own == its && by_places && !self.is_called(*other) && (self.disturbed | self.lost) & (1 << other) == 0
        };
        !self.is_called(n) && self.arrived.iter().take_while(|(other, _)| *other != n).any(|other| is_before(&other))
    }

    /// Whether a call of a batch was made.
    pub(super) fn is_called(&self, n: u8) -> bool {
        self.calls.keys().any(|key| number(key) == n)
    }
}
