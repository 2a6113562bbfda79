//! A task's stored form.

use groupage_core::domain::failed::Filed;
use groupage_core::domain::task::{self, Status, Task, Ties, payload_bytes};
use groupage_core::domain::traits::{Traits, are_usual};
use groupage_core::domain::{
    BatchId, EventId, ItemId, LaneId, Part, Reason, Round, Target, TaskId, Timestamp, TraceParent,
};
use groupage_core::ports::{PassedOver, Result};
use serde::{Deserialize, Serialize};

use super::filed::GROUPED_BY;
use super::{BATCH_ID, ID, NOT_BEFORE, SETTLED_AT, STATUS, TABLE, TARGET, TTL};
use crate::dynamo::item::{Item, decode, encode, nonsense, number};

/// A task as its item says it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StoredTask {
    id: TaskId,
    status: String,
    target: Option<Target>,
    batch_id: Option<BatchId>,
    round: Round,
    attempts: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_unsure: bool,
    payload: String,
    digest: String,
    created_at: Timestamp,
    waits_since: Timestamp,
    bytes: u32,
    reason: Option<Reason>,
    item: Option<ItemId>,
    event: Option<EventId>,
    lane: Option<LaneId>,
    expires_at: Option<Timestamp>,
    trace: Option<TraceParent>,
    /// Of a task that waits for its time: what it is grouped by then.
    grouped_by: Option<Target>,
    not_before: Option<Timestamp>,
    /// The keys of the index of what is due.
    filed: Option<String>,
    filed_at: Option<String>,
    /// The same that the status of a waiting task says, which is lost when it waits no more.
    #[serde(default, skip_serializing_if = "are_usual")]
    traits: Traits,
}

impl StoredTask {
    pub(super) fn of(task: &Task) -> Self {
        let not_before = task.status.due();
        let filed = not_before.map(|due| Filed { at: due, id: task.id.clone() });
        let grouped_by = if let Status::Scheduled { target, .. } = &task.status { Some(target.clone()) } else { None };
        Self {
            id: task.id.clone(),
            status: match &task.status {
                Status::Created { .. } => task.traits.waiting_word(),
                other => other.word().to_owned(),
            },
            target: task.status.waits_for().cloned(),
            batch_id: task.status.batch().cloned(),
            round: task.round,
            attempts: task.attempts,
            is_unsure: task.is_unsure,
            payload: task.payload.clone(),
            digest: task.digest.clone(),
            created_at: task.created_at,
            waits_since: task.waits_since,
            bytes: payload_bytes(&task.payload),
            reason: task.status.reason().cloned(),
            item: task.item.clone(),
            event: task.event.clone(),
            lane: task.lane.clone(),
            expires_at: task.expires_at,
            trace: task.trace,
            grouped_by,
            not_before,
            filed: filed.as_ref().map(|filed| Part::of_task(&filed.id).due_key()),
            filed_at: filed.map(|filed| filed.to_string()),
            traits: task.traits,
        }
    }

    fn into_task(self) -> Result<Task> {
        let missing = |attribute| {
            nonsense(TABLE, self.id.as_str(), attribute, format_args!("is missing while `{}`", self.status))
        };
        let batch = || self.batch_id.clone().ok_or_else(|| missing(BATCH_ID));
        let status = match self.status.as_str() {
            task::SCHEDULED => Status::Scheduled {
                target: self.grouped_by.clone().ok_or_else(|| missing(GROUPED_BY))?,
                due: self.not_before.ok_or_else(|| missing(NOT_BEFORE))?,
            },
            task::QUEUED => Status::Queued,
            word if Traits::of_word(word).is_some() => {
                Status::Created { target: self.target.clone().ok_or_else(|| missing(TARGET))? }
            }
            task::BATCHED => Status::Batched { batch: batch()? },
            task::SUCCEEDED => Status::Succeeded { batch: batch()? },
            task::FAILED => {
                let reason = self.reason.clone().ok_or_else(|| missing("Reason"))?;
                Status::Failed { batch: self.batch_id.clone(), reason }
            }
            unknown => return Err(nonsense(TABLE, self.id.as_str(), STATUS, format_args!("`{unknown}` is no status"))),
        };
        Ok(Task {
            id: self.id,
            status,
            round: self.round,
            attempts: self.attempts,
            is_unsure: self.is_unsure,
            payload: self.payload,
            digest: self.digest,
            created_at: self.created_at,
            waits_since: self.waits_since,
            item: self.item,
            event: self.event,
            lane: self.lane,
            expires_at: self.expires_at,
            trace: self.trace,
            traits: self.traits,
        })
    }
}

/// A task's item; if it is settled, as settling it at `now` leaves it.
pub(crate) fn item_of(task: &Task, retention_ms: u64, now: Timestamp) -> Result<Item> {
    let mut item = encode(TABLE, task.id.as_str(), &StoredTask::of(task))?;
    if task.status.is_settled() {
        item.insert(SETTLED_AT.to_owned(), number(now.0));
        item.insert(TTL.to_owned(), number(now.plus_ms(retention_ms).as_secs()));
    }
    Ok(item)
}

/// Reads a task out of its item.
pub(crate) fn task_of(item: Item) -> Result<Task> {
    let id = id_of(&item);
    decode::<StoredTask>(TABLE, &id, item)?.into_task()
}

/// Whether a task ended for this reason without a batch, in this round if that matters, and when.
pub(super) fn ended(item: Item, round: Option<Round>, why: &Reason) -> Result<Option<PassedOver>> {
    let at = item.get(SETTLED_AT).and_then(|at| at.as_n().ok()).and_then(|at| at.parse().ok()).map(Timestamp);
    let task = task_of(item)?;
    let was = task.status == Status::Failed { batch: None, reason: why.clone() };
    let was = was && round.is_none_or(|round| task.round == round);
    Ok(at.filter(|_| was).map(|at| PassedOver { ties: task.ties(), at, trace: task.trace }))
}

fn id_of(item: &Item) -> String {
    item.get(ID).and_then(|id| id.as_s().ok()).cloned().unwrap_or_default()
}

/// Reads who must hear that a task is settled out of the task's own item, whatever the rest of that is.
pub(super) fn ties_of(item: &Item) -> Result<Ties> {
    let nonsense = |attribute, why| nonsense(TABLE, &id_of(item), attribute, why);
    let tie = |attribute| {
        item.get(attribute).map(|value| value.as_s().map_err(|_| nonsense(attribute, "is no string"))).transpose()
    };
    let item = tie("Item")?.map(|id| ItemId::parse(id).map_err(|why| nonsense("Item", why.0))).transpose()?;
    let event = tie("Event")?.map(|id| EventId::parse(id).map_err(|why| nonsense("Event", why.0))).transpose()?;
    Ok(Ties { item, event, lane: tie("Lane")?.map(LaneId::new) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item::{self, text};
    use groupage_core::domain::id::RouteName;
    use groupage_core::ports::Error;

    fn task(status: Status) -> Task {
        Task {
            id: TaskId::new("3f0c8a51-55f0-4f5e-9a32-6d4c5f8e2b10"),
            status,
            round: Round(2),
            attempts: 3,
            is_unsure: true,
            payload: format!("{{\"note\":\"{}\"}}", "x".repeat(589)),
            digest: "0".repeat(32),
            created_at: Timestamp(1_700_000_000_123),
            waits_since: Timestamp(1_700_000_000_123),
            item: Some(ItemId::parse("0f3c8a5155f04f5e9a326d4c5f8e2b10:17:4711").unwrap()),
            event: None,
            lane: None,
            expires_at: Some(Timestamp(1_700_000_600_123)),
            trace: None,
            traits: Traits::default(),
        }
    }

    fn all() -> [Status; 6] {
        let batch = BatchId::new("9".repeat(32));
        [
            Status::Scheduled { target: Target::of(&RouteName::new("parcels"), "truck-7"), due: Timestamp(9) },
            Status::Queued,
            Status::Created { target: Target::of(&RouteName::new("parcels"), "truck-7") },
            Status::Batched { batch: batch.clone() },
            Status::Succeeded { batch: batch.clone() },
            Status::Failed { batch: Some(batch), reason: Reason::new("too_heavy") },
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
    fn a_trace_survives_storage_and_takes_no_room_where_there_is_none() {
        let trace = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").ok();
        for status in all() {
            let [with, without] = [trace, None].map(|trace| task(status.clone()).traced(trace));
            let [item, bare] = [&with, &without].map(|task| encode(TABLE, "", &StoredTask::of(task)).unwrap());
            assert_eq!(item::size(&item) - item::size(&bare), 60, "its name and 55 characters");
            assert_eq!(task_of(item).unwrap(), with);
            assert_eq!(task_of(bare).unwrap(), without);
        }
    }

    #[test]
    fn traits_survive_storage_and_take_no_room_where_there_are_none() {
        let traits = Traits { weight: 5, ..Traits::default() };
        for status in all() {
            let with = task(status.clone()).with_traits(traits);
            let [item, bare] = [&with, &task(status)].map(|task| encode(TABLE, "", &StoredTask::of(task)).unwrap());
            assert!(!bare.contains_key("Traits") && item::size(&item) > item::size(&bare));
            assert_eq!(task_of(item).unwrap(), with);
        }
    }

    #[test]
    fn who_must_hear_of_a_task_survives_storage() {
        let event = EventId::parse("orders:1700000000123:4711").unwrap();
        let task = task(Status::Queued).with_event(Some(event));
        let item = encode(TABLE, "", &StoredTask::of(&task)).unwrap();
        assert_eq!(ties_of(&item).unwrap(), task.ties());
        assert_eq!(task_of(item).unwrap(), task);
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
    fn only_a_scheduled_task_is_filed_when_it_comes_and_it_never_expires() {
        for status in all() {
            let waits = matches!(status, Status::Scheduled { .. });
            let item = encode(TABLE, "", &StoredTask::of(&task(status))).unwrap();
            assert_eq!((item.contains_key("Filed"), item.contains_key("FiledAt")), (waits, waits));
            assert!(!item.contains_key(TTL));
        }
    }

    #[test]
    fn a_payload_of_600_bytes_costs_one_write_unit_in_every_status() {
        for status in all() {
            let task = task(status);
            assert!(task.payload.len() >= 600);
            let item = item_of(&task, 86_400_000, Timestamp(1_700_000_000_123)).unwrap();
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
