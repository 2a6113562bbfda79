//! Transactions: several writes, all or none.

use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConsumedCapacity, Delete, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem, Update,
};
use groupage_core::ports::{Error, Result};

use crate::dynamo::expression::{Change, Clause, Terms};
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
}

impl Dynamo {
    /// The place of the table that consumed, if a transaction may write there beside other tables.
    fn place_of(&self, consumed: &ConsumedCapacity) -> Option<Place> {
        consumed.table_name().filter(|table| *table == self.tables.tasks).map(|_| Place::Tasks)
    }
}

/// An update as one of a transaction's writes.
pub(crate) fn update(
    what: &'static str,
    key: Key<'_>,
    change: Change,
    clauses: &[Clause],
) -> Result<TransactWriteItem> {
    let expression = change.expression();
    let mut terms = change.terms;
    let condition = terms.condition(clauses);
    let (names, values) = terms.into_parts();
    let update = Update::builder()
        .table_name(key.table)
        .set_key(Some(key.item()))
        .update_expression(expression)
        .condition_expression(condition)
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .build()
        .map_err(|error| Error::Broken { what, why: error.to_string() })?;
    Ok(TransactWriteItem::builder().update(update).build())
}

/// A removal as one of a transaction's writes.
pub(crate) fn delete(what: &'static str, key: Key<'_>, clauses: &[Clause]) -> Result<TransactWriteItem> {
    let mut terms = Terms::default();
    let condition = terms.condition(clauses);
    let (names, values) = terms.into_parts();
    let delete = Delete::builder()
        .table_name(key.table)
        .set_key(Some(key.item()))
        .condition_expression(condition)
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(|error| Error::Broken { what, why: error.to_string() })?;
    Ok(TransactWriteItem::builder().delete(delete).build())
}
