//! The task table: one item per task, and the sparse index of those that wait.
//!
//! Only a waiting task carries `Target`, a key of the index, so that a task's later changes cost no index write. `Bytes`
//! is the payload's size, stored for the index's sake.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes, ReturnConsumedCapacity, ReturnValue};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::dynamo::{Dynamo, Key, Written};
use super::expression::{Change, Clause};
use super::fault::failed;
use super::item::{Item, decode, encode, nonsense, number, text};
use super::meter::Place;
use crate::config::Tables;
use crate::domain::batch::Member;
use crate::domain::id::{BatchId, Round, Target, TaskId};
use crate::domain::outcome::Reason;
use crate::domain::task::{self, Candidate, Status, Task, payload_bytes};
use crate::domain::time::Timestamp;
use crate::ports::{Error, Freshness, Joined, Page, PutBack, Registered, Result, Settlement, Tasks};

pub(super) const TABLE: &str = "task table";
const ID: &str = "Id";
pub(super) const STATUS: &str = "Status";
const TARGET: &str = "Target";
const BATCH_ID: &str = "BatchId";
const ROUND: &str = "Round";

/// A task as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StoredTask {
    id: TaskId,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_id: Option<BatchId>,
    round: Round,
    attempts: u32,
    payload: String,
    digest: String,
    created_at: Timestamp,
    bytes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
}

impl StoredTask {
    fn of(task: &Task) -> Self {
        let (target, reason) = match &task.status {
            Status::Created { target } => (Some(target.clone()), None),
            Status::Batched { .. } | Status::Succeeded { .. } => (None, None),
            Status::Failed { reason, .. } => (None, Some(reason.clone())),
        };
        Self {
            id: task.id.clone(),
            status: task.status.word().to_owned(),
            target,
            batch_id: task.status.batch().cloned(),
            round: task.round,
            attempts: task.attempts,
            payload: task.payload.clone(),
            digest: task.digest.clone(),
            created_at: task.created_at,
            bytes: payload_bytes(&task.payload),
            reason,
        }
    }

    fn into_task(self) -> Result<Task> {
        let missing = |attribute| {
            nonsense(TABLE, self.id.as_str(), attribute, format_args!("is missing while `{}`", self.status))
        };
        let batch = || self.batch_id.clone().ok_or_else(|| missing(BATCH_ID));
        let status = match self.status.as_str() {
            task::CREATED => Status::Created { target: self.target.clone().ok_or_else(|| missing(TARGET))? },
            task::BATCHED => Status::Batched { batch: batch()? },
            task::SUCCEEDED => Status::Succeeded { batch: batch()? },
            task::FAILED => {
                Status::Failed { batch: batch()?, reason: self.reason.clone().ok_or_else(|| missing("Reason"))? }
            }
            unknown => return Err(nonsense(TABLE, self.id.as_str(), STATUS, format_args!("`{unknown}` is no status"))),
        };
        Ok(Task {
            id: self.id,
            status,
            round: self.round,
            attempts: self.attempts,
            payload: self.payload,
            digest: self.digest,
            created_at: self.created_at,
        })
    }
}

/// Reads a task out of its item.
pub(super) fn task_of(item: Item) -> Result<Task> {
    let id = item.get(ID).and_then(|id| id.as_s().ok()).cloned().unwrap_or_default();
    decode::<StoredTask>(TABLE, &id, item)?.into_task()
}

/// An entry of the index.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    id: TaskId,
    round: Round,
    bytes: u32,
}

/// A position in the index of waiting tasks.
#[derive(Clone, Debug)]
pub struct Cursor(HashMap<String, AttributeValue>);

/// What every move of a member assumes: it names the batch, in this round.
fn is_member(batch: &BatchId, round: Round) -> [Clause; 3] {
    [
        Clause::Equals(STATUS, text(task::BATCHED)),
        Clause::Equals(BATCH_ID, text(batch.as_str())),
        Clause::Equals(ROUND, number(round)),
    ]
}

impl Dynamo {
    fn task_key<'a>(&'a self, id: &'a TaskId) -> Key<'a> {
        Key { table: &self.tables.tasks, place: Place::Tasks, attribute: ID, id: id.as_str() }
    }
}

impl Tasks for Dynamo {
    type Cursor = Cursor;

    async fn register(&self, task: &Task) -> Result<Registered> {
        let item = encode(TABLE, task.id.as_str(), &StoredTask::of(task))?;
        match self.put("register a task", self.task_key(&task.id), item, &[Clause::Absent(ID)]).await? {
            Written::Done(_) => Ok(Registered::New),
            Written::Refused(None) => Err(vanished("register a task")),
            Written::Refused(Some(old)) => {
                let existing = task_of(old)?;
                // Same to the millisecond: the answer to our own write was lost.
                Ok(if existing == *task { Registered::New } else { Registered::Existing(existing) })
            }
        }
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        // DynamoDB refuses a request that names a key twice.
        let ids: Vec<&TaskId> = ids.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let reads: Vec<_> = ids.chunks(READ_AT_ONCE).map(|ids| self.read_chunk(ids, freshness)).collect();
        let pages: Vec<Vec<Task>> = stream::iter(reads).buffer_unordered(READS_IN_FLIGHT).try_collect().await?;
        Ok(pages.into_iter().flatten().collect())
    }

    async fn waiting(&self, target: &Target, after: Option<&Cursor>, limit: usize) -> Result<Page<Cursor>> {
        const WHAT: &str = "query the waiting tasks";
        let output = self
            .client
            .query()
            .table_name(&self.tables.tasks)
            .index_name(Tables::WAITING_INDEX)
            .key_condition_expression("#Target = :target AND #Status = :status")
            .expression_attribute_names("#Target", TARGET)
            .expression_attribute_names("#Status", STATUS)
            .expression_attribute_values(":target", text(target.as_str()))
            .expression_attribute_values(":status", text(task::CREATED))
            .limit(i32::try_from(limit.max(1)).unwrap_or(i32::MAX))
            .set_exclusive_start_key(after.map(|cursor| cursor.0.clone()))
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(|error| failed(WHAT, error))?;
        self.meter.count_read(Place::Tasks, output.consumed_capacity());
        let entries = output.items.unwrap_or_default().into_iter().map(|item| decode::<Entry>(TABLE, "", item));
        let candidates = entries
            .map(|entry| entry.map(|Entry { id, round, bytes }| Candidate { id, round, bytes }))
            .collect::<Result<_>>()?;
        Ok(Page { candidates, next: output.last_evaluated_key.map(Cursor) })
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let change = Change::default()
            .set(STATUS, text(task::BATCHED))
            .set(BATCH_ID, text(batch.as_str()))
            // Without it the task is in the index no more.
            .remove(TARGET);
        let waits = [Clause::Equals(STATUS, text(task::CREATED)), Clause::Equals(ROUND, number(round))];
        match self.update("move a task into a batch", self.task_key(id), change, &waits, ReturnValue::None).await? {
            Written::Done(_) => Ok(Joined::Yes),
            Written::Refused(None) => Ok(Joined::Elsewhere),
            Written::Refused(Some(old)) => {
                let old = task_of(old)?;
                let joined = old.round == round && old.status == Status::Batched { batch: batch.clone() };
                Ok(if joined { Joined::Yes } else { Joined::Elsewhere })
            }
        }
    }

    async fn put_back(&self, member: &Candidate, batch: &BatchId, target: &Target, attempts: u32) -> Result<PutBack> {
        let change = Change::default()
            .set(STATUS, text(task::CREATED))
            .set(TARGET, text(target.as_str()))
            .set(ROUND, number(member.round.next()))
            .set("Attempts", number(attempts))
            .remove(BATCH_ID);
        let assumes = is_member(batch, member.round);
        let key = self.task_key(&member.id);
        match self.update("put a task back", key, change, &assumes, ReturnValue::None).await? {
            Written::Done(_) => Ok(PutBack::Waits),
            Written::Refused(None) => Ok(PutBack::MovedOn),
            Written::Refused(Some(old)) => {
                let waits = task_of(old)?.waits_in(member.round.next());
                Ok(if waits { PutBack::Waits } else { PutBack::MovedOn })
            }
        }
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<()> {
        let change = match settlement {
            Settlement::Succeeded => Change::default().set(STATUS, text(task::SUCCEEDED)),
            Settlement::Failed(reason) => {
                Change::default().set(STATUS, text(task::FAILED)).set("Reason", text(reason.as_str()))
            }
        }
        .set("SettledAt", number(now.0))
        .set("Ttl", number(now.plus_ms(self.retention_ms).as_secs()));
        let assumes = is_member(batch, member.round);
        // Refused means that an earlier repeat did it, or put the task back: nothing is left to do either way.
        self.update("settle a task", self.task_key(&member.id), change, &assumes, ReturnValue::None).await?;
        Ok(())
    }
}

/// `BatchGetItem` takes this many keys.
const READ_AT_ONCE: usize = 100;
const READS_IN_FLIGHT: usize = 4;
/// Tries of one chunk: keys come back unprocessed when a partition throttles, or past 16 MB of items.
const READ_TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(25);

impl Dynamo {
    async fn read_chunk(&self, ids: &[&TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        let mut tasks = Vec::with_capacity(ids.len());
        let mut keys: Vec<Item> = ids.iter().map(|id| Item::from([(ID.to_owned(), text(id.as_str()))])).collect();
        let mut pause = FIRST_PAUSE;
        for _ in 0..READ_TRIES {
            let asked = keys.len();
            let (items, unprocessed) = self.read_once(keys, freshness).await?;
            tasks.extend(items.into_iter().map(task_of).collect::<Result<Vec<_>>>()?);
            if unprocessed.is_empty() {
                return Ok(tasks);
            }
            // Progress means that only the answer was full; without any the partition needs a rest.
            if unprocessed.len() == asked {
                tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                pause *= 2;
            }
            keys = unprocessed;
        }
        Err(Error::Unavailable { what: READ, why: format!("{} keys were left unprocessed", keys.len()) })
    }

    async fn read_once(&self, keys: Vec<Item>, freshness: Freshness) -> Result<(Vec<Item>, Vec<Item>)> {
        let table = &self.tables.tasks;
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .consistent_read(freshness == Freshness::Latest)
            .build()
            .map_err(|error| Error::Broken { what: READ, why: error.to_string() })?;
        let output = self
            .client
            .batch_get_item()
            .request_items(table, wanted)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(|error| failed(READ, error))?;
        self.meter.count_read(Place::Tasks, output.consumed_capacity());
        // Only one table was asked for, and the answer names it as the request did.
        let items = output.responses.into_iter().flatten().flat_map(|(_, items)| items).collect();
        let unprocessed = output.unprocessed_keys.into_iter().flatten().flat_map(|(_, keys)| keys.keys).collect();
        Ok((items, unprocessed))
    }
}

const READ: &str = "read tasks";

/// A condition on absence failed, and yet nothing is there: the item expired in between.
fn vanished(what: &'static str) -> Error {
    Error::Unavailable { what, why: "the item that was in the way is gone".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::item;
    use super::*;
    use crate::domain::id::RouteName;

    fn task(status: Status) -> Task {
        Task {
            id: TaskId::new("3f0c8a51-55f0-4f5e-9a32-6d4c5f8e2b10"),
            status,
            round: Round(2),
            attempts: 3,
            payload: format!("{{\"note\":\"{}\"}}", "x".repeat(589)),
            digest: "0".repeat(32),
            created_at: Timestamp(1_700_000_000_123),
        }
    }

    fn all() -> [Status; 4] {
        let batch = BatchId::new("9".repeat(32));
        [
            Status::Created { target: Target::of(&RouteName::new("parcels"), "truck-7") },
            Status::Batched { batch: batch.clone() },
            Status::Succeeded { batch: batch.clone() },
            Status::Failed { batch, reason: Reason::new("too_heavy") },
        ]
    }

    #[test]
    fn every_status_survives_storage() {
        for status in all() {
            let task = task(status);
            let item = encode(TABLE, "", &StoredTask::of(&task)).unwrap();
            assert_eq!(task_of(item).unwrap(), task);
        }
    }

    #[test]
    fn only_a_waiting_task_carries_the_index_key() {
        for status in all() {
            let waits = matches!(status, Status::Created { .. });
            let item = encode(TABLE, "", &StoredTask::of(&task(status))).unwrap();
            assert_eq!(item.contains_key(TARGET), waits);
        }
    }

    #[test]
    fn a_payload_of_600_bytes_costs_one_write_unit_in_every_status() {
        for status in all() {
            let task = task(status);
            assert!(task.payload.len() >= 600);
            let mut item = encode(TABLE, "", &StoredTask::of(&task)).unwrap();
            item.insert("SettledAt".into(), number(1_700_000_000_123_u64));
            item.insert("Ttl".into(), number(1_700_000_000_u64));
            assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
        }
    }

    #[test]
    fn an_unknown_status_names_table_item_and_attribute() {
        let mut item = encode(TABLE, "", &StoredTask::of(&task(all()[0].clone()))).unwrap();
        item.insert(STATUS.into(), text("asleep"));
        let error = task_of(item).unwrap_err();
        assert!(matches!(error, Error::Broken { .. }));
        let said = error.to_string();
        assert!(said.contains("task table") && said.contains("3f0c8a51") && said.contains("`Status`"), "{said}");
    }
}
