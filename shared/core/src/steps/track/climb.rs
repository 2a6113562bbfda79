//! From full groups upwards, to the one write that completes a tracker, and its notice.

use std::collections::BTreeMap;

use super::Tracking;
use crate::domain::tracker::{Ending, GROUP_SIZE, ItemId, ItemRange, Mark, Node, NodeId, State, Tracker, Which};
use crate::domain::{TrackerId, notice};
use crate::ports::{Destination, Env, Freshness, Outbox, Outgoing, Stored, Trackers, send_all};
use crate::steps::Error;
use crate::steps::cas::Tries;

/// A notice names this many failed items at most; the tracker's items list the others.
const MAX_NAMED: usize = 100;

impl<S: Trackers, Q: Outbox, E: Env> Tracking<'_, S, Q, E> {
    /// Reports those of these nodes that are full to their parents, and so on upwards; completes the tracker if that
    /// was the last of it. The nodes must be of one level and as fresh as can be. Returns the tracker if it was looked
    /// at.
    ///
    /// Whether a node is full depends on whether it may still grow: a whole group cannot, any other only when the
    /// tracker is sealed. So the tracker is read after the node was written, at every level anew.
    pub(super) async fn climb(&self, id: &TrackerId, mut nodes: Vec<Node>) -> Result<Option<Tracker>, Error> {
        let mut tracker = None;
        loop {
            let leading: Vec<(Node, u16)> = nodes
                .into_iter()
                .filter_map(|node| node.leading().filter(|bits| *bits > 0).map(|bits| (node, bits)))
                .collect();
            // The first node of a level may have everything below it.
            if leading.iter().any(|(node, bits)| *bits < GROUP_SIZE || node.id.index == 0) {
                tracker = self.store.look(id, &[], Freshness::Latest).await?.tracker;
            }
            if let Some(ended @ Tracker { state: State::Ended(_), .. }) = tracker {
                return self.ended(ended).await.map(Some);
            }
            let sealed = tracker.as_ref().filter(|tracker| tracker.state == State::Sealed);
            let is_full = |node: &Node, bits: u16| {
                bits == GROUP_SIZE || sealed.is_some_and(|tracker| tracker.size_of(node.id) == bits)
            };
            let full: Vec<Node> =
                leading.into_iter().filter(|(node, bits)| is_full(node, *bits)).map(|(node, _)| node).collect();
            if let Some(sealed) = sealed
                && let Some(top) = full.iter().find(|node| sealed.is_below(node.id))
            {
                let failures = top.failures;
                return self.complete(sealed.clone(), failures).await.map(Some);
            }
            let mut parents: BTreeMap<NodeId, Vec<Mark>> = BTreeMap::new();
            for node in full {
                if let Some((parent, bit)) = node.id.parent() {
                    parents.entry(parent).or_default().push(Mark { bit, failures: node.failures });
                }
            }
            if parents.is_empty() {
                return Ok(tracker);
            }
            let parents: Vec<(NodeId, Vec<Mark>)> = parents.into_iter().collect();
            let known = self.read(id, &parents, Freshness::Latest).await?;
            let marked = self.mark_all(id, parents, known, Freshness::Latest).await?;
            nodes = marked.into_iter().map(|(_, node)| node).collect();
        }
    }

    /// Completes a sealed tracker all of whose items are done. Somebody else may do so at the same time: one of both
    /// does.
    pub(super) async fn complete(&self, sealed: Tracker, failed: u64) -> Result<Tracker, Error> {
        let opened_at = sealed.opened_at;
        let mut tracker = sealed;
        let mut tries = Tries::of("completing a tracker", self.env);
        loop {
            match tracker.state {
                State::Ended(_) => return self.ended(tracker).await,
                State::Sealed if tracker.opened_at == opened_at => {}
                // Another one by now: the old one was removed, and its id used again.
                State::Open | State::Sealed => return Ok(tracker),
            }
            let completed = tracker.completed(failed, self.env.now());
            if self.store.store_tracker(&completed).await? == Stored::Yes {
                return self.ended(completed).await;
            }
            tries.give_way().await?;
            match self.store.look(&completed.id, &[], Freshness::Latest).await?.tracker {
                Some(now) => tracker = now,
                None => return Ok(completed),
            }
        }
    }

    /// Sends an ended tracker's notice unless that is done. A queue that does not answer keeps nobody waiting: sweep
    /// finds the tracker and sends it then.
    pub(super) async fn ended(&self, tracker: Tracker) -> Result<Tracker, Error> {
        Ok(self.tell(&tracker).await.unwrap_or(tracker))
    }

    /// Sends an ended tracker's notice unless that is done, and writes down that it is.
    pub(super) async fn tell(&self, tracker: &Tracker) -> Result<Tracker, Error> {
        let State::Ended(end) = &tracker.state else { return Ok(tracker.clone()) };
        if end.told {
            return Ok(tracker.clone());
        }
        let failed = match end.how {
            Ending::Completed if end.failed > 0 => self.items(tracker, Which::Failed, None, MAX_NAMED).await?.items,
            Ending::Completed => Vec::new(),
            // A process that looked at the tracker before it ended may still mark items of it; a notice that is sent
            // again must be the same.
            Ending::Overdue | Ending::Abandoned => named(&end.failed_items),
        };
        let event = notice::of_tracker(tracker, end, failed);
        let to = Destination::Notification(tracker.notify.clone());
        send_all(self.outbox, vec![Outgoing::json(to, &event, 0)]).await?;
        let told = tracker.told();
        // The faster process has done just the same.
        self.store.store_tracker(&told).await?;
        Ok(told)
    }
}

fn named(ranges: &[ItemRange]) -> Vec<ItemId> {
    let items = ranges.iter().flat_map(|range| range.places().map(|at| ItemId { tracker: range.tracker.clone(), at }));
    items.take(MAX_NAMED).collect()
}
