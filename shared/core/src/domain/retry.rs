//! How long to wait before trying again.
//!
//! Full jitter, as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): a uniform pause between zero and
//! the capped exponential spreads contenders best. The state of a retry lives in messages, not in a process, so this is
//! a function of the attempt rather than an iterator.

use super::time::Timestamp;

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
    /// How long an outage is waited out, in milliseconds. 0: it is not, and each failure is an attempt.
    pub give_up_ms: u64,
    /// The longest pause that a `Retry-After` may ask for, in milliseconds.
    pub longest_pause_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
        Self { attempts: 5, base_ms: 1_000, cap_ms: 60_000, give_up_ms: DAY_MS, longest_pause_ms: 15 * 60 * 1_000 }
    }
}

impl Policy {
    /// Whether a failure that says nothing about the tasks uses up no attempt of theirs.
    pub const fn waits_outages_out(&self) -> bool {
        self.give_up_ms > 0
    }

    /// What results from it, in words.
    pub fn in_words(&self) -> String {
        let Self { attempts, base_ms, cap_ms, give_up_ms, longest_pause_ms } = *self;
        let ceiling = |call: u32| base_ms.saturating_mul(1 << call.min(32)).min(cap_ms);
        let pauses: Vec<u64> = (0..attempts.saturating_sub(1)).map(ceiling).collect();
        let shown: Vec<String> = pauses.iter().take(6).map(|ms| span(*ms)).collect();
        let more =
            if pauses.len() > shown.len() { format!(", … {}", span(ceiling(attempts))) } else { String::new() };
        let again = match shown.as_slice() {
            [] => "never calls a task again".to_owned(),
            shown => format!("calls again after up to {}{more}", shown.join(", ")),
        };
        let own = format!("a task fails after {attempts} calls that fail");
        if self.waits_outages_out() {
            format!(
                "{again}; {own} while others are answered; an outage is waited out for {} and uses up no call; \
                 a Retry-After is heeded for up to {}",
                span(give_up_ms),
                span(longest_pause_ms)
            )
        } else {
            format!("{again}; {own}, in an outage, too; a Retry-After is heeded for up to {}", span(longest_pause_ms))
        }
    }

    /// The pause before the next attempt: uniform in `0..=min(cap, base · 2^(attempt-1))` by `random`, a number in
    /// `0.0..1.0`, but never less than what the downstream asked for with `Retry-After`, as far as that is heeded.
    pub fn backoff_ms(&self, attempt: u32, retry_after_ms: Option<u64>, random: f64) -> u64 {
        let doublings = attempt.saturating_sub(1).min(32);
        let ceiling = self.base_ms.saturating_mul(1 << doublings).min(self.cap_ms);
        let jittered = scale(ceiling, random);
        // Everyone who was told the same `Retry-After` comes back jittered, and nobody comes back before it.
        let asked = retry_after_ms.map_or(0, |asked| asked.min(self.longest_pause_ms));
        asked.saturating_add(jittered).min(MAX_PAUSE_MS)
    }
}

/// A time in the largest unit that tells it whole.
fn span(ms: u64) -> String {
    let units = [(24 * 60 * 60_000, "days"), (60 * 60_000, "h"), (60_000, "min"), (1_000, "s")];
    let fits =
        units.into_iter().find(|(unit_ms, unit)| ms.is_multiple_of(*unit_ms) && (ms > *unit_ms || *unit != "days"));
    fits.map_or_else(|| format!("{ms} ms"), |(unit_ms, unit)| format!("{} {unit}", ms / unit_ms))
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

/// Returns the pause before a batch with a ticket comes back whose time is so far ahead, in milliseconds: whole
/// seconds, since SQS counts in those, which end 0.25 to 1.25 s before that time. A time that is minutes ahead is an
/// estimate, so the batch comes back after fifteen sixteenths of it and asks again.
pub const fn turn_delay_ms(ahead_ms: u64) -> u64 {
    const EARLY_MS: u64 = 250;
    const FAR_MS: u64 = 120_000;
    let early_ms = if ahead_ms > FAR_MS { ahead_ms / 16 } else { EARLY_MS };
    match ahead_ms.saturating_sub(early_ms) / 1_000 {
        0 => 1_000,
        whole_s => whole_s * 1_000,
    }
}

/// A moment between these two, by `random`, a number in `0.0..1.0`.
pub fn between(from: Timestamp, to: Timestamp, random: f64) -> Timestamp {
    from.plus_ms(scale(to.since(from), random))
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
            let policy = Policy { base_ms: base, cap_ms: cap, ..Policy::default() };
            let pause = policy.backoff_ms(attempt, asked, random);
            let heeded = asked.unwrap_or(0).min(policy.longest_pause_ms);
            prop_assert!(pause >= heeded);
            prop_assert!(pause <= heeded + cap);
        }

        #[test]
        fn a_batch_with_a_ticket_is_back_before_its_time(ahead in 1_250_u64..50_000_000) {
            let pause = turn_delay_ms(ahead);
            let early = if ahead > 120_000 { ahead / 16 } else { 250 };
            prop_assert!((early..=early + 1_000).contains(&(ahead - pause)) && pause.is_multiple_of(1_000));
        }

        #[test]
        fn an_election_delay_fits_sqs_and_never_shrinks_below_two_seconds(attempt in 0_u32..1000, random in 0.0_f64..1.0) {
            let pause = election_delay_ms(attempt, random);
            prop_assert!((2_000..=32_000).contains(&pause));
        }
    }
    #[test]
    fn a_policy_says_in_words_what_results_from_it() {
        assert_eq!(
            Policy::default().in_words(),
            "calls again after up to 1 s, 2 s, 4 s, 8 s; a task fails after 5 calls that fail while others are answered; \
             an outage is waited out for 24 h and uses up no call; a Retry-After is heeded for up to 15 min"
        );
        let hasty = Policy { attempts: 1, give_up_ms: 0, longest_pause_ms: 1_500, ..Policy::default() };
        assert_eq!(
            hasty.in_words(),
            "never calls a task again; a task fails after 1 calls that fail, in an outage, too; \
             a Retry-After is heeded for up to 1500 ms"
        );
        let many = Policy { attempts: 20, cap_ms: 90_000, give_up_ms: 14 * 24 * 60 * 60_000, ..Policy::default() };
        assert!(many.in_words().contains("16 s, 32 s, … 90 s;"), "{}", many.in_words());
        assert!(many.in_words().contains("for 14 days"), "{}", many.in_words());
    }

    #[test]
    fn a_backoff_doubles_with_each_attempt_up_to_its_cap() {
        let policy = Policy { base_ms: 100, cap_ms: 700, ..Policy::default() };
        assert_eq!([1, 2, 3, 4, 1_000].map(|attempt| policy.backoff_ms(attempt, None, 1.0)), [100, 200, 400, 700, 700]);
        assert_eq!(policy.backoff_ms(1, None, 0.5), 50, "it is drawn from all of the pause");
        assert_eq!(policy.backoff_ms(1, Some(1_000), 0.5), 1_050);
        let all_day = policy.backoff_ms(1, Some(24 * 60 * 60_000), 0.0);
        assert_eq!(all_day, policy.longest_pause_ms, "no more is heeded");
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
