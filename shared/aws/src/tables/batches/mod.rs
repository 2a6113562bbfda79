//! The batch table: one item per batch, written whole each time.

mod stored;

use aws_sdk_dynamodb::types::TransactWriteItem;
use groupage_core::domain::batch::{Assumes, Batch};
use groupage_core::domain::shelf::Position;
use groupage_core::domain::{BatchId, Part, RouteName, Timestamp};
use groupage_core::ports::{Batches, Entries, Entry, Look, Result, Segment, Stored, Unfinished};
use serde::Deserialize;

use crate::config::Tables;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, decode, number};
use crate::dynamo::position::{keys_at, position_of};
use crate::dynamo::query::Scan;
use crate::dynamo::{Dynamo, Key, transaction};
use crate::meter::Place;
use stored::batch_of;

pub(crate) use stored::item_of;

const TABLE: &str = "batch table";
const BATCH_ID: &str = "BatchId";
const REVISION: &str = "Revision";

/// An entry of the index.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    batch_id: BatchId,
    open: String,
    due: Timestamp,
}

impl Dynamo {
    fn batch_key<'a>(&'a self, id: &'a BatchId) -> Key<'a> {
        Key::of(&self.tables.batches, Place::Batches, BATCH_ID, id.as_str())
    }
}

impl Batches for Dynamo {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.get("read a batch", self.batch_key(id)).await?.map(batch_of).transpose()
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let item = item_of(batch, self.retention_ms)?;
        let clause = match assumes {
            Assumes::Absent => Clause::Absent(BATCH_ID),
            Assumes::At(revision) => Clause::Equals(REVISION, number(revision)),
        };
        self.replace("write a batch", self.batch_key(&batch.id), (batch, item), &[clause], batch_of).await
    }

    async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>> {
        let part = look.part.key(route);
        let open = Key::of(&self.tables.batches, Place::Batches, "Open", &part);
        let index = (Tables::UNFINISHED_INDEX, BATCH_ID, BatchId::new as fn(String) -> BatchId);
        self.due("query the unfinished batches", open, index, look).await
    }

    async fn all_unfinished(
        &self,
        segment: Segment,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Entries<Unfinished>> {
        const WHAT: &str = "scan the unfinished batches";
        let all = Scan::of(WHAT, &self.tables.batches, Place::Batches);
        let (index, after) = (Some(Tables::UNFINISHED_INDEX), after.map(keys_at).transpose()?);
        let scan = Scan { index, segment: Some(segment), after, limit: Some(limit), ..all };
        let (found, next) = self.scanned(scan).await?;
        let entry = |item: Item| {
            let at = position_of(&item)?;
            let Listed { batch_id, open, due } = decode(TABLE, WHAT, item)?;
            let (route, is_pulled) = Part::route_in(&open);
            Ok(Entry { what: Unfinished { id: batch_id, due, route, is_pulled }, at })
        };
        Ok(Entries { found: found.into_iter().map(entry).collect::<Result<_>>()?, are_last: next.is_none() })
    }
}

impl Dynamo {
    /// The acknowledgement of `settled` as one item of a transaction of your own: it and your results are committed
    /// together or not at all. It assumes that the batch is as its claim left it.
    ///
    /// A transaction that is cancelled because of this item says that the claim was lost: somebody else has the batch,
    /// and your results must not count. It costs twice the write that it stands for.
    ///
    /// # Errors
    /// [`Error::Broken`](groupage_core::ports::Error::Broken) if the batch has no stored form.
    pub fn acknowledgement(&self, claimed: &Batch, settled: &Batch) -> Result<TransactWriteItem> {
        const WHAT: &str = "acknowledge a batch in a transaction";
        let item = item_of(settled, self.retention_ms)?;
        transaction::put(WHAT, &self.tables.batches, item, &[Clause::Equals(REVISION, number(claimed.revision))])
    }
}
