//! What a sight of a gate, a moment ago, says of a batch's turn: how long it has to wait, and never that it may go.

use super::{Admission, Asks, Gate, IN_PLACE_MS, Limits};
use crate::domain::id::BatchId;
use crate::domain::time::Timestamp;

/// What a sight says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foretold {
    /// Nothing: the batch is to look.
    Nothing,
    /// All batches go on to the next gate.
    AllPass,
    /// It goes to the end of this stretch of the line, which it may do without a look.
    LinesUp(Option<u64>),
    /// It waits with its ticket until then; a time that is past says that it may be its turn.
    Waits {
        /// The ticket.
        number: u64,
        /// Until when.
        until: Timestamp,
    },
}

/// Who asks what a gate said that was seen then.
#[derive(Clone, Copy, Debug)]
pub struct Recalls<'a> {
    /// Which batch.
    pub batch: &'a BatchId,
    /// Whether it has no ticket, of no gate, and nobody has claimed it, and so taken a place for it.
    pub is_new: bool,
    /// How it asks here.
    pub asks: Asks,
    /// How long its place would last, in milliseconds.
    pub lease_ms: u64,
    /// When the gate was seen.
    pub seen_at: Timestamp,
    /// When the oldest of its gates was seen so far.
    pub since: Timestamp,
}

/// A sight says this much longer how it stands at a gate, in milliseconds, or for as long as a call takes. An older one
/// says only of times that are as far ahead as it is old.
const FRESH_MS: u64 = 3_000;

impl Gate {
    /// What this gate, as it was seen, says to a batch now. One that is closed is to be looked at: it may be open by
    /// now.
    #[must_use]
    pub fn foretells(&self, who: &Recalls<'_>, limits: Limits, now: Timestamp) -> Foretold {
        let Recalls { batch, is_new, asks, lease_ms, seen_at, since } = *who;
        if !self.is_open(seen_at) {
            return Foretold::Nothing;
        }
        let age_ms = now.since(since);
        let is_fresh = age_ms <= self.ends.held_ms(lease_ms).unwrap_or_default().max(FRESH_MS);
        // What it said then: the places that it had then are other batches' by now.
        match (self.admit(batch, asks, limits, seen_at, seen_at.plus_ms(lease_ms)), asks) {
            (Admission::Admitted(None, _), _) if limits == Limits::default() => Foretold::AllPass,
            // A ticket that the gate did not know yet is none that is lost.
            (Admission::LinesUp { stretch }, _) if age_ms <= FRESH_MS && is_new => Foretold::LinesUp(stretch),
            (Admission::Later { gate: None, ticket: Some(number), at: until }, _) => {
                let ahead_ms = until.since(now);
                let is_far = ahead_ms > IN_PLACE_MS && ahead_ms >= age_ms;
                if is_fresh || is_far { Foretold::Waits { number, until } } else { Foretold::Nothing }
            }
            (Admission::Admitted(Some(_), _), Asks::With(number)) if is_fresh => Foretold::Waits { number, until: now },
            _ => Foretold::Nothing,
        }
    }
}
