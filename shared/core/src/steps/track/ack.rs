//! Acking items: bits in groups, and a look upwards from those that are full.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, TryStreamExt, stream};

use super::{Outcome, Refused, Tracking};
use crate::domain::id::TrackerId;
use crate::domain::tracker::{
    self, Acks, Ending, ItemId, ItemRange, Mark, NoItem, Node, NodeId, Place, State, Tracker,
};
use crate::ports::{Env, Freshness, Looked, Marked, Outbox, Trackers};
use crate::steps::cas::{Settled, Tries};
use crate::steps::{CONCURRENCY, Error};

/// What an ack came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Items acked for the first time.
    pub fresh: u64,
    /// Items that were acked before; their first outcome counts.
    pub repeated: u64,
    /// The tracker, as far as it was looked at.
    pub tracker: Tracker,
}

/// How many groups are read at once; a port takes 99.
pub(super) const GROUPS: usize = 50;

impl<S: Trackers, Q: Outbox, E: Env> Tracking<'_, S, Q, E> {
    /// Acks items; all of them or, if one cannot be acked, none.
    pub async fn ack(&self, id: &TrackerId, ranges: &[(ItemRange, tracker::Outcome)]) -> Outcome<Acked> {
        let acks = match Acks::collect(id, ranges.iter().map(|(range, outcome)| (range, *outcome))) {
            Ok(acks) => acks,
            Err((position, why)) => return Ok(Err(Refused::NotAnItem { position, why })),
        };
        let looked = self.with_items(id, &acks).await?;
        let Some(tracker) = looked.tracker else { return Ok(Err(Refused::Unknown(id.clone()))) };
        if let Some(position) = beyond(tracker.items, ranges.iter().map(|(range, _)| range)) {
            let why = NoItem("was never added: its group is not there, or not so large");
            return Ok(Err(Refused::NotAnItem { position, why }));
        }
        self.mark_items(tracker, looked.nodes, &acks).await
    }

    /// Acks the items that settled tasks carried, each tracker's for itself. What no tracker counts is passed over: a
    /// task is settled whatever its item is.
    pub async fn settle(&self, items: Vec<(ItemId, tracker::Outcome)>) -> Settled<TrackerId> {
        let mut by_tracker: BTreeMap<TrackerId, Acks> = BTreeMap::new();
        for (item, outcome) in items {
            by_tracker.entry(item.tracker).or_default().add(item.at, outcome);
        }
        let tell = |(id, acks): (TrackerId, Acks)| async move {
            let settled = self.settle_one(&id, acks).await;
            (id, settled)
        };
        Settled::telling(by_tracker, tell).await
    }

    /// Acks items of one tracker; says how many it does not count.
    async fn settle_one(&self, id: &TrackerId, mut acks: Acks) -> Result<usize, Error> {
        let Looked { tracker, nodes } = self.with_items(id, &acks).await?;
        let Some(tracker) = tracker else { return Ok(count(acks.len())) };
        let beyond = acks.truncate(tracker.items);
        let over = self.mark_items(tracker, nodes, &acks).await?.is_err();
        Ok(count(if over { beyond + acks.len() } else { beyond }))
    }

    /// The tracker, fresh enough to know whether it has these items, and the first of their groups. An item that it has
    /// is never taken away, so an older view that has them all is as good as the latest; but not one of a tracker that
    /// has ended: it may be gone, and another have its id.
    async fn with_items(&self, id: &TrackerId, acks: &Acks) -> Result<Looked, Error> {
        let groups: Vec<NodeId> = acks.marks().take(GROUPS).map(|(group, _)| group).collect();
        let looked = self.store.look(id, &groups, Freshness::Eventual).await?;
        let will_do = |tracker: &Tracker| {
            !matches!(tracker.state, State::Ended(_)) && acks.last().is_none_or(|last| tracker.has(last))
        };
        if looked.tracker.as_ref().is_some_and(will_do) {
            return Ok(looked);
        }
        Ok(self.store.look(id, &groups, Freshness::Latest).await?)
    }

    /// Marks items, given what is known of the first of their groups.
    async fn mark_items(&self, tracker: Tracker, known: Vec<Node>, acks: &Acks) -> Outcome<Acked> {
        match &tracker.state {
            State::Ended(end) if end.how != Ending::Completed => return Ok(Err(Refused::Over(end.how))),
            // The process that completed it may have died before its notice was sent.
            State::Ended(_) => {
                let tracker = self.ended(tracker).await?;
                return Ok(Ok(Acked { fresh: 0, repeated: acks.len(), tracker }));
            }
            State::Open | State::Sealed => {}
        }
        let (mut fresh, mut now, mut known) = (0, None, Some(known));
        let groups: Vec<(NodeId, Vec<Mark>)> = acks.marks().collect();
        for groups in groups.chunks(GROUPS) {
            let known = match known.take() {
                Some(first) => first,
                None => self.read(&tracker.id, groups, Freshness::Eventual).await?,
            };
            let marked = self.mark_all(&tracker.id, groups.to_vec(), known, Freshness::Eventual).await?;
            fresh += marked.iter().map(|(fresh, _)| fresh).sum::<u64>();
            let nodes = marked.into_iter().map(|(_, node)| node).collect();
            now = self.climb(&tracker.id, nodes).await?.or(now);
        }
        Ok(Ok(Acked { fresh, repeated: acks.len() - fresh, tracker: now.unwrap_or(tracker) }))
    }

    /// Reads the nodes that are to be marked.
    pub(super) async fn read(
        &self,
        id: &TrackerId,
        nodes: &[(NodeId, Vec<Mark>)],
        freshness: Freshness,
    ) -> Result<Vec<Node>, Error> {
        let ids: Vec<NodeId> = nodes.iter().map(|(node, _)| *node).collect();
        Ok(self.store.look(id, &ids, freshness).await?.nodes)
    }

    /// Marks children of nodes that were read with this freshness. Says how many bits each write set, and what each
    /// node is then.
    pub(super) async fn mark_all(
        &self,
        id: &TrackerId,
        nodes: Vec<(NodeId, Vec<Mark>)>,
        known: Vec<Node>,
        freshness: Freshness,
    ) -> Result<Vec<(u64, Node)>, Error> {
        let mut found: HashMap<NodeId, Node> = known.into_iter().map(|node| (node.id, node)).collect();
        let tasks: Vec<_> = nodes
            .into_iter()
            .map(|(node, marks)| (found.remove(&node).unwrap_or_else(|| Node::empty(node)), marks))
            .map(|(node, marks)| async move { self.mark(id, node, &marks, freshness).await })
            .collect();
        stream::iter(tasks).buffer_unordered(CONCURRENCY).try_collect().await
    }

    async fn mark(
        &self,
        id: &TrackerId,
        mut node: Node,
        marks: &[Mark],
        mut freshness: Freshness,
    ) -> Result<(u64, Node), Error> {
        let mut fresh = 0;
        let mut tries = Tries::of("marking items", self.env);
        loop {
            match (node.marking(marks), freshness) {
                (None, Freshness::Latest) => return Ok((fresh, node)),
                // All are set already. Whether the node is full by now, an older view cannot say.
                (None, Freshness::Eventual) => {
                    let looked = self.store.look(id, &[node.id], Freshness::Latest).await?;
                    node = looked.nodes.into_iter().next().unwrap_or_else(|| Node::empty(node.id));
                    tries.again()?;
                }
                (Some(change), _) => match self.store.mark(id, &change).await? {
                    Marked::Yes(now) => {
                        fresh += change.fresh;
                        // A view of a tracker that had the id before may have shown bits as set that are not.
                        if now.marking(marks).is_none() {
                            return Ok((fresh, now));
                        }
                        node = now;
                        tries.again()?;
                    }
                    Marked::Changed(now) => {
                        node = now;
                        tries.give_way_later().await?;
                    }
                },
            }
            freshness = Freshness::Latest;
        }
    }
}

fn count(items: u64) -> usize {
    usize::try_from(items).unwrap_or(usize::MAX)
}

/// The first range of a call that names an item which was never added.
fn beyond<'a>(items: u64, ranges: impl IntoIterator<Item = &'a ItemRange>) -> Option<usize> {
    ranges.into_iter().position(|range| Place { group: range.group, index: range.last }.number() >= items)
}
