//! For which Targets a process has lately asked for a leader.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::id::Target;
use crate::domain::time::Timestamp;

/// Until when a leader that a process has asked for may lead, by Target. It is a guess that costs a read of the lock if
/// it is wrong, and an election's message if it is missing.
#[derive(Debug, Default)]
pub struct Asked(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    leases: HashMap<Target, Timestamp>,
    /// When those that are over were last looked for.
    cleaned: Timestamp,
}

/// More Targets are not remembered.
const MOST: usize = 10_000;
/// How often those that are over are looked for while there is no room, in milliseconds.
const CLEANED_EVERY_MS: u64 = 1_000;

impl Asked {
    /// Notes that a leader is asked for whose lease ends at that time. Whether one may lead already, as far as this
    /// process knows.
    pub fn may_be_led(&self, target: &Target, lease_until: Timestamp, now: Timestamp) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = known.leases.get_mut(target) {
            let before = std::mem::replace(lease, lease_until.max(*lease));
            return before > now;
        }
        if known.leases.len() >= MOST && now.since(known.cleaned) >= CLEANED_EVERY_MS {
            known.cleaned = now;
            known.leases.retain(|_, lease| *lease > now);
        }
        if known.leases.len() < MOST {
            known.leases.insert(target.clone(), lease_until);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::RouteName;

    fn target(value: usize) -> Target {
        Target::of(&RouteName::new("r"), &value.to_string())
    }

    #[test]
    fn a_target_may_be_led_for_a_lease_after_a_leader_was_asked_for() {
        let asked = Asked::default();
        assert!(!asked.may_be_led(&target(1), Timestamp(10), Timestamp(0)));
        assert!(!asked.may_be_led(&target(2), Timestamp(10), Timestamp(0)), "another Target is another's");
        assert!(asked.may_be_led(&target(1), Timestamp(14), Timestamp(4)));
        assert!(asked.may_be_led(&target(1), Timestamp(23), Timestamp(13)), "it was asked for once more");
        assert!(!asked.may_be_led(&target(1), Timestamp(33), Timestamp(23)));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for_and_what_is_over_is_forgotten() {
        let asked = Asked::default();
        for value in 0..=MOST {
            asked.may_be_led(&target(value), Timestamp(10), Timestamp(0));
        }
        assert!(asked.may_be_led(&target(0), Timestamp(10), Timestamp(0)));
        assert!(!asked.may_be_led(&target(MOST), Timestamp(10), Timestamp(0)));
        let count = || asked.0.lock().unwrap().leases.len();
        assert_eq!(count(), MOST);
        let later = Timestamp(CLEANED_EVERY_MS);
        assert!(!asked.may_be_led(&target(MOST), later.plus_ms(10), later));
        assert_eq!(count(), 1);
    }
}
