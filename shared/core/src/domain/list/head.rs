//! Where tasks are taken: how many are, and who still owes what came of them.
//!
//! ```text
//!             Reserve                 every slot is fed on (or discarded)         Forget
//!  (nothing) ─────────▶ reservation ─────────────────────────────────▶ record ──────────▶ record
//!                       in the head        its slots are removed       of its own
//! ```
//!
//! A reservation is in the head from the very write that took its tokens, so the process that made it may die: sweep
//! finds it. When all of it is fed on, its [`Record`] says so, and only then the head forgets it. So a repeat of the
//! call finds one or the other, if it reads the head first.
//!
//! One repeat reads nothing: a request that was sent twice, because the first answer was lost, may be carried out long
//! after the reservation was forgotten. Hence [`Forgotten`], which refuses it. No clock is asked.
//!
//! Every write of the head pays for all of it, so nothing may pile up there: what the dead leave, the next call that
//! takes tasks works off in passing ([`Head::straggler`]), and not only sweep.

use std::collections::BTreeMap;

use super::{Forgotten, Life, Purpose, Reservation};
use crate::domain::id::Token;
use crate::domain::time::Timestamp;

/// The most reservations that are under way at once: it bounds the head's size, and so what a taking costs.
pub const MAX_RESERVATIONS: usize = 256;

/// This many may linger until sweep comes: a head that owes no more costs no more.
const FEW: usize = 4;

/// The item that everybody who takes tasks writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Head {
    /// Which list.
    pub life: Life,
    /// Tokens taken so far: the next taking begins with this one.
    pub taken: Token,
    /// Those of them that were discarded.
    pub discarded: u64,
    /// Whether the list is not open: nothing is released. Written together with the tail's state.
    pub is_closed: bool,
    /// What refuses late copies of takings whose reservation was forgotten.
    pub forgotten: Forgotten,
    /// What is under way, by the callers' keys.
    pub reservations: BTreeMap<String, Reservation>,
    /// When tokens were taken last.
    pub active_at: Timestamp,
    /// When sweep looks for reservations whose owner died; `None` if there were none when it looked last.
    pub due: Option<Timestamp>,
}

/// One conditional write of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Move {
    /// Take tokens.
    Reserve(Reserve),
    /// Forget a reservation whose record says that all of it is done.
    Forget {
        /// Whose.
        key: String,
        /// Its end.
        end: Token,
        /// Whether a higher end was forgotten before in the key's strand, as far as the writer knows: nothing is raised
        /// then.
        below: bool,
    },
    /// Sweep has looked.
    Look {
        /// When it was to look.
        was: Option<Timestamp>,
        /// How many reservations it saw.
        reservations: usize,
        /// When it looks next.
        due: Option<Timestamp>,
    },
}

/// A taking of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The caller's key.
    pub key: String,
    /// What for.
    pub purpose: Purpose,
    /// How many tokens.
    pub count: u64,
    /// When.
    pub at: Timestamp,
    /// The taking would pass the tail if more were taken already.
    pub most_taken: Token,
    /// Tokens taken when its maker looked, before it looked for the key's record.
    pub seen: Token,
}

impl Reserve {
    /// When sweep looks for it, if it looks for nothing earlier.
    pub fn due(&self) -> Timestamp {
        Reservation::due_of(self.at, self.count)
    }
}

impl Head {
    /// The head of a new list.
    pub fn open(life: Life) -> Self {
        let active_at = life.opened_at;
        let (taken, forgotten) = (Token(0), Forgotten::default());
        let reservations = BTreeMap::new();
        Self { life, taken, discarded: 0, is_closed: false, forgotten, reservations, active_at, due: None }
    }

    /// A reservation that a call for other tasks works off in passing, since more linger than a few: their owners died,
    /// and each makes every write of the head larger. `pick`, from 0 to 1, chooses one, so that not everybody takes the
    /// same.
    pub fn straggler(&self, now: Timestamp, pick: f64) -> Option<&str> {
        let lingering = self.reservations.iter().filter(|(_, found)| found.lingers(now));
        let lingering: Vec<&String> = lingering.map(|(key, _)| key).collect();
        if lingering.len() <= FEW {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below the length")]
        let chosen = (pick * lingering.len() as f64) as usize;
        lingering.get(chosen).map(|key| key.as_str())
    }

    /// The write that forgets a reservation all of which is done; `None` if there is none under this key.
    pub fn forgetting(&self, key: &str) -> Option<Move> {
        let end = self.reservations.get(key)?.end();
        Some(Move::Forget { key: key.to_owned(), end, below: self.forgotten.end(key) >= end })
    }

    /// The write that says when sweep looks next.
    pub fn looking(&self) -> Move {
        let due = self.reservations.values().map(Reservation::due).min();
        Move::Look { was: self.due, reservations: self.reservations.len(), due }
    }

    /// Whether this head shows that just this write was made: its answer was lost, or it was not needed any more.
    pub fn shows(&self, made: &Move) -> bool {
        match made {
            Move::Reserve(Reserve { key, purpose, count, at, .. }) => self
                .reservations
                .get(key)
                .is_some_and(|found| (found.purpose, found.count, found.at) == (*purpose, *count, *at)),
            Move::Forget { key, .. } => !self.reservations.contains_key(key),
            Move::Look { reservations, due, .. } => self.due == *due && self.reservations.len() == *reservations,
        }
    }

    /// This head after a write, or `None` if the write assumes another.
    pub fn after(&self, next: &Move) -> Option<Self> {
        let mut head = self.clone();
        match next {
            Move::Reserve(reserve) => {
                let Reserve { key, purpose, count, at, most_taken, seen } = reserve;
                let may = (!self.is_closed || purpose.is_discard())
                    && !self.reservations.contains_key(key)
                    && self.taken <= *most_taken
                    && self.forgotten.end(key) <= *seen
                    && self.reservations.len() < MAX_RESERVATIONS;
                if !may {
                    return None;
                }
                let reservation = Reservation { start: self.taken, count: *count, purpose: *purpose, at: *at };
                head.reservations.insert(key.clone(), reservation);
                head.taken = reservation.end();
                head.discarded += if purpose.is_discard() { *count } else { 0 };
                head.active_at = *at;
                head.due = self.due.or(Some(reserve.due()));
            }
            Move::Forget { key, end, below } => {
                if *below != (self.forgotten.end(key) >= *end) {
                    return None;
                }
                head.reservations.remove(key)?;
                head.forgotten.raise(key, *end);
            }
            Move::Look { was, reservations, due } => {
                if self.due != *was || self.reservations.len() != *reservations {
                    return None;
                }
                head.due = *due;
            }
        }
        Some(head)
    }
}

#[cfg(test)]
mod tests;
