//! The bits of a tracker, as a tree.
//!
//! A *node* is a bitfield of [`GROUP_SIZE`] bits. The nodes of level 0 are the groups, a bit for each item. When all of
//! a node's children are done, the node is *full* and its own bit is set in its parent, one level up; so the writes
//! that everybody makes spread over the groups, and what they share is written once for each 7,168 items. One rule
//! serves every level.
//!
//! A node's bits lie in words. A write changes whole words and assumes that they are as they were read: two writers
//! meet only in one word, and then the later reads again. A bit that is set is never cleared. Whether an item failed is
//! decided by the same write that marks it as done, so the first outcome counts.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{GROUP_SIZE, Place, Which};

/// Bytes of one word.
const WORD_BYTES: usize = 32;
/// Bits of one word.
pub const WORD_BITS: u16 = 256;
/// Words of one node.
pub const WORDS: u8 = 28;

/// Two hundred and fifty-six bits; the first is the lowest of the first byte.
pub type Word = [u8; WORD_BYTES];

/// The highest level that a tracker of the largest size needs.
pub const MAX_LEVEL: u8 = 2;

/// Which node of a tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// 0 for groups of items.
    pub level: u8,
    /// Its position among the nodes of its level.
    pub index: u32,
}

impl NodeId {
    /// The group of this number.
    pub const fn group(number: u32) -> Self {
        Self { level: 0, index: number }
    }

    /// Where its own bit is: in which node, and which bit. `None` above the highest level.
    pub fn parent(self) -> Option<(Self, u16)> {
        if self.level >= MAX_LEVEL {
            return None;
        }
        let Place { group, index } = Place::of(u64::from(self.index))?;
        Some((Self { level: self.level + 1, index: group }, index))
    }
}

/// A node as its item says it. One that was never written is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Which one.
    pub id: NodeId,
    /// The bits of what is done; words that are all zero are left out.
    pub done: BTreeMap<u8, Word>,
    /// The bits of what failed, or has failures in it.
    pub failed: BTreeMap<u8, Word>,
    /// Items below it that failed.
    pub failures: u64,
}

/// One child of a node that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its bit.
    pub bit: u16,
    /// Items in it that failed: 0 or 1 for an item.
    pub failures: u64,
}

/// One write of a node. It assumes of each word that it changes that the word is as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Change {
    /// Which node.
    pub id: NodeId,
    /// What becomes of which words.
    pub words: BTreeMap<u8, WordChange>,
    /// Bits that it sets.
    pub fresh: u64,
    /// Failures that it adds.
    pub failures: u64,
}

/// What becomes of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordChange {
    /// The bits done, as they were read; `None` if the word was not there.
    pub was: Option<Word>,
    /// The bits done, afterwards.
    pub done: Word,
    /// The bits failed, afterwards, if that changes. They change with the bits done only, and so need no condition.
    pub failed: Option<Word>,
}

impl Node {
    /// A node with no bit set.
    pub const fn empty(id: NodeId) -> Self {
        Self { id, done: BTreeMap::new(), failed: BTreeMap::new(), failures: 0 }
    }

    /// The write that marks these children; `None` if all are marked already, whatever came of them.
    pub fn marking(&self, marks: &[Mark]) -> Option<Change> {
        let mut change = Change { id: self.id, words: BTreeMap::new(), fresh: 0, failures: 0 };
        for Mark { bit, failures } in marks {
            let (word, position) = split(*bit);
            let was = self.done.get(&word).copied();
            let changed = match change.words.entry(word) {
                Entry::Occupied(changed) => changed.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(WordChange { was, done: was.unwrap_or_default(), failed: None }),
            };
            if is_set(&changed.done, position) {
                continue;
            }
            set(&mut changed.done, position);
            change.fresh += 1;
            if *failures > 0 {
                let before = self.failed.get(&word).copied().unwrap_or_default();
                set(changed.failed.get_or_insert(before), position);
                change.failures += failures;
            }
        }
        change.words.retain(|_, changed| changed.was != Some(changed.done));
        (!change.words.is_empty()).then_some(change)
    }

    /// Whether what a change assumes holds.
    pub fn is_as(&self, change: &Change) -> bool {
        change.words.iter().all(|(word, changed)| self.done.get(word) == changed.was.as_ref())
    }

    /// This node after a change.
    #[must_use]
    pub fn changed(mut self, change: &Change) -> Self {
        for (word, changed) in &change.words {
            self.done.insert(*word, changed.done);
            if let Some(failed) = changed.failed {
                self.failed.insert(*word, failed);
            }
        }
        self.failures += change.failures;
        self
    }

    /// How many of its children are done.
    pub fn count(&self) -> u16 {
        self.done.values().map(count).sum()
    }

    /// How many bits are set, if they are its first and no others: only then can it be full.
    pub fn leading(&self) -> Option<u16> {
        let count = self.count();
        let leads = |word: u8| {
            let here = count.saturating_sub(u16::from(word) * WORD_BITS).min(WORD_BITS);
            self.done.get(&word).copied().unwrap_or_default() == leading(here)
        };
        (0..WORDS).all(leads).then_some(count)
    }

    /// The position of the first bit from `from` on that is not set; [`GROUP_SIZE`] if there is none.
    pub fn first_clear(&self, from: u16) -> u16 {
        (from..GROUP_SIZE).find(|bit| !self.is_done(*bit)).unwrap_or(GROUP_SIZE)
    }

    /// The positions of those of its first `size` children of which this holds, in order.
    pub fn positions(&self, which: Which, size: u16) -> impl Iterator<Item = u16> {
        let words = (0..WORDS).map(move |word| {
            let done = self.done.get(&word).copied().unwrap_or_default();
            let failed = self.failed.get(&word).copied().unwrap_or_default();
            let bits: Word = match which {
                Which::Succeeded => std::array::from_fn(|byte| done[byte] & !failed[byte]),
                Which::Failed => failed,
                Which::Missing => done.map(|byte| !byte),
            };
            (word, bits)
        });
        words
            .filter(|(_, bits)| *bits != Word::default())
            .flat_map(|(word, bits)| {
                let set = (0..WORD_BITS).filter(move |position| is_set(&bits, *position));
                set.map(move |position| u16::from(word) * WORD_BITS + position)
            })
            .take_while(move |position| *position < size)
    }

    /// Whether a child is done.
    pub fn is_done(&self, bit: u16) -> bool {
        let (word, position) = split(bit);
        self.done.get(&word).is_some_and(|word| is_set(word, position))
    }

    /// Whether a child is done and failed, or has failures in it.
    pub fn has_failed(&self, bit: u16) -> bool {
        let (word, position) = split(bit);
        self.failed.get(&word).is_some_and(|word| is_set(word, position))
    }
}

/// The word that a bit lies in, and its position there.
const fn split(bit: u16) -> (u8, u16) {
    ((bit / WORD_BITS) as u8, bit % WORD_BITS)
}

fn is_set(word: &Word, position: u16) -> bool {
    word[usize::from(position / 8)] & (1 << (position % 8)) != 0
}

fn set(word: &mut Word, position: u16) {
    word[usize::from(position / 8)] |= 1 << (position % 8);
}

fn count(word: &Word) -> u16 {
    word.iter().map(|byte| u16::try_from(byte.count_ones()).unwrap_or_default()).sum()
}

/// A word with its first bits set and no others.
fn leading(bits: u16) -> Word {
    let mut word = Word::default();
    let (whole, rest) = (usize::from(bits / 8), bits % 8);
    word[..whole].fill(0xFF);
    if rest > 0 {
        word[whole] = (1 << rest) - 1;
    }
    word
}

const _: () = assert!(GROUP_SIZE == WORD_BITS * WORDS as u16, "a node's words hold a group");

#[cfg(test)]
mod tests;
