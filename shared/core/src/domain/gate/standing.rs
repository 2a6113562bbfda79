//! What people see of a gate: why calls wait, or that none has to.

use super::{Gate, Health};
use crate::domain::id::Target;
use crate::domain::outcome::Reason;
use crate::domain::time::Timestamp;

/// Why calls wait at a gate, limits apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
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

impl Standing {
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
    /// What people are told of a Target with this gate, by whose route's gate a person may hold it back.
    #[must_use]
    pub fn of_target(self, target: &Target, route: &Self) -> Self {
        let held = route.health.targets.get(target).cloned();
        Self { health: Health { held, ..self.health.clone() }, ..self }
    }

    /// Why calls wait here. What keeps them longest is told.
    pub fn standing(&self, now: Timestamp) -> Standing {
        let health = &self.health;
        if let Some(held) = &health.held {
            return Standing::Held { since: held.since, reason: held.reason.clone() };
        }
        if let Some((run, outage)) = health.run.as_ref().and_then(|run| Some((run, run.outage.as_ref()?))) {
            return Standing::Away { since: run.since, reason: run.reason.clone(), next_probe: outage.next };
        }
        if self.paused_until > now {
            return Standing::Paused { until: self.paused_until };
        }
        match (&health.run, health.drains_at(now)) {
            (Some(run), _) => {
                Standing::InTrouble { since: run.since, reason: run.reason.clone(), failures: run.failures }
            }
            (None, Some(since)) => Standing::Draining { since },
            (None, None) => Standing::Well,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::gate::{Heeds, OUTAGE_AFTER};
    use crate::domain::id::BatchId;
    use crate::domain::outcome::{Failure, Fault};

    #[test]
    fn each_way_to_wait_has_its_word_and_the_longest_is_told() {
        let now = Timestamp(1_000);
        let failure =
            |retry_after_ms| Failure { reason: Reason::new("http_503"), retry_after_ms, fault: Fault::Downstream };
        let heeds = Heeds { longest_pause_ms: 60_000, tells: true };
        let fail = |gate: &Gate, retry_after_ms| {
            let batch = BatchId::new("b");
            gate.failed((&batch, &batch), &failure(retry_after_ms), heeds, now).0.expect("it is news")
        };
        let well = Gate::default();
        let in_trouble = fail(&well, None);
        let paused = fail(&well, Some(5_000));
        let away = (1..OUTAGE_AFTER).fold(paused.clone(), |gate, _| fail(&gate, None));
        let draining = away.resumed(now).expect("it was away");
        let held = away.held(Some("deploy".to_owned()), now).expect("it was not");
        let all = [&well, &in_trouble, &paused, &away, &draining, &held].map(|gate| gate.standing(now));
        let words = ["well", "in-trouble", "paused", "away", "draining", "held"];
        assert_eq!(all.each_ref().map(Standing::word), words);
        assert_eq!(draining.standing(now.plus_ms(60_000)), Standing::Well);
        assert_eq!(paused.standing(now.plus_ms(5_000)).word(), "in-trouble");
        assert_eq!(all[5], Standing::Held { since: now, reason: Some("deploy".to_owned()) });
    }
}
