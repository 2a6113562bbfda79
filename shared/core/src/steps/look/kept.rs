//! Which trackers, lists and streams there are: those that sweep looks after, from the indexes by which it finds them.

use futures::{StreamExt, TryStreamExt, stream};

use super::{CONCURRENCY, Error, Looking};
use crate::domain::{ListId, Part, StreamId, Timestamp, TrackerId};
use crate::ports::{self, Entries, Env, Lists, Look, Streams, Trackers};

/// This many of each part are named.
const OF_PART: usize = 4;
/// Later than any time.
const ANY_TIME: Timestamp = Timestamp(u64::MAX);

/// Names of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<Id> {
    /// The names, of each part those that sweep looks at next.
    pub names: Vec<Id>,
    /// Whether these are all.
    pub are_all: bool,
}

impl<S: Trackers + Lists + Streams, E: Env> Looking<'_, S, E> {
    /// Trackers that are not forgotten yet.
    pub async fn trackers(&self) -> Result<Kept<TrackerId>, Error> {
        kept(|look| self.store.due_trackers(look)).await
    }

    /// Lists that are not removed yet.
    pub async fn lists(&self) -> Result<Kept<ListId>, Error> {
        kept(|look| self.store.due_lists(look)).await
    }

    /// Streams that have events to commit, or are about to be forgotten.
    pub async fn streams(&self) -> Result<Kept<StreamId>, Error> {
        kept(|look| self.store.due_streams(look)).await
    }
}

async fn kept<Id, F>(due: impl Fn(Look<'static>) -> F) -> Result<Kept<Id>, Error>
where
    F: Future<Output = ports::Result<Entries<Id>>>,
{
    let reading: Vec<F> = Part::all().map(|part| due(Look::at(part, ANY_TIME, OF_PART))).collect();
    let parts: Vec<Entries<Id>> = stream::iter(reading).buffered(CONCURRENCY).try_collect().await?;
    let are_all = parts.iter().all(|part| part.are_last);
    Ok(Kept { names: parts.into_iter().flat_map(Entries::all).collect(), are_all })
}
