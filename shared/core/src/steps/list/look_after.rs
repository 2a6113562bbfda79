//! What sweep does for a list: works off what the dead have taken, and removes the list when its time is over.

use derive_more::AddAssign;

use super::Listing;
use crate::domain::list::{Head, Life, List, Move, Purpose, State};
use crate::domain::{ListId, Timestamp};
use crate::ports::{Cleared, Env, Lists, Moved, Outbox, Stored, Trackers};
use crate::steps::cas::TRIES;
use crate::steps::{Error, let_others_go_first};

/// What looking after lists came to.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Reservations worked on for somebody who died, or who left it to sweep.
    pub revived: usize,
    /// Their tasks fed on or discarded.
    pub tasks: u64,
    /// Tasks that were not there: somebody removed them by hand, or the table was restored.
    pub lost: u64,
    /// Tasks that were too large to go on, and went to the rejected queue.
    pub set_aside: u64,
    /// Lists removed because they were idle.
    pub removed: usize,
    /// Tasks that waited on those whose time to live was over, and are discarded.
    pub expired: u64,
}

/// One sweep works off this many pages of a list at most, and removes this many pages of what belongs to it; the next
/// goes on.
const PAGES: usize = 500;
/// An idle list with a reservation that is not worked off yet is looked at again after this, in milliseconds.
const SOON_MS: u64 = 60_000;
/// The key under which sweep discards what waits on a list whose time is over. No caller's key has a space in it.
const EXPIRED: &str = "time to live";

impl<S: Lists + Trackers, Q: Outbox, E: Env> Listing<'_, S, Q, E> {
    /// Looks after a list one of whose ends is due. An empty one is removed after it was idle for `idle_ms`.
    /// After an error the next sweep finds it again.
    pub async fn look_after(&self, id: &ListId, idle_ms: u64) -> Result<Report, Error> {
        let now = self.env.now();
        let mut report = Report::default();
        let Some(list) = self.store.list(id).await? else { return Ok(report) };
        // The index lags behind: the list decides.
        let under_way = match list.head.due {
            Some(due) if due < now => self.revive(&list.head, now, &mut report).await,
            Some(_) | None => Ok(()),
        };
        let ended = if list.tail.due < now { self.end(list, idle_ms, now, &mut report).await } else { Ok(()) };
        under_way.and(ended).map(|()| report)
    }

    /// Works off what is under way for too long, and says when to look again.
    async fn revive(&self, head: &Head, now: Timestamp, report: &mut Report) -> Result<(), Error> {
        let (mut pages, mut failed) = (PAGES, Ok(()));
        for (key, reservation) in &head.reservations {
            if reservation.due() >= now {
                continue;
            }
            // One that cannot be worked off keeps no other from it.
            match self.work_off_by_key(head, key, pages).await {
                Ok(worked) => {
                    pages = pages.saturating_sub(worked.pages);
                    report.revived += 1;
                    report.tasks += worked.done;
                    report.lost += worked.lost;
                    report.set_aside += worked.set_aside;
                }
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed?;
        if let Some(list) = self.store.list(&head.life.id).await?
            && list.head.life == head.life
        {
            // Refused if somebody takes tokens just now: the next sweep looks again.
            self.store.move_head(&head.life, &list.head.looking()).await?;
        }
        Ok(())
    }

    /// Ends a list whose time is over, or says when to look again.
    async fn end(&self, list: List, idle_ms: u64, now: Timestamp, report: &mut Report) -> Result<(), Error> {
        let tail = match list.tail.state {
            State::Removing => list.tail,
            State::Open | State::Closed if list.is_over(idle_ms, now) => {
                let removing = list.tail.in_state(State::Removing, now);
                if self.store.store_tail(&removing).await? == Stored::Conflict {
                    // Somebody put tasks.
                    return Ok(());
                }
                removing
            }
            State::Open | State::Closed => {
                let until = list.idle_until(idle_ms);
                let next = if until > now {
                    until
                } else if list.head.reservations.is_empty() {
                    // Tasks wait for ever: it is looked at once in a while.
                    now.plus_ms(idle_ms)
                } else {
                    now.plus_ms(SOON_MS)
                };
                self.store.store_tail(&list.tail.due_at(next)).await?;
                return Ok(());
            }
        };
        if self.discard_the_rest(&tail.life, report).await? && self.clear(&tail.life).await? {
            report.removed += usize::from(self.store.remove_list(&tail).await? == Stored::Yes);
        }
        Ok(())
    }

    /// Whether nothing waits on a list that is being removed, and nothing is under way. Nobody else takes from it, but
    /// the call that took before may still be at work.
    async fn discard_the_rest(&self, life: &Life, report: &mut Report) -> Result<bool, Error> {
        for tries in 0..TRIES {
            // Another sweep may have removed it, and somebody may have put tasks under its name since.
            let Some(list) = self.store.list(&life.id).await?.filter(|list| list.tail.life == *life) else {
                return Ok(false);
            };
            let mut head = list.head.clone();
            if let Some(reserve) = list.taking(EXPIRED, Purpose::Discard, self.env.now()) {
                match self.store.move_head(&list.tail.life, &Move::Reserve(reserve)).await? {
                    Moved::Yes(now) => head = now,
                    Moved::No(_) => {
                        let_others_go_first(self.env, tries).await;
                        continue;
                    }
                }
            }
            if head.reservations.is_empty() {
                return Ok(true);
            }
            let mut pages = PAGES;
            for key in head.reservations.keys() {
                let worked = self.work_off_by_key(&head, key, pages).await?;
                pages = pages.saturating_sub(worked.pages);
                report.lost += worked.lost;
                if key == EXPIRED {
                    report.expired += worked.done;
                } else {
                    report.tasks += worked.done;
                }
                if worked.left > 0 {
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Whether nothing but its ends is left of a list.
    async fn clear(&self, life: &Life) -> Result<bool, Error> {
        for _ in 0..PAGES {
            if self.store.clear_list(life).await? == Cleared::All {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
