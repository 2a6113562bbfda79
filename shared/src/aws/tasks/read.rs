//! Reading many tasks at once.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_dynamodb::types::{KeysAndAttributes, ReturnConsumedCapacity};
use futures::{StreamExt, TryStreamExt, stream};

use super::{ID, task_of};
use crate::aws::dynamo::Dynamo;
use crate::aws::fault::failed;
use crate::aws::item::{Item, text};
use crate::aws::meter::Place;
use crate::domain::id::TaskId;
use crate::domain::task::Task;
use crate::ports::{Error, Freshness, Result};

const READ: &str = "read tasks";
/// `BatchGetItem` takes this many keys.
const READ_AT_ONCE: usize = 100;
const READS_IN_FLIGHT: usize = 4;
/// Tries of one chunk: keys come back unprocessed when a partition throttles, or past 16 MB of items.
const READ_TRIES: u32 = 7;
/// It doubles with every try: all pauses together are under two seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

impl Dynamo {
    /// Reads tasks in as many requests as it takes; those that are not there are left out.
    pub(super) async fn read_tasks(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        // DynamoDB refuses a request that names a key twice.
        let ids: Vec<&TaskId> = ids.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let reads: Vec<_> = ids.chunks(READ_AT_ONCE).map(|ids| self.read_chunk(ids, freshness)).collect();
        let pages: Vec<Vec<Task>> = stream::iter(reads).buffer_unordered(READS_IN_FLIGHT).try_collect().await?;
        Ok(pages.into_iter().flatten().collect())
    }

    async fn read_chunk(&self, ids: &[&TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        let mut tasks = Vec::with_capacity(ids.len());
        let mut keys: Vec<Item> = ids.iter().map(|id| Item::from([(ID.to_owned(), text(id.as_str()))])).collect();
        let mut pause = FIRST_PAUSE;
        for _ in 0..READ_TRIES {
            let (items, unprocessed) = self.read_once(keys, freshness).await?;
            tasks.extend(items.into_iter().map(task_of).collect::<Result<Vec<_>>>()?);
            if unprocessed.is_empty() {
                return Ok(tasks);
            }
            keys = unprocessed;
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause *= 2;
        }
        Err(Error::Unavailable { what: READ, why: format!("{} keys were left unprocessed", keys.len()) })
    }

    async fn read_once(&self, keys: Vec<Item>, freshness: Freshness) -> Result<(Vec<Item>, Vec<Item>)> {
        let table = &self.tables.tasks;
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .consistent_read(freshness == Freshness::Latest)
            .build()
            .map_err(|error| Error::Broken { what: READ, why: error.to_string() })?;
        let output = self
            .client
            .batch_get_item()
            .request_items(table, wanted)
            .return_consumed_capacity(ReturnConsumedCapacity::Indexes)
            .send()
            .await
            .map_err(|error| failed(READ, error))?;
        self.meter.count_read(Place::Tasks, output.consumed_capacity());
        // Only one table was asked for, and the answer names it as the request did.
        let items = output.responses.into_iter().flatten().flat_map(|(_, items)| items).collect();
        let unprocessed = output.unprocessed_keys.into_iter().flatten().flat_map(|(_, keys)| keys.keys).collect();
        Ok((items, unprocessed))
    }
}
