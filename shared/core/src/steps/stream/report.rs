//! From full nodes upwards. A node that its parent calls full is dropped, and what was kept of its events with it: the
//! parent's bit says all there is to say of them.

use super::Streaming;
use crate::domain::stream::{Life, MAX_FED, Page, first_below, path};
use crate::domain::tracker::{GROUP_SIZE, Mark, Node, NodeId};
use crate::ports::{Env, Marked, Outbox, Streams};
use crate::steps::Error;
use crate::steps::cas::Tries;

/// Pages read at once.
const PAGES: usize = 20;

impl<S: Streams, Q: Outbox, E: Env> Streaming<'_, S, Q, E> {
    /// Says upwards that a node is full, if it is, and so on from there; then drops what is full.
    pub(super) async fn report(&self, life: &Life, node: Node) -> Result<(), Error> {
        let (mut node, mut full) = (node, Vec::new());
        while node.count() == GROUP_SIZE
            && let Some((parent, bit)) = node.id.parent()
        {
            let marks = [Mark { bit, failures: node.failures }];
            full.push(node.id);
            let Some((_, now)) = self.mark(life, parent, &marks).await? else { break };
            node = now;
        }
        // The groups before the nodes above them, and the bits upstairs before both.
        for id in full {
            self.drop_reported(life, id).await?;
        }
        Ok(())
    }

    /// Marks children of a node; says how many bits that set, and what the node is then. `None` if a node above it says
    /// that all below is done.
    pub(super) async fn mark(&self, life: &Life, id: NodeId, marks: &[Mark]) -> Result<Option<(u64, Node)>, Error> {
        let mut fresh = 0;
        let mut tries = Tries::of("marking events", self.env);
        loop {
            let bits = self.store.see(life, &with_ancestors(id)).await?.bits;
            if bits.is_reported(id) {
                return Ok(None);
            }
            let Some(change) = bits.node(id).marking(marks) else { return Ok(Some((fresh, bits.node(id)))) };
            match self.store.mark_events(life, &change).await? {
                Marked::Yes(now) => {
                    fresh += change.fresh;
                    return Ok(Some((fresh, now)));
                }
                // Its bits changed, or it was dropped: then the node above it says so by now.
                Marked::Changed(_) => tries.give_way().await?,
            }
        }
    }

    /// Drops a node that is reported, with the pages of its events. A page stays while one of its events is not
    /// settled, or the one after it: the watermark may come to lie there, and needs the offset before it.
    pub(super) async fn drop_reported(&self, life: &Life, id: NodeId) -> Result<(), Error> {
        if id.level == 0 {
            let (first, end) = (first_below(id), first_below(id) + u64::from(GROUP_SIZE));
            let around = [NodeId::group(id.index.saturating_sub(1)), id, NodeId::group(id.index.saturating_add(1))];
            let mut nodes: Vec<NodeId> = around.into_iter().flat_map(with_ancestors).collect();
            nodes.sort();
            nodes.dedup();
            let bits = self.store.see(life, &nodes).await?.bits;
            let is_over = |page: &Page| {
                let groups = [page.start, page.end()].map(|number| path(number).map(|path| path[0]));
                groups.into_iter().all(|group| group.is_some_and(|group| bits.is_reported(group)))
            };
            self.drop_pages(life, (first.saturating_sub(MAX_FED as u64), end), is_over).await?;
        }
        Ok(self.store.drop_nodes(life, &[id]).await?)
    }

    /// Drops those of the pages that begin within a range which this holds of.
    pub(super) async fn drop_pages(
        &self,
        life: &Life,
        (mut from, to): (u64, u64),
        is_over: impl Fn(&Page) -> bool,
    ) -> Result<(), Error> {
        loop {
            let pages = self.store.pages(life, from, to, PAGES).await?;
            let Some(last) = pages.last() else { return Ok(()) };
            from = last.end();
            let over: Vec<u64> = pages.iter().filter(|page| is_over(page)).map(|page| page.start).collect();
            if !over.is_empty() {
                self.store.drop_pages(life, &over).await?;
            }
        }
    }
}

/// A node and those above it.
pub(super) fn with_ancestors(id: NodeId) -> Vec<NodeId> {
    std::iter::successors(Some(id), |id| id.parent().map(|(parent, _)| parent)).collect()
}
