//! The paper's tables in memory: `Id, Status, Target` · `Target, LockHolder, AcquiredAt` · `BatchId, Target, Members`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use groupage_aws::Place;
use groupage_aws::price::Image;
use groupage_core::ports::{Freshness, Result};

use simulator::latency::Hop;
use simulator::{Keys, Store};

#[derive(Debug, Default)]
pub struct PaperTables(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    tasks: HashMap<String, Task>,
    waiting: BTreeMap<String, BTreeSet<String>>,
    locks: HashMap<String, String>,
    batches: HashMap<String, (String, &'static str, Vec<String>)>,
}

#[derive(Clone, Debug)]
struct Task {
    status: &'static str,
    target: String,
    payload: String,
    batch: Option<String>,
}

/// A moment of today, in milliseconds: only its length matters.
const A_MOMENT: u64 = 1_800_000_000_123;

impl Task {
    fn image(&self, id: &str) -> Image {
        let Self { status, target, payload, batch } = self;
        let mut texts =
            vec![("Id", id), ("Status", *status), ("Target", target.as_str()), ("Payload", payload.as_str())];
        texts.extend(batch.as_ref().map(|batch| ("BatchId", batch.as_str())));
        Image::other(Place::Tasks, &texts, &[("CreatedAt", A_MOMENT)])
    }
}

fn lock_image(target: &str, holder: &str) -> Image {
    Image::other(Place::Locks, &[("Target", target), ("LockHolder", holder)], &[("AcquiredAt", A_MOMENT)])
}

fn batch_image(id: &str, (target, status, members): &(String, &'static str, Vec<String>)) -> Image {
    // A list takes three bytes, and one more for each element.
    let members = format!("{}{}", members.concat(), "x".repeat(3 + members.len()));
    let texts = [("BatchId", id), ("Target", target.as_str()), ("Status", *status), ("Members", members.as_str())];
    Image::other(Place::Batches, &texts, &[])
}

const fn task_keys<'a>(id: &'a str, target: &'a str) -> Keys<'a> {
    Keys::of(Place::Tasks, id, Some(target))
}

impl PaperTables {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new task, waiting.
    pub async fn register(&self, store: &Store, id: &str, target: &str, payload: &str) -> Result<()> {
        let keys = task_keys(id, target);
        store.call(Hop::Write, keys).await?;
        let mut tables = self.tables();
        let task = Task { status: "created", target: target.to_owned(), payload: payload.to_owned(), batch: None };
        store.wrote(keys, None, Some(&task.image(id)));
        tables.tasks.insert(id.to_owned(), task);
        tables.waiting.entry(target.to_owned()).or_default().insert(id.to_owned());
        Ok(())
    }

    /// Whether a task still waits for a batch: a read.
    pub async fn waits(&self, store: &Store, id: &str) -> Result<bool> {
        let keys = Keys::of(Place::Tasks, id, None);
        store.call(Hop::Read, keys).await?;
        let task = self.tables().tasks.get(id).cloned();
        store.read(keys, task.as_ref().map_or(0, |task| task.image(id).bytes()), Freshness::Latest);
        Ok(task.is_some_and(|task| task.status == "created"))
    }

    /// Takes the lock, if nobody has it.
    pub async fn acquire(&self, store: &Store, target: &str, holder: &str) -> Result<bool> {
        let keys = Keys::of(Place::Locks, target, None);
        store.call(Hop::Write, keys).await?;
        let mut tables = self.tables();
        if let Some(holder) = tables.locks.get(target) {
            store.refused(keys, Some(&lock_image(target, holder)));
            return Ok(false);
        }
        store.wrote(keys, None, Some(&lock_image(target, holder)));
        tables.locks.insert(target.to_owned(), holder.to_owned());
        Ok(true)
    }

    /// Gives the lock up.
    pub async fn release(&self, store: &Store, target: &str) -> Result<()> {
        let keys = Keys::of(Place::Locks, target, None);
        store.call(Hop::Write, keys).await?;
        let holder = self.tables().locks.remove(target).unwrap_or_default();
        store.wrote(keys, Some(&lock_image(target, &holder)), None);
        Ok(())
    }

    /// A page of the index: tasks that wait for a Target.
    pub async fn waiting(&self, store: &Store, target: &str, most: usize) -> Result<Vec<String>> {
        let keys = task_keys(target, target);
        store.call(Hop::Page, keys).await?;
        let tables = self.tables();
        let waiting = tables.waiting.get(target).into_iter().flatten();
        let found: Vec<String> = waiting.take(most).cloned().collect();
        let images = found.iter().filter_map(|id| tables.tasks.get(id).map(|task| task.image(id)));
        store.paged(keys, images.map(|image| image.entry_bytes()).sum());
        Ok(found)
    }

    /// Moves a task on, if it is as expected: a write of the task, and two of the index.
    pub async fn set(
        &self,
        store: &Store,
        id: &str,
        from: &'static str,
        to: &'static str,
        batch: Option<&str>,
    ) -> Result<bool> {
        let target = self.tables().tasks.get(id).map(|task| task.target.clone()).unwrap_or_default();
        let keys = task_keys(id, &target);
        store.call(Hop::Write, keys).await?;
        let mut tables = self.tables();
        let Some(task) = tables.tasks.get_mut(id) else { return Ok(false) };
        let old = task.image(id);
        if task.status != from {
            store.refused(keys, Some(&old));
            return Ok(false);
        }
        task.status = to;
        task.batch = batch.map(str::to_owned).or_else(|| task.batch.take());
        store.wrote(keys, Some(&old), Some(&task.image(id)));
        if from == "created"
            && let Some(waiting) = tables.waiting.get_mut(&target)
        {
            waiting.remove(id);
        }
        Ok(true)
    }

    /// Writes a batch.
    pub async fn write_batch(
        &self,
        store: &Store,
        id: &str,
        target: &str,
        status: &'static str,
        members: &[String],
    ) -> Result<()> {
        let keys = Keys::of(Place::Batches, id, None);
        store.call(Hop::Write, keys).await?;
        let batch = (target.to_owned(), status, members.to_vec());
        let image = batch_image(id, &batch);
        let old = self.tables().batches.insert(id.to_owned(), batch).map(|old| batch_image(id, &old));
        store.wrote(keys, old.as_ref(), Some(&image));
        Ok(())
    }

    /// Reads a batch's members.
    pub async fn members(&self, store: &Store, id: &str) -> Result<Vec<String>> {
        let keys = Keys::of(Place::Batches, id, None);
        store.call(Hop::Read, keys).await?;
        let batch = self.tables().batches.get(id).cloned().unwrap_or_default();
        store.read(keys, batch_image(id, &batch).bytes(), Freshness::Latest);
        Ok(batch.2)
    }

    /// Reads tasks' payloads, a hundred at once.
    pub async fn payloads(&self, store: &Store, ids: &[String]) -> Result<Vec<String>> {
        let mut payloads = Vec::with_capacity(ids.len());
        for some in ids.chunks(100) {
            store.call(Hop::Page, Keys::of(Place::Tasks, &some[0], None)).await?;
            let tables = self.tables();
            for id in some {
                let Some(task) = tables.tasks.get(id) else { continue };
                store.read(Keys::of(Place::Tasks, id, None), task.image(id).bytes(), Freshness::Eventual);
                payloads.push(task.payload.clone());
            }
        }
        Ok(payloads)
    }
}
