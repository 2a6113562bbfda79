//! How long a worker that found nothing to do waits before it looks again.

use std::cell::Cell;

/// A pause that doubles while there is nothing to do.
#[derive(Debug, Default)]
pub struct Pause {
    /// Pauses since there was something.
    taken: Cell<u32>,
}

const SHORTEST_MS: u64 = 200;
/// A dead worker's batch waits for its session's expiry, and for the end of this.
const LONGEST_MS: u64 = 1_500;

impl Pause {
    /// There was something to do.
    pub fn reset(&self) {
        self.taken.set(0);
    }

    /// The next pause, in milliseconds. `random` is in `0.0..1.0` and takes up to a half off, so that workers who were
    /// started together do not ask together.
    pub fn next_ms(&self, random: f64) -> u64 {
        let taken = self.taken.replace(self.taken.get().saturating_add(1));
        let longest = LONGEST_MS.min(SHORTEST_MS << taken.min(16));
        longest - (longest as f64 / 2.0 * random) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_begin_anew_when_there_was_something() {
        let pause = Pause::default();
        let pauses: Vec<u64> = (0..6).map(|_| pause.next_ms(0.0)).collect();
        assert_eq!(pauses, [200, 400, 800, 1_500, 1_500, 1_500]);
        pause.reset();
        assert_eq!(pause.next_ms(0.999), 101);
        for _ in 0..1_000 {
            assert!((750..=LONGEST_MS).contains(&Pause { taken: Cell::new(99) }.next_ms(0.5)));
        }
    }
}
