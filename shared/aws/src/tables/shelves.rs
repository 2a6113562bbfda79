//! Sweeps' bookmarks: one item per shelf, in the lock table beside locks and gates.

use groupage_core::domain::shelf::{Bookmarks, Shelf};
use groupage_core::domain::time::{IDLE_MS, Timestamp};
use groupage_core::ports::{Result, Shelves};
use serde::{Deserialize, Serialize};

use crate::config::Tables;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{decode, encode};
use crate::dynamo::query::Scan;
use crate::dynamo::{Dynamo, Key};
use crate::meter::Place;
use crate::tables::locks::{TABLE, TARGET};

const REVISION: &str = "Revision";

/// A shelf's bookmarks as their item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredBookmarks {
    target: String,
    bookmarks: Bookmarks,
    ttl: u64,
}

impl Dynamo {
    fn shelf_key<'a>(&'a self, key: &'a str) -> Key<'a> {
        Key::of(&self.tables.locks, Place::Locks, TARGET, key)
    }
}

impl Shelves for Dynamo {
    async fn is_empty(&self, shelf: &Shelf) -> Result<bool> {
        let Tables { tasks, batches, sessions, trackers, lists, streams, .. } = &self.tables;
        let (table, place, index) = match shelf {
            Shelf::Sessions => (sessions, Place::Sessions, None),
            Shelf::Waiting => (tasks, Place::Tasks, Some(Tables::WAITING_INDEX)),
            // Failed tasks are filed in it, too: then it is not empty, and its parts tell.
            Shelf::Due => (tasks, Place::Filed, Some(Tables::FILED_INDEX)),
            Shelf::Batches => (batches, Place::Batches, Some(Tables::UNFINISHED_INDEX)),
            Shelf::Trackers => (trackers, Place::Trackers, Some(Tables::DUE_INDEX)),
            Shelf::Lists => (lists, Place::Lists, Some(Tables::DUE_INDEX)),
            Shelf::Streams => (streams, Place::Streams, Some(Tables::DUE_INDEX)),
        };
        let all = Scan::of("look whether anything is there", table, place);
        let (found, next) = self.scanned(Scan { index, limit: Some(1), ..all }).await?;
        Ok(found.is_empty() && next.is_none())
    }

    async fn bookmarks(&self, shelf: &Shelf) -> Result<Bookmarks> {
        let key = shelf.key();
        let Some(item) = self.get("read bookmarks", self.shelf_key(key)).await? else {
            return Ok(Bookmarks::default());
        };
        Ok(decode::<StoredBookmarks>(TABLE, key, item)?.bookmarks)
    }

    async fn keep_bookmarks(&self, shelf: &Shelf, bookmarks: &Bookmarks, now: Timestamp) -> Result<()> {
        let key = shelf.key();
        let ttl = now.plus_ms(IDLE_MS).as_secs();
        let stored = StoredBookmarks { target: key.to_owned(), bookmarks: bookmarks.clone(), ttl };
        let item = encode(TABLE, key, &stored)?;
        // No condition, but DynamoDB takes no empty one: a gate's item, which has a revision, is never there.
        self.put("write bookmarks", self.shelf_key(key), item, &[Clause::Absent(REVISION)]).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use groupage_core::domain::shelf::{Bookmark, Position};

    use super::*;
    use crate::dynamo::item;

    #[test]
    fn the_bookmarks_of_all_parts_survive_storage_and_are_a_few_kilobytes() {
        let at = |n: u8| {
            let after = (n > 0).then(|| {
                Position(format!(r#"{{"Id":{{"S":"{}"}},"Target":{{"S":"{}"}}}}"#, "i".repeat(128), "t".repeat(512)))
            });
            (
                format!("part-{n}"),
                Bookmark { after, began: Timestamp(1_700_000_000_123), since: Timestamp(1_700_000_000_000) },
            )
        };
        let bookmarks = Bookmarks((0..16).map(at).collect::<BTreeMap<_, _>>());
        let stored = StoredBookmarks { target: Shelf::Waiting.key().to_owned(), bookmarks: bookmarks.clone(), ttl: 9 };
        let item = encode(TABLE, "", &stored).unwrap();
        assert!(item::size(&item) < 16 * 1024, "{} bytes", item::size(&item));
        assert_eq!(decode::<StoredBookmarks>(TABLE, "", item).unwrap().bookmarks, bookmarks);
    }
}
