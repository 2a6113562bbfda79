//! How a leader goes on: to its next batch, out of its lock, or to another message of its own.

use super::{GroupBatch, Leading, Stop};
use crate::domain::message::{Group, Lead, MAX_TASKS, Resume};
use crate::domain::{Candidate, Lock};
use crate::ports::{Advanced, Batches, Env, Locks, Outbox, Outgoing, Released, Tasks, send_all};
use crate::steps::election_messages::{elections, following_messages};
use crate::steps::fill::Gathered;
use crate::steps::{Error, lease_ms};

impl<S: Tasks + Locks + Batches, Q: Outbox, E: Env> GroupBatch<'_, S, Q, E> {
    /// Looks for tasks for another batch, beside those that were `found` already. If there are none, or for a shard's
    /// leader too few, the lock is released, unless somebody has signalled since the last look: then this looks again,
    /// since the signal may be about a task that the look just missed.
    pub(super) async fn find_more_or_release(
        &self,
        leading: &mut Leading<'_, S::Cursor>,
        mut found: Vec<Candidate>,
    ) -> Result<Option<Gathered>, Stop> {
        loop {
            let gathered = self.gather(leading, found).await?;
            if leading.begins_with(&gathered) {
                return Ok(Some(gathered));
            }
            match self.store.release(&leading.term, leading.lock.seq, leading.lock.signals, self.env.now()).await? {
                Released::Yes => {
                    // Only now: while the lock is held, a workflow that comes for these tasks would signal its holder.
                    // If this is never sent, the leader's message comes again for those that it answers for.
                    let now = self.env.now();
                    let elections = elections(self.env, &leading.term.target, &gathered.candidates, now, 1);
                    send_all(self.queue, following_messages(elections, leading.copies, now)).await?;
                    return Ok(None);
                }
                Released::Lost => return Err(Stop::TermOver),
                Released::Signalled(lock) => {
                    leading.lock.signals = lock.signals;
                    leading.drain.start_over();
                }
            }
            found = gathered.candidates;
        }
    }

    /// Gathers for a new batch, which begins with those that were `found` already.
    pub(super) async fn gather(
        &self,
        leading: &mut Leading<'_, S::Cursor>,
        found: Vec<Candidate>,
    ) -> Result<Gathered, Error> {
        let Leading { term, limits, drain, .. } = leading;
        let room = limits.room().beside(&found);
        let gathered = Gathered::gather(self.store, &term.target, drain, &room, self.env.now()).await?;
        Ok(Gathered { candidates: [found, gathered.candidates].concat(), ..gathered })
    }

    /// Names the next batch as the open one and renews the lease.
    pub(super) async fn advance(&self, leading: &mut Leading<'_, S::Cursor>) -> Result<(), Stop> {
        let lease_until = self.env.now().plus_ms(lease_ms(leading.limits.wait_ms));
        match self.store.advance(&leading.term, leading.lock.seq, lease_until).await? {
            // Signals that came since the last look stay unseen until the index is walked again.
            Advanced::Kept(lock) => leading.lock = Lock { signals: leading.lock.signals, ..lock },
            Advanced::Lost => return Err(Stop::TermOver),
        }
        Ok(())
    }

    /// Goes on later, by a message of its own.
    pub(super) async fn come_back(
        &self,
        leading: &Leading<'_, S::Cursor>,
        gathered: Option<Gathered>,
        resume: Option<Resume>,
        delay_ms: u64,
    ) -> Result<(), Stop> {
        let mut tasks = gathered.map_or_else(Vec::new, |gathered| gathered.candidates);
        tasks.extend(leading.drain.rest(MAX_TASKS.saturating_sub(tasks.len())));
        let (copies, delay_ms) = leading.copies.and_one(delay_ms, self.env.now());
        let (term, pace, wakes) = (leading.term.clone(), leading.pace, leading.wakes);
        let lead = Lead { term, tasks, verify: true, pace, resume, wakes, copies };
        Ok(send_all(self.queue, vec![Outgoing::group(&Group::Lead(lead), delay_ms)]).await?)
    }
}
