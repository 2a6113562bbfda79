//! The task table: one item per task, and the sparse indexes of those that wait and of those that failed.
//!
//! Only a waiting task carries `Target`, a key of the index, so that a task's later changes cost no index write.
//! `Bytes` is the payload's size, stored for the index's sake.

pub(crate) mod filed;
mod read;
mod stored;

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, TransactWriteItem};
use groupage_core::domain::failed::Filed;
use groupage_core::domain::task::{self, Candidate, Status, Task, Ties};
use groupage_core::domain::{BatchId, Failure, Member, Round, Target, TaskId, Timestamp, TrackerId, Traits};
use groupage_core::ports::{
    Entries, Entry, Freshness, Joined, Look, Page, PassedOver, PutBack, Registered, Result, Scheduled, Segment,
    Settlement, Sought, Stored, Tasks, Waiting, WaitingPage, WayBack,
};
use serde::Deserialize;

use filed::{ANSWER, ANSWER_STATUS, ATTEMPTS, FILED, FILED_AT, GROUPED_BY, REASON, filing};
use stored::{StoredTask, ended, ties_of};

use crate::config::Tables;
use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{Item, decode, encode, id_in, nonsense, number, text, text_in};
use crate::dynamo::position::{keys_at, position_of};
use crate::dynamo::query::{Query, Scan};
use crate::dynamo::{Dynamo, Key, Written, transaction};
use crate::meter::Place;
pub(crate) use stored::{item_of, task_of};

pub(crate) const TABLE: &str = "task table";
pub(crate) const ID: &str = "Id";
pub(crate) const STATUS: &str = "Status";
pub(crate) const TARGET: &str = "Target";
pub(crate) const BATCH_ID: &str = "BatchId";
pub(crate) const ROUND: &str = "Round";
pub(crate) const WAITS_SINCE: &str = "WaitsSince";
const IS_UNSURE: &str = "IsUnsure";
pub(crate) const SETTLED_AT: &str = "SettledAt";
pub(crate) const TTL: &str = "Ttl";
const PAYLOAD: &str = "Payload";
const DIGEST: &str = "Digest";
const BYTES: &str = "Bytes";
const LANE: &str = "Lane";
const TRACE: &str = "Trace";
const TRAITS: &str = "Traits";
const ITEM: &str = "Item";
/// When the time of a scheduled task comes.
const NOT_BEFORE: &str = "NotBefore";

/// A task as the index of those that wait lists it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: TaskId,
    target: Target,
    round: Round,
    bytes: u32,
    waits_since: Timestamp,
    status: String,
}

impl Listed {
    /// Whether it has ended while it waited.
    fn has_ended(&self) -> bool {
        self.status == task::FAILED
    }

    fn into_waiting(self) -> Waiting {
        let traits = Traits::of_word(&self.status).unwrap_or_default();
        let candidate = Candidate { id: self.id, round: self.round, bytes: self.bytes, traits };
        Waiting { target: self.target, candidate, since: self.waits_since }
    }
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
    pub(crate) fn task_key<'a>(&'a self, id: &'a TaskId) -> Key<'a> {
        Key::of(&self.tables.tasks, Place::Tasks, ID, id.as_str())
    }

    async fn register_by(&self, client: &Client, task: &Task) -> Result<Registered> {
        let item = encode(TABLE, task.id.as_str(), &StoredTask::of(task))?;
        // The same to the millisecond is no other task.
        let existing = self.create(client, "register a task", self.task_key(&task.id), (task, item), task_of).await?;
        Ok(existing.map_or(Registered::New, |existing| Registered::Existing(Box::new(existing))))
    }

    /// A new task as one of a transaction's writes. Assumes: no task has its id.
    pub(crate) fn new_task(&self, what: &'static str, task: &Task) -> Result<TransactWriteItem> {
        let item = encode(TABLE, task.id.as_str(), &StoredTask::of(task))?;
        transaction::put(what, &self.tables.tasks, item, &[Clause::Absent(ID)])
    }

    /// The index of the tasks that wait for one Target.
    fn waiting_for<'a>(&'a self, target: &'a Target, after: Option<&Cursor>, limit: usize) -> Query<'a> {
        let of_target = Key::of(&self.tables.tasks, Place::Tasks, TARGET, target.as_str());
        let waiting = Query::of("query the waiting tasks", of_target, limit).by(Tables::WAITING_INDEX);
        waiting.after(after.map(|cursor| cursor.0.clone()))
    }

    /// A page of such an index.
    async fn page_of(&self, waiting: Query<'_>) -> Result<Page<Cursor>> {
        let (found, next) = self.query(waiting).await?;
        let entries = found.into_iter().map(|item| decode::<Listed>(TABLE, "", item));
        let candidates =
            entries.map(|entry| entry.map(|entry| entry.into_waiting().candidate)).collect::<Result<_>>()?;
        Ok(Page { candidates, next: next.map(Cursor) })
    }

    /// The change that settles a task as failed, and files it.
    fn failing(&self, id: &TaskId, failure: &Failure, now: Timestamp) -> Change {
        let kept_ms = self.retention_ms.max(failure.keep_ms);
        filing(self.settling(task::FAILED, kept_ms, now), (id, failure), now)
    }

    /// The change that settles a task, except what is kept of a failure.
    fn settling(&self, status: &str, kept_ms: u64, now: Timestamp) -> Change {
        Change::default()
            .set(STATUS, text(status))
            .set(SETTLED_AT, number(now.0))
            .set(TTL, number(now.plus_ms(kept_ms).as_secs()))
    }
}

impl Tasks for Dynamo {
    type Cursor = Cursor;

    async fn register(&self, task: &Task) -> Result<Registered> {
        self.register_by(&self.client, task).await
    }

    async fn try_register(&self, task: &Task) -> Result<Registered> {
        self.register_by(&self.yielding, task).await
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        self.read_tasks(ids, freshness).await
    }

    async fn waiting(&self, target: &Target, after: Option<&Cursor>, limit: usize) -> Result<Page<Cursor>> {
        let words = Clause::Begins(STATUS, text(task::CREATED), Vec::new());
        self.page_of(self.waiting_for(target, after, limit).only_if(words)).await
    }

    async fn urgent(&self, target: &Target, above: u8, after: Option<&Cursor>, limit: usize) -> Result<Page<Cursor>> {
        let [first, last] = Traits::urgent_words(above).map(text);
        let words = Clause::Between(STATUS, first, last);
        self.page_of(self.waiting_for(target, after, limit).only_if(words).backwards()).await
    }

    async fn waiting_long(&self, look: Look<'_, Segment>) -> Result<WaitingPage> {
        let since = [Clause::Below(WAITS_SINCE, number(look.before.0))];
        let all = Scan::of("scan the waiting tasks", &self.tables.tasks, Place::Tasks);
        let (index, after) = (Some(Tables::WAITING_INDEX), look.after.map(keys_at).transpose()?);
        let scan = Scan { index, segment: Some(look.part), filter: &since, after, limit: Some(look.limit), ..all };
        let (found, next) = self.scanned(scan).await?;
        let entries = found.into_iter().map(|item| decode::<Listed>(TABLE, "", item));
        let (ended, waiting): (Vec<Listed>, Vec<Listed>) =
            entries.collect::<Result<Vec<_>>>()?.into_iter().partition(Listed::has_ended);
        let [tasks, ended] = [waiting, ended].map(|entries| entries.into_iter().map(Listed::into_waiting).collect());
        Ok(WaitingPage { tasks, ended, next: next.as_ref().map(position_of).transpose()? })
    }

    async fn due(&self, look: Look<'_>) -> Result<Entries<Scheduled>> {
        let part = look.part.due_key();
        let key = Key::of(&self.tables.tasks, Place::Filed, FILED, &part);
        // A time alone lies before all places of that time.
        let due = Clause::Below(FILED_AT, text(format!("{:015}", look.before.0)));
        let query = Query::of("query the tasks that are due", key, look.limit).by(Tables::FILED_INDEX).only_if(due);
        let (found, next) = self.query(query.after(look.after.map(keys_at).transpose()?)).await?;
        let entries = found.into_iter().map(|item| {
            let (id, target) = (id_in(&item, ID), text_in(&item, GROUPED_BY).map(Target::new));
            let target = target.ok_or_else(|| nonsense(TABLE, &id, GROUPED_BY, "is missing"))?;
            let filed = text_in(&item, FILED_AT).and_then(|at| at.parse().ok());
            let Filed { at: due, .. } = filed.ok_or_else(|| nonsense(TABLE, &id, FILED_AT, "names no time"))?;
            let keys =
                [ID, FILED, FILED_AT].iter().filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone())));
            Ok(Entry { at: position_of(&keys.collect())?, what: Scheduled { id: TaskId::new(id), target, due } })
        });
        Ok(Entries { found: entries.collect::<Result<_>>()?, are_last: next.is_none() })
    }

    async fn fall_due(
        &self,
        (id, traits): (&TaskId, Traits),
        target: &Target,
        now: Timestamp,
    ) -> Result<Option<Waiting>> {
        let change = Change::default()
            .set(STATUS, text(traits.waiting_word()))
            .set(TARGET, text(target.as_str()))
            .set(WAITS_SINCE, number(now.0));
        let change = [FILED, FILED_AT, GROUPED_BY].into_iter().fold(change, Change::remove);
        let due = [Clause::Equals(STATUS, text(task::SCHEDULED)), Clause::AtMost(NOT_BEFORE, number(now.0))];
        match self.update("let a task fall due", self.task_key(id), change, &due, ReturnValue::AllNew).await? {
            Written::Done(None) | Written::Refused(None) => Ok(None),
            Written::Done(Some(item)) | Written::Refused(Some(item)) => {
                let task = task_of(item)?;
                Ok(task.waits_in(Round(0)).then(|| Waiting::new(&task, target)))
            }
        }
    }

    async fn unsettled_of(&self, tracker: &TrackerId, after: Option<&TaskId>, limit: usize) -> Result<Sought> {
        // What comes behind the tracker in an item's id are digits and colons.
        let [first, last] = [":", ":~"].map(|end| text(format!("{tracker}{end}")));
        let waits = [task::SCHEDULED, task::QUEUED, task::BATCHED].map(text);
        let waits = Clause::Begins(STATUS, text(task::CREATED), waits.into());
        let wanted = [Clause::Between(ITEM, first, last), waits];
        let all = Scan::of("scan the tasks of a tracker", &self.tables.tasks, Place::Tasks);
        let (after, limit) = (after.map(|id| self.task_key(id).item()), Some(limit));
        let scan = Scan { filter: &wanted, only: &[ID], after, freshness: Freshness::Latest, limit, ..all };
        let (found, next) = self.scanned(scan).await?;
        let id = |item: &Item| TaskId::new(id_in(item, ID));
        Ok(Sought { found: found.iter().map(id).collect(), next: next.as_ref().map(id) })
    }

    async fn take_turn(&self, (id, traits): (&TaskId, Traits), target: &Target, now: Timestamp) -> Result<PutBack> {
        let change = Change::default()
            .set(STATUS, text(traits.waiting_word()))
            .set(TARGET, text(target.as_str()))
            .set(WAITS_SINCE, number(now.0));
        let queued = [Clause::Equals(STATUS, text(task::QUEUED))];
        match self.update("let a task have its turn", self.task_key(id), change, &queued, ReturnValue::None).await? {
            Written::Done(_) => Ok(PutBack::Waits),
            Written::Refused(None) => Ok(PutBack::Ended),
            Written::Refused(Some(old)) => {
                let old = task_of(old)?;
                Ok(match old.waits_in(Round(0)) {
                    true => PutBack::Waits,
                    false if old.status.ended().is_some() => PutBack::Ended,
                    false => PutBack::MovedOn,
                })
            }
        }
    }

    async fn pass_over(&self, id: &TaskId, failure: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let change = self.failing(id, failure, now);
        let queued = [Clause::Equals(STATUS, text(task::QUEUED))];
        match self.update("pass a task over", self.task_key(id), change, &queued, ReturnValue::AllNew).await? {
            Written::Done(None) | Written::Refused(None) => Ok(None),
            Written::Done(Some(item)) | Written::Refused(Some(item)) => ended(item, None, &failure.reason),
        }
    }

    async fn end(&self, id: &TaskId, round: Round, ending: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let change = self
            .settling(task::FAILED, self.retention_ms, now)
            .remove(FILED)
            .remove(FILED_AT)
            .set(REASON, text(ending.reason.as_str()))
            // By these it is found until everybody has heard of it.
            .set(TARGET, text(ending.target.as_str()))
            .set(WAITS_SINCE, number(now.0));
        let waits = Clause::Begins(STATUS, text(task::CREATED), [task::QUEUED, task::SCHEDULED].map(text).into());
        let waits = [waits, Clause::Equals(ROUND, number(round))];
        match self.update("end a task that waits", self.task_key(id), change, &waits, ReturnValue::AllNew).await? {
            Written::Done(None) | Written::Refused(None) => Ok(None),
            Written::Done(Some(item)) | Written::Refused(Some(item)) => ended(item, Some(round), &ending.reason),
        }
    }

    async fn heard_of(&self, id: &TaskId, round: Round) -> Result<()> {
        let ended = [Clause::Equals(STATUS, text(task::FAILED)), Clause::Equals(ROUND, number(round))];
        let change = Change::default().remove(TARGET);
        // Refused means that it was run again since.
        self.update("take an ended task out of the index", self.task_key(id), change, &ended, ReturnValue::None)
            .await?;
        Ok(())
    }

    async fn erase(&self, id: &TaskId, round: Round) -> Result<Stored> {
        let change = Change::default().set(PAYLOAD, text("")).set(DIGEST, text("")).set(BYTES, number(0));
        let change = [LANE, TRACE, TRAITS, GROUPED_BY, FILED, FILED_AT, ANSWER_STATUS, ANSWER]
            .into_iter()
            .fold(change, Change::remove);
        let settled = [
            Clause::OneOf(STATUS, vec![text(task::SUCCEEDED), text(task::FAILED)]),
            Clause::Equals(ROUND, number(round)),
            // One that ended while it waited has its Target until everybody has heard of it.
            Clause::Absent(TARGET),
        ];
        let written = self.update("erase a task", self.task_key(id), change, &settled, ReturnValue::None).await?;
        Ok(Stored::when(matches!(written, Written::Done(_))))
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        let change = Change::default()
            .set(STATUS, text(task::BATCHED))
            .set(BATCH_ID, text(batch.as_str()))
            // Without it the task is in the index no more.
            .remove(TARGET);
        let waits = [Clause::Begins(STATUS, text(task::CREATED), Vec::new()), Clause::Equals(ROUND, number(round))];
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

    async fn put_back(&self, back: WayBack<'_>) -> Result<PutBack> {
        let WayBack { member, batch, target, attempts, is_unsure, at } = back;
        let change = Change::default()
            .set(STATUS, text(member.traits.waiting_word()))
            .set(TARGET, text(target.as_str()))
            .set(ROUND, number(member.round.next()))
            .set(ATTEMPTS, number(attempts))
            .set(WAITS_SINCE, number(at.0))
            .remove(BATCH_ID);
        let change = if is_unsure { change.set(IS_UNSURE, AttributeValue::Bool(true)) } else { change };
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

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        let change = match settlement {
            Settlement::Succeeded => self.settling(task::SUCCEEDED, self.retention_ms, now),
            Settlement::Failed(failure) => self.failing(&member.id, failure, now),
            Settlement::Ended { ended, attempts } => self
                .settling(task::FAILED, self.retention_ms, now)
                .set(REASON, text(ended.reason().as_str()))
                .set(ATTEMPTS, number(attempts)),
        };
        let assumes = is_member(batch, member.round);
        // Refused means that an earlier repeat did it, or put the task back: nothing is left to do either way.
        // Either way the whole item comes back, which costs nothing.
        let what = "settle a task";
        match self.update(what, self.task_key(&member.id), change, &assumes, ReturnValue::AllNew).await? {
            Written::Done(item) | Written::Refused(item) => item.as_ref().map_or_else(|| Ok(Ties::default()), ties_of),
        }
    }
}
