//! Tasks: their versions as stale replicas show them, and their lagging index.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use groupage_core::domain::task::{Candidate, Status, Task, Ties};
use groupage_core::domain::{BatchId, Failure, Member, Round, Target, TaskId, Timestamp, TrackerId, Traits};
use groupage_core::ports::{
    Entries, Env, Freshness, Joined, Look, Page, PassedOver, PutBack, Queue, Registered, Result, Scheduled, Segment,
    Settlement, Sought, Spot, Stored, Tasks, Waiting, WaitingPage, WayBack,
};

use super::Lagging;
use super::versions::{push, shown};

/// What the index shows.
#[derive(Debug, Default)]
pub(super) struct Index {
    visible: BTreeMap<Target, Queue>,
    /// Changes on their way, in the order in which they become visible.
    pending: BTreeMap<(Timestamp, u64), Shift>,
    changes: u64,
}

#[derive(Debug)]
enum Shift {
    Show(Target, Candidate),
    Hide(TaskId, Round),
}

impl<S, E: Env> Lagging<S, E> {
    fn change(&self, change: Shift) {
        let at = self.visible_at(self.lag.index_ms);
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.changes += 1;
        let key = (at, index.changes);
        index.pending.insert(key, change);
    }

    /// A task was written for the first time.
    pub(crate) fn appeared(&self, task: &Task) {
        if let Status::Created { target } = &task.status {
            self.change(Shift::Show(target.clone(), task.candidate()));
        }
        self.version(&task.id, |_| Some(task.clone()));
    }

    /// Adds a version of a task, made from the latest one.
    fn version(&self, id: &TaskId, next: impl FnOnce(Option<&Task>) -> Option<Task>) {
        if self.lag.read_ms == 0 {
            return;
        }
        let at = self.visible_at(self.lag.read_ms);
        let mut replica = self.replica.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = replica.entry(id.clone()).or_default();
        if let Some(task) = next(versions.last().map(|(_, task)| task)) {
            push(versions, at, task);
        }
    }
}

impl<S: Tasks, E: Env> Lagging<S, E> {
    /// A task that was there waits for a batch from now on.
    pub(super) async fn waits_again(&self, id: &TaskId, target: &Target) -> Result<()> {
        if let Some(task) = self.inner.read(std::slice::from_ref(id), Freshness::Latest).await?.pop() {
            self.change(Shift::Show(target.clone(), task.candidate()));
            self.version(id, |_| Some(task));
        }
        Ok(())
    }
}

impl Index {
    fn catch_up(&mut self, now: Timestamp) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Shift::Show(target, candidate) => {
                    self.visible.entry(target).or_default().show(candidate);
                }
                Shift::Hide(id, round) => {
                    for waiting in self.visible.values_mut() {
                        if waiting.get(&id).is_some_and(|candidate| candidate.round <= round) {
                            waiting.hide(&id);
                        }
                    }
                }
            }
        }
    }
}

/// No layer: the pages are those of an index of its own, and so are the positions in it.
impl<S: Tasks, E: Env> Tasks for Lagging<S, E> {
    type Cursor = Spot;

    async fn register(&self, task: &Task) -> Result<Registered> {
        let registered = self.inner.register(task).await?;
        if registered == Registered::New {
            self.appeared(task);
        }
        Ok(registered)
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        if freshness == Freshness::Latest || self.lag.read_ms == 0 {
            return self.inner.read(ids, freshness).await;
        }
        let now = self.clock.now();
        let replica = self.replica.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(ids.iter().filter_map(|id| shown(replica.get(id)?, now).cloned()).collect())
    }

    async fn waiting(&self, target: &Target, after: Option<&Spot>, limit: usize) -> Result<Page<Spot>> {
        // The inner index is read as well, so that its cost is counted.
        self.inner.waiting(target, None, limit).await?;
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.catch_up(self.clock.now());
        Ok(index.visible.get(target).map_or_else(Page::default, |waiting| waiting.page(after, limit)))
    }

    async fn urgent(&self, target: &Target, above: u8, after: Option<&Spot>, limit: usize) -> Result<Page<Spot>> {
        // The inner index is read as well, so that its cost is counted.
        self.inner.urgent(target, above, None, limit).await?;
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.catch_up(self.clock.now());
        Ok(index.visible.get(target).map_or_else(Page::default, |waiting| waiting.urgent(above, after, limit)))
    }

    async fn waiting_long(&self, look: Look<'_, Segment>) -> Result<WaitingPage> {
        // What has waited for long was there long ago, whatever the lag.
        self.inner.waiting_long(look).await
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let joined = self.inner.join(id, round, batch).await?;
        if joined == Joined::Yes {
            self.change(Shift::Hide(id.clone(), round));
            let status = Status::Batched { batch: batch.clone() };
            self.version(id, |task| task.map(|task| Task { status, ..task.clone() }));
        }
        Ok(joined)
    }

    async fn due(&self, look: Look<'_>) -> Result<Entries<Scheduled>> {
        self.inner.due(look).await
    }

    async fn unsettled_of(&self, tracker: &TrackerId, after: Option<&TaskId>, limit: usize) -> Result<Sought> {
        // The table is read itself, not its index.
        self.inner.unsettled_of(tracker, after, limit).await
    }

    async fn fall_due(
        &self,
        (id, traits): (&TaskId, Traits),
        target: &Target,
        now: Timestamp,
    ) -> Result<Option<Waiting>> {
        let was = self.inner.read(std::slice::from_ref(id), Freshness::Latest).await?.pop();
        let waiting = self.inner.fall_due((id, traits), target, now).await?;
        if waiting.is_some() && was.is_some_and(|task| matches!(task.status, Status::Scheduled { .. })) {
            self.waits_again(id, target).await?;
        }
        Ok(waiting)
    }

    async fn take_turn(&self, (id, traits): (&TaskId, Traits), target: &Target, now: Timestamp) -> Result<PutBack> {
        let taken = self.inner.take_turn((id, traits), target, now).await?;
        if taken == PutBack::Waits {
            self.waits_again(id, target).await?;
        }
        Ok(taken)
    }

    async fn pass_over(&self, id: &TaskId, failure: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        self.inner.pass_over(id, failure, now).await
    }

    async fn end(&self, id: &TaskId, round: Round, ending: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let ended = self.inner.end(id, round, ending, now).await?;
        if ended.is_some() {
            self.change(Shift::Hide(id.clone(), round));
        }
        Ok(ended)
    }

    async fn heard_of(&self, id: &TaskId, round: Round) -> Result<()> {
        self.inner.heard_of(id, round).await
    }

    async fn erase(&self, id: &TaskId, round: Round) -> Result<Stored> {
        self.inner.erase(id, round).await
    }

    async fn put_back(&self, back: WayBack<'_>) -> Result<PutBack> {
        let WayBack { member, target, attempts, is_unsure, at, .. } = back;
        let put_back = self.inner.put_back(back).await?;
        if put_back == PutBack::Waits {
            let candidate = Candidate { round: member.round.next(), ..member.clone() };
            self.change(Shift::Show(target.clone(), candidate));
            let (status, round) = (Status::Created { target: target.clone() }, member.round.next());
            self.version(&member.id, |task| {
                task.map(|task| Task { status, round, attempts, is_unsure, waits_since: at, ..task.clone() })
            });
        }
        Ok(put_back)
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        self.inner.settle(member, batch, settlement, now).await
    }
}
