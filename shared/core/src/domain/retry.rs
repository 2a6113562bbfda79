//! How long to wait before trying again.
//!
//! Full jitter, as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): a uniform pause between zero and
//! the capped exponential spreads contenders best. The state of a retry lives in messages, not in a process, so this is
//! a function of the attempt rather than an iterator.

/// No pause is longer, in milliseconds: SQS hides a received message for at most twelve hours in all.
pub const MAX_PAUSE_MS: u64 = 11 * 60 * 60 * 1_000;

/// A route's retry policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Calls a task may be part of before it fails.
    pub attempts: u32,
    /// The longest pause after the first attempt, in milliseconds.
    pub base_ms: u64,
    /// The longest pause after any attempt, in milliseconds.
    pub cap_ms: u64,
}

impl Policy {
    /// The pause before the next attempt: uniform in `0..=min(cap, base · 2^(attempt-1))` by `random`, a number in
    /// `0.0..1.0`, but never less than what the downstream asked for with `Retry-After`.
    pub fn backoff_ms(&self, attempt: u32, retry_after_ms: Option<u64>, random: f64) -> u64 {
        let doublings = attempt.saturating_sub(1).min(32);
        let ceiling = self.base_ms.saturating_mul(1 << doublings).min(self.cap_ms);
        let jittered = scale(ceiling, random);
        // Everyone who was told the same `Retry-After` comes back jittered, and nobody comes back before it.
        retry_after_ms.map_or(jittered, |asked| asked.saturating_add(jittered)).min(MAX_PAUSE_MS)
    }
}

/// The pause before a workflow that lost an election looks again: 2–4 s at first, then twice as long each time up to
/// 16–32 s. Its signal on the lock does the work meanwhile; this is for leaders that died and indexes that lag.
pub fn election_delay_ms(attempt: u32, random: f64) -> u64 {
    let floor = 2_000 << attempt.min(3);
    floor + scale(floor, random)
}

/// The pause before a message that could not be handled comes again: 2–4 s, twice as long each time up to 4–8 minutes.
pub fn again_delay_ms(received: u32, random: f64) -> u64 {
    let floor = 1_000 << received.clamp(1, 8);
    floor + scale(floor, random)
}

/// The pause before a batch that found a gate closed looks again: 1–2 s, growing to 4–8 s.
pub fn gate_delay_ms(waits: u32, random: f64) -> u64 {
    let floor = 1_000 << (waits / 4).min(2);
    floor + scale(floor, random)
}

/// The pause before a batch with a ticket comes back whose time is so far ahead, in milliseconds: 0.25 to 1.25 s before
/// that time, as near to it as whole seconds come, since SQS counts in those. A longer pause than 15 minutes SQS cuts short;
/// then the batch goes round once more.
pub const fn turn_delay_ms(ahead_ms: u64) -> u64 {
    const EARLY_MS: u64 = 250;
    let whole_s = ahead_ms.saturating_sub(EARLY_MS) / 1_000;
    if whole_s == 0 { 1_000 } else { whole_s * 1_000 }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a pause needs no precision"
)]
fn scale(ms: u64, random: f64) -> u64 {
    (ms as f64 * random.clamp(0.0, 1.0)) as u64
}

/// Whether trying again can help. Every error of a port answers this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retryable {
    /// Throttling, a timeout, a lost connection, a lost race: try again.
    Yes,
    /// A bug or a wrong configuration: trying again gives the same answer.
    No,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_backoff_stays_under_its_cap_and_over_retry_after(
            attempt in 0_u32..1000, base in 1_u64..10_000, cap in 1_u64..600_000,
            asked in proptest::option::of(0_u64..30_000_000), random in 0.0_f64..1.0,
        ) {
            let policy = Policy { attempts: 5, base_ms: base, cap_ms: cap };
            let pause = policy.backoff_ms(attempt, asked, random);
            prop_assert!(pause >= asked.unwrap_or(0));
            prop_assert!(pause <= asked.unwrap_or(0) + cap);
        }

        #[test]
        fn a_batch_with_a_ticket_is_back_before_its_time(ahead in 1_250_u64..50_000_000) {
            let pause = turn_delay_ms(ahead);
            prop_assert!((250..=1_250).contains(&(ahead - pause)) && pause.is_multiple_of(1_000));
        }

        #[test]
        fn an_election_delay_fits_sqs_and_never_shrinks_below_two_seconds(attempt in 0_u32..1000, random in 0.0_f64..1.0) {
            let pause = election_delay_ms(attempt, random);
            prop_assert!((2_000..=32_000).contains(&pause));
        }
    }
    #[test]
    fn a_backoff_doubles_with_each_attempt_up_to_its_cap() {
        let policy = Policy { attempts: 5, base_ms: 100, cap_ms: 700 };
        assert_eq!([1, 2, 3, 4, 1_000].map(|attempt| policy.backoff_ms(attempt, None, 1.0)), [100, 200, 400, 700, 700]);
        assert_eq!(policy.backoff_ms(1, None, 0.5), 50, "it is drawn from all of the pause");
        assert_eq!(policy.backoff_ms(1, Some(1_000), 0.5), 1_050);
        let all_day = policy.backoff_ms(1, Some(24 * 60 * 60_000), 0.0);
        assert_eq!(all_day, 11 * 60 * 60_000, "SQS hides no message for longer");
    }

    #[test]
    fn what_comes_again_waits_twice_as_long_each_time_and_then_no_longer() {
        let floors = |delay: fn(u32, f64) -> u64, counts: [u32; 5]| counts.map(|count| delay(count, 0.0));
        assert_eq!(floors(election_delay_ms, [0, 1, 2, 3, 9]), [2_000, 4_000, 8_000, 16_000, 16_000]);
        assert_eq!(floors(again_delay_ms, [0, 1, 2, 8, 9]), [2_000, 2_000, 4_000, 256_000, 256_000]);
        assert_eq!(floors(gate_delay_ms, [0, 3, 4, 8, 99]), [1_000, 1_000, 2_000, 4_000, 4_000]);
        for delay in [election_delay_ms, again_delay_ms, gate_delay_ms] {
            assert_eq!(delay(5, 0.5), delay(5, 0.0) * 3 / 2, "between one and two such pauses");
        }
    }
}
