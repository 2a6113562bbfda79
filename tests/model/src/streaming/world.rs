//! The tables of one stream, and what a write breaks.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::stream::{Bits, Page, State, Stream};
use groupage_core::domain::tracker::{Change, GROUP_SIZE, Node, NodeId};
use groupage_core::ports::Marked;

use super::io::{Answer, Op};
use super::process::Role;
use super::rules::{Promise, Rule};
use super::setting::{Does, Setting, trace};
use crate::kept::Kept;

/// The tables.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    pub(super) stream: Kept<Stream>,
    nodes: BTreeMap<NodeId, Kept<Node>>,
    pub(super) pages: BTreeMap<u64, Kept<Page>>,
    /// What the events hold that have a number.
    pub(super) given: BTreeMap<u64, u8>,
    /// Those that were sent.
    pub(super) sent: BTreeSet<u64>,
    /// Those that can never be tasks.
    pub(super) rejected: BTreeSet<u64>,
    /// Whose acks have begun: the tasks are settled.
    pub(super) acking: BTreeSet<usize>,
    /// The last watermark that people were told.
    pub(super) told: u64,
    /// The first promise that was broken.
    pub broken: Option<Promise>,
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
            broken: None,
        }
    }

    /// All bits that there are.
    pub(super) fn bits(&self) -> Bits {
        Bits::of(self.nodes.values().map(|node| (**node).clone()))
    }

    /// Carries out an I/O, after which its process may die.
    pub(super) fn apply(
        &mut self,
        op: &Op,
        role: Role,
        dies: bool,
        setting: &Setting,
        removed: Option<Rule>,
    ) -> Answer {
        if let Role::One(place) = role
            && matches!(setting.who.get(place), Some(Does::Acks(..)))
        {
            self.acking.insert(place);
        }
        let answer = match op {
            Op::Stream => Answer::Stream(self.stream.clone()),
            Op::See(nodes) => Answer::Seen((self.stream.clone(), self.see(nodes, removed))),
            Op::Feed(fed, page) => Answer::Is(self.feed(fed, page, dies, removed)),
            Op::Commit(stream) => Answer::Is(self.commit(stream, setting, removed)),
            Op::Mark(change) => Answer::Marked(Kept::new(self.mark(change, removed))),
            Op::Nodes(from) => {
                let last = NodeId { index: u32::MAX, ..*from };
                Answer::Nodes(self.nodes.range(*from..=last).map(|(_, node)| node.clone()).collect())
            }
            Op::DropNodes(nodes) => {
                nodes.iter().for_each(|node| self.drop_node(*node, removed));
                Answer::Done
            }
            Op::Pages(from, to) => Answer::Pages(self.pages(*from, *to, role, setting, removed)),
            Op::DropPages(starts) => {
                starts.iter().for_each(|start| drop(self.pages.remove(start)));
                Answer::Done
            }
            Op::Send(number, content) => {
                if self.given.get(number).is_some_and(|given| given != content) {
                    self.breaks(Promise::OneEvent);
                }
                self.sent.insert(*number);
                Answer::Done
            }
            Op::Reject(number) => {
                self.rejected.insert(*number);
                Answer::Done
            }
            Op::Tell(watermark) => {
                self.told = self.told.max(*watermark);
                Answer::Done
            }
        };
        if op.is_write() && !op.is_sending() {
            self.judge(setting);
        }
        answer
    }

    fn see(&self, nodes: &[NodeId], removed: Option<Rule>) -> Vec<Kept<Node>> {
        let found: Vec<Kept<Node>> = nodes.iter().filter_map(|node| self.nodes.get(node).cloned()).collect();
        let is_hidden = |node: &Kept<Node>| {
            let is_below = |below: &Kept<Node>| below.id.parent().is_some_and(|(parent, _)| parent == node.id);
            removed == Some(Rule::AsksAbove) && found.iter().any(is_below)
        };
        found.iter().filter(|node| !is_hidden(node)).cloned().collect()
    }

    fn feed(&mut self, fed: &Stream, page: &Kept<Page>, dies: bool, removed: Option<Rule>) -> bool {
        let old = self.stream.clone();
        let is_as_read = old.next == page.start || removed == Some(Rule::FedAsRead);
        let is_open = old.state == State::Open || removed == Some(Rule::OpenIsFed);
        if !is_as_read || !is_open {
            return false;
        }
        let next =
            Stream { next: fed.next, last: fed.last.clone(), active_at: fed.active_at, due: fed.due, ..(*old).clone() };
        self.stream = Kept::new(next);
        if !dies || removed != Some(Rule::TracesWithNumbers) {
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

    fn commit(&mut self, stream: &Stream, setting: &Setting, removed: Option<Rule>) -> bool {
        let old = self.stream.clone();
        let mut next = Stream { next: old.next, last: old.last.clone(), ..stream.clone() };
        let is_seen = stream.due.is_some() || old.next == stream.next || removed == Some(Rule::NothingFedSince);
        if removed == Some(Rule::CommitAsRead) {
            next.revision = old.revision.next();
        }
        if old.revision.next() == next.revision && is_seen {
            self.judge_commit(&old, &next, setting);
            self.stream = Kept::new(next);
            return true;
        }
        *old == next
    }

    fn mark(&mut self, change: &Change, removed: Option<Rule>) -> Marked {
        let old = self.nodes.get(&change.id).map_or_else(|| Node::empty(change.id), |node| (**node).clone());
        if removed != Some(Rule::WordsAsRead) && !old.is_as(change) {
            return Marked::Changed(old);
        }
        let new = old.clone().changed(change);
        let stays = |bit: u16| !old.is_done(bit) || new.is_done(bit) && new.has_failed(bit) == old.has_failed(bit);
        if !(0..GROUP_SIZE).all(stays) {
            self.breaks(Promise::BitsStay);
        }
        self.nodes.insert(change.id, Kept::new(new.clone()));
        if removed == Some(Rule::BitAboveFirst) && new.id.level == 0 && new.count() == GROUP_SIZE {
            self.drop_node(new.id, removed);
        }
        Marked::Yes(new)
    }

    fn drop_node(&mut self, id: NodeId, removed: Option<Rule>) {
        if self.nodes.contains_key(&id) && !self.bits().is_reported(id) {
            self.breaks(Promise::BitsStay);
        }
        self.nodes.remove(&id);
        if removed == Some(Rule::PageStays) {
            let (size, group) = (u64::from(GROUP_SIZE), u64::from(id.index));
            self.pages.retain(|start, _| id.level > 0 || *start / size != group);
        }
    }

    fn pages(&self, from: u64, to: u64, role: Role, setting: &Setting, removed: Option<Rule>) -> Vec<Kept<Page>> {
        let found = self.pages.range(from..to).map(|(_, page)| page.clone());
        let Role::One(place) = role else { return found.collect() };
        match setting.who.get(place) {
            Some(Does::Feeds { content, .. }) if removed == Some(Rule::TracesCompared) => {
                let own = |page: &Page| (page.start..page.end()).map(|number| trace(number, *content)).collect();
                found.map(|page| Kept::new(Page { start: page.start, traces: own(&page) })).collect()
            }
            _ => found.collect(),
        }
    }

    pub(super) fn breaks(&mut self, promise: Promise) {
        self.broken = self.broken.or(Some(promise));
    }
}
