//! Looking through a shelf: its parts, some at once, each from where the last sweep stopped.
//!
//! The bookmarks are written when the entries before them were visited, so a sweep that dies is repeated by the next
//! one. An entry that cannot be looked after, panics or takes too long is passed by. It comes again in the next round,
//! and keeps nothing behind it waiting for longer than that.

use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures::future::{Either, select};
use futures::{FutureExt, StreamExt, stream};

use super::{Longest, Report, Sweep};
use crate::domain::shelf::{Bookmark, Bookmarks, Shelf};
use crate::domain::{Retryable, Timestamp};
use crate::ports::{self, Entries, Entry, Env, Outbox, Store};
use crate::steps::Error;

/// How many parts are looked through at once.
const PARTS_AT_ONCE: usize = 8;
/// An entry that takes longer than this is left for the next round, in milliseconds.
const PATIENCE_MS: u64 = 20_000;
/// What is done with an entry, for errors.
const LOOK: &str = "look after what sweep found";

/// What has come of a sweep so far, and the first thing that went wrong.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) report: Report,
    pub(super) failed: Option<Error>,
}

impl Tally {
    pub(super) fn count(&mut self, swept: Result<Report, Error>) {
        match swept {
            Ok(swept) => self.report += swept,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }

    /// Adds what came of another shelf.
    pub(super) fn add(&mut self, Self { report, failed }: Self) {
        self.report += report;
        self.failed = self.failed.take().or(failed);
    }
}

/// What came of looking through one part.
pub(super) struct Looked {
    pub(super) results: Vec<Result<Report, Error>>,
    pub(super) bookmark: Bookmark,
}

impl Looked {
    /// The part, or its next page, could not be read.
    pub(super) fn failed(mut results: Vec<Result<Report, Error>>, bookmark: Bookmark, error: ports::Error) -> Self {
        // It may be the position that is not known any more, after the index was split otherwise or restored.
        let is_lost = bookmark.after.is_some() && error.retryable() == Retryable::No;
        let began = bookmark.began;
        results.push(Err(error.into()));
        Self { results, bookmark: if is_lost { bookmark.lost(began) } else { bookmark } }
    }
}

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    /// Looks through the parts of a shelf. Those for which no time is left keep their bookmarks.
    pub(super) async fn look_through<P, F: Future<Output = Looked>>(
        &self,
        shelf: &Shelf,
        parts: impl IntoIterator<Item = (String, P)>,
        until: Timestamp,
        look: impl Fn(P, Bookmark) -> F,
    ) -> Tally {
        let (mut tally, now, look) = (Tally::default(), self.env.now(), &look);
        let kept = self.store.bookmarks(shelf).await;
        // One read in place of one for each part: mostly nothing is there. Where it fails, the parts tell why.
        let is_empty = self.store.is_empty(shelf).await.unwrap_or(false);
        let parts = parts.into_iter().filter(|_| !is_empty);
        // Without them each part is looked through from its front, and they stay as they are.
        let known = kept.as_ref().ok().cloned().unwrap_or_default();
        let looks = parts.map(|(name, part)| {
            let bookmark = Bookmark::taken_up(known.0.get(&name), now, self.every_ms);
            async move {
                let has_time = self.env.now() < until;
                let looked =
                    if has_time { look(part, bookmark).await } else { Looked { results: Vec::new(), bookmark } };
                (name, looked)
            }
        });
        let mut next = Bookmarks::default();
        let mut looked = stream::iter(looks.collect::<Vec<_>>()).buffer_unordered(PARTS_AT_ONCE);
        while let Some((name, Looked { results, bookmark })) = looked.next().await {
            results.into_iter().for_each(|swept| tally.count(swept));
            tally.report.oldest_unvisited += Longest { ms: bookmark.unvisited_ms(now) };
            if bookmark.is_needed(now) {
                next.0.insert(name, bookmark);
            }
        }
        let written = match kept {
            Ok(kept) if kept == next => Ok(()),
            Ok(_) => self.store.keep_bookmarks(shelf, &next, now).await,
            Err(error) => Err(error),
        };
        tally.count(written.map(|()| Report::default()).map_err(Error::from));
        tally
    }

    /// Visits entries one after the other, while there is time.
    pub(super) async fn visit<T, F: Future<Output = Result<Report, Error>>>(
        &self,
        found: ports::Result<Entries<T>>,
        mut bookmark: Bookmark,
        until: Timestamp,
        look_after: impl Fn(T) -> F,
    ) -> Looked {
        let Entries { found, are_last } = match found {
            Ok(found) => found,
            Err(error) => return Looked::failed(Vec::new(), bookmark, error),
        };
        let mut results = Vec::with_capacity(found.len());
        for Entry { what, at } in found {
            if self.env.now() >= until {
                return Looked { results, bookmark };
            }
            results.push(self.alone(look_after(what)).await);
            bookmark = bookmark.moved_to(at);
        }
        Looked { results, bookmark: if are_last { bookmark.ended() } else { bookmark } }
    }

    /// Looks after one entry. Its panic, or its taking too long, is its own affair. To be cut off is a death, which
    /// every step takes in its stride.
    async fn alone(&self, look: impl Future<Output = Result<Report, Error>>) -> Result<Report, Error> {
        let look = pin!(AssertUnwindSafe(look).catch_unwind());
        match select(look, pin!(self.env.sleep(PATIENCE_MS))).await {
            Either::Left((Ok(looked), _)) => looked,
            Either::Left((Err(_), _)) => {
                Err(ports::Error::Broken { what: LOOK, why: "it panicked; this is a bug".to_owned() }.into())
            }
            Either::Right(_) => {
                let why = format!("it took over {PATIENCE_MS} ms, and goes on in the next round");
                Err(ports::Error::Unavailable { what: LOOK, why }.into())
            }
        }
    }
}
