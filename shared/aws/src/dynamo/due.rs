//! The sparse indexes in which sweep finds what is due.

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::Result;
use serde::de::DeserializeOwned;

use crate::dynamo::Dynamo;
use crate::dynamo::item::{decode, number, text};
use crate::fault::failed;
use crate::meter::Place;

/// An index whose range key is `Due`.
pub(crate) struct DueIndex<'a> {
    /// What is in it, for errors.
    pub(crate) what: &'static str,
    pub(crate) table: &'a str,
    pub(crate) place: Place,
    pub(crate) index: &'static str,
    /// The attribute that is its key, and the part of it that is looked at.
    pub(crate) part: (&'static str, String),
}

impl Dynamo {
    /// Up to `limit` entries that are due before `before`, those that have been so for longest first. The index lags behind
    /// its table.
    pub(crate) async fn due<T: DeserializeOwned>(
        &self,
        index: DueIndex<'_>,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<T>> {
        let DueIndex { what, table, place, index, part: (attribute, part) } = index;
        let output = self
            .client
            .query()
            .table_name(table)
            .index_name(index)
            .key_condition_expression("#Part = :part AND #Due < :before")
            .expression_attribute_names("#Part", attribute)
            .expression_attribute_names("#Due", "Due")
            .expression_attribute_values(":part", text(part))
            .expression_attribute_values(":before", number(before.0))
            .limit(i32::try_from(limit.max(1)).unwrap_or(i32::MAX))
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(|error| failed(what, error))?;
        self.meter.count_read(place, output.consumed_capacity());
        output.items.unwrap_or_default().into_iter().map(|item| decode(what, "", item)).collect()
    }
}
