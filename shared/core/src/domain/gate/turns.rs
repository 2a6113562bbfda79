//! How tickets are handed out: at the end of the line or, where Targets share it, behind the others of the Target.

use super::admission::{Admission, Turn};
use super::line::{INSERT_AHEAD_MS, SETTLED_MS};
use super::share::Found;
use super::{Gate, Limits, Shares};
use crate::domain::time::Timestamp;

impl Gate {
    /// For a new ticket of a line that stays what it is, no gate has to be written as a whole.
    pub(super) fn or_lines_up(&self, later: Admission, turn: Turn, limits: Limits, now: Timestamp) -> Admission {
        let Turn::New = turn else { return later };
        let Admission::Later { gate: Some(next), ticket: Some(number), .. } = &later else { return later };
        // Those that see an older line must disturb nobody, either.
        let open = self.line.first_at(now.plus_ms(SETTLED_MS));
        let stretch = match limits.share {
            None => None,
            Some(share) => match self.shares.following(share, self.line.next, open) {
                None => return later,
                stretch => stretch,
            },
        };
        let is_next = |taken: &Self| {
            let line = |gate: &Self| (gate.line.gap_ms, gate.line.next_at);
            line(taken) == line(next) && taken.last_ticket(stretch).is_some_and(|(last, _)| last == *number)
        };
        if self.with_ticket(stretch, now).is_some_and(|taken| is_next(&taken)) {
            return Admission::LinesUp { stretch };
        }
        later
    }

    /// This gate with one ticket more at the end of that stretch, or of the line, if those that wait keep it busy.
    #[must_use]
    pub fn with_ticket(&self, stretch: Option<u64>, now: Timestamp) -> Option<Self> {
        if self.line.gap_ms == 0 || !self.line.is_busy(now) {
            return None;
        }
        let mut next = Self { revision: self.revision.next(), ..self.clone() };
        next.line.next += 1;
        next.line.next_at = next.line.next_at.plus_ms(next.line.gap_ms);
        if let Some(stretch) = stretch {
            next.shares.add(stretch)?;
        }
        Some(next)
    }

    /// The ticket that was handed out last at the end of that stretch, or of the line, and its time; `None` if there is
    /// no such stretch.
    #[must_use]
    pub fn last_ticket(&self, stretch: Option<u64>) -> Option<(u64, Timestamp)> {
        let Some(id) = stretch else {
            let slot = self.line.next.saturating_sub(1);
            return Some((slot, self.line.at(slot)));
        };
        let number = id + self.shares.0.get(&id)?.tickets.checked_sub(1)?;
        Some((number, self.time_of(number)))
    }

    /// Forgets the stretches that are past; all of them, if Targets no longer share.
    pub(super) fn keep_shares(&mut self, limits: Limits, now: Timestamp) {
        if self.shares.is_empty() {
            return;
        }
        if limits.share.is_none() {
            self.shares = Shares::default();
            self.line.cut(now);
            self.turn = self.turn.max(self.line.next);
            return;
        }
        let first = if limits.in_flight.is_some() { self.turn } else { self.line.first_at(now) };
        self.shares.forget(self.line.next, first);
    }

    /// The slot of the next new ticket.
    pub(super) fn next_slot(&self, limits: Limits, now: Timestamp) -> u64 {
        match limits.share {
            Some(share) => self.shares.next_slot(share, self.line.next, self.first_open(limits, now)),
            None => self.line.next,
        }
    }

    /// The first slot that another Target may have: one that nobody waits for in place, since that is a call's time. Of
    /// places the times are estimates, and those whose time has come look at the gate again.
    fn first_open(&self, limits: Limits, now: Timestamp) -> u64 {
        match limits.in_flight {
            Some(_) => self.line.first_at(now).max(self.turn).min(self.line.next),
            None => self.line.first_at(now.plus_ms(INSERT_AHEAD_MS)),
        }
    }

    /// Hands out the next ticket, for a time that is not before `not_before`.
    pub(super) fn take_turn(&mut self, limits: Limits, not_before: Timestamp, now: Timestamp) -> (u64, Timestamp) {
        let (slot, at) = self.line.take(not_before, now);
        if slot == self.line.from {
            // The line begins anew.
            self.turn = self.turn.max(slot);
        }
        let Some(share) = limits.share else { return (slot, at) };
        let open = self.first_open(limits, now);
        let number = self.shares.take(share, slot, open);
        (number, self.time_of(number))
    }

    /// The time of a ticket, or `None` if it is past or was never handed out.
    #[must_use]
    pub fn time(&self, number: u64) -> Option<Timestamp> {
        match self.shares.find(number, self.line.next) {
            Found::At(slot) => self.line.time(slot),
            Found::Past | Found::Nowhere => None,
        }
    }

    fn time_of(&self, number: u64) -> Timestamp {
        self.time(number).unwrap_or(self.line.next_at)
    }
}
