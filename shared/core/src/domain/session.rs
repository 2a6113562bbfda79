//! Sessions: how it is known that a worker is dead, after Andrew Werner, "Quick and Easy, Exactly-Once, Distributed
//! Work Queues Using Serializable Transactions".
//!
//! ```text
//!                 renewed: beat + 1, expiry moved on
//!              ┌──────────────────┐
//!   opened     ▼                  │            clean shutdown
//!  ────────▶ live ────────────────┘ ──────────────────────────────▶ gone
//!              │                                                     ▲
//!              └─▶ expired ── ended by the process that finds it, if its beat ┘
//!                             is still the one that was seen
//! ```
//!
//! A worker has one session for everything it has claimed; one heartbeat keeps all of it. The session names its claims
//! *before* they are made, so the process that finds it dead knows what to free. A session that is gone never comes
//! back: a renewal assumes the beat before it.
//!
//! Sessions compare clocks and decide only *when* a batch is taken over. That nothing goes wrong if two workers believe
//! to have claimed it rests on the batch's revision: taking over rewrites the batch, so the outcome that the first
//! holder would record, conditional on the revision of its own claim, is refused.

use super::id::{BatchId, Beat, SessionId};
use super::time::Timestamp;

/// How often a session is renewed, and how long it lives without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Milliseconds between two heartbeats.
    pub heartbeat_ms: u64,
    /// Milliseconds from the start of a renewal to the session's expiry.
    pub expiry_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { heartbeat_ms: 1_000, expiry_ms: 5_000 }
    }
}

impl Timing {
    /// How long a worker may go on after the *start* of its last successful renewal, in milliseconds. It stops before
    /// others may take over: a tenth of the expiry is left for clocks that differ and for a write that is under way.
    pub const fn trust_ms(&self) -> u64 {
        self.expiry_ms - self.expiry_ms / 10
    }
}

/// A session as its table holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Rises with every renewal.
    pub beat: Beat,
    /// When others may end it.
    pub expires_at: Timestamp,
    /// Batches that it has claimed, or is about to.
    pub claims: Vec<BatchId>,
    /// Who it is, for people.
    pub worker: String,
}

/// What a session's state means for a process that wants what it has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It is gone: take over.
    Gone,
    /// It is over: end it at this beat, then take over.
    Expired(Beat),
    /// It lives: look again at this time.
    Lives(Timestamp),
}

impl Holder {
    /// Judges what was found of a session.
    pub fn of(found: Option<&Session>, now: Timestamp) -> Self {
        match found {
            None => Self::Gone,
            Some(session) if session.expires_at > now => Self::Lives(session.expires_at),
            Some(session) => Self::Expired(session.beat),
        }
    }
}

impl Session {
    /// A new session.
    pub const fn open(id: SessionId, worker: String, claims: Vec<BatchId>, now: Timestamp, timing: Timing) -> Self {
        Self { id, beat: Beat(1), expires_at: now.plus_ms(timing.expiry_ms), claims, worker }
    }

    /// This session, renewed by a renewal that starts `now`, with these claims.
    #[must_use]
    pub fn renewed(&self, claims: Vec<BatchId>, now: Timestamp, timing: Timing) -> Self {
        Self { beat: self.beat.next(), expires_at: now.plus_ms(timing.expiry_ms), claims, ..self.clone() }
    }
}

/// The share of `all` that falls to `me` when `sessions` divide it among themselves.
///
/// Neighbouring shares, by the order of the ids, as equal as they can be: everybody who sees the same sessions divides
/// alike, without a word to each other. While they see different ones, two may work on one share, which costs a refused
/// write and no more. With more sessions than shares some have to share one.
pub fn share<T: Copy>(all: &[T], sessions: &[SessionId], me: &SessionId) -> Vec<T> {
    let mut ids: Vec<&SessionId> = sessions.iter().chain([me]).collect();
    ids.sort();
    ids.dedup();
    let position = ids.iter().position(|id| *id == me).unwrap_or_default();
    if ids.len() >= all.len() {
        return all.iter().copied().cycle().nth(position).into_iter().collect();
    }
    let (from, to) = (position * all.len() / ids.len(), (position + 1) * all.len() / ids.len());
    all.get(from..to).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: usize) -> SessionId {
        SessionId::new(format!("r/{n:03}"))
    }

    #[test]
    fn a_worker_stops_before_others_may_take_over() {
        let timing = Timing::default();
        let session = Session::open(id(1), String::new(), Vec::new(), Timestamp(0), timing);
        assert!(Timestamp(timing.trust_ms()) < session.expires_at);
        assert_eq!(Holder::of(Some(&session), Timestamp(timing.trust_ms())), Holder::Lives(session.expires_at));
        assert_eq!(Holder::of(Some(&session), session.expires_at), Holder::Expired(Beat(1)));
        assert_eq!(Holder::of(None, Timestamp(0)), Holder::Gone);
    }

    #[test]
    fn a_renewal_counts_on_and_moves_the_expiry_from_its_start() {
        let timing = Timing { heartbeat_ms: 100, expiry_ms: 500 };
        let session = Session::open(id(1), "w".to_owned(), Vec::new(), Timestamp(0), timing);
        let renewed = session.renewed(vec![BatchId::new("b")], Timestamp(200), timing);
        assert_eq!((renewed.beat, renewed.expires_at), (Beat(2), Timestamp(700)));
        assert_eq!((&renewed.id, &renewed.claims), (&session.id, &vec![BatchId::new("b")]));
    }

    #[test]
    fn a_tenth_of_the_expiry_is_left_to_clocks_that_differ() {
        assert_eq!(Timing { heartbeat_ms: 1, expiry_ms: 5_000 }.trust_ms(), 4_500);
    }

    proptest! {
        #[test]
        fn shares_cover_everything_and_overlap_only_when_there_are_too_few(count in 1_usize..40, all in 1_usize..20) {
            let sessions: Vec<_> = (0..count).map(id).collect();
            let parts: Vec<usize> = (0..all).collect();
            let mut covered: Vec<usize> = sessions.iter().flat_map(|me| share(&parts, &sessions, me)).collect();
            prop_assert!(sessions.iter().all(|me| !share(&parts, &sessions, me).is_empty()));
            if count <= all {
                prop_assert_eq!(&covered, &parts);
            }
            covered.sort_unstable();
            covered.dedup();
            prop_assert_eq!(covered, parts);
        }
    }
}
