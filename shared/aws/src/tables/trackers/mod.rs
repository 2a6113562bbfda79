//! The tracker table: under each tracker's id its own item, its nodes and what was added, and the index by which sweep
//! finds trackers.
//!
//! A node's words are attributes of their own, so that a write names just those that it changes.

mod parts;
mod stored;

use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, ReturnConsumedCapacity};
use groupage_core::domain::id::{Part, TrackerId};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use groupage_core::ports::{Added, Cleared, Error, Freshness, Looked, Marked, Opened, Result, Stored, Trackers};
use serde::Deserialize;
use stored::{OWN, addition_item, addition_key, addition_of, key_item, revision, sort_key, tracker_item, tracker_of};

use crate::config::Tables;
use crate::dynamo::due::DueIndex;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::number;
use crate::dynamo::many::READ_AT_ONCE;
use crate::dynamo::range::Range;
use crate::dynamo::{Dynamo, Key, Written, put_in_transaction};
use crate::fault::failed;
use crate::meter::Place;
use crate::tables::nodes::{NODE, node_key, node_of};

const TABLE: &str = "tracker table";
const TRACKER_ID: &str = "TrackerId";
const REVISION: &str = "Revision";

/// What the index shows of a tracker.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    tracker_id: TrackerId,
}

impl Dynamo {
    fn tracker_key<'a>(&'a self, id: &'a TrackerId, sort: &'a str) -> Key<'a> {
        Key { sort: Some((NODE, sort)), ..Key::of(&self.tables.trackers, Place::Trackers, TRACKER_ID, id.as_str()) }
    }

    /// What a cancelled transaction says of an addition: it was made before, or the tracker is another.
    fn cancelled(&self, reasons: &[CancellationReason]) -> Result<Added> {
        for reason in reasons {
            // A transaction's write is billed twice, a refused one, too.
            self.count_refused(Place::Trackers, reason.item.as_ref());
            self.count_refused(Place::Trackers, reason.item.as_ref());
        }
        match reasons.get(1).and_then(|reason| reason.item.clone()).filter(|item| !item.is_empty()) {
            Some(before) => addition_of(before).map(Added::Before),
            None => Ok(Added::Conflict),
        }
    }
}

impl Trackers for Dynamo {
    async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened> {
        let (key, absent) = (self.tracker_key(&tracker.id, OWN), [Clause::Absent(TRACKER_ID)]);
        match self.put("open a tracker", key, tracker_item(tracker)?, &absent).await? {
            Written::Done(_) => Ok(Opened::New),
            Written::Refused(None) => Err(Error::Unavailable {
                what: "open a tracker",
                why: "the item that was in the way is gone".to_owned(),
            }),
            Written::Refused(Some(old)) => {
                let old = tracker_of(old)?;
                // Our own write, whose answer was lost.
                Ok(if old == *tracker { Opened::New } else { Opened::Existing(old) })
            }
        }
    }

    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        let nodes = nodes.iter().take(READ_AT_ONCE - 1).map(|node| key_item(id, &node_key(*node)));
        let keys = std::iter::once(key_item(id, OWN)).chain(nodes).collect();
        let table = (self.tables.trackers.as_str(), Place::Trackers);
        let mut looked = Looked::default();
        for item in self.read_many("look at a tracker", table, keys, freshness).await? {
            if sort_key(&item) == Some(OWN) {
                looked.tracker = Some(tracker_of(item)?);
            } else {
                looked.nodes.push(node_of(TABLE, &item)?);
            }
        }
        Ok(looked)
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let (key, assumes) = (self.tracker_key(&tracker.id, OWN), [Clause::Equals(REVISION, revision(tracker))]);
        match self.put("write a tracker", key, tracker_item(tracker)?, &assumes).await? {
            Written::Done(_) => Ok(Stored::Yes),
            Written::Refused(None) => Ok(Stored::Conflict),
            // The very same content is our own write, whose answer was lost.
            Written::Refused(Some(old)) => {
                Ok(if tracker_of(old)? == *tracker { Stored::Yes } else { Stored::Conflict })
            }
        }
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        const WHAT: &str = "add items to a tracker";
        let (table, unchanged) = (&self.tables.trackers, Clause::Equals(REVISION, revision(grown)));
        let tracker = put_in_transaction(WHAT, table, tracker_item(grown)?, &[unchanged])?;
        let absent = Clause::Absent(TRACKER_ID);
        let added = put_in_transaction(WHAT, table, addition_item(&grown.id, addition)?, &[absent])?;
        let answer = self
            .client
            .transact_write_items()
            .transact_items(tracker)
            .transact_items(added)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await;
        match answer {
            Ok(output) => {
                for consumed in output.consumed_capacity() {
                    self.meter.count_write(Place::Trackers, Some(consumed));
                }
                Ok(Added::Yes)
            }
            Err(error) => match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    self.cancelled(cancelled.cancellation_reasons())
                }
                _ => Err(failed(WHAT, error)),
            },
        }
    }

    async fn addition(&self, id: &TrackerId, key: &str) -> Result<Option<Addition>> {
        let sort = addition_key(key);
        self.get("find what was added", self.tracker_key(id, &sort)).await?.map(addition_of).transpose()
    }

    async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
        let sort = node_key(change.id);
        self.mark_node(("mark items", TABLE), self.tracker_key(id, &sort), change).await
    }

    async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, freshness: Freshness) -> Result<Vec<Node>> {
        let last = NodeId { index: u32::MAX, ..from };
        let range = Range {
            what: "read a tracker's groups",
            table: &self.tables.trackers,
            place: Place::Trackers,
            partition: (TRACKER_ID, id.as_str()),
            sort: NODE,
            from: node_key(from),
            last: node_key(last),
        };
        self.range(range, limit, freshness).await?.iter().map(|item| node_of(TABLE, item)).collect()
    }

    async fn due_trackers(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<TrackerId>> {
        let index = DueIndex {
            what: "query the trackers that are due",
            table: &self.tables.trackers,
            place: Place::Trackers,
            index: Tables::DUE_INDEX,
            part: ("Part", part.tracker_key()),
        };
        let entries = self.due::<Entry>(index, before, limit).await?;
        Ok(entries.into_iter().map(|entry| entry.tracker_id).collect())
    }

    async fn clear(&self, tracker: &Tracker) -> Result<Cleared> {
        let parts = self.parts(&tracker.id).await?;
        if parts.is_empty() {
            return Ok(Cleared::All);
        }
        self.remove_parts(tracker, parts).await
    }

    async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let assumes = Clause::AbsentOrEquals(REVISION, number(tracker.revision));
        match self.delete("remove a tracker", self.tracker_key(&tracker.id, OWN), &[assumes]).await? {
            Written::Done(_) | Written::Refused(None) => Ok(Stored::Yes),
            Written::Refused(Some(_)) => Ok(Stored::Conflict),
        }
    }
}
