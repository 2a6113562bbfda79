//! Tasks, with their prices.

use groupage_aws::price::{self, Image};
use groupage_aws::{ATTEMPTS, Place, Units};
use groupage_core::domain::id::Part;
use groupage_core::domain::task::{Status, Task, Ties};
use groupage_core::domain::{BatchId, Failure, Member, Round, Target, TaskId, Timestamp, TrackerId, Traits};
use groupage_core::ports::{
    Entries, Freshness, Joined, Look, Page, PassedOver, PutBack, Registered, Result, Scheduled, Segment, Settlement,
    Sought, Spot, Stored, Tasks, Waiting, WaitingPage, WayBack,
};

use super::{RETENTION_MS, Store};
use crate::keys::Keys;
use crate::latency::Hop;

/// `BatchGetItem` takes this many keys.
const READ_AT_ONCE: usize = 100;

impl Store {
    async fn task_now(&self, id: &TaskId) -> Result<Option<Task>> {
        Ok(self.memory().read(std::slice::from_ref(id), Freshness::Latest).await?.pop())
    }

    async fn task_image(&self, id: &TaskId) -> Result<Option<Image>> {
        self.task_now(id).await?.map(|task| Image::task(&task, RETENTION_MS, self.now())).transpose()
    }

    fn task_keys<'a>(&self, id: &'a TaskId, target: Option<&'a Target>) -> Keys<'a> {
        Keys::of(Place::Tasks, id.as_str(), target.map(Target::as_str))
    }

    /// Puts a new task, in this many `attempts` at most.
    async fn put(&self, task: &Task, attempts: u32) -> Result<Registered> {
        let target = target_of(task);
        let keys = self.task_keys(&task.id, target.as_ref());
        self.attempt(Hop::Write, keys, attempts).await?;
        let registered = self.inner.register(task).await?;
        let image = self.task_image(&task.id).await?;
        match registered {
            Registered::New => {
                self.wrote(keys, None, image.as_ref());
                if is_scheduled(Some(task)) {
                    self.indexed_what_is_due(&task.id);
                }
            }
            Registered::Existing(_) => self.refused(keys, image.as_ref()),
        }
        Ok(registered)
    }

    /// Counts an entry that comes to the index of what is due, or leaves it. Its units are told with those of the index
    /// of waiting tasks.
    fn indexed_what_is_due(&self, id: &TaskId) {
        let (part, units) = (Part::of_task(id).due_key(), (Units::default(), Units::whole(1)));
        let keys = Keys::of(Place::Tasks, id.as_str(), Some(&part));
        self.tables.meter.charge_write(keys.place(), units);
        self.consume(keys, Hop::Write, units.0, units.1);
    }

    /// Makes a write of one task and counts it, by whether it `did` change the task.
    async fn change<T>(
        &self,
        id: &TaskId,
        write: impl Future<Output = Result<T>>,
        did: impl FnOnce(&T, Option<&Task>) -> bool,
    ) -> Result<T> {
        let waits_for = self.task_now(id).await?.and_then(|task| target_of(&task));
        self.change_for(id, waits_for, write, did).await
    }

    /// The same for a task that waits for this Target, before or after: its entry's partition pushes back, too.
    async fn change_for<T>(
        &self,
        id: &TaskId,
        waits_for: Option<Target>,
        write: impl Future<Output = Result<T>>,
        did: impl FnOnce(&T, Option<&Task>) -> bool,
    ) -> Result<T> {
        self.call(Hop::Write, self.task_keys(id, waits_for.as_ref())).await?;
        let before = self.task_now(id).await?;
        let old = before.as_ref().map(|task| Image::task(task, RETENTION_MS, self.now())).transpose()?;
        let outcome = write.await?;
        let new = self.task_image(id).await?;
        let after = self.task_now(id).await?.and_then(|task| target_of(&task));
        let target = before.as_ref().and_then(target_of).or(after);
        let keys = self.task_keys(id, target.as_ref());
        if did(&outcome, before.as_ref()) {
            self.wrote(keys, old.as_ref(), new.as_ref());
        } else {
            self.refused(keys, old.as_ref());
        }
        Ok(outcome)
    }
}

fn target_of(task: &Task) -> Option<Target> {
    task.status.waits_for().cloned()
}

fn is_scheduled(task: Option<&Task>) -> bool {
    task.is_some_and(|task| task.status.due().is_some())
}

fn waited(task: Option<&Task>) -> bool {
    task.is_some_and(|task| matches!(task.status, Status::Created { .. }))
}

fn was_batched(task: Option<&Task>) -> bool {
    task.is_some_and(|task| matches!(task.status, Status::Batched { .. }))
}

impl Tasks for Store {
    type Cursor = Spot;

    async fn register(&self, task: &Task) -> Result<Registered> {
        self.put(task, ATTEMPTS).await
    }

    async fn try_register(&self, task: &Task) -> Result<Registered> {
        self.put(task, 1).await
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        for some in ids.chunks(READ_AT_ONCE) {
            let Some(first) = some.first() else { continue };
            self.call(Hop::Page, self.task_keys(first, None)).await?;
            for id in some {
                let bytes = self.task_image(id).await?.map_or(0, |image| image.bytes());
                self.read(self.task_keys(id, None), bytes, freshness);
            }
        }
        self.inner.read(ids, freshness).await
    }

    async fn waiting(&self, target: &Target, after: Option<&Spot>, limit: usize) -> Result<Page<Spot>> {
        let keys = Keys::of(Place::Tasks, target.as_str(), Some(target.as_str()));
        self.call(Hop::Page, keys).await?;
        let page = self.inner.waiting(target, after, limit).await?;
        let now = self.now();
        self.paged(keys, page.candidates.iter().map(|candidate| price::waiting_bytes(target, candidate, now)).sum());
        Ok(page)
    }

    async fn urgent(&self, target: &Target, above: u8, after: Option<&Spot>, limit: usize) -> Result<Page<Spot>> {
        let keys = Keys::of(Place::Tasks, target.as_str(), Some(target.as_str()));
        self.call(Hop::Page, keys).await?;
        let urgent = self.inner.urgent(target, above, after, limit).await?;
        let now = self.now();
        self.paged(keys, urgent.candidates.iter().map(|candidate| price::waiting_bytes(target, candidate, now)).sum());
        Ok(urgent)
    }

    async fn waiting_long(&self, look: Look<'_, Segment>) -> Result<WaitingPage> {
        let keys = Keys::of(Place::Tasks, "", None);
        self.call(Hop::Page, keys).await?;
        // Billed for all that was looked at, not for what is left of it.
        let looked_at = self.memory().waiting_long(Look { before: Timestamp(u64::MAX), ..look }).await?.tasks;
        let bytes = |waits: &Waiting| price::waiting_bytes(&waits.target, &waits.candidate, waits.since);
        self.paged(keys, looked_at.iter().map(bytes).sum());
        self.inner.waiting_long(look).await
    }

    async fn due(&self, look: Look<'_>) -> Result<Entries<Scheduled>> {
        let keys = Keys::of(Place::Tasks, "", None);
        self.call(Hop::Page, keys).await?;
        let entries = self.inner.due(look).await?;
        // Keys, times and Targets, of a hundred bytes or so each.
        self.paged(keys, entries.found.len() as u64 * 150);
        Ok(entries)
    }

    async fn unsettled_of(&self, tracker: &TrackerId, after: Option<&TaskId>, limit: usize) -> Result<Sought> {
        let keys = Keys::of(Place::Tasks, "", None);
        self.call(Hop::Page, keys).await?;
        let sought = self.inner.unsettled_of(tracker, after, limit).await?;
        // Billed for all that was looked at: a page of tasks of a kilobyte or so.
        self.paged(keys, limit as u64 * 1_000);
        Ok(sought)
    }

    async fn fall_due(
        &self,
        (id, traits): (&TaskId, Traits),
        target: &Target,
        now: Timestamp,
    ) -> Result<Option<Waiting>> {
        let is_due = |_: &Option<Waiting>, task: Option<&Task>| {
            task.and_then(|task| task.status.due()).is_some_and(|due| due <= now)
        };
        let was_scheduled = is_scheduled(self.task_now(id).await?.as_ref());
        let waits =
            self.change_for(id, Some(target.clone()), self.inner.fall_due((id, traits), target, now), is_due).await?;
        if was_scheduled && waits.is_some() {
            self.indexed_what_is_due(id);
        }
        Ok(waits)
    }

    async fn take_turn(&self, (id, traits): (&TaskId, Traits), target: &Target, now: Timestamp) -> Result<PutBack> {
        let queued = |_: &PutBack, task: Option<&Task>| task.is_some_and(|task| task.status == Status::Queued);
        self.change_for(id, Some(target.clone()), self.inner.take_turn((id, traits), target, now), queued).await
    }

    async fn pass_over(&self, id: &TaskId, failure: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let queued = |_: &Option<PassedOver>, task: Option<&Task>| task.is_some_and(|t| t.status == Status::Queued);
        self.change(id, self.inner.pass_over(id, failure, now), queued).await
    }

    async fn end(&self, id: &TaskId, round: Round, ending: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let write = self.inner.end(id, round, ending, now);
        self.change(id, write, |ended, task| ended.is_some() && !task.is_some_and(|t| t.status.is_settled())).await
    }

    async fn heard_of(&self, id: &TaskId, round: Round) -> Result<()> {
        self.change(id, self.inner.heard_of(id, round), |(), task| task.is_some_and(|t| t.status.ended().is_some()))
            .await
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let write = self.inner.join(id, round, batch);
        self.change(id, write, |joined, task| *joined == Joined::Yes && waited(task)).await
    }

    async fn erase(&self, id: &TaskId, round: Round) -> Result<Stored> {
        self.change(id, self.inner.erase(id, round), |erased, _| *erased == Stored::Yes).await
    }

    async fn put_back(&self, back: WayBack<'_>) -> Result<PutBack> {
        let write = self.inner.put_back(back);
        self.change(&back.member.id, write, |put, task| *put == PutBack::Waits && was_batched(task)).await
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        let write = self.inner.settle(member, batch, settlement, now);
        self.change(&member.id, write, |_, task| was_batched(task)).await
    }
}
