//! A place that a batch takes without another look, once it is free.
//!
//! A bid changes the places and the turn, and nothing else of the gate: so it needs not to know the rest. What follows
//! for the others (when their places are expected, which calls are long ago) is written by one in some of those that
//! have won, if nobody has written the gate since.

use super::share::Found;
use super::{Gate, Limits};
use crate::domain::id::{BatchId, SessionId};
use crate::domain::time::Timestamp;

/// What a batch with a ticket bids for: a place in its turn, whatever is written until then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bid {
    /// Which batch.
    pub batch: BatchId,
    /// By which session: another delivery of the batch may bid, too.
    pub by: SessionId,
    /// Its place in the line.
    pub slot: u64,
    /// Whether it goes right behind the one that went last; else later ones have gone before it.
    pub is_next: bool,
    /// How many places there are.
    pub places: usize,
}

/// One bid in this number has the rest of the gate written at least,
const WHOLE_EVERY: u64 = 16;
/// and each after which the line is wrong by more than this, in milliseconds.
const MOST_WRONG_MS: u64 = 1_000;

impl Bid {
    /// What a gate says of the write that made it.
    #[must_use]
    pub fn signature(&self) -> String {
        Gate::signature(self.batch.as_str(), &self.by)
    }

    /// Whether it has its turn at this gate: all before it have gone, or it was passed by.
    pub(super) const fn has_turn(&self, gate: &Gate) -> bool {
        if self.is_next { gate.turn == self.slot } else { gate.turn > self.slot }
    }

    /// Whether this is how it left the gate, with a place until `lease`.
    #[must_use]
    pub fn is_won(&self, gate: &Gate, lease: Timestamp) -> bool {
        gate.in_flight.get(&self.batch) == Some(&lease) && gate.latest.as_ref() == Some(&self.signature())
    }
}

impl Gate {
    /// What a batch with this ticket may bid for here. `None` where more counts than whether a place is free (a rate, a
    /// limit that adapts, slots that may move).
    #[must_use]
    pub fn bid(&self, (batch, by): (&BatchId, &SessionId), number: u64, limits: Limits) -> Option<Bid> {
        let Limits { in_flight, least, gap_ms, share } = limits;
        let places = in_flight.filter(|_| least.is_none() && gap_ms.is_none() && share.is_none())?;
        let Found::At(slot) = self.shares.find(number, self.line.next) else { return None };
        let bids = slot < self.line.next && self.shares.is_empty() && !self.counts(batch);
        bids.then(|| Bid { batch: batch.clone(), by: by.clone(), slot, is_next: self.turn <= slot, places })
    }

    /// This gate with the place that is bid for, until `lease`, or `None` if none is free, or it is not its turn, or
    /// calls wait for another reason.
    #[must_use]
    pub fn with_bid(&self, bid: &Bid, lease: Timestamp, now: Timestamp) -> Option<Self> {
        let is_free = self.in_flight.len() < bid.places && !self.counts(&bid.batch);
        if !(self.is_open(now) && is_free && bid.has_turn(self)) {
            return None;
        }
        let mut next = Self { revision: self.revision.next(), latest: Some(bid.signature()), ..self.clone() };
        next.in_flight.insert(bid.batch.clone(), lease);
        next.turn = next.turn.max(bid.slot + 1);
        Some(next)
    }

    /// This gate with all that follows from a bid that was just won, with a place until `lease`, or `None` if that may
    /// wait.
    #[must_use]
    pub fn up_to_date(&self, bid: &Bid, lease: Timestamp, now: Timestamp) -> Option<Self> {
        let mut next = self.written_for(&bid.batch);
        next.keep_pace(Limits { in_flight: Some(bid.places), ..Limits::default() }, lease, now);
        next.follow(bid.slot, (bid.places, 0), now, lease);
        let wrong_ms = next.line.next_at.0.abs_diff(self.line.next_at.0);
        (bid.slot.is_multiple_of(WHOLE_EVERY) || wrong_ms > MOST_WRONG_MS).then_some(next)
    }
}
