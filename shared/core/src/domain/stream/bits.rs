//! What the bits of a stream say: which events are settled, and how far all of them are.
//!
//! The nodes are those of trackers, and a full one sets its bit in its parent, too. But a full node is *dropped* then:
//! its parent's bit says all there is to say. So a bit upstairs always comes before the bits below it: a process that
//! writes to a node that was dropped meanwhile makes it anew, with a single bit, and nobody believes it.

use std::collections::BTreeMap;

use super::MAX_NUMBER;
use crate::domain::tracker::{GROUP_SIZE, MAX_LEVEL, Node, NodeId, Place};

/// Nodes of one stream, as they were read. One that is not there has no bits, or was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    nodes: BTreeMap<NodeId, Node>,
}

/// What the nodes on the way down to an event say of all that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// The events before this number are settled, this one is not.
    Stops(u64),
    /// The events before this number are settled; what comes then, other nodes say.
    Goes(u64),
    /// This node is full, and its parent does not say so yet.
    Full(NodeId),
}

impl Bits {
    /// What these nodes say.
    pub fn of(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.id, node)).collect() }
    }

    /// The node, or an empty one.
    pub fn node(&self, id: NodeId) -> Node {
        self.nodes.get(&id).cloned().unwrap_or_else(|| Node::empty(id))
    }

    /// Whether the node was read, and had bits.
    pub fn has(&self, id: NodeId) -> bool {
        self.nodes.contains_key(&id)
    }

    /// Puts a node as it is now in the place of what was read before.
    pub fn see(&mut self, node: Node) {
        self.nodes.insert(node.id, node);
    }

    /// Whether a node above this one says that all below is settled. The nodes above must have been read.
    pub fn is_reported(&self, id: NodeId) -> bool {
        let mut below = id;
        while let Some((parent, bit)) = below.parent() {
            if self.nodes.get(&parent).is_some_and(|node| node.is_done(bit)) {
                return true;
            }
            below = parent;
        }
        false
    }

    /// Whether an event is settled. The nodes on the way to it must have been read.
    pub fn is_settled(&self, number: u64) -> bool {
        let Some(Place { group, index }) = Place::of(number) else { return false };
        let group = NodeId::group(group);
        self.is_reported(group) || self.nodes.get(&group).is_some_and(|node| node.is_done(index))
    }

    /// How far all events from `at` on are settled, as far as the nodes [on the way](path) to it say.
    pub fn run(&self, at: u64) -> Run {
        let Some(path) = path(at) else { return Run::Stops(at) };
        // From the top: what a node above says makes whatever lies below it void.
        for id in path.into_iter().rev() {
            let child = below(at, id.level);
            let node = self.nodes.get(&id);
            match node.map_or(child, |node| node.first_clear(child)) {
                GROUP_SIZE if node.is_some_and(|node| node.count() == GROUP_SIZE) && id.level < MAX_LEVEL => {
                    return Run::Full(id);
                }
                stop if id.level == 0 => {
                    let reached = at - u64::from(child) + u64::from(stop);
                    return if stop == GROUP_SIZE { Run::Goes(reached) } else { Run::Stops(reached) };
                }
                stop if stop > child => {
                    return Run::Goes(first_below(id) + u64::from(stop) * span(id.level));
                }
                _ => {}
            }
        }
        Run::Stops(at)
    }
}

/// The nodes on the way down to an event, from its group upwards; `None` if no stream has that many.
pub fn path(number: u64) -> Option<[NodeId; MAX_LEVEL as usize + 1]> {
    if number >= MAX_NUMBER {
        return None;
    }
    let group = NodeId::group(Place::of(number)?.group);
    let (parent, _) = group.parent()?;
    let (top, _) = parent.parent()?;
    Some([group, parent, top])
}

/// The first event below a node.
pub fn first_below(id: NodeId) -> u64 {
    u64::from(id.index) * u64::from(GROUP_SIZE) * span(id.level)
}

/// Events below one bit of a node of this level.
const fn span(level: u8) -> u64 {
    (GROUP_SIZE as u64).pow(level as u32)
}

/// Which bit of its node of this level an event lies below.
fn below(number: u64, level: u8) -> u16 {
    u16::try_from(number / span(level) % u64::from(GROUP_SIZE)).unwrap_or_default()
}

/// What all of a stream's nodes say, counted level by level from the top: each level needs to know those above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    above: Bits,
    /// Events settled.
    pub settled: u64,
    /// Those that failed.
    pub failed: u64,
}

impl Count {
    /// Counts a node in. Those of a level come after all of the level above.
    pub fn add(&mut self, node: Node) {
        if self.above.is_reported(node.id) {
            return;
        }
        self.settled += u64::from(node.count()) * span(node.id.level);
        self.failed += node.failures;
        if node.id.level > 0 {
            self.above.see(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::tracker::Mark;

    const SIZE: u64 = GROUP_SIZE as u64;

    fn node(id: NodeId, bits: impl IntoIterator<Item = u16>) -> Node {
        let marks: Vec<Mark> = bits.into_iter().map(|bit| Mark { bit, failures: 0 }).collect();
        let empty = Node::empty(id);
        empty.marking(&marks).map_or(empty.clone(), |change| empty.clone().changed(&change))
    }

    #[test]
    fn a_bit_upstairs_comes_before_the_bits_below_it() {
        let (group, parent) = (NodeId::group(1), NodeId { level: 1, index: 0 });
        let made_anew = node(group, [5]);
        let bits = Bits::of([made_anew.clone(), node(parent, [1])]);
        assert!(bits.is_settled(SIZE) && bits.is_settled(SIZE + 5) && bits.is_settled(2 * SIZE - 1));
        assert!(!bits.is_settled(0) && !bits.is_settled(2 * SIZE));
        assert_eq!(bits.run(SIZE + 3), Run::Goes(2 * SIZE));
        let mut count = Count::default();
        [node(parent, [1]), made_anew].into_iter().for_each(|node| count.add(node));
        assert_eq!(count.settled, SIZE);
    }

    #[test]
    fn a_run_goes_on_over_all_that_was_dropped() {
        let (parent, top) = (NodeId { level: 1, index: 0 }, NodeId { level: 2, index: 0 });
        let bits = Bits::of([node(NodeId::group(0), 0..9), node(parent, 1..1_396)]);
        assert_eq!(bits.run(0), Run::Stops(9));
        assert_eq!(bits.run(SIZE), Run::Goes(1_396 * SIZE));
        assert_eq!(Bits::of([node(NodeId::group(0), 0..GROUP_SIZE)]).run(7), Run::Full(NodeId::group(0)));
        assert_eq!(Bits::of([node(parent, 0..GROUP_SIZE)]).run(7), Run::Full(parent));
        assert_eq!(Bits::of([node(top, 0..3)]).run(7), Run::Goes(3 * SIZE * SIZE));
        assert_eq!(Bits::default().run(7), Run::Stops(7));
    }

    #[test]
    fn a_stream_ends_where_its_highest_node_does() {
        let (top, last) = (NodeId { level: 2, index: 0 }, NodeId { level: 1, index: GROUP_SIZE.into() });
        assert_eq!(first_below(last), MAX_NUMBER);
        assert_eq!(Bits::of([node(top, 0..GROUP_SIZE)]).run(7), Run::Goes(MAX_NUMBER));
        assert_eq!((path(MAX_NUMBER), Bits::default().run(MAX_NUMBER)), (None, Run::Stops(MAX_NUMBER)));
        let second = NodeId { level: 1, index: 1 };
        let bits = Bits::of([node(second, 0..9)]);
        assert!(bits.has(second) && !bits.has(top));
        assert_eq!(bits.run(SIZE * SIZE), Run::Goes(SIZE * SIZE + 9 * SIZE));
    }

    #[test]
    fn a_count_adds_up_failures_and_keeps_no_group() {
        let failing = |group, failures| {
            let empty = Node::empty(NodeId::group(group));
            let change = empty.marking(&[Mark { bit: 0, failures }]).unwrap();
            empty.changed(&change)
        };
        let mut count = Count::default();
        [failing(0, 2), failing(1, 3)].into_iter().for_each(|node| count.add(node));
        assert_eq!((count.settled, count.failed), (2, 5));
        assert!(!count.above.has(NodeId::group(0)), "there may be a million of them");
    }

    proptest! {
        #[test]
        fn a_run_is_that_of_a_sorted_set(settled in prop::collection::btree_set(0..60_u16, 0..60), at in 0..60_u16) {
            let bits = Bits::of([node(NodeId::group(0), settled.iter().copied())]);
            let stop = (at..).find(|number| !settled.contains(number)).unwrap();
            prop_assert_eq!(bits.run(u64::from(at)), Run::Stops(u64::from(stop)));
            let found: BTreeSet<u16> = (0..60).filter(|number| bits.is_settled(u64::from(*number))).collect();
            prop_assert_eq!(found, settled);
        }
    }
}
