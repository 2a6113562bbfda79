//! Scheduled tasks whose time has come: they wait for a batch from now on, and are asked a leader for.
//!
//! A delayed message has mostly done that before, for what was scheduled for the next quarter of an hour. An entry
//! leaves the index with its task, so what is due is read once. If the process dies before it has asked for a leader,
//! the tasks are among those that have waited for long.
//!
//! What falls due together lies in the index by its ids, so a page of it has a few tasks of many Targets. All parts
//! gather what they find, and ask for a Target's leader once: as soon as its tasks fill an election, else at the end.
//!
//! A Target's partition of the index of waiting tasks may bear no more: what falls due takes a write unit of it, and so
//! does the leader that moves tasks out. So the first throttled write ends those of its Target for a moment, as when
//! tasks are registered. What is left is tried again, second by second, once all parts are looked through: its next
//! visit would be a minute away, or a whole round.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, stream};

use super::shelf::{Looked, Tally};
use super::{Report, Sweep};
use crate::domain::id::{Part, Target};
use crate::domain::message::{Election, MAX_TASKS};
use crate::domain::shelf::{Bookmark, Shelf};
use crate::domain::task::Candidate;
use crate::domain::time::Timestamp;
use crate::domain::traits::Traits;
use crate::ports::{self, Entries, Entry, Env, Freshness, Look, Outbox, Scheduled, Store, Waiting, send_all};
use crate::routes::Route;
use crate::steps::election_messages::{election_messages, elections};
use crate::steps::{CONCURRENCY, Error};

/// Entries of one page.
const PAGE: usize = 500;
/// Once this many tasks are unasked, leaders are asked for all of them, so that none waits for a whole sweep.
const MOST_UNASKED: usize = 20_000;

/// More than a partition takes in the time of a sweep is not kept to be tried again: a later sweep finds it.
const MOST_LEFT: usize = 20_000;

/// After a throttled write nothing is written for its Target for so long, in milliseconds: a partition has another
/// second's units then.
const QUIET_MS: u64 = 1_000;

/// What all parts of one sweep know.
#[derive(Default)]
struct Shared {
    unasked: Unasked,
    /// Until when nothing is written for a Target whose partition has throttled.
    quiet: BTreeMap<Target, Timestamp>,
    /// What they left.
    left: Vec<Entry<Scheduled>>,
}

impl Shared {
    /// The tasks for which no leader is asked yet, and what was left.
    fn take(&mut self) -> (BTreeMap<Target, Vec<Candidate>>, Vec<Entry<Scheduled>>) {
        (self.unasked.take(), std::mem::take(&mut self.left))
    }

    /// Keeps what is to be tried again in this sweep, as far as there is room.
    fn leave(&mut self, entry: Entry<Scheduled>) {
        if self.left.len() < MOST_LEFT {
            self.left.push(entry);
        }
    }

    /// Whether a write of this Target would be throttled.
    fn is_quiet(&self, target: &Target, now: Timestamp) -> bool {
        self.quiet.get(target).is_some_and(|until| *until > now)
    }
}

/// What all parts of one sweep share.
type Together = Mutex<Shared>;

fn lock(shared: &Together) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of an entry.
enum Fell {
    /// Its task waits for a batch.
    Due(Waiting),
    /// It was not scheduled any more.
    Gone,
    /// Its Target's partition bears no more for now.
    Later(Entry<Scheduled>),
}

/// Tasks that have fallen due, and for which no leader is asked yet.
#[derive(Default)]
struct Unasked {
    by_target: BTreeMap<Target, Vec<Candidate>>,
    count: usize,
}

impl Unasked {
    /// Adds a task; returns those of one Target, or of all, that should be asked for now.
    fn add(&mut self, target: Target, task: Candidate) -> BTreeMap<Target, Vec<Candidate>> {
        let of_target = self.by_target.entry(target.clone()).or_default();
        of_target.push(task);
        self.count += 1;
        if self.count >= MOST_UNASKED {
            return self.take();
        }
        if of_target.len() < MAX_TASKS {
            return BTreeMap::new();
        }
        self.count -= of_target.len();
        self.by_target.remove_entry(&target).into_iter().collect()
    }

    fn take(&mut self) -> BTreeMap<Target, Vec<Candidate>> {
        self.count = 0;
        std::mem::take(&mut self.by_target)
    }
}

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    pub(super) async fn due(&self, until: Timestamp) -> Tally {
        let parts = Part::all().map(|part| (part.due_key(), part));
        let shared = Together::default();
        let look = |part, bookmark| self.due_in(part, bookmark, until, &shared);
        let mut tally = self.look_through(&Shelf::Due, parts, until, look).await;
        loop {
            let (waiting, left) = lock(&shared).take();
            // Nobody waits for those of others.
            tally.count(self.ask(self.elections(waiting)).await.map(|()| Report::default()));
            if left.is_empty() {
                return tally;
            }
            if self.env.now() >= until {
                let error = ports::Error::Throttled { what: "letting tasks fall due", why: "others were".to_owned() };
                tally.count(Err(error.into()));
                return tally;
            }
            self.env.sleep(QUIET_MS).await;
            self.again(left, until, &shared, &mut tally).await;
        }
    }

    /// Tries again what was left, while there is time.
    async fn again(&self, mut left: Vec<Entry<Scheduled>>, until: Timestamp, shared: &Together, tally: &mut Tally) {
        while !left.is_empty() && self.env.now() < until {
            let rest = left.split_off(left.len().min(PAGE));
            let fell = self.fall_due(left, self.env.now(), shared).await;
            fell.into_iter().for_each(|fell| tally.count(fell));
            left = rest;
        }
        lock(shared).left.extend(left);
    }

    /// Goes on in one part, page by page.
    async fn due_in(&self, part: Part, mut bookmark: Bookmark, until: Timestamp, shared: &Together) -> Looked {
        let now = self.env.now();
        let mut results = Vec::new();
        loop {
            let look = Look::at(part, now, PAGE).behind(bookmark.after.as_ref());
            let Entries { found, are_last } = match self.store.due(look).await {
                Ok(found) => found,
                Err(error) => return Looked::failed(results, bookmark, error),
            };
            let last = found.last().map(|entry| entry.at.clone());
            results.extend(self.fall_due(found, now, shared).await);
            bookmark = last.into_iter().fold(bookmark, Bookmark::moved_to);
            if are_last {
                return Looked { results, bookmark: bookmark.ended() };
            }
            if self.env.now() >= until {
                return Looked { results, bookmark };
            }
        }
    }

    /// Lets entries fall due. Those whose partition bears no more for now are left.
    async fn fall_due(
        &self,
        entries: Vec<Entry<Scheduled>>,
        now: Timestamp,
        shared: &Together,
    ) -> Vec<Result<Report, Error>> {
        let falling = entries.into_iter().map(|entry| async move {
            let Scheduled { id, target, .. } = &entry.what;
            if lock(shared).is_quiet(target, self.env.now()) {
                return Ok(Fell::Later(entry));
            }
            // The index of what is due does not say a task's traits, and few routes ask for any.
            let has_traits = self.routes.get(&target.route()).is_some_and(Route::reads_traits);
            let found = match has_traits {
                true => self.store.read(std::slice::from_ref(id), Freshness::Eventual).await?.pop(),
                false => None,
            };
            let traits = found.map_or_else(Traits::default, |task| task.traits);
            match self.store.fall_due((id, traits), target, now).await {
                Ok(waits) => Ok(waits.map_or(Fell::Gone, Fell::Due)),
                Err(ports::Error::Throttled { .. }) => {
                    let until = self.env.now().plus_ms(QUIET_MS);
                    lock(shared).quiet.insert(target.clone(), until);
                    Ok(Fell::Later(entry))
                }
                Err(error) => Err(error),
            }
        });
        let (mut results, mut asked, mut due) = (Vec::new(), Vec::new(), 0);
        let mut fallen = stream::iter(falling.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY);
        while let Some(fell) = fallen.next().await {
            match fell {
                Ok(Fell::Due(waits)) => {
                    due += 1;
                    let full = lock(shared).unasked.add(waits.target, waits.candidate);
                    asked.extend(self.elections(full));
                }
                Ok(Fell::Gone) => {}
                Ok(Fell::Later(entry)) => lock(shared).leave(entry),
                Err(error) => results.push(Err(error.into())),
            }
        }
        results.push(self.ask(asked).await.map(|()| Report { due, ..Report::default() }));
        results
    }

    fn elections(&self, waiting: BTreeMap<Target, Vec<Candidate>>) -> Vec<Election> {
        let now = self.env.now();
        waiting.into_iter().flat_map(|(target, tasks)| elections(self.env, &target, &tasks, now, 0)).collect()
    }

    async fn ask(&self, asked: Vec<Election>) -> Result<(), Error> {
        Ok(send_all(self.outbox, election_messages(asked)).await?)
    }
}

#[cfg(test)]
mod tests;
