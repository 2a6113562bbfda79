//! Transactions: several writes, all or none.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, ConsumedCapacity, Delete, Put, ReturnConsumedCapacity,
    ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use futures::FutureExt;
use groupage_core::ports::{Error, Result};

use crate::dynamo::expression::{Change, Clause, Terms, on_condition};
use crate::dynamo::item::Item;
use crate::dynamo::{Dynamo, Key};
use crate::fault::failed;
use crate::meter::Place;

impl Dynamo {
    /// Makes all writes or none; then why, write by write. What was refused is counted at `place`.
    ///
    /// A write that meets another transaction's is refused like one whose condition failed: without an item.
    pub(crate) async fn transact(
        &self,
        what: &'static str,
        place: Place,
        writes: Vec<TransactWriteItem>,
    ) -> Result<std::result::Result<(), Vec<CancellationReason>>> {
        let answer = self
            .client
            .transact_write_items()
            .set_transact_items(Some(writes))
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
            .await;
        match answer {
            Ok(output) => {
                for consumed in output.consumed_capacity() {
                    let place = self.place_of(consumed).unwrap_or(place);
                    self.meter.count_write(place, Some(consumed));
                }
                Ok(Ok(()))
            }
            Err(error) => match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    let reasons = cancelled.cancellation_reasons().to_vec();
                    for reason in &reasons {
                        // A transaction's write is billed twice, a refused one, too.
                        self.count_refused(place, reason.item.as_ref());
                        self.count_refused(place, reason.item.as_ref());
                    }
                    Ok(Err(reasons))
                }
                _ => Err(failed(what, error)),
            },
        }
    }

    /// The place of the table that consumed, if a transaction may write there beside other tables.
    fn place_of(&self, consumed: &ConsumedCapacity) -> Option<Place> {
        consumed.table_name().filter(|table| *table == self.tables.tasks).map(|_| Place::Tasks)
    }
}

/// A put as one of a transaction's writes: all of them are made if all clauses of each hold, or none is.
pub(crate) fn put(what: &'static str, table: &str, item: Item, clauses: &[Clause]) -> Result<TransactWriteItem> {
    let put = Put::builder().table_name(table).set_item(Some(item));
    let put = on_condition!(put, Terms::default(), clauses)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(broken(what))?;
    Ok(TransactWriteItem::builder().put(put).build())
}

/// An update as one of a transaction's writes.
pub(crate) fn update(
    what: &'static str,
    key: Key<'_>,
    change: Change,
    clauses: &[Clause],
) -> Result<TransactWriteItem> {
    let update = Update::builder().table_name(key.table).set_key(Some(key.item()));
    let update = update.update_expression(change.expression());
    let update = on_condition!(update, change.terms, clauses).build().map_err(broken(what))?;
    Ok(TransactWriteItem::builder().update(update).build())
}

/// A removal as one of a transaction's writes.
pub(crate) fn delete(what: &'static str, key: Key<'_>, clauses: &[Clause]) -> Result<TransactWriteItem> {
    let delete = Delete::builder().table_name(key.table).set_key(Some(key.item()));
    let delete = on_condition!(delete, Terms::default(), clauses)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(broken(what))?;
    Ok(TransactWriteItem::builder().delete(delete).build())
}

/// A look at an item as one of a transaction's writes.
pub(crate) fn check(what: &'static str, key: Key<'_>, clauses: &[Clause]) -> Result<TransactWriteItem> {
    let check = ConditionCheck::builder().table_name(key.table).set_key(Some(key.item()));
    let check = on_condition!(check, Terms::default(), clauses).build().map_err(broken(what))?;
    Ok(TransactWriteItem::builder().condition_check(check).build())
}

/// The item that refused one of a transaction's writes. Some emulators send an empty one if there was none.
pub(crate) fn item_in(reason: &CancellationReason) -> Option<Item> {
    reason.item.clone().filter(|item| !item.is_empty())
}

pub(crate) fn broken(what: &'static str) -> impl Fn(BuildError) -> Error {
    move |error| Error::Broken { what, why: error.to_string() }
}
