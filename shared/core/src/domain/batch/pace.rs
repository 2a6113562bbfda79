//! How fast a batch fills, and when its leader should look at it again.

use serde::{Deserialize, Serialize};

/// A delayed message knows whole seconds.
const SECOND_MS: u64 = 1_000;
/// How fast tasks came before the present batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// This many tasks.
    pub members: usize,
    /// In this many milliseconds.
    pub ms: u64,
}

impl Pace {
    /// Nothing is known of before. What comes to a leader first has gathered for about so long or somewhat longer: it
    /// is what one of five processes of the task queue's mapping received within its window. Too early a look costs
    /// little.
    pub const UNKNOWN: Self = Self { members: 0, ms: SECOND_MS / 5 };
}

/// A leader does not look more often than this, in milliseconds.
const SHORTEST_LOOK_MS: u64 = 30;
/// A leader whose batch should be full within this many milliseconds stays and looks again and again: a message would
/// be late. Twice the task queue's window: tasks come in lumps, and who has just taken one sees few for a while.
const NEAR_MS: u64 = 4 * SECOND_MS;
/// As long as that, it looks as often as this at least, in milliseconds: tasks come in lumps, as mappings gather them.
const LONGEST_LOOK_MS: u64 = 50;
/// But between two looks a batch gets older by this part at least, so that one whose last tasks do not come is looked
/// at fewer and fewer times.
const AGES_BY: u64 = 40;

/// In how long a batch should be looked at again, in milliseconds, whose window began `open_ms` ago, that has `joined`
/// members and `room` for more, and waits for `left_ms` at most; `before` is how fast the batch before it filled.
///
/// When it would be full if tasks came as fast as so far, in whole seconds (a delayed message knows no less, and too
/// early is better than too late); but after half of what is left at the latest, for a rate that rises. Shortly before,
/// after half of the time that it should take, and a twentieth of a second at most. Except at
/// that half, never before the batch is older by a fortieth. So each look changes what is left, or the age, by a
/// factor, and their number grows with the window's logarithm.
pub fn next_look_ms(left_ms: u64, open_ms: u64, joined: usize, room: usize, before: Pace) -> u64 {
    let (so_far_ms, came) = (open_ms + before.ms, joined + before.members);
    let full_in_ms = so_far_ms.saturating_mul(room as u64) / (came.max(1) as u64);
    let halfway_ms = (left_ms / 2).max(SECOND_MS);
    let aged_ms = open_ms / AGES_BY;
    let whole_seconds = |ms: u64| ms - ms % SECOND_MS;
    let look_in_ms = match full_in_ms {
        0..NEAR_MS => (full_in_ms / 2).clamp(SHORTEST_LOOK_MS, LONGEST_LOOK_MS).max(aged_ms),
        _ if full_in_ms < halfway_ms => whole_seconds(full_in_ms.max(aged_ms)),
        _ => halfway_ms,
    };
    look_in_ms.min(left_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_looked_at_when_it_should_be_full_and_halfway_at_the_latest() {
        // Open for a moment, with what a fifth of a second brought.
        assert_eq!(next_look_ms(6_000, 0, 50, 50, Pace::UNKNOWN), 50);
        assert_eq!(next_look_ms(6_000, 0, 20, 80, Pace::UNKNOWN), 50);
        assert_eq!(next_look_ms(6_000, 0, 5, 2, Pace::UNKNOWN), 40, "half of the 80 ms that it should take");
        assert_eq!(next_look_ms(6_000, 0, 5, 95, Pace::UNKNOWN), 50);
        assert_eq!(next_look_ms(20_000, 0, 4, 96, Pace::UNKNOWN), 4_000);
        assert_eq!(next_look_ms(6_000, 0, 4, 96, Pace::UNKNOWN), 3_000);
        assert_eq!(next_look_ms(6_000, 0, 1, 99, Pace::UNKNOWN), 3_000);
        assert_eq!(next_look_ms(6_000, 0, 99, 1, Pace::UNKNOWN), 30);
        // Nothing came: the same rate, over a longer time.
        assert_eq!(next_look_ms(300_000, 1_000, 20, 80, Pace::UNKNOWN), 4_000);
        assert_eq!(next_look_ms(297_000, 3_600, 20, 80, Pace::UNKNOWN), 15_000);
        // Little is left over from the batch before, which filled within a second.
        let before = Pace { members: 100, ms: 1_000 };
        assert_eq!(next_look_ms(6_000, 0, 3, 97, before), 50);
        // A minute without the last one: not twenty times a second any more.
        assert_eq!(next_look_ms(240_000, 60_000, 99, 1, Pace::UNKNOWN), 1_500);
        // Never after the window.
        assert_eq!(next_look_ms(20, 5_980, 99, 1, Pace::UNKNOWN), 20);
        assert_eq!(next_look_ms(700, 5_300, 1, 99, Pace::UNKNOWN), 700);
    }

    #[test]
    fn a_batch_whose_last_tasks_do_not_come_is_looked_at_less_and_less() {
        for (joined, room) in [(999, 1), (99, 1), (97, 3), (50, 50), (1, 99)] {
            let looks_in = |window_ms: u64| {
                let (mut open_ms, mut looks) = (0, 0);
                while open_ms < window_ms {
                    open_ms += next_look_ms(window_ms - open_ms, open_ms, joined, room, Pace::UNKNOWN);
                    looks += 1;
                }
                looks
            };
            let (minutes, hours) = (looks_in(300_000), looks_in(10 * 3_600_000));
            assert!(minutes <= 300, "{minutes} looks in five minutes with {joined} of {}", joined + room);
            assert!(hours <= 600, "{hours} looks in ten hours with {joined} of {}", joined + room);
        }
    }
}
