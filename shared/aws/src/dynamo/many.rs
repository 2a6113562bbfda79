//! Reading and removing many items of one table at once.

use std::time::Duration;

use aws_sdk_dynamodb::types::{DeleteRequest, KeysAndAttributes, ReturnConsumedCapacity, WriteRequest};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use groupage_core::ports::{Error, Freshness, Result};

use crate::dynamo::Dynamo;
use crate::dynamo::item::Item;
use crate::fault::failed;
use crate::meter::Place;

/// `BatchGetItem` takes this many keys.
pub(crate) const READ_AT_ONCE: usize = 100;
/// `BatchWriteItem` takes this many requests.
pub(crate) const REMOVED_AT_ONCE: usize = 25;
/// And this many such calls are under way at once.
const REMOVALS_IN_FLIGHT: usize = 4;
/// Tries of one call: keys come back unprocessed when a partition throttles, or past 16 MB of items.
const TRIES: u32 = 7;
/// It doubles with every try: all pauses together are under two seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

impl Dynamo {
    /// Reads up to [`READ_AT_ONCE`] items, all keys of which differ; those that are not there are left out.
    pub(crate) async fn read_many(
        &self,
        what: &'static str,
        (table, place): (&str, Place),
        mut keys: Vec<Item>,
        freshness: Freshness,
    ) -> Result<Vec<Item>> {
        let mut found = Vec::with_capacity(keys.len());
        let mut pause = FIRST_PAUSE;
        for _ in 0..TRIES {
            let (items, unprocessed) = self.read_once(what, (table, place), keys, freshness).await?;
            found.extend(items);
            if unprocessed.is_empty() {
                return Ok(found);
            }
            keys = unprocessed;
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause *= 2;
        }
        Err(Error::Unavailable { what, why: format!("{} keys were left unprocessed", keys.len()) })
    }

    /// Removes items by their keys.
    pub(crate) async fn remove_many(
        &self,
        what: &'static str,
        (table, place): (&str, Place),
        keys: &[Item],
    ) -> Result<()> {
        let removals: Vec<_> =
            keys.chunks(REMOVED_AT_ONCE).map(|keys| self.remove_some(what, (table, place), keys)).collect();
        stream::iter(removals).buffer_unordered(REMOVALS_IN_FLIGHT).try_collect().await
    }

    async fn remove_some(&self, what: &'static str, (table, place): (&str, Place), keys: &[Item]) -> Result<()> {
        let request = |key: &Item| {
            let delete = DeleteRequest::builder().set_key(Some(key.clone())).build().ok()?;
            Some(WriteRequest::builder().delete_request(delete).build())
        };
        let mut requests: Vec<WriteRequest> = keys.iter().filter_map(request).collect();
        let mut pause = FIRST_PAUSE;
        for _ in 0..TRIES {
            let output = self
                .client
                .batch_write_item()
                .request_items(table, requests)
                .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
                .send()
                .boxed()
                .await
                .map_err(|error| failed(what, error))?;
            for consumed in output.consumed_capacity() {
                self.meter.count_write(place, Some(consumed));
            }
            requests = output.unprocessed_items.into_iter().flatten().flat_map(|(_, requests)| requests).collect();
            if requests.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause *= 2;
        }
        Err(Error::Unavailable { what, why: format!("{} removals were left unprocessed", requests.len()) })
    }

    async fn read_once(
        &self,
        what: &'static str,
        (table, place): (&str, Place),
        keys: Vec<Item>,
        freshness: Freshness,
    ) -> Result<(Vec<Item>, Vec<Item>)> {
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .consistent_read(freshness == Freshness::Latest)
            .build()
            .map_err(|error| Error::Broken { what, why: error.to_string() })?;
        let output = self
            .client
            .batch_get_item()
            .request_items(table, wanted)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .boxed()
            .await
            .map_err(|error| failed(what, error))?;
        self.meter.count_read(place, output.consumed_capacity());
        // Only one table was asked for, and the answer names it as the request did.
        let items = output.responses.into_iter().flatten().flat_map(|(_, items)| items).collect();
        let unprocessed = output.unprocessed_keys.into_iter().flatten().flat_map(|(_, keys)| keys.keys).collect();
        Ok((items, unprocessed))
    }
}
