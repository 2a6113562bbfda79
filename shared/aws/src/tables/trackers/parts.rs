//! Removing what belongs to a tracker: its nodes and what was added.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, ConditionCheck, Delete, ReturnConsumedCapacity, TransactWriteItem};
use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::Tracker;
use groupage_core::ports::{Cleared, Error, Result};

use super::stored::{OWN, key_item};
use super::{NODE, REVISION, TRACKER_ID};
use crate::dynamo::Dynamo;
use crate::dynamo::item::{Item, number, text};
use crate::fault::failed;
use crate::meter::Place;

/// A transaction takes a hundred writes, and looking at the tracker counts as one.
const REMOVED_AT_ONCE: i32 = 99;

impl Dynamo {
    /// The keys of some of a tracker's parts; none if there are none. Its own item's key comes after those of its parts.
    pub(super) async fn parts(&self, id: &TrackerId) -> Result<Vec<Item>> {
        let found = self
            .client
            .query()
            .table_name(&self.tables.trackers)
            .key_condition_expression("#TrackerId = :id AND #Node < :own")
            .projection_expression("#TrackerId, #Node")
            .expression_attribute_names("#TrackerId", TRACKER_ID)
            .expression_attribute_names("#Node", NODE)
            .expression_attribute_values(":id", text(id.as_str()))
            .expression_attribute_values(":own", text(OWN))
            .consistent_read(true)
            .limit(REMOVED_AT_ONCE)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(|error| failed("find a tracker's parts", error))?;
        self.meter.count_read(Place::Trackers, found.consumed_capacity());
        Ok(found.items.unwrap_or_default())
    }

    /// Removes parts, in one transaction with a look at the tracker: another one that has its id by now has parts with the
    /// same keys.
    pub(super) async fn remove_parts(&self, tracker: &Tracker, parts: Vec<Item>) -> Result<Cleared> {
        const WHAT: &str = "remove a tracker's parts";
        let table = &self.tables.trackers;
        let broken = |error: BuildError| Error::Broken { what: WHAT, why: error.to_string() };
        let unchanged = ConditionCheck::builder()
            .table_name(table)
            .set_key(Some(key_item(&tracker.id, OWN)))
            .condition_expression("#Revision = :revision")
            .expression_attribute_names("#Revision", REVISION)
            .expression_attribute_values(":revision", number(tracker.revision))
            .build()
            .map_err(broken)?;
        let mut writes = vec![TransactWriteItem::builder().condition_check(unchanged).build()];
        for part in parts {
            let key = Item::from_iter(part.into_iter().filter(|(name, _)| [TRACKER_ID, NODE].contains(&name.as_str())));
            let delete = Delete::builder().table_name(table).set_key(Some(key)).build().map_err(broken)?;
            writes.push(TransactWriteItem::builder().delete(delete).build());
        }
        let request = self.client.transact_write_items().set_transact_items(Some(writes));
        match request.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send().await {
            Ok(output) => {
                for consumed in output.consumed_capacity() {
                    self.meter.count_write(Place::Trackers, Some(consumed));
                }
                Ok(Cleared::Some)
            }
            Err(error) => match error.as_service_error() {
                // Refused, or another transaction is at the same items: that of another sweep.
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled))
                    if cancelled.cancellation_reasons().iter().any(is_conflict) =>
                {
                    let refused = cancelled.cancellation_reasons().iter();
                    refused.for_each(|reason| self.count_refused(Place::Trackers, reason.item.as_ref()));
                    Ok(Cleared::Conflict)
                }
                _ => Err(failed(WHAT, error)),
            },
        }
    }
}

fn is_conflict(reason: &CancellationReason) -> bool {
    matches!(reason.code(), Some("ConditionalCheckFailed" | "TransactionConflict"))
}
