//! What people do to the tasks of a world: hold, cancel, erase, run again, and let lanes go on.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use groupage_core::domain::task::Status;
use groupage_core::steps::Error;

use super::jobs::Job;
use super::{VISIBILITY_MS, World};
use crate::prelude::*;

/// A person cancels a task within this many milliseconds.
const CANCEL_MS: u64 = 5_000;
/// A person runs a failed task again within this many milliseconds.
const RETRY_MS: u64 = 90_000;

impl World {
    /// Has a person hold a route's calls back after a while, for forty seconds.
    pub fn hold_later(&self, delay_ms: u64, route: &str) {
        self.later(delay_ms, Job::Hold(RouteName::new(route)));
    }

    /// Has a person let calls go on.
    ///
    /// # Errors
    /// What the step said.
    pub async fn let_go(&self, scope: &Scope) -> Result<Gate, Error> {
        self.let_go_as(&self.unharmed(), scope).await
    }

    /// The lanes that a failure stopped with tasks behind it, even if all of these have ended since.
    pub(super) fn stopped_lanes(&self) -> Vec<Lane> {
        let is_stopped = |lane: &Lane| lane.is_stopped() && !matches!(lane.state, lane::State::Failing(_));
        let lanes = self.tables().lanes().into_iter();
        lanes.filter(|(lane, waiting)| *waiting > 0 && is_stopped(lane)).map(|(lane, _)| lane).collect()
    }

    /// Looks after them once nothing else is under way, as a person does.
    pub(super) fn somebody_lets_lanes_go_on(&self) -> bool {
        let (now, stands_ms) = (self.env.now(), self.setting.expires.map_or(0, |expires| expires.standstill_ms));
        let mut stopped = self.stopped_lanes();
        stopped.retain(|lane| now.since(lane.active_at) >= stands_ms);
        for lane in &stopped {
            self.later(VISIBILITY_MS, Job::Resume(lane.id.clone()));
        }
        !stopped.is_empty() | self.somebody_skips_numbers()
    }

    /// A key's numbers begin anew under a route's new name: a person gives up those that went to the other one.
    fn somebody_skips_numbers(&self) -> bool {
        let lanes: Vec<Lane> = self.tables().lanes().into_iter().map(|(lane, _)| lane).collect();
        let is_of_the_other = |lane: &Lane, missing| {
            lanes.iter().any(|it| it.id != lane.id && it.id.key() == lane.id.key() && it.next > missing)
        };
        let given_up = lanes.iter().filter_map(|lane| Some((lane, lane.missing()?)));
        let given_up: Vec<_> = given_up.filter(|(lane, missing)| is_of_the_other(lane, *missing)).collect();
        for (lane, missing) in &given_up {
            self.later(VISIBILITY_MS, Job::Skip(lane.id.clone(), *missing));
        }
        !given_up.is_empty()
    }

    /// A person runs what has failed again, soon after: other copies of what settled it may be under way.
    pub(super) fn somebody_retries(&self) -> bool {
        if self.setting.retries == 0 {
            return false;
        }
        let mut wanted = self.wanted_again.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for task in self.tables().tasks().into_iter().filter(|task| matches!(task.status, Status::Failed { .. })) {
            let times = wanted.entry(task.id.clone()).or_default();
            // Once for each of its failures.
            if *times < self.setting.retries && *times <= self.store.inner().retries(&task.id) {
                *times += 1;
                any = true;
                self.later(self.env.pick(0..=RETRY_MS), Job::Retry(task.id));
            }
        }
        any
    }

    /// A person cancels some of what waits, or is in a batch, once each.
    pub(super) fn somebody_cancels(&self) -> bool {
        if self.setting.cancels == 0.0 {
            return false;
        }
        let mut looked_at = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for task in self.tables().tasks().into_iter().filter(|task| !task.status.is_settled()) {
            if looked_at.insert(task.id.clone()) && self.env.chance(self.setting.cancels) {
                any = true;
                self.later(self.env.pick(0..=CANCEL_MS), Job::Cancel(task.id));
            }
        }
        any
    }

    /// Has a person give up a number of a key after a while.
    pub fn skip_later(&self, delay_ms: u64, lane: LaneId, missing: u64) {
        self.later(delay_ms, Job::Skip(lane, Turn(missing)));
    }

    /// Cancels tasks after a while, each by a person of its own.
    pub fn cancel_later(&self, delay_ms: u64, ids: &[&str]) {
        for id in ids {
            self.later(delay_ms, Job::Cancel(TaskId::new(*id)));
        }
    }

    /// Cancels a tracker's tasks after a while.
    pub fn cancel_tracker_later(&self, delay_ms: u64, tracker: &TrackerId) {
        self.later(delay_ms, Job::CancelOf(tracker.clone()));
    }

    /// Has tasks erased after a while, each by a person of its own.
    pub fn erase_later(&self, delay_ms: u64, ids: &[&str]) {
        for id in ids {
            self.to_erase.lock().unwrap_or_else(PoisonError::into_inner).insert(TaskId::new(*id));
            self.later(delay_ms, Job::Erase(TaskId::new(*id)));
        }
    }

    /// Tasks that are to be erased.
    pub fn to_erase(&self) -> BTreeSet<TaskId> {
        self.to_erase.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
