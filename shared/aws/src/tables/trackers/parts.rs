//! Removing what belongs to a tracker: its nodes and what was added.

use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Delete, ReturnConsumedCapacity, TransactWriteItem};
use futures::FutureExt;
use groupage_core::domain::{Tracker, TrackerId};
use groupage_core::ports::{Cleared, Result};

use super::stored::OWN;
use super::{NODE, REVISION, TRACKER_ID};
use crate::dynamo::Dynamo;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, number};
use crate::dynamo::transaction::{self, broken};
use crate::fault::failed;
use crate::meter::Place;

/// A transaction takes a hundred writes, and looking at the tracker counts as one.
const REMOVED_AT_ONCE: usize = 99;
/// The sort keys of parts lie between these two, that of the tracker's own item after them.
const FIRST: &str = "!";
const LAST: &str = "track";

impl Dynamo {
    /// The keys of some of a tracker's parts; none if there are none. Its own item's key comes after those of its
    /// parts.
    pub(super) async fn parts(&self, id: &TrackerId) -> Result<Vec<Item>> {
        let range = (self.tracker_key(id, FIRST), LAST);
        self.keys_in("find a tracker's parts", range, &[TRACKER_ID, NODE], REMOVED_AT_ONCE).await
    }

    /// Removes parts, in one transaction with a look at the tracker: another one that has its id by now has parts with
    /// the same keys.
    pub(super) async fn remove_parts(&self, tracker: &Tracker, parts: Vec<Item>) -> Result<Cleared> {
        const WHAT: &str = "remove a tracker's parts";
        let table = &self.tables.trackers;
        let unchanged = [Clause::Equals(REVISION, number(tracker.revision))];
        let mut writes = vec![transaction::check(WHAT, self.tracker_key(&tracker.id, OWN), &unchanged)?];
        for part in parts {
            let key = Item::from_iter(part.into_iter().filter(|(name, _)| [TRACKER_ID, NODE].contains(&name.as_str())));
            let delete = Delete::builder().table_name(table).set_key(Some(key)).build().map_err(broken(WHAT))?;
            writes.push(TransactWriteItem::builder().delete(delete).build());
        }
        let request = self.client.transact_write_items().set_transact_items(Some(writes));
        match request.return_consumed_capacity(ReturnConsumedCapacity::Indexes).send().boxed().await {
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
