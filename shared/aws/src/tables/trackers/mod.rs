//! The tracker table: under each tracker's id its own item, its nodes and what was added, and the index by which sweep
//! finds trackers.
//!
//! A node's words are attributes of their own, so that a write names just those that it changes.

mod parts;
mod stored;

use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use groupage_core::ports::{
    Added, Cleared, Entries, Freshness, Look, Looked, Marked, Opened, Result, Stored, Trackers,
};
use stored::{OWN, addition_item, addition_key, addition_of, key_item, revision, tracker_item, tracker_of};

use crate::config::Tables;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{number, text_in};
use crate::dynamo::many::READ_AT_ONCE;
use crate::dynamo::transaction::{self, item_in};
use crate::dynamo::{Dynamo, Key};
use crate::meter::Place;
use crate::tables::nodes::{NODE, node_key, node_of};

const TABLE: &str = "tracker table";
const TRACKER_ID: &str = "TrackerId";
const REVISION: &str = "Revision";

impl Dynamo {
    fn tracker_key<'a>(&'a self, id: &'a TrackerId, sort: &'a str) -> Key<'a> {
        Key { sort: Some((NODE, sort)), ..Key::of(&self.tables.trackers, Place::Trackers, TRACKER_ID, id.as_str()) }
    }
}

impl Trackers for Dynamo {
    async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened> {
        let (key, new) = (self.tracker_key(&tracker.id, OWN), (tracker, tracker_item(tracker)?));
        let existing = self.create(&self.client, "open a tracker", key, new, tracker_of).await?;
        Ok(existing.map_or(Opened::New, Opened::Existing))
    }

    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        let nodes = nodes.iter().take(READ_AT_ONCE - 1).map(|node| key_item(id, &node_key(*node)));
        let keys = std::iter::once(key_item(id, OWN)).chain(nodes).collect();
        let table = (self.tables.trackers.as_str(), Place::Trackers);
        let mut looked = Looked::default();
        for item in self.read_many("look at a tracker", table, keys, freshness).await? {
            if text_in(&item, NODE) == Some(OWN) {
                looked.tracker = Some(tracker_of(item)?);
            } else {
                looked.nodes.push(node_of(TABLE, &item)?);
            }
        }
        Ok(looked)
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let (key, assumes) = (self.tracker_key(&tracker.id, OWN), [Clause::Equals(REVISION, revision(tracker))]);
        self.replace("write a tracker", key, (tracker, tracker_item(tracker)?), &assumes, tracker_of).await
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        const WHAT: &str = "add items to a tracker";
        let (table, unchanged) = (&self.tables.trackers, Clause::Equals(REVISION, revision(grown)));
        let absent = Clause::Absent(TRACKER_ID);
        let writes = vec![
            transaction::put(WHAT, table, tracker_item(grown)?, &[unchanged])?,
            transaction::put(WHAT, table, addition_item(&grown.id, addition)?, &[absent])?,
        ];
        // It was added before, or the tracker is another.
        let Err(reasons) = self.transact(WHAT, Place::Trackers, writes).await? else { return Ok(Added::Yes) };
        match reasons.get(1).and_then(item_in) {
            Some(before) => addition_of(before).map(Added::Before),
            None => Ok(Added::Conflict),
        }
    }

    async fn addition(&self, id: &TrackerId, key: &str) -> Result<Option<Addition>> {
        let sort = addition_key(key);
        self.get("find what was added", self.tracker_key(id, &sort)).await?.map(addition_of).transpose()
    }

    async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
        let sort = node_key(change.id);
        self.mark_node(("mark items", TABLE), self.tracker_key(id, &sort), change).await
    }

    async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, freshness: Freshness) -> Result<Vec<Node>> {
        let (last, from) = (node_key(NodeId { index: u32::MAX, ..from }), node_key(from));
        let range = (self.tracker_key(id, &from), last.as_str());
        let found = self.range("read a tracker's groups", range, limit, freshness).await?;
        found.iter().map(|item| node_of(TABLE, item)).collect()
    }

    async fn due_trackers(&self, look: Look<'_>) -> Result<Entries<TrackerId>> {
        let part = look.part.tracker_key();
        let part = Key::of(&self.tables.trackers, Place::Trackers, "Part", &part);
        let index = (Tables::DUE_INDEX, TRACKER_ID, TrackerId::new as fn(String) -> TrackerId);
        self.due("query the trackers that are due", part, index, look).await
    }

    async fn clear(&self, tracker: &Tracker) -> Result<Cleared> {
        let parts = self.parts(&tracker.id).await?;
        if parts.is_empty() {
            return Ok(Cleared::All);
        }
        self.remove_parts(tracker, parts).await
    }

    async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        let assumes = Clause::AbsentOrEquals(REVISION, number(tracker.revision));
        self.remove("remove a tracker", self.tracker_key(&tracker.id, OWN), &[assumes]).await
    }
}
