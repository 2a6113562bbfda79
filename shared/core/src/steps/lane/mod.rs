//! Lanes: tasks of one order key reach the downstream one after the other, beside those of other keys.
//!
//! A task comes to its lane by one transaction ([`line_up`](Ordering::line_up)). When it is settled, its batch's
//! follow-up hands the turn over ([`hand_over`](Ordering::hand_over)); the batch is done only after that, so a crash on
//! the way is made good by the process that finds the batch. The lane is written first, and says who has the turn. Then
//! that task is let in, then its message is sent, and only then its place in the queue is forgotten. A process that
//! repeats this sees by the place what is left to do.

mod hand_over;
mod line_up;
mod pass_over;

use super::Error;
use super::cas::{Tries, handle};
use super::election_messages::{election_messages, elections};
use super::notices::Refused;
use crate::domain::lane::{Lane, Queued, State};
use crate::domain::task::Candidate;
use crate::domain::{LaneId, Reason, TaskId, Turn};
use crate::ports::{Env, Freshness, Lanes, Outbox, PutBack, Stored, Streams, Tasks, Trackers, send_all};
use crate::routes::Notify;

pub use hand_over::{HandedOver, Over};
pub use line_up::{Arrival, Lined};

handle! {
    /// Lanes, over their ports, and those of their tasks and of the trackers and streams that must hear of tasks that
    /// never have their turn.
    Ordering
}

/// How a lane stands, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The lane.
    pub lane: Lane,
    /// The first of those who wait.
    pub waiting: Vec<Queued>,
    /// Whether more wait.
    pub more: bool,
}

/// What became of the wish to let a lane go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// It goes on.
    Yes {
        /// The task that had failed.
        failed: TaskId,
        /// The lane now.
        lane: Lane,
    },
    /// No failure stops it.
    NotStopped(Lane),
    /// No task of this order key is known.
    Unknown,
}

/// The result of giving up a missing number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The first task that waited has the turn.
    Yes,
    /// The lane does not wait for that number, or no longer.
    NotMissing(Lane),
    /// No task of this order key is known.
    Unknown,
}

/// Why a task failed that never had its turn.
pub const PREDECESSOR_FAILED: &str = "predecessor_failed";

/// How many who wait are read at a time.
const PAGE: usize = 50;

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Ordering<'_, S, Q, E> {
    /// Looks at a lane and at up to `limit` of those who wait in it.
    pub async fn show(&self, id: &LaneId, limit: usize) -> Result<Option<Shown>, Error> {
        let Some(lane) = self.store.lane(id).await? else { return Ok(None) };
        // Those below have had their turn, and so has who is at the head of a lane that is taken.
        let from = if lane.state == State::Free { lane.head } else { lane.following() };
        let mut waiting = self.store.queued(id, from, Turn(u64::MAX), limit.saturating_add(1)).await?;
        let more = waiting.len() > limit;
        waiting.truncate(limit);
        Ok(Some(Shown { lane, waiting, more }))
    }

    /// Lets a lane go on that a failure has stopped. What was to fail with the failed task does so first. May be
    /// repeated.
    pub async fn resume(&self, id: &LaneId, notify: &Notify) -> Result<Resumed, Error> {
        let mut tries = Tries::of("letting a lane go on", self.env);
        loop {
            let Some(lane) = self.store.lane(id).await? else { return Ok(Resumed::Unknown) };
            self.pass_over(&lane, notify, Refused::IsRejected).await?;
            let (failed, next) = match &lane.state {
                State::Held(failed) => (failed.clone(), self.next_in(&lane).await?),
                // A task that comes meanwhile fails, too.
                State::Failing(failed) => (failed.clone(), None),
                State::Free | State::Taken(_) => {
                    // A call before this one may have died half way.
                    self.let_in(&lane, None).await?;
                    return Ok(Resumed::NotStopped(lane));
                }
            };
            let Some(resumed) = lane.resumed(next.as_ref(), self.env.now()) else {
                tries.again()?;
                continue;
            };
            if self.store.store_lane(&resumed).await? == Stored::Yes {
                self.let_in(&resumed, next).await?;
                return Ok(Resumed::Yes { failed, lane: resumed });
            }
            tries.give_way().await?;
        }
    }

    /// Gives a number up that never comes, and all others before the first task that waits, which has the turn then. A
    /// task that brings one of them later is rejected. May be repeated.
    pub async fn skip(&self, id: &LaneId, missing: Turn) -> Result<Skipped, Error> {
        let mut tries = Tries::of("giving a lane's missing number up", self.env);
        loop {
            let Some(lane) = self.store.lane(id).await? else { return Ok(Skipped::Unknown) };
            let first = self.store.queued(id, lane.following(), Turn(u64::MAX), 1).await?.pop();
            let Some(skipped) = first.as_ref().and_then(|first| lane.skipped(missing, first, self.env.now())) else {
                // A call before this one may have died half way.
                self.let_in(&lane, None).await?;
                return Ok(Skipped::NotMissing(lane));
            };
            if self.store.store_lane(&skipped).await? == Stored::Yes {
                self.let_in(&skipped, first).await?;
                return Ok(Skipped::Yes);
            }
            tries.give_way().await?;
        }
    }

    /// The task that has the turn after the one at the head, which is settled. Tasks before it had their turn long ago:
    /// a process died before that was forgotten, so it is now.
    async fn next_in(&self, lane: &Lane) -> Result<Option<Queued>, Error> {
        loop {
            let found = self.store.queued(&lane.id, Turn(0), lane.following().next(), PAGE).await?;
            let had_it: Vec<Queued> = found.iter().filter(|queued| queued.turn <= lane.head).cloned().collect();
            // In a lane whose rest fails by now they may have come since it was read, with numbers used before.
            if !had_it.is_empty() && self.store.lane(&lane.id).await?.as_ref() != Some(lane) {
                return Ok(None);
            }
            self.store.leave(&lane.id, &had_it).await?;
            if found.len() < PAGE || had_it.len() < found.len() {
                return Ok(found.into_iter().find(|queued| queued.turn == lane.following()));
            }
        }
    }

    /// Lets the task in that has the turn, if it still waits for it, and sends for a leader.
    async fn let_in(&self, lane: &Lane, known: Option<Queued>) -> Result<(), Error> {
        let (lane, entered) = self.enter(lane.clone(), known).await?;
        self.start(entered.map(|queued| (lane.id.clone(), queued)).into_iter().collect()).await?;
        if let Some(entered) = lane.entered(self.env.now()) {
            // The process that wrote meanwhile had seen that it was let in, or looks again.
            self.store.store_lane(&entered).await?;
        }
        Ok(())
    }

    async fn take_turn(&self, Queued { target, candidate, .. }: &Queued) -> Result<PutBack, Error> {
        Ok(self.store.take_turn((&candidate.id, candidate.traits), target, self.env.now()).await?)
    }

    /// Makes the task wait for a batch that has the turn, if it still waits for its turn. One that ended meanwhile
    /// gives its turn to the next. Returns the lane as it is then.
    async fn enter(&self, mut lane: Lane, mut known: Option<Queued>) -> Result<(Lane, Option<Queued>), Error> {
        let mut tries = Tries::of("letting a task have its turn", self.env);
        loop {
            let State::Taken(holder) = &lane.state else { return Ok((lane, None)) };
            let at_head = match known.take() {
                Some(known) => Some(known),
                None => self.store.queued(&lane.id, lane.head, lane.following(), 1).await?.pop(),
            };
            let has_ended = match at_head.filter(|queued| lane.has_turn(queued)) {
                // Whether it waits by this write or an earlier one, its message may not have been sent yet.
                Some(queued) => match self.take_turn(&queued).await? {
                    PutBack::Waits => return Ok((lane, Some(queued))),
                    PutBack::MovedOn => {
                        // It is in a batch or farther, so its message was sent.
                        self.store.leave(&lane.id, &[queued]).await?;
                        false
                    }
                    PutBack::Ended => true,
                },
                // It is forgotten that it waited. If it ended so, a process died before it wrote the lane.
                None => self.has_ended(holder).await?,
            };
            if !has_ended {
                return Ok((lane, None));
            }
            let next = self.next_in(&lane).await?;
            let Some(passed) = lane.passed_by(next.as_ref(), self.env.now()) else { return Ok((lane, None)) };
            if self.store.store_lane(&passed).await? == Stored::Yes {
                (lane, known) = (passed, next);
            } else {
                tries.give_way().await?;
                let Some(now) = self.store.lane(&lane.id).await? else { return Ok((lane, None)) };
                lane = now;
            }
        }
    }

    async fn has_ended(&self, task: &TaskId) -> Result<bool, Error> {
        let found = self.store.read(std::slice::from_ref(task), Freshness::Latest).await?;
        // Only an ended task expires, so one that is gone has ended.
        Ok(found.first().is_none_or(|task| task.status.ended().is_some()))
    }

    /// Sends for leaders for those who have their turn, then forgets that they waited for it.
    async fn start(&self, entered: Vec<(LaneId, Queued)>) -> Result<(), Error> {
        let mut targets: Vec<_> = entered.iter().map(|(_, queued)| &queued.target).collect();
        targets.sort();
        targets.dedup();
        let elections = targets.into_iter().flat_map(|target| {
            let of_target = entered.iter().filter(|(_, queued)| queued.target == *target);
            let candidates: Vec<Candidate> = of_target.map(|(_, queued)| queued.candidate.clone()).collect();
            elections(self.env, target, &candidates, self.env.now(), 0)
        });
        send_all(self.outbox, election_messages(elections)).await?;
        for (lane, queued) in entered {
            self.store.leave(&lane, &[queued]).await?;
        }
        Ok(())
    }
}

fn predecessor_failed() -> Reason {
    Reason::new(PREDECESSOR_FAILED)
}

#[cfg(test)]
mod tests;
