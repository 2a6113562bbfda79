//! How fast one process puts waiting tasks into a partition of the index that has throttled it.
//!
//! A process learns what its share is as TCP does: a refusal halves its pace, and each second without one raises it
//! (Chiu and Jain, *Analysis of the Increase and Decrease Algorithms for Congestion Avoidance*, 1989). It raises its
//! pace by a factor, not by an amount. The number of processes grows with the backlog, and their sum must not grow
//! faster for it.

use crate::domain::time::Timestamp;

/// The pace that a process has after its first refusal, in puts a second. After another one it has no more.
const FIRST: f64 = 32.0;
/// Puts that a process may try at once that hears of others' refusals: its tasks must not depend on an older process.
const FEW: f64 = 4.0;
/// No process gives up for good.
const LEAST: f64 = 1.0 / 8.0;
/// From this pace on a process is as good as free: a partition serves 1,000 write units a second.
const FREE: f64 = 1_000.0;
/// Without a refusal the pace doubles in so long, in milliseconds, and a small one in up to 16 times as long.
const DOUBLES_MS: f64 = 2_250.0;
/// Puts that are saved up, in seconds: from one event to the next pass two and a little.
const SAVED_S: f64 = 3.0;
/// For so long after a refusal nothing is put, in milliseconds, and what is refused was under way.
const QUIET_MS: u64 = 250;

/// What one process may still put for a Target, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Ration {
    /// Puts a second at the time `since`.
    pace: f64,
    /// When it was last refused.
    since: Timestamp,
    /// Puts that are left.
    left: f64,
    /// When `left` was last counted; after a refusal, the end of the quiet time.
    counted: Timestamp,
}

impl Ration {
    /// The ration once a put was refused; there was none before if it was the first.
    pub fn refused(before: Option<Self>, now: Timestamp) -> Self {
        let pace = before.map_or(FIRST, |before| (before.pace_at(now) / 2.0).clamp(LEAST, FIRST));
        Self { pace, since: now, left: 0.0, counted: now.plus_ms(QUIET_MS) }
    }

    /// The ration of a process that was never refused, for a Target whose tasks have yielded elsewhere so often in a
    /// row.
    pub fn expected(times: u8, now: Timestamp) -> Self {
        let pace = (FIRST / f64::from(1_u16 << times.min(8))).max(LEAST);
        Self { pace, since: now, left: pace.max(FEW), counted: now }
    }

    /// Whether a refusal was to be expected: the put was under way when another one was refused.
    pub const fn is_quiet(&self, now: Timestamp) -> bool {
        now.0 < self.counted.0
    }

    /// Whether the process may put as much as it likes again.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.pace_at(now) >= FREE
    }

    /// Takes one put out of the ration; `None` if nothing is left.
    #[must_use]
    pub fn take(self, now: Timestamp) -> Option<Self> {
        let pace = self.pace_at(now);
        let came = pace * now.since(self.counted) as f64 / 1_000.0;
        let left = (self.left + came).min((pace * SAVED_S).max(1.0).max(self.left));
        (left >= 1.0).then(|| Self { left: left - 1.0, counted: self.counted.max(now), ..self })
    }

    fn pace_at(&self, now: Timestamp) -> f64 {
        // A process with a small pace is one of many: together they must not grow faster than a few do.
        let doubles_ms = DOUBLES_MS * (FIRST / self.pace).max(1.0).sqrt();
        self.pace * (now.since(self.since) as f64 / doubles_ms).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Timestamp = Timestamp(10_000);

    /// How many puts a process makes in a second that begins so long after a refusal.
    fn in_a_second(mut ration: Ration, after_ms: u64) -> usize {
        let taken = (0..1_000).filter(|ms| {
            let next = ration.take(REFUSED.plus_ms(after_ms + ms));
            ration = next.unwrap_or(ration);
            next.is_some()
        });
        taken.count()
    }

    #[test]
    fn a_refusal_halves_the_pace_and_time_doubles_it() {
        let first = Ration::refused(None, REFUSED);
        assert_eq!(first.take(REFUSED.plus_ms(QUIET_MS)), None, "what is refused leaves nothing to put at once");
        let second = Ration::refused(Some(first), REFUSED);
        let (one, other) = (in_a_second(first, QUIET_MS), in_a_second(second, QUIET_MS));
        assert!((30..=48).contains(&one) && (15..=24).contains(&other), "{one}, then {other}");
        let late = in_a_second(second, 8_000);
        assert!(late > 3 * other, "what is saved up, and more than before: {late}");
    }

    #[test]
    fn refusals_that_were_under_way_count_once_and_none_is_for_ever() {
        let first = Ration::refused(None, REFUSED);
        assert!(first.is_quiet(REFUSED.plus_ms(QUIET_MS - 1)) && !first.is_quiet(REFUSED.plus_ms(QUIET_MS)));
        let often = (0..40).fold(first, |ration, _| Ration::refused(Some(ration), REFUSED));
        assert!(often.take(REFUSED.plus_ms(9_000)).is_some(), "it tries again within seconds");
        assert!(!first.is_over(REFUSED.plus_ms(5_000)) && first.is_over(REFUSED.plus_ms(15_000)));
    }

    #[test]
    fn a_process_that_hears_of_refusals_tries_some_puts_and_goes_on_the_more_slowly_the_more_there_were() {
        let begun = |times| Ration::expected(times, REFUSED);
        assert_eq!(in_a_second(begun(u8::MAX), 0), 4, "however many there were");
        let first = [1, 2, 3].map(|times| in_a_second(begun(times), 0));
        assert!(first.is_sorted_by(|one, next| one > next) && first[0] <= 48, "{first:?}");
        assert!(!begun(1).is_quiet(REFUSED), "its first refusal is news");
        let after = |times| in_a_second(Ration { left: 0.0, ..begun(times) }, 0);
        assert!(after(1) > after(3) && after(3) > after(6), "{} {} {}", after(1), after(3), after(6));
    }
}
