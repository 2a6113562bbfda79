//! Scheduled tasks whose time has come: they wait for a batch from now on, and are asked a leader for.
//!
//! A delayed message has mostly done that before, for what was scheduled for the next quarter of an hour. An entry
//! leaves the index with its task, so what is due is read once. If the process dies before it has asked for a leader,
//! the tasks are among those that have waited for long.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

use super::shelf::{Looked, Tally};
use super::{Report, Sweep};
use crate::domain::id::{Part, Target};
use crate::domain::shelf::{Bookmark, Shelf};
use crate::domain::task::Candidate;
use crate::domain::time::Timestamp;
use crate::domain::traits::Traits;
use crate::ports::{Entries, Entry, Env, Freshness, Look, Outbox, Scheduled, Store, send_all};
use crate::routes::Route;
use crate::steps::ballot::{election_messages, elections};
use crate::steps::{CONCURRENCY, Error};

/// Entries of one page.
const PAGE: usize = 500;

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    pub(super) async fn due(&self, until: Timestamp) -> Tally {
        let parts = Part::all().map(|part| (part.due_key(), part));
        self.look_through(&Shelf::Due, parts, until, |part, bookmark| self.due_in(part, bookmark, until)).await
    }

    /// Goes on in one part, page by page.
    async fn due_in(&self, part: Part, mut bookmark: Bookmark, until: Timestamp) -> Looked {
        let now = self.env.now();
        let mut results = Vec::new();
        loop {
            let look = Look::at(part, now, PAGE).behind(bookmark.after.as_ref());
            let Entries { found, are_last } = match self.store.due(look).await {
                Ok(found) => found,
                Err(error) => return Looked::failed(results, bookmark, error),
            };
            let last = found.last().map(|entry| entry.at.clone());
            results.extend(self.fall_due(found, now).await);
            bookmark = last.into_iter().fold(bookmark, Bookmark::moved_to);
            if are_last {
                return Looked { results, bookmark: bookmark.ended() };
            }
            if self.env.now() >= until {
                return Looked { results, bookmark };
            }
        }
    }

    async fn fall_due(&self, entries: Vec<Entry<Scheduled>>, now: Timestamp) -> Vec<Result<Report, Error>> {
        let falling = entries.into_iter().map(|Entry { what: Scheduled { id, target }, .. }| async move {
            // The index of what is due does not say a task's traits, and few routes ask for any.
            let has_traits = self.routes.get(&target.route()).is_some_and(Route::reads_traits);
            let found = match has_traits {
                true => self.store.read(std::slice::from_ref(&id), Freshness::Eventual).await?.pop(),
                false => None,
            };
            let traits = found.map_or_else(Traits::default, |task| task.traits);
            self.store.fall_due((&id, traits), &target, now).await
        });
        let mut waiting: BTreeMap<Target, Vec<Candidate>> = BTreeMap::new();
        let mut results = Vec::new();
        let mut fallen = stream::iter(falling.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY);
        while let Some(fell) = fallen.next().await {
            match fell {
                Ok(Some(waits)) => waiting.entry(waits.target).or_default().push(waits.candidate),
                Ok(None) => {}
                Err(error) => results.push(Err(error.into())),
            }
        }
        let due = waiting.values().map(Vec::len).sum();
        let asked = waiting.into_iter().flat_map(|(target, tasks)| elections(self.env, &target, &tasks, now, 0));
        let sent = send_all(self.outbox, election_messages(asked)).await;
        results.push(sent.map(|()| Report { due, ..Report::default() }).map_err(Error::from));
        results
    }
}
