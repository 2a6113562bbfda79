//! Items of one partition, in the order of their sort keys.

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use groupage_core::ports::{Freshness, Result};

use crate::dynamo::Dynamo;
use crate::dynamo::item::{Item, text};
use crate::fault::failed;
use crate::meter::Place;

/// Items whose sort keys lie between two, both included.
pub(crate) struct Range<'a> {
    /// What is looked for, for errors.
    pub(crate) what: &'static str,
    pub(crate) table: &'a str,
    pub(crate) place: Place,
    /// The attribute that is the partition's key, and its value.
    pub(crate) partition: (&'static str, &'a str),
    /// The attribute that is the sort key.
    pub(crate) sort: &'static str,
    pub(crate) from: String,
    pub(crate) last: String,
}

impl Dynamo {
    /// Up to `limit` items of a range, the first ones. None come only if there are none: a page of a query ends at a
    /// megabyte, and no item is that large.
    pub(crate) async fn range(&self, range: Range<'_>, limit: usize, freshness: Freshness) -> Result<Vec<Item>> {
        self.query_range(range, limit, freshness, None).await
    }

    /// The same, of each item only its key.
    pub(crate) async fn keys_in(&self, range: Range<'_>, limit: usize) -> Result<Vec<Item>> {
        self.query_range(range, limit, Freshness::Latest, Some("#Partition, #Sort".to_owned())).await
    }

    async fn query_range(
        &self,
        range: Range<'_>,
        limit: usize,
        freshness: Freshness,
        only: Option<String>,
    ) -> Result<Vec<Item>> {
        let Range { what, table, place, partition: (attribute, partition), sort, from, last } = range;
        let output = self
            .client
            .query()
            .table_name(table)
            .key_condition_expression("#Partition = :partition AND #Sort BETWEEN :from AND :last")
            .set_projection_expression(only)
            .expression_attribute_names("#Partition", attribute)
            .expression_attribute_names("#Sort", sort)
            .expression_attribute_values(":partition", text(partition))
            .expression_attribute_values(":from", text(from))
            .expression_attribute_values(":last", text(last))
            .consistent_read(freshness == Freshness::Latest)
            .limit(i32::try_from(limit.max(1)).unwrap_or(i32::MAX))
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(|error| failed(what, error))?;
        self.meter.count_read(place, output.consumed_capacity());
        Ok(output.items.unwrap_or_default())
    }
}
