//! What people see of a gate: why calls wait, or that none has to.

use super::Gate;
use super::breaker::Streak;
use super::pauses::{Pause, Pauses};
use crate::domain::id::Target;
use crate::domain::outcome::Reason;
use crate::domain::time::Timestamp;

/// Why calls wait at a gate, limits apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// They do not.
    Well,
    /// A person holds them back, until a person lets them go on.
    Held {
        /// Since when.
        since: Timestamp,
        /// What the person said.
        reason: Option<String>,
    },
    /// The downstream counts as away; an answer to a probe ends that.
    Away {
        /// Since when no call was answered.
        since: Timestamp,
        /// Why the last one failed.
        reason: Reason,
        /// No probe before this time.
        next_probe: Timestamp,
    },
    /// The downstream asked to be left alone until then.
    Paused {
        /// Until when.
        until: Timestamp,
    },
    /// Calls failed, and none was answered since; others are made.
    InTrouble {
        /// Since when.
        since: Timestamp,
        /// Why the last one failed.
        reason: Reason,
        /// How many.
        failures: u32,
    },
    /// What waited goes on, slowly at first.
    Draining {
        /// Since when.
        since: Timestamp,
    },
}

impl CallState {
    /// The word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Held { .. } => "held",
            Self::Away { .. } => "away",
            Self::Paused { .. } => "paused",
            Self::InTrouble { .. } => "in-trouble",
            Self::Draining { .. } => "draining",
        }
    }
}

impl Gate {
    /// Returns what people are told of a Target with this limiter, in whose route's limiter a person may pause it.
    #[must_use]
    pub fn of_target(self, target: &Target, route: &Self) -> Self {
        Self { pauses: Pauses { all: route.pauses.targets.get(target).cloned(), ..self.pauses }, ..self }
    }

    /// Returns why calls wait here; what keeps them longest, if there is more than one reason.
    pub fn call_state(&self, now: Timestamp) -> CallState {
        if let Some(Pause { since, reason }) = self.pauses.all.clone() {
            return CallState::Held { since, reason };
        }
        if let Some((outage, streak)) = self.breaker.outage().zip(self.breaker.streak.as_ref()) {
            let (since, reason) = (streak.since, streak.reason.clone());
            return CallState::Away { since, reason, next_probe: outage.next_probe };
        }
        if self.paused_until > now {
            return CallState::Paused { until: self.paused_until };
        }
        match (&self.breaker.streak, self.breaker.recovering(now)) {
            (Some(Streak { since, reason, failures, .. }), _) => {
                CallState::InTrouble { since: *since, reason: reason.clone(), failures: (*failures).max(1) }
            }
            (None, Some(since)) => CallState::Draining { since },
            (None, None) => CallState::Well,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::gate::{BreakerPolicy, OPENS_AFTER};
    use crate::domain::id::BatchId;
    use crate::domain::outcome::{Failure, Fault};

    #[test]
    fn each_way_to_wait_has_its_word_and_the_longest_is_told() {
        let now = Timestamp(1_000);
        let failure =
            |retry_after_ms| Failure { reason: Reason::new("http_503"), retry_after_ms, fault: Fault::Downstream };
        let policy = BreakerPolicy { longest_pause_ms: 60_000, notifies: true };
        let fail = |gate: &Gate, retry_after_ms| {
            let batch = BatchId::new("b");
            gate.failed((&batch, &batch), &failure(retry_after_ms), policy, now).0.expect("it is news")
        };
        let well = Gate::default();
        let in_trouble = fail(&well, None);
        let paused = fail(&well, Some(5_000));
        let away = (1..OPENS_AFTER).fold(paused.clone(), |gate, _| fail(&gate, None));
        let draining = away.resumed(now).expect("it was away");
        let held = away.held(Some("deploy".to_owned()), now).expect("it was not");
        let all = [&well, &in_trouble, &paused, &away, &draining, &held].map(|gate| gate.call_state(now));
        let words = ["well", "in-trouble", "paused", "away", "draining", "held"];
        assert_eq!(all.each_ref().map(CallState::word), words);
        assert_eq!(draining.call_state(now.plus_ms(60_000)), CallState::Well);
        assert_eq!(paused.call_state(now.plus_ms(5_000)).word(), "in-trouble");
        assert_eq!(all[5], CallState::Held { since: now, reason: Some("deploy".to_owned()) });
    }
}
