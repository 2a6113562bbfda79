//! Shelves that are scanned in segments, whatever routes there are: sessions, and unfinished batches.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::shelf::{Looked, Tally};
use super::{Budget, Report, Sweep};
use crate::domain::shelf::{Bookmark, Position, Shelf};
use crate::domain::time::Timestamp;
use crate::ports::{self, Entries, Env, Outbox, Segment, Store};
use crate::steps::Error;

/// The pages that the segments of one scan may read beyond their first.
pub(super) struct Pages(AtomicUsize);

impl Pages {
    pub(super) fn of(budget: Budget) -> Self {
        Self(AtomicUsize::new(budget.pages.saturating_sub(usize::from(budget.segments))))
    }

    pub(super) fn take_another(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// The segments of a scan, by their names.
pub(super) fn segments(of: u8) -> impl Iterator<Item = (String, Segment)> {
    (0..of).map(move |index| (index.to_string(), Segment { index, of }))
}

impl<S: Store, Q: Outbox, E: Env> Sweep<'_, S, Q, E> {
    /// Reads all segments page by page, and visits what is wanted.
    pub(super) async fn scan<T, R, F>(
        &self,
        shelf: Shelf,
        until: Timestamp,
        read: impl Fn(Segment, Option<Position>) -> R,
        is_wanted: impl Fn(&T) -> bool,
        look_after: impl Fn(T) -> F,
    ) -> Tally
    where
        R: Future<Output = ports::Result<Entries<T>>>,
        F: Future<Output = Result<Report, Error>>,
    {
        let (pages, read, is_wanted, look_after) = (&Pages::of(self.budget), &read, &is_wanted, &look_after);
        let look = |segment, mut bookmark: Bookmark| async move {
            let mut results = Vec::new();
            loop {
                let mut page = match read(segment, bookmark.after.clone()).await {
                    Ok(page) => page,
                    Err(error) => return Looked::failed(results, bookmark, error),
                };
                let (last, are_last) = (page.found.last().map(|entry| entry.at.clone()), page.are_last);
                page.found.retain(|entry| is_wanted(&entry.what));
                let wanted = page.found.len();
                let looked = self.visit(Ok(page), bookmark, until, look_after).await;
                let is_done = looked.results.len() == wanted;
                results.extend(looked.results);
                bookmark = looked.bookmark;
                if are_last || !is_done {
                    return Looked { results, bookmark };
                }
                bookmark = last.into_iter().fold(bookmark, Bookmark::moved_to);
                if self.env.now() >= until || !pages.take_another() {
                    return Looked { results, bookmark };
                }
            }
        };
        self.look_through(&shelf, segments(self.budget.segments), until, look).await
    }
}
