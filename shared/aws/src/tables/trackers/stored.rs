//! A tracker's stored forms: its own item, a node's words, an addition.

use aws_sdk_dynamodb::types::AttributeValue;
use groupage_core::domain::tracker::{Addition, End, Ending, ItemRange, State, Tracker};
use groupage_core::domain::{NotificationQueue, Part, Revision, Timestamp, TrackerId};
use groupage_core::ports::Result;
use serde::{Deserialize, Serialize};

use super::{NODE, TABLE, TRACKER_ID};
use crate::dynamo::item::{Item, decode, encode, id_in, nonsense, number, text};

/// The sort key of a tracker's own item. It comes after those of its parts.
pub(super) const OWN: &str = "tracker";

/// A tracker as its item says it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredTracker {
    tracker_id: TrackerId,
    node: String,
    state: String,
    revision: Revision,
    items: u64,
    deadline: Option<Timestamp>,
    notify: NotificationQueue,
    opened_at: Timestamp,
    active_at: Timestamp,
    seen: u64,
    looks: u32,
    /// The index's keys.
    part: String,
    due: Timestamp,
    ended_at: Option<Timestamp>,
    #[serde(default)]
    failed: u64,
    #[serde(default)]
    missing: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing_items: Vec<ItemRange>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed_items: Vec<ItemRange>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    told: bool,
}

/// An addition as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredAddition {
    tracker_id: TrackerId,
    node: String,
    start: u64,
    count: u64,
}

/// The sort key of what was added under a key.
pub(super) fn addition_key(key: &str) -> String {
    format!("add#{key}")
}

pub(super) fn tracker_item(tracker: &Tracker) -> Result<Item> {
    let mut stored = StoredTracker {
        tracker_id: tracker.id.clone(),
        node: OWN.to_owned(),
        state: tracker.state.word().to_owned(),
        revision: tracker.revision,
        items: tracker.items,
        deadline: tracker.deadline,
        notify: tracker.notify.clone(),
        opened_at: tracker.opened_at,
        active_at: tracker.active_at,
        seen: tracker.seen,
        looks: tracker.looks,
        part: Part::of_tracker(&tracker.id).tracker_key(),
        due: tracker.due,
        ended_at: None,
        failed: 0,
        missing: 0,
        missing_items: Vec::new(),
        failed_items: Vec::new(),
        told: false,
    };
    match &tracker.state {
        State::Open | State::Sealed => {}
        State::Ended(End { how: _, at, failed, missing, missing_items, failed_items, told }) => {
            stored.ended_at = Some(*at);
            (stored.failed, stored.missing, stored.told) = (*failed, *missing, *told);
            stored.missing_items.clone_from(missing_items);
            stored.failed_items.clone_from(failed_items);
        }
    }
    encode(TABLE, tracker.id.as_str(), &stored)
}

pub(super) fn tracker_of(item: Item) -> Result<Tracker> {
    let id = id_in(&item, TRACKER_ID);
    let stored: StoredTracker = decode(TABLE, &id, item)?;
    let ended = |how| {
        let at = stored.ended_at.ok_or_else(|| nonsense(TABLE, &id, "EndedAt", "is missing"))?;
        let StoredTracker { failed, missing, told, .. } = stored;
        let (missing_items, failed_items) = (stored.missing_items.clone(), stored.failed_items.clone());
        Ok(State::Ended(End { how, at, failed, missing, missing_items, failed_items, told }))
    };
    let state = match stored.state.as_str() {
        "open" => State::Open,
        "sealed" => State::Sealed,
        "completed" => ended(Ending::Completed)?,
        "overdue" => ended(Ending::Overdue)?,
        "abandoned" => ended(Ending::Abandoned)?,
        unknown => return Err(nonsense(TABLE, &id, "State", format_args!("`{unknown}` is no state"))),
    };
    Ok(Tracker {
        id: stored.tracker_id,
        revision: stored.revision,
        state,
        items: stored.items,
        deadline: stored.deadline,
        notify: stored.notify,
        opened_at: stored.opened_at,
        active_at: stored.active_at,
        seen: stored.seen,
        looks: stored.looks,
        due: stored.due,
    })
}

pub(super) fn addition_item(tracker: &TrackerId, addition: &Addition) -> Result<Item> {
    let Addition { key, start, count } = addition;
    let stored = StoredAddition { tracker_id: tracker.clone(), node: addition_key(key), start: *start, count: *count };
    encode(TABLE, tracker.as_str(), &stored)
}

pub(super) fn addition_of(item: Item) -> Result<Addition> {
    let id = id_in(&item, TRACKER_ID);
    let StoredAddition { node, start, count, .. } = decode(TABLE, &id, item)?;
    let key = node.strip_prefix("add#").ok_or_else(|| nonsense(TABLE, &id, NODE, "is no addition's"))?;
    Ok(Addition { key: key.to_owned(), start, count })
}

/// A key of the table.
pub(super) fn key_item(id: &TrackerId, sort: &str) -> Item {
    Item::from([(TRACKER_ID.to_owned(), text(id.as_str())), (NODE.to_owned(), text(sort))])
}

/// A revision as a condition wants it.
pub(super) fn revision(tracker: &Tracker) -> AttributeValue {
    number(tracker.revision.0.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item;
    use crate::tables::nodes::{DONE, FAILURES, node_key, node_of, word};
    use groupage_core::domain::tracker::{GROUP_SIZE, Mark, Node, NodeId};

    fn tracker(state: State) -> Tracker {
        Tracker {
            id: TrackerId::new("t".repeat(64)),
            revision: Revision(1_700_000_000_130),
            state,
            items: 1_000_000,
            deadline: Some(Timestamp(1_700_000_000_123)),
            notify: NotificationQueue::Default,
            opened_at: Timestamp(1_700_000_000_123),
            active_at: Timestamp(1_700_000_000_123),
            seen: 999_999,
            looks: 3,
            due: Timestamp(1_700_000_000_123),
        }
    }

    fn all() -> [State; 5] {
        let missing_items = vec![ItemRange::parse("t:3:4-5").unwrap()];
        let end = |how| {
            State::Ended(End {
                how,
                at: Timestamp(1_700_000_000_123),
                failed: 3,
                missing: 2,
                missing_items: missing_items.clone(),
                failed_items: vec![ItemRange::parse("t:3:0-2").unwrap()],
                told: true,
            })
        };
        [State::Open, State::Sealed, end(Ending::Completed), end(Ending::Overdue), end(Ending::Abandoned)]
    }

    #[test]
    fn every_state_survives_storage_and_costs_one_write_unit_but_for_many_named_items() {
        for state in all() {
            let tracker = tracker(state);
            let item = tracker_item(&tracker).unwrap();
            assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
            assert_eq!(tracker_of(item).unwrap(), tracker);
        }
    }

    #[test]
    fn a_full_group_costs_one_write_unit_and_survives_storage() {
        let empty = Node::empty(NodeId::group(139_508));
        let marks: Vec<Mark> = (0..GROUP_SIZE).map(|bit| Mark { bit, failures: 0 }).collect();
        let change = empty.marking(&marks).unwrap();
        let node = empty.changed(&change);
        let mut item = key_item(&TrackerId::new("t".repeat(64)), &node_key(node.id));
        item.extend(node.done.iter().map(|(position, done)| (DONE[usize::from(*position)].to_owned(), word(*done))));
        item.insert(FAILURES.to_owned(), number(0));
        assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
        assert_eq!(node_of(TABLE, &item).unwrap(), node);
    }

    #[test]
    fn nodes_of_a_level_lie_together_and_in_order() {
        let keys: Vec<String> = [(0, 0), (0, 9), (0, 10), (0, u32::MAX), (1, 0), (2, 0)]
            .map(|(level, index)| node_key(NodeId { level, index }))
            .into();
        assert!(keys.is_sorted());
        assert!(addition_key("~~~") < keys[0] && keys[5].as_str() < OWN);
    }

    #[test]
    fn an_unknown_state_names_table_item_and_attribute() {
        let mut item = tracker_item(&tracker(State::Open)).unwrap();
        item.insert("State".to_owned(), text("melted"));
        let said = tracker_of(item).unwrap_err().to_string();
        assert!(said.contains("tracker table") && said.contains("`State`") && said.contains("melted"), "{said}");
    }
}
