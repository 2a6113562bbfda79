//! Dice that follow from a seed.

use groupage_core::domain::id::digest;

/// A number that looks random and follows from its arguments.
pub fn roll(parts: &[&str]) -> u64 {
    u64::from_str_radix(&digest(parts)[..15], 16).unwrap()
}

/// One throw after another.
pub struct Dice {
    seed: String,
    thrown: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self { seed: seed.to_string(), thrown: 0 }
    }

    /// A number in `0..sides`.
    pub fn below(&mut self, sides: usize) -> usize {
        self.thrown += 1;
        usize::try_from(roll(&["dice", &self.seed, &self.thrown.to_string()]) % sides as u64).unwrap()
    }
}
