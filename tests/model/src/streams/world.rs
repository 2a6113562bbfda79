//! The tables of one stream, and what a write breaks.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::stream::{Bits, Page, State};

use super::setting::{Does, Promise, Rule, Setting, trace};
use crate::prelude::*;

/// The tables.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    pub(super) stream: Kept<Stream>,
    pub(super) nodes: BTreeMap<NodeId, Kept<Node>>,
    pub(super) pages: BTreeMap<u64, Kept<Page>>,
    /// What the events hold that have a number.
    pub(super) given: BTreeMap<u64, u8>,
    pub(super) sent: BTreeSet<u64>,
    /// Those that can never be tasks.
    pub(super) rejected: BTreeSet<u64>,
    /// Whose acks have begun: the tasks are settled.
    pub(super) acking: BTreeSet<usize>,
    /// The last watermark that people were told.
    pub(super) told: u64,
}

impl World {
    pub(super) fn of(setting: &Setting) -> Self {
        Self {
            stream: Kept::new(setting.stream()),
            nodes: setting.nodes().map(|node| (node.id, Kept::new(node))).into_iter().collect(),
            pages: setting.page().map(|page| (page.start, Kept::new(page))).into_iter().collect(),
            given: BTreeMap::new(),
            sent: BTreeSet::new(),
            rejected: BTreeSet::new(),
            acking: BTreeSet::new(),
            told: 0,
        }
    }

    pub(super) fn bits(&self) -> Bits {
        Bits::of(self.nodes.values().map(|node| (**node).clone()))
    }
}

impl Act<'_, Setting> {
    pub(super) fn see(&self, nodes: &[NodeId]) -> Vec<Kept<Node>> {
        let found: Vec<Kept<Node>> = nodes.iter().filter_map(|node| self.nodes.get(node).cloned()).collect();
        let is_hidden = |node: &Kept<Node>| {
            let is_below = |below: &Kept<Node>| below.id.parent().is_some_and(|(parent, _)| parent == node.id);
            self.without(Rule::AsksAbove) && found.iter().any(is_below)
        };
        found.iter().filter(|node| !is_hidden(node)).cloned().collect()
    }

    pub(super) fn feed(&mut self, fed: &Stream, page: &Kept<Page>) -> bool {
        let old = self.stream.clone();
        let is_as_read = old.next == page.start || self.without(Rule::FedAsRead);
        let is_open = old.state == State::Open || self.without(Rule::OpenIsFed);
        if !is_as_read || !is_open {
            return false;
        }
        let next =
            Stream { next: fed.next, last: fed.last.clone(), active_at: fed.active_at, due: fed.due, ..(*old).clone() };
        self.stream = Kept::new(next);
        if !self.dies || !self.without(Rule::TracesWithNumbers) {
            self.pages.insert(page.start, page.clone());
        }
        for (number, left) in (page.start..).zip(&page.traces) {
            let content = (0..=u8::MAX).find(|content| trace(number, *content) == *left).unwrap_or_default();
            if self.given.insert(number, content).is_some_and(|before| before != content) {
                self.breaks(Promise::OneEvent);
            }
        }
        true
    }

    pub(super) fn commit(&mut self, stream: &Stream) -> bool {
        let old = self.stream.clone();
        let mut next = Stream { next: old.next, last: old.last.clone(), ..stream.clone() };
        let is_seen = stream.due.is_some() || old.next == stream.next || self.without(Rule::NothingFedSince);
        if self.without(Rule::CommitAsRead) {
            next.revision = old.revision.next();
        }
        if old.revision.next() == next.revision && is_seen {
            self.judge_commit(&old, &next);
            self.stream = Kept::new(next);
            return true;
        }
        *old == next
    }

    pub(super) fn mark(&mut self, change: &Change) -> Marked {
        let old = self.nodes.get(&change.id).map_or_else(|| Node::empty(change.id), |node| (**node).clone());
        if !self.without(Rule::WordsAsRead) && !old.is_as(change) {
            return Marked::Changed(old);
        }
        let new = old.clone().changed(change);
        let stays = |bit: u16| !old.is_done(bit) || new.is_done(bit) && new.has_failed(bit) == old.has_failed(bit);
        if !(0..GROUP_SIZE).all(stays) {
            self.breaks(Promise::BitsStay);
        }
        self.nodes.insert(change.id, Kept::new(new.clone()));
        if self.without(Rule::BitAboveFirst) && new.id.level == 0 && new.count() == GROUP_SIZE {
            self.drop_node(new.id);
        }
        Marked::Yes(new)
    }

    pub(super) fn drop_node(&mut self, id: NodeId) {
        if self.nodes.contains_key(&id) && !self.bits().is_reported(id) {
            self.breaks(Promise::BitsStay);
        }
        self.nodes.remove(&id);
        if self.without(Rule::PageStays) {
            let (size, group) = (u64::from(GROUP_SIZE), u64::from(id.index));
            self.pages.retain(|start, _| id.level > 0 || *start / size != group);
        }
    }

    pub(super) fn pages(&self, from: u64, to: u64) -> Vec<Kept<Page>> {
        let found = self.pages.range(from..to).map(|(_, page)| page.clone());
        match self.place().and_then(|place| self.of.who.get(place)) {
            Some(Does::Feeds { content, .. }) if self.without(Rule::TracesCompared) => {
                let own = |page: &Page| (page.start..page.end()).map(|number| trace(number, *content)).collect();
                found.map(|page| Kept::new(Page { start: page.start, traces: own(&page) })).collect()
            }
            _ => found.collect(),
        }
    }
}
