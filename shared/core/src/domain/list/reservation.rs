//! Ranges of tokens that were taken, and how far each is worked off.

use crate::domain::id::Token;
use crate::domain::time::Timestamp;

/// A reservation of this many tasks at most is worked off in passing: it is one page.
const SMALL: u64 = 100;

/// And only when it is under way for longer than this, in milliseconds: its owner mostly needs a tenth.
const SLOW_MS: u64 = 500;

/// A range of tokens that somebody took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The first token.
    pub start: Token,
    /// How many.
    pub count: u64,
    /// What becomes of the tasks.
    pub purpose: Purpose,
    /// When.
    pub at: Timestamp,
}

/// What becomes of tasks that are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// They are fed into the pipeline.
    Release {
        /// How many the caller asked for; fewer may have waited.
        asked: u64,
    },
    /// They are removed, and the items that they carry fail.
    Discard,
}

/// How far a reservation is, in an item of its own. It outlives the reservation by the stack's retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The caller's key.
    pub key: String,
    /// What was taken.
    pub reservation: Reservation,
    /// All tokens below are on their way, or discarded; their slots may be removed.
    pub done: Token,
}

impl Purpose {
    /// Whether it takes from a list that is not open.
    pub const fn is_discard(self) -> bool {
        match self {
            Self::Release { .. } => false,
            Self::Discard => true,
        }
    }
}

impl Reservation {
    /// The token after the last.
    pub const fn end(&self) -> Token {
        self.start.plus(self.count)
    }

    /// Until when its owner is left alone: longer for more tasks, up to a minute. Feeding it on beside its owner does
    /// no harm; it only costs twice.
    pub fn due(&self) -> Timestamp {
        Self::due_of(self.at, self.count)
    }

    pub(super) fn due_of(at: Timestamp, count: u64) -> Timestamp {
        at.plus_ms(count.saturating_mul(5).saturating_add(10_000).min(60_000))
    }

    /// Whether it lingers: its owner is slow, or died, and the next call that takes tasks can work it off in passing.
    pub const fn lingers(&self, now: Timestamp) -> bool {
        self.count <= SMALL && now.since(self.at) > SLOW_MS
    }
}

impl Record {
    /// A record of which nothing is done yet.
    pub fn of(key: &str, reservation: Reservation) -> Self {
        Self { key: key.to_owned(), reservation, done: reservation.start }
    }

    /// Whether all of it is done.
    pub fn is_done(&self) -> bool {
        self.done >= self.reservation.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(count: u64) -> Reservation {
        Reservation { start: Token(7), count, purpose: Purpose::Discard, at: Timestamp(1_000) }
    }

    #[test]
    fn only_a_small_reservation_whose_owner_is_slow_lingers() {
        for (count, now, lingers) in
            [(100, 1_501, true), (100, 1_500, false), (101, 1_501, false), (101, 1_500, false), (1, 9_000, true)]
        {
            assert_eq!(reservation(count).lingers(Timestamp(now)), lingers, "{count} at {now}");
        }
    }

    #[test]
    fn an_owner_is_left_alone_for_longer_the_more_it_took_and_for_a_minute_at_most() {
        let left_alone = |count| reservation(count).due().since(Timestamp(1_000));
        assert_eq!([0, 200, 10_000, u64::MAX].map(left_alone), [10_000, 11_000, 60_000, 60_000]);
    }

    #[test]
    fn a_record_is_done_once_its_last_token_is() {
        let record = Record::of("k", reservation(2));
        let done = |to| Record { done: Token(to), ..record.clone() }.is_done();
        assert_eq!((record.done, record.is_done()), (Token(7), false));
        assert_eq!([8, 9, 10].map(done), [false, true, true]);
    }
}
