//! What sweep does for a stream: commits what nobody committed, tells it, and removes the stream at last.

use derive_more::AddAssign;

use super::Streaming;
use super::commit::When;
use crate::domain::id::StreamId;
use crate::domain::stream::{Life, MAX_NUMBER, Stream};
use crate::domain::tracker::MAX_LEVEL;
use crate::ports::{Env, Outbox, Stored, Streams};
use crate::steps::Error;

/// What looking after streams came to.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Watermarks committed because nobody else did.
    pub committed: usize,
    /// Streams removed after their retention.
    pub removed: usize,
}

impl<S: Streams, Q: Outbox, E: Env> Streaming<'_, S, Q, E> {
    /// Looks after a stream that is due. After an error the next sweep finds it again.
    pub async fn look_after(&self, id: &StreamId, retention_ms: u64) -> Result<Report, Error> {
        let now = self.env.now();
        // The index lags behind: the stream decides.
        let Some(stream) = self.store.stream(id).await?.filter(|stream| stream.due.is_some_and(|due| due < now)) else {
            return Ok(Report::default());
        };
        if stream.is_forgotten(retention_ms, now) {
            return self.remove(&stream).await;
        }
        let before = stream.watermark.number;
        let revision = stream.revision;
        let seen = self.commit(stream, When::Now).await?;
        if seen.revision == revision {
            // Nothing new: the next look comes later. Somebody who is at work with it has put it off as well.
            self.store.commit(&seen.looked_at(retention_ms, now)).await?;
        }
        Ok(Report { committed: usize::from(seen.watermark.number > before), removed: 0 })
    }

    /// Its parts first: a process that dies in between leaves a stream that is found again.
    async fn remove(&self, stream: &Stream) -> Result<Report, Error> {
        self.clear(&stream.life).await?;
        let removed = self.store.remove_stream(stream).await? == Stored::Yes;
        Ok(Report { committed: 0, removed: usize::from(removed) })
    }

    /// Removes what belongs to one life of a stream.
    async fn clear(&self, life: &Life) -> Result<(), Error> {
        self.drop_pages(life, (0, MAX_NUMBER), |_| true).await?;
        for level in 0..=MAX_LEVEL {
            self.drop_nodes(life, level, |_| true).await?;
        }
        Ok(())
    }
}
