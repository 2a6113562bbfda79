//! For which Targets a process has lately asked for a leader.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::id::Target;
use crate::domain::time::Timestamp;

/// Until when a leader that a process has asked for may lead, by Target. It is a guess that costs a read of the lock if
/// it is wrong, and an election's message if it is missing.
#[derive(Debug, Default)]
pub struct Asked(Mutex<HashMap<Target, Timestamp>>);

/// From this number on, those that are over are looked for and forgotten.
const MANY: usize = 1_000;
/// More are not remembered.
const MOST: usize = 10_000;

impl Asked {
    /// Notes that a leader is asked for whose lease ends at that time. Whether one may lead already, as far as this
    /// process knows.
    pub fn may_be_led(&self, target: &Target, lease_until: Timestamp, now: Timestamp) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = asked.get_mut(target) {
            let before = std::mem::replace(until, lease_until.max(*until));
            return before > now;
        }
        if asked.len() >= MANY {
            asked.retain(|_, until| *until > now);
        }
        if asked.len() < MOST {
            asked.insert(target.clone(), lease_until);
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
        for value in 0..2 * MOST {
            asked.may_be_led(&target(value), Timestamp(10), Timestamp(0));
        }
        assert!(asked.may_be_led(&target(0), Timestamp(10), Timestamp(0)));
        assert!(!asked.may_be_led(&target(MOST), Timestamp(10), Timestamp(0)));
        assert_eq!(asked.0.lock().unwrap().len(), MOST);
        assert!(!asked.may_be_led(&target(MOST), Timestamp(30), Timestamp(20)));
        assert_eq!(asked.0.lock().unwrap().len(), 1);
    }
}
