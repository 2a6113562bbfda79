//! Batches, with their prices.

use groupage_aws::Place;
use groupage_aws::price::Image;
use groupage_core::domain::batch::{Assumes, Batch, ByPosition, OutputPart};
use groupage_core::domain::id::{BatchId, RouteName};
use groupage_core::domain::shelf::Position;
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::{Batches, Entries, Look, Result, Segment, Stored, Unfinished};

use super::{RETENTION_MS, Store};
use crate::keys::Keys;
use crate::latency::Hop;

impl Store {
    async fn batch_image(&self, id: &BatchId) -> Result<Option<Image>> {
        self.memory().batch(id).await?.map(|batch| Image::batch(&batch, RETENTION_MS)).transpose()
    }
}

const fn keys<'a>(item: &'a str, entry: Option<&'a str>) -> Keys<'a> {
    Keys::of(Place::Batches, item, entry)
}

impl Batches for Store {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.look(keys(id.as_str(), None), self.batch_image(id), self.inner.batch(id)).await
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let part = batch.part().key(&batch.target.route());
        let keys = keys(batch.id.as_str(), Some(&part));
        let write = self.inner.store(batch, assumes);
        self.write(keys, || self.batch_image(&batch.id), write, |stored| *stored == Stored::Yes).await
    }

    async fn keep_outputs(
        &self,
        batch: &BatchId,
        part: &OutputPart,
        outputs: &ByPosition,
        now: Timestamp,
    ) -> Result<()> {
        self.inner.keep_outputs(batch, part, outputs, now).await
    }

    async fn outputs(&self, batch: &BatchId, parts: &[OutputPart]) -> Result<ByPosition> {
        self.inner.outputs(batch, parts).await
    }

    async fn erase_output(&self, batch: &BatchId, part: &OutputPart, position: usize) -> Result<()> {
        self.inner.erase_output(batch, part, position).await
    }

    async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>> {
        let key = look.part.key(route);
        self.call(Hop::Page, keys(&key, Some(&key))).await?;
        let found = self.inner.unfinished(route, look).await?;
        let mut bytes = 0;
        for entry in &found.found {
            bytes += self.batch_image(&entry.what).await?.map_or(0, |image| image.entry_bytes());
        }
        self.paged(keys(&key, Some(&key)), bytes);
        Ok(found)
    }

    async fn all_unfinished(
        &self,
        segment: Segment,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Entries<Unfinished>> {
        self.call(Hop::Page, keys("", None)).await?;
        let found = self.inner.all_unfinished(segment, after, limit).await?;
        let mut bytes = 0;
        for entry in &found.found {
            bytes += self.batch_image(&entry.what.id).await?.map_or(0, |image| image.entry_bytes());
        }
        self.paged(keys("", None), bytes);
        Ok(found)
    }
}
