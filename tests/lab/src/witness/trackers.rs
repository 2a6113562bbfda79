//! What is noted of trackers: how each ends, and that no bit is ever taken back.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use groupage_core::domain::tracker::{Addition, Change, End, Ending, State};
use groupage_core::ports::Result;
use tokio::time::Instant;

use super::Witness;
use crate::prelude::*;

/// What was seen of trackers so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When each became whole so far as it was written to: sealed, or with another bit.
    grew: BTreeMap<TrackerId, Instant>,
    /// How long after that each was completed.
    delays: BTreeMap<TrackerId, Duration>,
}

impl Witness {
    /// How long after its seal and its last bit a tracker was completed.
    pub fn completion_delay(&self, id: &TrackerId) -> Option<Duration> {
        self.trackers.lock().unwrap_or_else(PoisonError::into_inner).delays.get(id).copied()
    }

    async fn tracker_now(&self, id: &TrackerId) -> Result<Option<Tracker>> {
        Ok(self.tables.look(id, &[], Freshness::Latest).await?.tracker)
    }

    async fn node_now(&self, id: &TrackerId, node: NodeId) -> Result<Node> {
        let looked = self.tables.look(id, &[node], Freshness::Latest).await?;
        Ok(looked.nodes.into_iter().next().unwrap_or_else(|| Node::empty(node)))
    }

    fn grew(&self, id: &TrackerId) {
        self.trackers.lock().unwrap_or_else(PoisonError::into_inner).grew.insert(id.clone(), Instant::now());
    }

    /// Compares a tracker that was written with the one it took the place of.
    async fn compare_trackers(&self, old: &Tracker, new: &Tracker) -> Result<()> {
        let id = &new.id;
        if old.items != new.items {
            self.note(format!("items are added once: {id} had {} and got {}", old.items, new.items));
        }
        match (&old.state, &new.state) {
            (State::Ended(before), State::Ended(after)) => {
                let told = End { told: after.told, ..before.clone() };
                if told != *after {
                    self.note(format!("one end: {id} ended as {before:?} and then as {after:?}"));
                }
            }
            (State::Ended(_), State::Open | State::Sealed) | (State::Sealed, State::Open) => {
                self.note(format!("one end: {id} went from {} to {}", old.state.word(), new.state.word()));
            }
            (State::Open, State::Sealed) => self.grew(id),
            (_, State::Ended(end)) if end.how == Ending::Completed => self.is_complete(old, end).await?,
            (State::Open | State::Sealed, _) => {}
        }
        Ok(())
    }

    /// A tracker is completed when it was sealed and all its bits are set, and with their counts.
    async fn is_complete(&self, sealed: &Tracker, end: &End) -> Result<()> {
        let id = &sealed.id;
        if sealed.state != State::Sealed {
            self.note(format!("complete is complete: {id} was {}", sealed.state.word()));
        }
        let groups = self.tables.nodes(id, NodeId::group(0), usize::MAX, Freshness::Latest).await?;
        let done: u64 = groups.iter().map(|group| u64::from(group.count())).sum();
        let failed: u64 = groups.iter().map(failures).sum();
        if done != sealed.items || groups.iter().any(|group| group.leading() != Some(sealed.size_of(group.id))) {
            self.note(format!("complete is complete: {done} of {} items of {id} were acked", sealed.items));
        }
        if (end.failed, end.missing) != (failed, 0) {
            self.note(format!("complete is complete: {failed} items of {id} failed, and it says {end:?}"));
        }
        let mut seen = self.trackers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(grew) = seen.grew.get(id).map(Instant::elapsed) {
            seen.delays.insert(id.clone(), grew);
        }
        Ok(())
    }

    /// Compares a node that was marked with what it was.
    async fn compare_nodes(&self, id: &TrackerId, old: &Node, new: &Node) -> Result<()> {
        let at = new.id;
        let bits = |is: &dyn Fn(u16) -> bool| (0..GROUP_SIZE).any(is);
        if bits(&|bit| old.is_done(bit) && !new.is_done(bit)) {
            self.note(format!("bits stay: one of {id} was cleared in {at:?}"));
        }
        if bits(&|bit| old.is_done(bit) && old.has_failed(bit) != new.has_failed(bit)) {
            self.note(format!("the first outcome counts: one of {id} was changed in {at:?}"));
        }
        if at.level == 0 {
            self.grew(id);
            return Ok(());
        }
        let tracker = self.tracker_now(id).await?;
        for bit in (0..GROUP_SIZE).filter(|bit| new.is_done(*bit) && !old.is_done(*bit)) {
            let index = at.index * u32::from(GROUP_SIZE) + u32::from(bit);
            let child = self.node_now(id, NodeId { level: at.level - 1, index }).await?;
            let sealed = tracker.as_ref().filter(|tracker| tracker.state != State::Open);
            let size = sealed.map_or(GROUP_SIZE, |tracker| tracker.size_of(child.id));
            if child.leading() != Some(size) {
                self.note(format!("full is full: {:?} of {id} was reported with {}", child.id, child.count()));
            }
        }
        Ok(())
    }
}

/// Rules that are not kept.
impl Witness {
    /// What somebody sees who does not look for the seal, or not whether all is done.
    async fn mistaken(&self, mut looked: Looked, freshness: Freshness) -> Result<Looked> {
        let Some(tracker) = &mut looked.tracker else { return Ok(looked) };
        match self.mutation {
            Some(Mutation::TakesOpenForSealed) if tracker.state == State::Open && tracker.items > 0 => {
                let groups = self.tables.nodes(&tracker.id, NodeId::group(0), usize::MAX, freshness).await?;
                if groups.iter().map(|group| u64::from(group.count())).sum::<u64>() == tracker.items {
                    tracker.state = State::Sealed;
                }
            }
            // Who has just sealed it looks at its last group.
            Some(Mutation::SealsWithoutLooking) if tracker.state == State::Sealed && freshness == Freshness::Latest => {
                looked.nodes.clear();
            }
            Some(_) | None => {}
        }
        Ok(looked)
    }

    async fn report_too_early(&self, id: &TrackerId, group: &Node) -> Result<()> {
        let size = self.tracker_now(id).await?.map(|tracker| tracker.size_of(group.id));
        if let Some((parent, bit)) = group.id.parent().filter(|_| group.id.level == 0 && group.leading() == size) {
            let parent = self.node_now(id, parent).await?;
            if let Some(change) = parent.marking(&[Mark { bit, failures: group.failures }]) {
                self.tables.mark(id, &change).await?;
                self.compare_nodes(id, &parent, &parent.clone().changed(&change)).await?;
            }
        }
        Ok(())
    }
}

/// Bits of a group that failed.
fn failures(group: &Node) -> u64 {
    (0..GROUP_SIZE).filter(|bit| group.has_failed(*bit)).count() as u64
}

impl layer::Trackers for Witness {
    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        let looked = self.tables.look(id, nodes, freshness).await?;
        self.mistaken(looked, freshness).await
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let old = self.tracker_now(&tracker.id).await?;
        let mut tracker = tracker.clone();
        if let (Some(Mutation::WritesTrackersUnconditionally), Some(old)) = (self.mutation, &old) {
            tracker.revision = old.revision.next();
        }
        let stored = self.tables.store_tracker(&tracker).await?;
        if let Some(old) = old.filter(|old| stored == Stored::Yes && *old != tracker) {
            self.compare_trackers(&old, &tracker).await?;
        }
        Ok(stored)
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        if self.mutation == Some(Mutation::AddsWithoutItsKey) {
            let key = format!("{} at {}", addition.key, grown.revision.0);
            return self.tables.add(grown, &Addition { key, ..addition.clone() }).await;
        }
        self.tables.add(grown, addition).await
    }

    async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
        let old = self.node_now(id, change.id).await?;
        let mut change = change.clone();
        if self.mutation == Some(Mutation::MarksUnconditionally) {
            change.words.iter_mut().for_each(|(word, changed)| changed.was = old.done.get(word).copied());
        }
        let marked = self.tables.mark(id, &change).await?;
        if let Marked::Yes(new) = &marked {
            self.compare_nodes(id, &old, new).await?;
            if self.mutation == Some(Mutation::ReportsGroupsThatGrow) {
                self.report_too_early(id, new).await?;
            }
        }
        Ok(marked)
    }
}
