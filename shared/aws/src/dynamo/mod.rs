//! The tables in DynamoDB, and how every table's file writes to them.

pub(crate) mod expression;
pub(crate) mod item;
pub(crate) mod many;
pub(crate) mod position;
pub(crate) mod query;
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
    ConsumedCapacity, ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure,
};
use futures::FutureExt;
use groupage_core::ports::{Error, Freshness, Result, Stored};

use self::item::{Item, refused, text};
use crate::config::Tables;
use crate::dynamo::expression::{Change, Clause, Terms, on_condition};
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
    pub fn new(config: &SdkConfig, tables: Tables, retention_ms: u64, meter: Arc<Meter>) -> Self {
        let config = aws_sdk_dynamodb::config::Builder::from(config).retry_classifier(Conflicts);
        let yielding = Client::from_conf(config.clone().retry_classifier(GivesWay).build());
        Self { client: Client::from_conf(config.build()), yielding, tables, retention_ms, meter }
    }

    /// The same tables; what is consumed through this one goes to `meter`.
    #[must_use]
    pub fn metered(&self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self.clone() }
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
        let put = client.put_item().table_name(key.table).set_item(Some(item));
        let answer = on_condition!(put, Terms::default(), clauses)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
            .await;
        self.written(what, key.place, answer.map(|output| (output.consumed_capacity, None)))
    }

    /// Puts a whole new item, by a client of one's choice; the item that was there, unless it is the very same: that is
    /// our own write, whose answer was lost.
    pub(crate) async fn create<T: PartialEq>(
        &self,
        client: &Client,
        what: &'static str,
        key: Key<'_>,
        (new, item): (&T, Item),
        read: impl FnOnce(Item) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.put_by(client, what, key, item, &[Clause::Absent(key.attribute)]).await? {
            Written::Done(_) => Ok(None),
            // A condition on absence failed, and yet nothing is there: the item expired in between.
            Written::Refused(None) => {
                Err(Error::Unavailable { what, why: "the item that was in the way is gone".to_owned() })
            }
            Written::Refused(Some(old)) => Ok(Some(read(old)?).filter(|old| old != new)),
        }
    }

    /// Puts a whole item if all clauses hold. If the very same is there, it is our own write, whose answer was lost, or
    /// as good as it.
    pub(crate) async fn replace<T: PartialEq>(
        &self,
        what: &'static str,
        key: Key<'_>,
        (next, item): (&T, Item),
        clauses: &[Clause],
        read: impl FnOnce(Item) -> Result<T>,
    ) -> Result<Stored> {
        match self.put(what, key, item, clauses).await? {
            Written::Done(_) => Ok(Stored::Yes),
            Written::Refused(Some(old)) => Ok(Stored::when(read(old)? == *next)),
            Written::Refused(None) => Ok(Stored::Conflict),
        }
    }

    /// Removes an item if all clauses hold, or it is gone.
    pub(crate) async fn remove(&self, what: &'static str, key: Key<'_>, clauses: &[Clause]) -> Result<Stored> {
        match self.delete(what, key, clauses).await? {
            Written::Done(_) | Written::Refused(None) => Ok(Stored::Yes),
            Written::Refused(Some(_)) => Ok(Stored::Conflict),
        }
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
        let update = self.client.update_item().table_name(key.table).set_key(Some(key.item()));
        let update = update.update_expression(change.expression());
        let answer = on_condition!(update, change.terms, clauses)
            .return_values(returns)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
            .await;
        self.written(what, key.place, answer.map(|output| (output.consumed_capacity, output.attributes)))
    }

    /// Removes an item if all clauses hold.
    pub(crate) async fn delete(&self, what: &'static str, key: Key<'_>, clauses: &[Clause]) -> Result<Written> {
        let delete = self.client.delete_item().table_name(key.table).set_key(Some(key.item()));
        let answer = on_condition!(delete, Terms::default(), clauses)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
            .await;
        self.written(what, key.place, answer.map(|output| (output.consumed_capacity, None)))
    }

    /// Reads one item as it is now.
    pub(crate) async fn get(&self, what: &'static str, key: Key<'_>) -> Result<Option<Item>> {
        self.get_as(what, key, Freshness::Latest).await
    }

    /// Reads one item, so fresh.
    pub(crate) async fn get_as(&self, what: &'static str, key: Key<'_>, freshness: Freshness) -> Result<Option<Item>> {
        let output = self
            .client
            .get_item()
            .table_name(key.table)
            .set_key(Some(key.item()))
            .consistent_read(freshness == Freshness::Latest)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
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

/// An error that may be a failed condition.
trait Refusal {
    fn refusal(&self) -> Option<&ConditionalCheckFailedException>;
}

macro_rules! refusals {
    ($($error:ident),+) => {$(
        impl Refusal for $error {
            fn refusal(&self) -> Option<&ConditionalCheckFailedException> {
                match self {
                    Self::ConditionalCheckFailedException(refusal) => Some(refusal),
                    _ => None,
                }
            }
        }
    )+};
}
refusals!(PutItemError, UpdateItemError, DeleteItemError);
