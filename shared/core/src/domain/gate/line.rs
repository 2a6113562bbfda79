//! The line of those that wait at a gate: numbered tickets, each with a time that follows from the line alone.
//!
//! However many wait, the line has the same few fields. The times of consecutive tickets lie one gap apart. A *shift*
//! says that tickets from a number on come later than that; earlier ones keep their time. So one write moves all that
//! wait behind a pause, or makes room for a batch that missed its time.

use super::IN_PLACE_MS;
use crate::domain::time::Timestamp;

/// Tickets and their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The number of the next ticket: this many were handed out.
    pub next: u64,
    /// The time of the next ticket. All call times before this one are taken.
    pub next_at: Timestamp,
    /// Milliseconds from one ticket's time to that of the next.
    pub gap_ms: u64,
    /// The times of tickets before this one are past.
    pub from: u64,
    /// From which tickets on all come later than those before them would have it, in the order of the tickets.
    pub shifts: Vec<Shift>,
}

/// A gap in the line that is longer than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The first ticket behind it.
    pub from: u64,
    /// How much longer it is, in milliseconds.
    pub by_ms: u64,
}

/// What became of a batch that wants a time between the tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It has this time, and the tickets behind it come one gap later.
    At(Timestamp),
    /// Others have taken all times near enough; there may be one by then.
    NotBefore(Timestamp),
    /// No ticket waits: it takes the next one.
    Behind,
}

/// How far the clocks of two workers may differ, in milliseconds.
const SKEW_MS: u64 = 1_000;
/// A time that is put between the tickets lies so far ahead, in milliseconds: far beyond those that are waited for in
/// place, also by another worker's clock.
pub const INSERT_AHEAD_MS: u64 = 2 * IN_PLACE_MS;
/// And at most so far.
const INSERT_MOST_MS: u64 = INSERT_AHEAD_MS + SKEW_MS;
/// Times that lie further ahead were given to no batch that has no ticket, and are waited for in place by none, in
/// milliseconds; by another worker's clock, either.
pub const SETTLED_MS: u64 = INSERT_MOST_MS + SKEW_MS;
/// Shifts that a line remembers at most. A shift is past after some seconds, except one that nobody is behind.
const MOST_SHIFTS: usize = 4;

impl Line {
    /// Whether the next ticket's time is too far ahead to wait for it in place.
    #[must_use]
    pub fn is_busy(&self, now: Timestamp) -> bool {
        self.next_at.since(now) > IN_PLACE_MS
    }

    /// The time of a ticket, or `None` if it is past or was never handed out.
    #[must_use]
    pub fn time(&self, ticket: u64) -> Option<Timestamp> {
        (self.from..self.next).contains(&ticket).then(|| self.at(ticket))
    }

    /// The time of a ticket as far as the line still knows it: too late for one whose shifts are forgotten.
    #[must_use]
    pub fn at(&self, ticket: u64) -> Timestamp {
        let behind: u64 = self.shifts.iter().filter(|shift| shift.from > ticket).map(|shift| shift.by_ms).sum();
        let gaps = self.gap_ms.saturating_mul(self.next.saturating_sub(ticket));
        Timestamp(self.next_at.0.saturating_sub(gaps.saturating_add(behind)))
    }

    /// The first ticket whose time is not before `at`; the next one to be handed out if there is none.
    #[must_use]
    pub fn first_at(&self, at: Timestamp) -> u64 {
        let (mut low, mut high) = (self.from.min(self.next), self.next);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(middle) < at { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Hands out the next ticket, for a time that is not before `at`.
    pub fn take(&mut self, at: Timestamp, now: Timestamp) -> (u64, Timestamp) {
        if self.next_at <= now {
            // All earlier times are past. The first number is that of the time, so that tickets of a line that was
            // forgotten are none of this one.
            self.next = if self.next == 0 { now.0 } else { self.next };
            self.from = self.next;
            self.shifts.clear();
            self.next_at = now;
        }
        let ticket = self.next;
        self.delay_from(ticket, at.since(self.next_at));
        let at = self.next_at;
        self.next += 1;
        self.next_at = at.plus_ms(self.gap_ms);
        (ticket, at)
    }

    /// Makes tickets from `ticket` on come so much later.
    pub fn delay_from(&mut self, ticket: u64, by_ms: u64) {
        if by_ms == 0 {
            return;
        }
        self.next_at = self.next_at.plus_ms(by_ms);
        let place = self.shifts.partition_point(|shift| shift.from < ticket);
        match self.shifts.get_mut(place).filter(|shift| shift.from == ticket) {
            Some(shift) => shift.by_ms += by_ms,
            None => self.shifts.insert(place, Shift { from: ticket, by_ms }),
        }
        while self.shifts.len() > MOST_SHIFTS {
            self.from = self.from.max(self.shifts.remove(0).from);
        }
    }

    /// A time between the tickets for a batch that missed its own. No ticket is moved that somebody may wait for in
    /// place.
    pub fn insert(&mut self, now: Timestamp) -> Inserted {
        let safe = now.plus_ms(IN_PLACE_MS + SKEW_MS);
        let last = self.shifts.last().map(|shift| shift.from).filter(|from| *from < self.next && self.at(*from) > safe);
        let ticket = last.unwrap_or_else(|| self.first_at(now.plus_ms(INSERT_AHEAD_MS)));
        if ticket >= self.next {
            return Inserted::Behind;
        }
        let at = self.at(ticket);
        // A shift that were forgotten for this one would take the time of tickets that still have one.
        let is_crowded = last.is_none() && self.shifts.len() >= MOST_SHIFTS;
        if at.since(now) > INSERT_MOST_MS.max(INSERT_AHEAD_MS + self.gap_ms) || is_crowded {
            return Inserted::NotBefore(now.plus_ms(INSERT_AHEAD_MS));
        }
        self.delay_from(ticket, self.gap_ms);
        Inserted::At(at)
    }

    /// Begins anew: `ticket` comes one gap from now, and all others follow from that.
    pub fn begin(&mut self, ticket: u64, now: Timestamp, gap_ms: u64) {
        self.shifts.clear();
        self.gap_ms = gap_ms;
        self.next_at = now.plus_ms(gap_ms.saturating_mul(self.next.saturating_sub(ticket) + 1));
    }

    /// Forgets what is past.
    pub fn forget_past(&mut self, now: Timestamp) {
        while let Some(shift) = self.shifts.first().copied().filter(|shift| self.at(shift.from) <= now) {
            self.from = self.from.max(shift.from);
            self.shifts.remove(0);
        }
    }

    /// Nobody comes before `until`. Tickets that come soon keep their time: if that is in the pause, they miss it.
    pub fn pause(&mut self, until: Timestamp, now: Timestamp) {
        let first = self.first_at(now.plus_ms(SETTLED_MS));
        self.delay_from(first, until.since(self.at(first)));
    }

    /// Takes back all tickets whose times nobody waits for in place: those that have one get another.
    pub fn cut(&mut self, now: Timestamp) {
        self.next_at = self.at(self.first_at(now.plus_ms(INSERT_AHEAD_MS)));
        self.from = self.next;
        self.shifts.clear();
    }

    /// From here on tickets are so far apart. Those that come soon keep about their time; the first one of the others,
    /// which is returned, keeps it exactly.
    pub fn set_gap(&mut self, gap_ms: u64, now: Timestamp) -> u64 {
        let first = self.first_at(now.plus_ms(SETTLED_MS));
        let at = self.at(first);
        self.shifts.retain(|shift| shift.from > first);
        let behind: u64 = self.shifts.iter().map(|shift| shift.by_ms).sum();
        self.next_at = at.plus_ms((self.next - first).saturating_mul(gap_ms).saturating_add(behind));
        self.gap_ms = gap_ms;
        first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(tickets: u64, gap_ms: u64, at: u64) -> Line {
        let mut line = Line { gap_ms, ..Line::default() };
        (0..tickets).for_each(|_| _ = line.take(Timestamp(at), Timestamp(at)));
        line
    }

    #[test]
    fn a_time_is_put_between_tickets_and_those_before_it_keep_theirs() {
        let mut line = line(100, 100, 1_000);
        let tickets = line.from..line.next;
        let before: Vec<_> = tickets.clone().map(|ticket| (ticket, line.at(ticket))).collect();
        let Inserted::At(at) = line.insert(Timestamp(1_000)) else { panic!("there is room") };
        assert!(at.since(Timestamp(1_000)) >= INSERT_AHEAD_MS);
        for (ticket, before) in before {
            let moved = if before < at { before } else { before.plus_ms(100) };
            assert_eq!(line.at(ticket), moved, "{ticket}");
        }
    }

    #[test]
    fn a_line_that_nobody_waits_in_has_no_place_between() {
        assert_eq!(line(5, 100, 1_000).insert(Timestamp(9_000)), Inserted::Behind);
    }

    proptest! {
        #[test]
        fn tickets_keep_their_order_and_distance_whatever_is_put_between_them(
            inserts in proptest::collection::vec((0_u64..2_000, 0_u64..30_000), 0..40), gap_ms in 1_u64..1_000,
        ) {
            let mut line = line(200, gap_ms, 1_000);
            let (mut now, mut inserted) = (Timestamp(1_000), Vec::new());
            for (wait, pause) in inserts {
                now = now.plus_ms(wait);
                line.forget_past(now);
                if pause > 29_000 {
                    line.pause(now.plus_ms(10 * (pause - 29_000)), now);
                    inserted.retain(|at| *at >= now.plus_ms(10 * (pause - 29_000)));
                } else if let Inserted::At(at) = line.insert(now) {
                    prop_assert!(at.since(now) >= IN_PLACE_MS);
                    inserted.push(at);
                }
                prop_assert!(line.shifts.len() <= MOST_SHIFTS);
                let times: Vec<_> = (line.from..line.next).map(|ticket| line.at(ticket)).collect();
                prop_assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= gap_ms));
                for at in inserted.iter().filter(|at| **at > now) {
                    prop_assert!(times.iter().all(|time| time.0.abs_diff(at.0) >= gap_ms), "{times:?} {at:?}");
                }
            }
        }
    }
}
