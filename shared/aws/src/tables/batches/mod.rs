//! The batch table: one item per batch, written whole each time, and one per part of its outputs.

mod outputs;
mod stored;

use aws_sdk_dynamodb::types::{ReturnValue, TransactWriteItem};
use futures::{StreamExt, TryStreamExt, stream};
use groupage_core::domain::batch::{Assumes, Batch, ByPosition, OUTLIVES_MS, OutputPart};
use groupage_core::domain::shelf::Position;
use groupage_core::domain::{BatchId, Part, RouteName, Timestamp};
use groupage_core::ports::{Batches, Entries, Entry, Look, Result, Segment, Stored, Unfinished};
use serde::Deserialize;

use crate::config::Tables;
use crate::dynamo::expression::{Change, Clause};
use crate::dynamo::item::{Item, decode, number, text};
use crate::dynamo::position::{keys_at, position_of};
use crate::dynamo::query::Scan;
use crate::dynamo::{Dynamo, Key, transaction};
use crate::meter::Place;
use stored::batch_of;

pub(crate) use stored::item_of;

const TABLE: &str = "batch table";
const BATCH_ID: &str = "BatchId";
const REVISION: &str = "Revision";
/// Parts of outputs that are read at once, at most.
const READS_IN_FLIGHT: usize = 4;

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
        let found = self.get("read a batch", self.batch_key(id)).await?;
        // An id from outside may be the key of a part of outputs.
        found.filter(|item| item.contains_key(REVISION)).map(batch_of).transpose()
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let item = item_of(batch, self.retention_ms)?;
        let clause = match assumes {
            Assumes::Absent => Clause::Absent(BATCH_ID),
            Assumes::At(revision) => Clause::Equals(REVISION, number(revision)),
        };
        self.replace("write a batch", self.batch_key(&batch.id), (batch, item), &[clause], batch_of).await
    }

    async fn keep_outputs(
        &self,
        batch: &BatchId,
        part: &OutputPart,
        outputs: &ByPosition,
        now: Timestamp,
    ) -> Result<()> {
        let (id, until) = (part.key(batch), now.plus_ms(self.retention_ms + OUTLIVES_MS));
        let key = Key::of(&self.tables.batches, Place::Batches, BATCH_ID, &id);
        let item = outputs::item_of(&id, outputs, until);
        // Each write has a condition. This one always holds.
        let holds = [Clause::AbsentOrEquals(BATCH_ID, text(id.as_str()))];
        self.put("keep outputs", key, item, &holds).await.map(drop)
    }

    async fn outputs(&self, batch: &BatchId, parts: &[OutputPart]) -> Result<ByPosition> {
        let read = |part: &OutputPart| {
            let id = part.key(batch);
            async move {
                let key = Key::of(&self.tables.batches, Place::Batches, BATCH_ID, &id);
                self.get("read outputs", key).await?.map(outputs::outputs_of).transpose()
            }
        };
        let reads: Vec<_> = parts.iter().map(read).collect();
        let found: Vec<Option<ByPosition>> = stream::iter(reads).buffered(READS_IN_FLIGHT).try_collect().await?;
        Ok(found.into_iter().flatten().flatten().collect())
    }

    async fn erase_output(&self, batch: &BatchId, part: &OutputPart, position: usize) -> Result<()> {
        let (id, attribute) = (part.key(batch), outputs::attribute(position));
        let key = Key::of(&self.tables.batches, Place::Batches, BATCH_ID, &id);
        // An update without this would put an empty item in place of one that has expired.
        let is_there = [Clause::KeyPresent(attribute.clone())];
        let change = Change::default().remove(&attribute);
        self.update("erase an output", key, change, &is_there, ReturnValue::None).await.map(drop)
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
