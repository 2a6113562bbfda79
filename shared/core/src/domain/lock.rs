//! The leader election of one Target, after Sun and Xin, "Group-batching Algorithm for High-throughput Network
//! Requests", section 3.3, with a lease, a fence and signals added.
//!
//! ```text
//!             acquire                    advance (next batch, lease renewed)
//!   ┌──────┐ ───────────────▶ ┌────────┐ ──┐
//!   │ free │                  │  held  │ ◀─┘   signal: "look again" (losers)
//!   └──────┘ ◀─────────────── └────────┘
//!             release, if no         │ lease over: the next workflow takes over,
//!             signal came            ▼ and first finishes the open batch it finds
//! ```
//!
//! A Target may have several shards, each with a lock of its own, but the lock of its home comes first: a workflow that
//! finds it free takes it and gathers from all shards. Only if the home's leader [needs help](Lock::needs_help) does a
//! shard get a leader of its own, who makes full batches and leaves the rest to the home's. So a quiet Target has one
//! leader, and its batches are as full as without shards.
//!
//! A term is a *value*: (Target, workflow, fence). Each write of a leader is conditional on its fence, so one that was
//! paused past its lease and wakes up can change nothing. Leases compare clocks and only decide *when* somebody takes
//! over; that nothing goes wrong if two believe they lead rests on the fence and on each batch's revision.

use serde::{Deserialize, Serialize};

use super::id::{BatchId, Fence, Seq, Target, WorkflowId};
use super::time::Timestamp;

/// The lock of one Target as its table holds it. Released by removing the holder, not the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Who holds it.
    pub holder: Option<Holder>,
    /// The fence of the present or last holder.
    pub fence: Fence,
    /// The number of the holder's latest batch.
    pub seq: Seq,
    /// How often losers have asked the holder to look again, ever.
    pub signals: u64,
    /// The batch in the making, present from before its item is written until after it is handed on.
    pub open: Option<BatchId>,
}

/// A workflow that holds a lock, and until when others leave it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The workflow.
    pub workflow: WorkflowId,
    /// Since when the first of its tasks had waited when it asked for the lock.
    pub waits_since: Timestamp,
    /// When others may take over.
    pub lease_until: Timestamp,
}

/// One leadership: carried by the leader's messages and by each of its writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// What it leads.
    pub target: Target,
    /// The leader.
    pub workflow: WorkflowId,
    /// Its fence.
    pub fence: Fence,
}

/// What an acquisition assumes of the lock it overwrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assumes {
    /// Nobody holds it, no batch is open, and its fence, if any, is lower than the new one.
    Free,
    /// It is exactly as it was seen.
    Unchanged(Lock),
}

/// A write that makes a workflow the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// The precondition.
    pub assumes: Assumes,
    /// The lock afterwards, except its signals, which stay.
    pub next: Lock,
}

/// What a workflow that wants a lock should do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Bid {
    /// Try this write.
    Acquire(Acquisition),
    /// It leads already: an earlier delivery of its message won.
    Leads(Fence),
    /// Another leads, in this term: signal, and come back later.
    Held(Term),
}

/// Decides how a workflow bids for a lock that it would hold as `bidder`.
///
/// `seen` is `None` if there is no lock yet; the write then assumes that nobody made one since. If it fails, the lock's
/// old image comes back with the failure and is `seen` in the next decision.
pub fn bid(seen: Option<&Lock>, target: &Target, bidder: &Holder, now: Timestamp) -> Bid {
    let next = |fence: Fence, open: Option<BatchId>, signals: u64| Lock {
        holder: Some(bidder.clone()),
        fence,
        seq: Seq(0),
        signals,
        // A batch that a predecessor left open stays named until its successor has finished it.
        open: open.or_else(|| Some(BatchId::derive(target, fence, Seq(0)))),
    };
    // Time alone would let the fence fall with a slow clock, a counter alone would fall when an idle item expires.
    let fence_over = |old: Fence| Fence(now.0).max(old.next());
    let Some(lock) = seen else {
        return Bid::Acquire(Acquisition { assumes: Assumes::Free, next: next(fence_over(Fence(0)), None, 0) });
    };
    match &lock.holder {
        Some(holder) if holder.workflow == bidder.workflow => Bid::Leads(lock.fence),
        Some(holder) if lock.is_led(now) => {
            Bid::Held(Term { target: target.clone(), workflow: holder.workflow.clone(), fence: lock.fence })
        }
        Some(_) | None => Bid::Acquire(Acquisition {
            next: next(fence_over(lock.fence), lock.open.clone(), lock.signals),
            assumes: Assumes::Unchanged(lock.clone()),
        }),
    }
}

impl Lock {
    /// Whether somebody leads by it whom others leave alone.
    pub fn is_led(&self, now: Timestamp) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.lease_until > now)
    }

    /// Whether this is that lock, apart from the number of its signals.
    pub fn is_apart_from_signals(&self, other: &Self) -> bool {
        let Self { holder, fence, seq, open, signals: _ } = self;
        *holder == other.holder && *fence == other.fence && *seq == other.seq && *open == other.open
    }

    /// When the window of the term's first batch begins, before the first is made: with its tasks' wait, so that the
    /// way to the leader is not added to what the route asks for.
    pub fn first_window(&self) -> Option<Timestamp> {
        self.holder.as_ref().filter(|_| self.seq == Seq(0)).map(|holder| holder.waits_since)
    }

    /// Whether the leader of a Target's home has so much to do that one of its shards may have a leader of its own, if
    /// a full batch waits in that shard.
    ///
    /// That a full batch waits is the real evidence: it costs no fill to make it at once, by any workflow. That this
    /// leader is at its third batch or beyond says that it has not just come. The first tasks of a burst are registered
    /// by many at once, and a leader at its beginning will come to them. Two leaders that reach for the same tasks pay
    /// for refused moves. No rate is asked for: the average of a long term says nothing about now, and clocks differ.
    pub fn needs_help(&self, now: Timestamp) -> bool {
        self.is_led(now) && self.seq >= Seq(2)
    }

    /// Whether this lock is held under just this term.
    pub fn is_led_by(&self, term: &Term) -> bool {
        self.fence == term.fence && self.holder.as_ref().is_some_and(|holder| holder.workflow == term.workflow)
    }
}

impl Term {
    /// The id of this term's `seq`-th batch.
    pub fn batch_id(&self, seq: Seq) -> BatchId {
        BatchId::derive(&self.target, self.fence, seq)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::RouteName;

    fn target() -> Target {
        Target::of(&RouteName::new("r"), "t")
    }

    fn lock(holder: Option<(&str, u64)>, fence: u64, open: Option<&str>) -> Lock {
        Lock {
            holder: holder.map(|(workflow, until)| Holder {
                workflow: WorkflowId::new(workflow),
                waits_since: Timestamp(0),
                lease_until: Timestamp(until),
            }),
            fence: Fence(fence),
            seq: Seq(3),
            signals: 2,
            open: open.map(BatchId::new),
        }
    }

    fn bid_at(seen: Option<&Lock>, now: u64) -> Bid {
        let (workflow, now) = (WorkflowId::new("me"), Timestamp(now));
        bid(seen, &target(), &Holder { workflow, waits_since: now, lease_until: now.plus_ms(100) }, now)
    }

    #[test]
    fn a_live_lease_is_respected() {
        let seen = lock(Some(("other", 200)), 50, None);
        let term = Term { target: target(), workflow: WorkflowId::new("other"), fence: Fence(50) };
        assert_eq!(bid_at(Some(&seen), 199), Bid::Held(term));
    }

    #[test]
    fn whoever_takes_over_keeps_the_open_batch_named() {
        let seen = lock(Some(("other", 200)), 50, Some("b"));
        let Bid::Acquire(Acquisition { next, .. }) = bid_at(Some(&seen), 200) else { panic!("must take over") };
        assert_eq!(next.open, Some(BatchId::new("b")));
    }

    #[test]
    fn my_own_earlier_success_is_recognised() {
        let seen = lock(Some(("me", 0)), 50, Some("b"));
        assert_eq!(bid_at(Some(&seen), 1_000), Bid::Leads(Fence(50)));
    }

    #[test]
    fn only_the_window_of_a_terms_first_batch_begins_with_the_wait_of_its_tasks() {
        let mut seen = lock(Some(("me", 200)), 50, None);
        assert_eq!(seen.first_window(), None);
        seen.seq = Seq(0);
        assert_eq!(seen.first_window(), Some(Timestamp(0)));
        seen.holder = None;
        assert_eq!(seen.first_window(), None);
    }

    #[test]
    fn a_term_leads_only_under_its_own_fence_and_workflow() {
        let seen = lock(Some(("me", 200)), 50, None);
        let term =
            |workflow, fence| Term { target: target(), workflow: WorkflowId::new(workflow), fence: Fence(fence) };
        assert!(seen.is_led_by(&term("me", 50)));
        for other in [term("me", 49), term("other", 50), term("other", 49)] {
            assert!(!seen.is_led_by(&other), "{other:?}");
        }
        assert!(!lock(None, 50, None).is_led_by(&term("me", 50)), "it was released");
    }

    proptest! {
        #[test]
        fn a_shard_gets_a_leader_only_beside_one_that_is_alive_and_has_gone_on(
            until in proptest::option::of(0_u64..200), seq in 0_u32..5, now in 0_u64..200,
        ) {
            let home = Lock { seq: Seq(seq), ..lock(until.map(|until| ("other", until)), 50, None) };
            let helped = home.needs_help(Timestamp(now));
            prop_assert_eq!(helped, until.is_some_and(|until| until > now) && seq >= 2);
            // A workflow that may not help can still act: take the home's lock, or signal its holder.
            let bid = bid_at(Some(&home), now);
            prop_assert!(!helped || matches!(bid, Bid::Held(_)));
        }

        #[test]
        fn the_fence_grows_with_every_acquisition_whatever_the_clocks(
            clocks in proptest::collection::vec(0_u64..10_000, 1..50),
        ) {
            let mut seen: Option<Lock> = None;
            for now in clocks {
                if let Bid::Acquire(Acquisition { next, .. }) = bid_at(seen.as_ref(), now) {
                    if let Some(old) = &seen {
                        prop_assert!(next.fence > old.fence);
                    }
                    seen = Some(Lock { holder: None, ..next });
                }
            }
        }
    }
}
