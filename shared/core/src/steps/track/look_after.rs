//! What sweep does for a tracker: completes it if the process that should have died, ends it when its time is over,
//! sends its notice, and removes it at last.

use derive_more::AddAssign;

use super::Tracking;
use super::survey::{MAX_RANGES, PAGE, Surveyor};
use crate::domain::task::RETENTION_DAYS;
use crate::domain::tracker::{Ending, Patience, State, Tracker};
use crate::domain::{Timestamp, TrackerId};
use crate::ports::{Cleared, Env, Freshness, Outbox, Stored, Trackers};
use crate::steps::Error;

/// How long trackers live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// How long nobody may do anything with one.
    pub patience: Patience,
    /// How long one that has ended stays readable, in milliseconds.
    pub retention_ms: u64,
}

impl Default for Lifetimes {
    /// What a stack has that says nothing else.
    fn default() -> Self {
        Self { patience: Patience::default(), retention_ms: RETENTION_DAYS * 24 * 60 * 60 * 1_000 }
    }
}

/// What looking after trackers came to.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Trackers completed for somebody who died.
    pub completed: usize,
    /// Trackers whose deadline has passed.
    pub overdue: usize,
    /// Trackers that nobody did anything with.
    pub abandoned: usize,
    /// Notices sent for somebody who died.
    pub told: usize,
    /// Trackers removed after their retention.
    pub removed: usize,
}

impl Report {
    fn of_end(tracker: &Tracker) -> Self {
        let State::Ended(end) = &tracker.state else { return Self::default() };
        match end.how {
            Ending::Completed => Self { completed: 1, ..Self::default() },
            Ending::Overdue => Self { overdue: 1, ..Self::default() },
            Ending::Abandoned => Self { abandoned: 1, ..Self::default() },
        }
    }
}

/// One sweep removes this many pages of a tracker's parts at most; the next goes on.
const CLEARED_PAGES: usize = 100;

impl<S: Trackers, Q: Outbox, E: Env> Tracking<'_, S, Q, E> {
    /// Looks after a tracker that is due. After an error the next sweep finds it again.
    pub async fn look_after(&self, id: &TrackerId, lifetimes: Lifetimes) -> Result<Report, Error> {
        let now = self.env.now();
        let Some(tracker) = self.store.look(id, &[], Freshness::Latest).await?.tracker else {
            return Ok(Report::default());
        };
        // The index lags behind: the tracker decides.
        if tracker.due >= now {
            return Ok(Report::default());
        }
        match &tracker.state {
            State::Open | State::Sealed => self.look_at(tracker, lifetimes.patience, now).await,
            // Told or not: a queue that takes no notice for so long is not there any more.
            State::Ended(end) if end.at.plus_ms(lifetimes.retention_ms) <= now => self.remove(&tracker).await,
            State::Ended(end) if !end.told => match self.tell(&tracker).await {
                Ok(_) => Ok(Report { told: 1, ..Report::default() }),
                Err(error) => {
                    self.store.store_tracker(&tracker.postponed(now)).await?;
                    Err(error)
                }
            },
            State::Ended(end) => {
                let until = end.at.plus_ms(lifetimes.retention_ms);
                self.store.store_tracker(&tracker.kept_until(until)).await?;
                Ok(Report::default())
            }
        }
    }

    async fn look_at(&self, tracker: Tracker, patience: Patience, now: Timestamp) -> Result<Report, Error> {
        let mut surveyor = Surveyor::new(&tracker, MAX_RANGES);
        while let Some(from) = surveyor.next {
            let nodes = self.store.nodes(&tracker.id, from, PAGE, Freshness::Latest).await?;
            surveyor.add(&nodes);
            // Full ones whose writer died before it reported them.
            if tracker.state == State::Sealed
                && let Some(ended) = self.climb(&tracker.id, nodes).await?
                && let State::Ended(_) = ended.state
            {
                return Ok(Report::of_end(&ended));
            }
        }
        if tracker.state == State::Sealed && tracker.items == 0 {
            return Ok(Report::of_end(&self.complete(tracker, 0).await?));
        }
        let survey = surveyor.survey;
        let next = match tracker.is_over(survey.done, patience, now) {
            Some(how) => tracker.ended(how, survey, now),
            None => tracker.looked_at(survey.done, now),
        };
        match self.store.store_tracker(&next).await? {
            Stored::Yes => {
                let report = Report::of_end(&next);
                self.ended(next).await?;
                Ok(report)
            }
            // Somebody is at work with it.
            Stored::Conflict => Ok(Report::default()),
        }
    }

    /// Its parts first: a process that dies in between leaves a tracker that is found again.
    async fn remove(&self, tracker: &Tracker) -> Result<Report, Error> {
        for _ in 0..CLEARED_PAGES {
            match self.store.clear(tracker).await? {
                Cleared::Some => {}
                // Another sweep is at it, or was: then the id may be in use again.
                Cleared::Conflict => break,
                Cleared::All => {
                    let removed = self.store.remove_tracker(tracker).await? == Stored::Yes;
                    return Ok(Report { removed: usize::from(removed), ..Report::default() });
                }
            }
        }
        Ok(Report::default())
    }
}
