//! The times of a task, as its sender wants them, and which a task may have.

use super::task_message::{Code, Rejection, TaskMessage};
use super::time::Timestamp;
use super::when::{MAX_DELAY_S, When};

/// The times of a task, as its sender wants them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it is called at the earliest.
    pub not_before: Option<Timestamp>,
    /// Until when it is wanted.
    pub expires_at: Option<Timestamp>,
}

impl Times {
    /// Those of a task that is registered at `now`.
    #[must_use]
    pub fn of(message: &TaskMessage, now: Timestamp) -> Self {
        let resolved = |when: Option<When>| when.map(|when| when.resolved(now));
        Self { not_before: resolved(message.not_before), expires_at: resolved(message.expires_at) }
    }

    /// Whether a task may have them that is registered at `now`. One that `is_ordered` has its place from the
    /// beginning, so it would hold back those behind it.
    ///
    /// # Errors
    /// The refusal.
    pub fn check(self, is_ordered: bool, now: Timestamp) -> Result<(), Rejection> {
        let Some(not_before) = self.not_before.filter(|not_before| *not_before > now) else { return Ok(()) };
        if not_before > now.plus_ms(MAX_DELAY_S * 1_000) {
            return Err(Rejection::new(Code::BadTime, "`not_before` lies more than a year ahead"));
        }
        if self.expires_at.is_some_and(|expires_at| expires_at <= not_before) {
            return Err(Rejection::new(Code::BadTime, "`expires_at` must be later than `not_before`"));
        }
        if is_ordered {
            let why = "`not_before`: its route is ordered, and a task that waits for its time would hold back those \
                       behind it: send it when its time has come";
            return Err(Rejection::new(Code::BadTime, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lie_within_a_year_in_their_order_and_outside_of_lanes() {
        const NOW: Timestamp = Timestamp(1_000);
        let times = |not_before: u64, expires_at: Option<u64>| Times {
            not_before: Some(Timestamp(not_before)),
            expires_at: expires_at.map(Timestamp),
        };
        let code = |times: Times, is_ordered| times.check(is_ordered, NOW).map_err(|rejection| rejection.code);
        assert_eq!(code(times(1_001, Some(1_002)), false), Ok(()));
        assert_eq!(code(times(1_001, Some(1_001)), false), Err(Code::BadTime));
        assert_eq!(code(times(1_001, None), true), Err(Code::BadTime));
        assert_eq!(code(times(1_000, Some(5)), true), Ok(()), "its time has come");
        let year = NOW.0 + MAX_DELAY_S * 1_000;
        assert_eq!([year, year + 1].map(|at| code(times(at, None), false)), [Ok(()), Err(Code::BadTime)]);
        assert_eq!(code(Times::default(), true), Ok(()));
    }
}
