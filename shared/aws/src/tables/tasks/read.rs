//! Reading many tasks at once.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use groupage_core::domain::{Task, TaskId};
use groupage_core::ports::{Freshness, Result};

use super::{ID, task_of};
use crate::dynamo::Dynamo;
use crate::dynamo::item::{Item, text};
use crate::dynamo::many::READ_AT_ONCE;
use crate::meter::Place;

const READS_IN_FLIGHT: usize = 4;

impl Dynamo {
    /// Reads tasks in as many requests as it takes; those that are not there are left out.
    pub(super) async fn read_tasks(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        // DynamoDB refuses a request that names a key twice.
        let ids: Vec<&TaskId> = ids.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let table = (self.tables.tasks.as_str(), Place::Tasks);
        let key = |id: &&TaskId| Item::from([(ID.to_owned(), text(id.as_str()))]);
        let keys = ids.chunks(READ_AT_ONCE).map(|ids| ids.iter().map(key).collect());
        let reads: Vec<_> = keys.map(|keys| self.read_many("read tasks", table, keys, freshness)).collect();
        let pages: Vec<Vec<Item>> = stream::iter(reads).buffer_unordered(READS_IN_FLIGHT).try_collect().await?;
        pages.into_iter().flatten().map(task_of).collect()
    }
}
