//! What a head remembers of reservations that it forgot: enough to refuse a late copy of any of their takings.
//!
//! The highest end of those forgotten: a taking that saw fewer tokens taken than that is refused. A reservation ends
//! above what its own taking saw, so its late copy is always refused. Others are, too, if a reservation was made *and*
//! forgotten since they looked; they look again.
//!
//! The end is kept for each *strand* of keys, since a copy has its original's key: so who takes meets, and who forgets
//! overtakes, only a sixteenth of the others. With one strand, half of all forgetting was refused where 32 release at
//! once.

use crate::domain::id::{Token, digest};

/// A sixteenth of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strand(usize);

/// The highest end of any reservation that was forgotten, for each strand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten([Token; Strand::COUNT]);

impl Strand {
    /// How many there are.
    pub const COUNT: usize = 16;

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The strand of a caller's key.
    pub fn of(key: &str) -> Self {
        let first = digest(&["strand", key]).chars().next().and_then(|digit| digit.to_digit(16));
        Self(first.unwrap_or_default() as usize % Self::COUNT)
    }

    /// Its number.
    pub const fn number(self) -> usize {
        self.0
    }
}

impl Forgotten {
    /// These ends.
    pub fn new(of: impl Fn(Strand) -> Token) -> Self {
        Self(std::array::from_fn(|number| of(Strand(number))))
    }

    /// The highest end that was forgotten in a strand; zero if none was.
    pub fn in_strand(&self, strand: Strand) -> Token {
        self.0.get(strand.0).copied().unwrap_or_default()
    }

    /// The same for the strand of a key.
    pub fn end(&self, key: &str) -> Token {
        self.in_strand(Strand::of(key))
    }

    /// Remembers one more end.
    pub(super) fn raise(&mut self, key: &str, end: Token) {
        if let Some(highest) = self.0.get_mut(Strand::of(key).0) {
            *highest = end.max(*highest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_over_all_strands() {
        let mut numbers: Vec<usize> = (0..200).map(|n| Strand::of(&format!("key-{n}")).number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers, Strand::all().map(Strand::number).collect::<Vec<_>>());
        assert_eq!(numbers.len(), Strand::COUNT);
    }

    #[test]
    fn the_highest_end_counts_and_in_its_own_strand_only() {
        let mut forgotten = Forgotten::new(|strand| Token(strand.number() as u64));
        let mine = Strand::of("k");
        forgotten.raise("k", Token(50));
        forgotten.raise("k", Token(40));
        assert_eq!(forgotten.end("k"), Token(50));
        for other in Strand::all().filter(|strand| *strand != mine) {
            assert_eq!(forgotten.in_strand(other), Token(other.number() as u64));
        }
    }
}
