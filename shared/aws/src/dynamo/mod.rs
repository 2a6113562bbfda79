//! The tables in DynamoDB, and how every table's file writes to them.

pub(crate) mod due;
pub(crate) mod expression;
pub(crate) mod item;
pub(crate) mod many;
pub(crate) mod range;
mod repeat;
pub(crate) mod transaction;

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use aws_sdk_dynamodb::types::{
    ConsumedCapacity, Put, ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use groupage_core::ports::{Error, Result};

use self::item::{Item, refused, text};
use crate::config::Tables;
use crate::dynamo::expression::{Change, Clause, Terms};
use crate::dynamo::repeat::{Conflicts, GivesWay};
use crate::fault::failed;
use crate::meter::{Meter, Place};

/// The ports `Tasks`, `Lanes`, `Locks`, `Batches`, `Sessions`, `Gates`, `Trackers`, `Lists`, `Streams` and `Census` in
/// DynamoDB.
#[derive(Clone, Debug)]
pub struct Dynamo {
    pub(crate) client: Client,
    /// The same for requests that give way: those that are throttled it does not repeat.
    pub(crate) yielding: Client,
    pub(crate) tables: Tables,
    /// How long a settled task and its batch stay readable.
    pub(crate) retention_ms: u64,
    pub(crate) meter: Arc<Meter>,
}

/// What became of a conditional write.
#[derive(Debug)]
pub(crate) enum Written {
    /// It was made; the item afterwards, if the write asked for it.
    Done(Option<Item>),
    /// Its condition failed; the item that was there, if any.
    Refused(Option<Item>),
}

/// One item of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) table: &'a str,
    pub(crate) place: Place,
    pub(crate) attribute: &'static str,
    pub(crate) id: &'a str,
    /// The sort key, in a table that has one.
    pub(crate) sort: Option<(&'static str, &'a str)>,
}

impl<'a> Key<'a> {
    /// An item of a table without a sort key.
    pub(crate) const fn of(table: &'a str, place: Place, attribute: &'static str, id: &'a str) -> Self {
        Self { table, place, attribute, id, sort: None }
    }

    /// The key as the SDK has it.
    pub(crate) fn item(&self) -> Item {
        let sort = self.sort.map(|(attribute, value)| (attribute.to_owned(), text(value)));
        [(self.attribute.to_owned(), text(self.id))].into_iter().chain(sort).collect()
    }
}

impl Dynamo {
    /// Counts a write that `old` refused.
    pub(crate) fn count_refused(&self, place: Place, old: Option<&Item>) {
        self.meter.charge_refused_write(place, refused(old));
    }

    /// The tables named by `tables`. Settled tasks and their batches are kept for `retention_ms`.
    #[must_use]
    pub fn new(config: &SdkConfig, tables: Tables, retention_ms: u64, meter: Arc<Meter>) -> Self {
        let config = aws_sdk_dynamodb::config::Builder::from(config).retry_classifier(Conflicts);
        let yielding = Client::from_conf(config.clone().retry_classifier(GivesWay).build());
        Self { client: Client::from_conf(config.build()), yielding, tables, retention_ms, meter }
    }

    /// Puts a whole item if all clauses hold.
    pub(crate) async fn put(
        &self,
        what: &'static str,
        key: Key<'_>,
        item: Item,
        clauses: &[Clause],
    ) -> Result<Written> {
        self.put_by(&self.client, what, key, item, clauses).await
    }

    /// Puts a whole item, by a client of one's choice, if all clauses hold.
    pub(crate) async fn put_by(
        &self,
        client: &Client,
        what: &'static str,
        key: Key<'_>,
        item: Item,
        clauses: &[Clause],
    ) -> Result<Written> {
        let mut terms = Terms::default();
        let condition = terms.condition(clauses);
        let (names, values) = terms.into_parts();
        let answer = client
            .put_item()
            .table_name(key.table)
            .set_item(Some(item))
            .condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await;
        self.written(what, key.place, answer.map(|output| (output.consumed_capacity, None)))
    }

    /// Changes an item if all clauses hold; `returns` says whether the item afterwards is wanted.
    pub(crate) async fn update(
        &self,
        what: &'static str,
        key: Key<'_>,
        change: Change,
        clauses: &[Clause],
        returns: ReturnValue,
    ) -> Result<Written> {
        let update = change.expression();
        let mut terms = change.terms;
        let condition = terms.condition(clauses);
        let (names, values) = terms.into_parts();
        let answer = self
            .client
            .update_item()
            .table_name(key.table)
            .set_key(Some(key.item()))
            .update_expression(update)
            .condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values(returns)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await;
        self.written(what, key.place, answer.map(|output| (output.consumed_capacity, output.attributes)))
    }

    /// Removes an item if all clauses hold.
    pub(crate) async fn delete(&self, what: &'static str, key: Key<'_>, clauses: &[Clause]) -> Result<Written> {
        let mut terms = Terms::default();
        let condition = terms.condition(clauses);
        let (names, values) = terms.into_parts();
        let answer = self
            .client
            .delete_item()
            .table_name(key.table)
            .set_key(Some(key.item()))
            .condition_expression(condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await;
        self.written(what, key.place, answer.map(|output| (output.consumed_capacity, None)))
    }

    /// Reads one item as it is now.
    pub(crate) async fn get(&self, what: &'static str, key: Key<'_>) -> Result<Option<Item>> {
        let output = self
            .client
            .get_item()
            .table_name(key.table)
            .set_key(Some(key.item()))
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(|error| failed(what, error))?;
        self.meter.count_read(key.place, output.consumed_capacity());
        Ok(output.item)
    }

    fn written<E>(
        &self,
        what: &'static str,
        place: Place,
        answer: std::result::Result<(Option<ConsumedCapacity>, Option<Item>), SdkError<E>>,
    ) -> Result<Written>
    where
        E: Refusal + ProvideErrorMetadata + std::error::Error + 'static,
    {
        match answer {
            Ok((consumed, item)) => {
                self.meter.count_write(place, consumed.as_ref());
                Ok(Written::Done(item))
            }
            Err(error) => match error.as_service_error().and_then(Refusal::refusal) {
                Some(refusal) => {
                    // No item comes with the failure if none was there; some emulators send an empty one.
                    let old = refusal.item.clone().filter(|item| !item.is_empty());
                    self.count_refused(place, old.as_ref());
                    Ok(Written::Refused(old))
                }
                None => Err(failed(what, error)),
            },
        }
    }
}

/// A put as one of a transaction's writes: all of them are made if all clauses of each hold, or none is.
pub(crate) fn put_in_transaction(
    what: &'static str,
    table: &str,
    item: Item,
    clauses: &[Clause],
) -> Result<TransactWriteItem> {
    let mut terms = Terms::default();
    let condition = terms.condition(clauses);
    let (names, values) = terms.into_parts();
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(item))
        .condition_expression(condition)
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .map_err(|error| Error::Broken { what, why: error.to_string() })?;
    Ok(TransactWriteItem::builder().put(put).build())
}

/// An error that may be a failed condition.
trait Refusal {
    fn refusal(&self) -> Option<&ConditionalCheckFailedException>;
}

impl Refusal for PutItemError {
    fn refusal(&self) -> Option<&ConditionalCheckFailedException> {
        match self {
            Self::ConditionalCheckFailedException(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl Refusal for UpdateItemError {
    fn refusal(&self) -> Option<&ConditionalCheckFailedException> {
        match self {
            Self::ConditionalCheckFailedException(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl Refusal for DeleteItemError {
    fn refusal(&self) -> Option<&ConditionalCheckFailedException> {
        match self {
            Self::ConditionalCheckFailedException(refusal) => Some(refusal),
            _ => None,
        }
    }
}
