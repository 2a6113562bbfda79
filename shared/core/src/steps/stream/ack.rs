//! Settling events: bits in groups.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::Streaming;
use super::commit::When;
use super::report::with_ancestors;
use crate::domain::stream::{Bits, EventId, Life, Run, Stream, path};
use crate::domain::tracker::{Acks, Mark, Node, NodeId, Outcome, Place};
use crate::ports::{Env, Marked, Outbox, Streams};
use crate::steps::cas::Settled;
use crate::steps::{CONCURRENCY, Error};

/// Groups that are looked at together: with the nodes above them they are 99 at most.
const GROUPS: usize = 33;

impl<S: Streams, Q: Outbox, E: Env> Streaming<'_, S, Q, E> {
    /// Settles events, each stream's for itself. What no stream knows is passed over: a task is settled whatever it is
    /// for.
    pub async fn settle(&self, events: Vec<(EventId, Outcome)>) -> Settled<Life> {
        let (mut unknown, mut by_stream) = (0, BTreeMap::<Life, Acks>::new());
        for (EventId { life, number }, outcome) in events {
            match Place::of(number) {
                Some(place) => drop(by_stream.entry(life).or_default().add(place, outcome)),
                None => unknown += 1,
            }
        }
        let tell = |(life, acks): (Life, Acks)| async move {
            let settled = self.settle_in(&life, &acks).await;
            (life, settled)
        };
        let mut settled = Settled::telling(by_stream, tell).await;
        settled.unknown += unknown;
        settled
    }

    /// Settles events of one stream; says how many it does not know.
    pub(super) async fn settle_in(&self, life: &Life, acks: &Acks) -> Result<usize, Error> {
        let groups: Vec<(NodeId, Vec<Mark>)> = acks.marks().collect();
        let mut unknown = 0;
        for groups in groups.chunks(GROUPS) {
            unknown += self.settle_groups(life, groups).await?;
        }
        Ok(unknown)
    }

    async fn settle_groups(&self, life: &Life, groups: &[(NodeId, Vec<Mark>)]) -> Result<usize, Error> {
        let mut nodes: Vec<NodeId> = groups.iter().flat_map(|(group, _)| with_ancestors(*group)).collect();
        nodes.sort();
        nodes.dedup();
        let seen = self.store.see(life, &nodes).await?;
        let count = || groups.iter().map(|(_, marks)| marks.len()).sum();
        // Another stream has its name by now, or none: nobody waits for these events.
        let Some(stream) = seen.stream.filter(|stream| stream.life == *life) else { return Ok(count()) };
        let mut bits = seen.bits;
        let (mut unknown, mut writes) = (0, Vec::new());
        for (group, marks) in groups {
            let number = |mark: &Mark| Place { group: group.index, index: mark.bit }.number();
            let known: Vec<Mark> = marks.iter().copied().filter(|mark| number(mark) < stream.next).collect();
            unknown += marks.len() - known.len();
            if bits.is_reported(*group) {
                // The process that reported it may have died before it was dropped; or a late writer made it anew.
                if bits.has(*group) {
                    self.drop_reported(life, *group).await?;
                }
                continue;
            }
            let open: Vec<Mark> = known.into_iter().filter(|mark| number(mark) >= stream.watermark.number).collect();
            if !open.is_empty() {
                let node = bits.node(*group);
                writes.push(async move { self.settle_group(life, node, &open).await });
            }
        }
        let marked: Vec<Option<Node>> = stream::iter(writes).buffer_unordered(CONCURRENCY).try_collect().await?;
        for node in marked.into_iter().flatten() {
            bits.see(node);
        }
        self.commit_after(stream, &bits).await?;
        Ok(unknown)
    }

    /// Marks events of a group that was just read. `None` if it is full, and reported as such.
    async fn settle_group(&self, life: &Life, known: Node, marks: &[Mark]) -> Result<Option<Node>, Error> {
        let id = known.id;
        let node = match known.marking(marks) {
            None => known,
            Some(change) => match self.store.mark_events(life, &change).await? {
                Marked::Yes(now) => now,
                Marked::Changed(_) => match self.mark(life, id, marks).await? {
                    Some((_, now)) => now,
                    None => return Ok(None),
                },
            },
        };
        self.report(life, node.clone()).await?;
        Ok(Some(node))
    }

    /// Commits if these events can have moved the watermark, and it is time.
    async fn commit_after(&self, stream: Stream, bits: &Bits) -> Result<(), Error> {
        let at = stream.watermark.number;
        let was_seen = path(at).is_some_and(|path| bits.has(path[0]) || bits.is_reported(path[0]));
        if !was_seen {
            return Ok(());
        }
        let reached = match bits.run(at) {
            Run::Stops(number) | Run::Goes(number) => number,
            // Reported by now: what comes after it is for the commit to see.
            Run::Full(_) => at + 1,
        };
        if reached > at && stream.may_commit(reached, self.env.now()) {
            self.commit(stream, When::Due).await?;
        }
        Ok(())
    }
}
