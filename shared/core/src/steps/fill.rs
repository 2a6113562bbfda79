//! Filling one batch: gathering candidates, writing them into the batch, moving each.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::finish::{self, drive, stored};
use super::{CONCURRENCY, Error, still_waiting};
use crate::domain::batch::{Assumes, Batch, Limits, Load, Member, Pace, Room, Status, next_look_ms};
use crate::domain::drain::{Drain, NextPage};
use crate::domain::message::Resume;
use crate::domain::{BatchId, Candidate, Revision, Target, TaskId, Timestamp};
use crate::ports::{Batches, Freshness, Joined, Locks, Page, Tasks};
use crate::routes::Routes;

/// Candidates for one batch.
#[derive(Debug)]
pub struct Gathered {
    /// The tasks.
    pub candidates: Vec<Candidate>,
    /// Whether they fill the room they were gathered for.
    pub full: bool,
}

/// A page of the index holds at least this many entries: they cost little beside another request.
const MIN_PAGE: usize = 200;

impl Gathered {
    /// Gathers what fits into `room` from the drain and, behind it, the index, for the leader by the lock of `target`.
    pub async fn gather<S: Tasks + Locks>(
        store: &S,
        target: &Target,
        drain: &mut Drain<S::Cursor>,
        room: &Room,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let mut candidates: Vec<Candidate> = Vec::new();
        if room.urgent_first() {
            look_for_urgent(store, target, drain, room, now).await?;
        }
        loop {
            let left = room.beside(&candidates);
            // Twice as many shards at a time: few pages are read in vain, and quiet shards cost little time.
            for doublings in 0.. {
                let wanted = drain.wants(&left, 1 << doublings);
                if wanted.is_empty() {
                    break;
                }
                let limit = left.wants().max(MIN_PAGE);
                let pages: Vec<(Target, Page<S::Cursor>)> = stream::iter(wanted)
                    .map(|next| async move {
                        Ok::<_, Error>((next.of.clone(), page(store, target, next, limit, now).await?))
                    })
                    .buffered(CONCURRENCY)
                    .try_collect()
                    .await?;
                for (shard, page) in pages {
                    drain.add_page(&shard, page.candidates, page.next);
                }
            }
            let (taken, full) = drain.take(&left);
            let count = taken.len();
            let kept = if drain.verifies() { still_waiting(store, taken, Freshness::Eventual).await? } else { taken };
            let stale = count - kept.len();
            candidates.extend(kept);
            if stale == 0 {
                if count > 0 {
                    drain.trust();
                }
                return Ok(Self { candidates, full });
            }
        }
    }
}

/// Adds the tasks of each shard that would go before those that the leader knows, who leads by the lock of `target`:
/// whatever it has read of the index before, they may have come since. If it knows the most urgent ones, since they
/// wait in its queue or the index lags, one more page shows some behind them.
async fn look_for_urgent<S: Tasks + Locks>(
    store: &S,
    target: &Target,
    drain: &mut Drain<S::Cursor>,
    room: &Room,
    now: Timestamp,
) -> Result<(), Error> {
    let limit = room.wants().max(MIN_PAGE);
    for shard in drain.shards() {
        let Some(above) = drain.urgent_above(room) else { return Ok(()) };
        let Page { candidates, next } = store.urgent(&shard, above, None, limit).await?;
        if candidates.is_empty() || is_led_by_another(store, target, &shard, now).await? {
            continue;
        }
        if let Some(after) = drain.add_urgent(&shard, above, candidates, next) {
            let Page { candidates, next } = store.urgent(&shard, above, Some(&after), limit).await?;
            drain.offer_urgent(&shard, candidates, next);
        }
    }
    Ok(())
}

/// Whether a shard has a leader of its own, beside the one by the lock of `target`. What waits there is left to it: two
/// who reach for the same tasks pay for refused moves.
async fn is_led_by_another<S: Locks>(store: &S, target: &Target, of: &Target, now: Timestamp) -> Result<bool, Error> {
    Ok(of != target && store.lock(of).await?.is_some_and(|lock| lock.is_led(now)))
}

/// Reads a page for the leader by the lock of `target`.
async fn page<S: Tasks + Locks>(
    store: &S,
    target: &Target,
    next: NextPage<S::Cursor>,
    limit: usize,
    now: Timestamp,
) -> Result<Page<S::Cursor>, Error> {
    let NextPage { of, after } = next;
    let page = store.waiting(&of, after.as_ref(), limit).await?;
    let is_left = !page.candidates.is_empty() && is_led_by_another(store, target, &of, now).await?;
    Ok(if is_left { Page::default() } else { page })
}

/// A batch being filled, with the fates of its candidates.
pub struct Filling {
    batch: Batch,
    /// Whether the batch has been written at all.
    written: bool,
    joined: Vec<Member>,
    load: Load,
    /// Bytes of those that joined, as far as they are known.
    sizes: HashMap<TaskId, u32>,
    /// When candidates were last found.
    last: Timestamp,
}

/// How filling ended.
pub enum Filled {
    /// The batch can be frozen.
    Ready,
    /// It waits for more, until its window is over.
    Waits {
        /// When that is.
        until: Timestamp,
    },
}

impl Filling {
    /// A batch that is written with its first candidates.
    pub fn new(batch: Batch) -> Self {
        let last = batch.created_at;
        Self { batch, written: false, joined: Vec::new(), load: Load::default(), sizes: HashMap::new(), last }
    }

    /// An open batch that an earlier delivery began: it left word of its candidates' fates at just this revision, or
    /// each is driven to its fate now.
    ///
    /// When the latest of them came is known by that word alone; else they have come `now`.
    pub async fn resume<S: Tasks>(
        store: &S,
        batch: Batch,
        left: Option<Resume>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let left = left.filter(|left| left.batch == batch.id && left.revision == batch.revision);
        let last = left.as_ref().and_then(|left| left.last).unwrap_or(now);
        let joined = match &left {
            Some(left) => batch.members.iter().filter(|member| !left.missed.contains(&member.id)).cloned().collect(),
            None => drive(store, &batch).await?,
        };
        let sizes = left.map(|left| left.sizes).unwrap_or_default();
        let sizes = batch.members.iter().map(|member| member.id.clone()).zip(sizes).collect();
        Ok(Self { load: Load::of(&batch, &joined, &sizes), batch, written: true, joined, sizes, last })
    }

    /// What the next delivery needs to know to go on without reading every candidate.
    pub fn knowledge(&self, limits: Limits) -> Resume {
        // A task that was elsewhere in an earlier round may have joined in its present one.
        let missed = self.batch.members.iter().filter(|member| !self.joined.contains(member));
        let (batch, missed) = (self.batch.id.clone(), missed.map(|member| member.id.clone()).collect());
        let size = |member: &Member| self.sizes.get(&member.id).copied().unwrap_or_default();
        // Else the batch's own bytes are those that it is called with.
        let is_whole = limits.collapses && self.joined.iter().all(|member| self.sizes.contains_key(&member.id));
        let sizes = if is_whole { self.batch.members.iter().map(size).collect() } else { Vec::new() };
        Resume { batch, revision: self.batch.revision, missed, last: limits.quiet_ms.map(|_| self.last), sizes }
    }

    /// Adds candidates until the batch is full, no task waits or the window is over. `gathered` comes first.
    ///
    /// # Errors
    /// The store did not answer, or another delivery wrote the batch.
    pub async fn fill<S: Tasks + Locks + Batches>(
        &mut self,
        store: &S,
        drain: &mut Drain<S::Cursor>,
        limits: Limits,
        now: Timestamp,
        mut gathered: Option<Gathered>,
    ) -> Result<Filled, Error> {
        loop {
            let room = limits.room_beside(self.load.clone());
            if room.is_full() {
                return Ok(Filled::Ready);
            }
            let Gathered { candidates, full } = match gathered.take() {
                Some(gathered) => gathered,
                None => Gathered::gather(store, &self.batch.target, drain, &room, now).await?,
            };
            if candidates.is_empty() {
                // If all who were to join turned out to be elsewhere, nobody waits for this batch.
                return Ok(if full || self.joined.is_empty() { Filled::Ready } else { self.window(limits, now) });
            }
            self.last = now;
            self.intend(store, &candidates).await?;
            if !self.move_in(store, candidates).await? {
                // The index showed what is no longer so; from here on a read comes first.
                drain.distrust();
            } else if full {
                return Ok(Filled::Ready);
            }
        }
    }

    /// In how long a batch that waits for more should be looked at again, in milliseconds.
    pub fn look_again_ms(&self, limits: Limits, until: Timestamp, before: Pace, now: Timestamp) -> u64 {
        let room = limits.room_beside(self.load.clone()).full_in();
        let Pace { members, ms } = self.pace(limits, now);
        next_look_ms(until.since(now), ms, members, room, before)
    }

    /// How fast it has filled since its window began: those who came with the leader have come since.
    pub fn pace(&self, limits: Limits, now: Timestamp) -> Pace {
        let Status::Open { until } = self.batch.status else {
            return Pace { members: self.load.called(), ms: now.since(self.batch.created_at) };
        };
        Pace { members: self.load.called(), ms: now.plus_ms(limits.wait_ms).since(until) }
    }

    /// The batch with its final members, and the write's precondition.
    pub fn frozen(self, routes: &Routes, now: Timestamp) -> (Batch, Assumes) {
        let assumes = Assumes::At(self.batch.revision);
        (finish::frozen(&self.batch, self.joined, routes, now), assumes)
    }

    fn window(&self, limits: Limits, now: Timestamp) -> Filled {
        match self.batch.status {
            Status::Open { until } => {
                let until = limits.waits_until(&self.load, self.last, until);
                if until > now { Filled::Waits { until } } else { Filled::Ready }
            }
            Status::Closing
            | Status::Frozen
            | Status::Paused { .. }
            | Status::InProgress { .. }
            | Status::Settled { .. }
            | Status::Empty
            | Status::Void => Filled::Ready,
        }
    }

    /// Writes the candidates into the batch before any of them is moved. Earlier ones have joined, or are elsewhere and
    /// are left out.
    async fn intend<S: Batches>(&mut self, store: &S, candidates: &[Candidate]) -> Result<(), Error> {
        let next = self.batch.with_candidates(&self.joined, self.load.bytes(), candidates);
        let (next, assumes) = if self.written {
            (next, Assumes::At(self.batch.revision))
        } else {
            (Batch { revision: Revision(1), ..next }, Assumes::Absent)
        };
        stored(store.store(&next, assumes).await?)?;
        self.batch = next;
        self.written = true;
        Ok(())
    }

    /// Moves the candidates in; returns whether all of them came.
    async fn move_in<S: Tasks>(&mut self, store: &S, candidates: Vec<Candidate>) -> Result<bool, Error> {
        let id: &BatchId = &self.batch.id;
        let fates: Vec<(Candidate, Joined)> = stream::iter(candidates)
            .map(|candidate| async move {
                let joined = store.join(&candidate.id, candidate.round, id).await?;
                Ok::<_, Error>((candidate, joined))
            })
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        let mut all = true;
        for (candidate, joined) in fates {
            match joined {
                Joined::Yes => {
                    self.load.add(&candidate);
                    self.sizes.insert(candidate.id.clone(), candidate.bytes);
                    self.joined.push(Member { id: candidate.id, round: candidate.round });
                }
                Joined::Elsewhere => all = false,
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
