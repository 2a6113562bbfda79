//! The stream table: under each stream's name its own item, under each of its lives the nodes and pages, and the index
//! by which sweep finds streams.
//!
//! Two kinds of writers share a stream's own item: who feeds writes how far it is fed, in a transaction with what was
//! fed; who commits writes all the rest. Neither assumes anything of what the other writes.

mod stored;

use aws_sdk_dynamodb::types::ReturnValue;
use groupage_core::domain::id::StreamId;
use groupage_core::domain::stream::{Bits, Life, Page, State, Stream};
use groupage_core::domain::tracker::{Change, Node, NodeId};
use groupage_core::ports::{Entries, Freshness, Look, Marked, Result, Seen, Stored, StreamOpened, Streams};
use stored::{
    NEXT, OPENED_AT, OWN, REVISION, STATE, committing, feeding, key_item, life_key, page_item, page_key, page_of,
    stream_item, stream_of,
};

use crate::config::Tables;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, number, size, text};
use crate::dynamo::many::READ_AT_ONCE;
use crate::dynamo::{Dynamo, Key, Written, transaction};
use crate::meter::Place;
use crate::tables::nodes::{NODE, node_key, node_of};

const TABLE: &str = "stream table";
const STREAM_ID: &str = "StreamId";

impl Dynamo {
    fn stream_key<'a>(&'a self, id: &'a str, sort: &'a str) -> Key<'a> {
        Key { sort: Some((NODE, sort)), ..Key::of(&self.tables.streams, Place::Streams, STREAM_ID, id) }
    }

    /// Parts of one life whose sort keys lie between two.
    async fn stream_range(
        &self,
        what: &'static str,
        life: &Life,
        (from, to): (String, String),
        limit: usize,
    ) -> Result<Vec<Item>> {
        let life = life_key(life);
        self.range(what, (self.stream_key(&life, &from), &to), limit, Freshness::Latest).await
    }

    /// How many items a stream has, its own included, and their size in bytes, as DynamoDB bills it.
    pub async fn stream_size(&self, life: &Life) -> Result<(u64, u64)> {
        const PAGE: usize = 100;
        let own = self.get("measure a stream", self.stream_key(life.id.as_str(), OWN)).await?;
        let (mut items, mut bytes) = own.map_or((0, 0), |item| (1, size(&item)));
        let mut from = String::from("!");
        loop {
            let found = self.stream_range("measure a stream", life, (from, "~".to_owned()), PAGE).await?;
            let last = found.last().and_then(|item| item.get(NODE)?.as_s().ok());
            let Some(last) = last else { return Ok((items, bytes)) };
            // Right behind the last: no sort key holds a blank.
            from = format!("{last} ");
            items += found.len() as u64;
            bytes += found.iter().map(size).sum::<u64>();
        }
    }

    async fn remove_parts_of(&self, what: &'static str, life: &Life, sorts: Vec<String>) -> Result<()> {
        let life = life_key(life);
        let keys: Vec<Item> = sorts.iter().map(|sort| key_item(&life, sort)).collect();
        self.remove_many(what, (&self.tables.streams, Place::Streams), &keys).await
    }
}

impl Streams for Dynamo {
    async fn open_stream(&self, stream: &Stream) -> Result<StreamOpened> {
        let (key, new) = (self.stream_key(stream.life.id.as_str(), OWN), (stream, stream_item(stream)?));
        let existing = self.create(&self.client, "open a stream", key, new, stream_of).await?;
        Ok(existing.map_or(StreamOpened::New, |existing| StreamOpened::Existing(Box::new(existing))))
    }

    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>> {
        self.get("look at a stream", self.stream_key(id.as_str(), OWN)).await?.map(stream_of).transpose()
    }

    async fn see(&self, life: &Life, nodes: &[NodeId]) -> Result<Seen> {
        let parts = life_key(life);
        let nodes = nodes.iter().take(READ_AT_ONCE - 1).map(|node| key_item(&parts, &node_key(*node)));
        let keys = std::iter::once(key_item(life.id.as_str(), OWN)).chain(nodes).collect();
        let table = (self.tables.streams.as_str(), Place::Streams);
        let (mut stream, mut found) = (None, Vec::new());
        for item in self.read_many("look at a stream's bits", table, keys, Freshness::Latest).await? {
            if item.contains_key(NEXT) {
                stream = Some(stream_of(item)?);
            } else {
                found.push(node_of(TABLE, &item)?);
            }
        }
        Ok(Seen { stream, bits: Bits::of(found) })
    }

    async fn feed(&self, fed: &Stream, page: &Page) -> Result<Stored> {
        const WHAT: &str = "feed a stream";
        let unfed = [
            Clause::Equals(OPENED_AT, number(fed.life.opened_at.0)),
            Clause::Equals(STATE, text(State::Open.word())),
            Clause::Equals(NEXT, number(page.start)),
        ];
        let key = self.stream_key(fed.life.id.as_str(), OWN);
        let writes = vec![
            transaction::update(WHAT, key, feeding(fed), &unfed)?,
            transaction::put(WHAT, &self.tables.streams, page_item(&fed.life, page), &[Clause::Absent(STREAM_ID)])?,
        ];
        // A lost answer makes the repeat find its own events fed: then the caller is told of a repeat, too.
        Ok(Stored::when(self.transact(WHAT, Place::Streams, writes).await?.is_ok()))
    }

    async fn commit(&self, stream: &Stream) -> Result<Stored> {
        let mut assumes = vec![
            Clause::Equals(OPENED_AT, number(stream.life.opened_at.0)),
            Clause::Equals(REVISION, number(stream.revision.0.saturating_sub(1))),
        ];
        if stream.due.is_none() {
            assumes.push(Clause::Equals(NEXT, number(stream.next)));
        }
        let key = self.stream_key(stream.life.id.as_str(), OWN);
        match self.update("commit a stream", key, committing(stream), &assumes, ReturnValue::None).await? {
            Written::Done(_) => Ok(Stored::Yes),
            Written::Refused(None) => Ok(Stored::Conflict),
            // The very same content is our own write, whose answer was lost.
            Written::Refused(Some(old)) => {
                let old = stream_of(old)?;
                let wanted = Stream { next: old.next, last: old.last.clone(), ..stream.clone() };
                Ok(Stored::when(old == wanted))
            }
        }
    }

    async fn mark_events(&self, life: &Life, change: &Change) -> Result<Marked> {
        let (parts, sort) = (life_key(life), node_key(change.id));
        self.mark_node(("mark events", TABLE), self.stream_key(&parts, &sort), change).await
    }

    async fn stream_nodes(&self, life: &Life, from: NodeId, limit: usize) -> Result<Vec<Node>> {
        let range = (node_key(from), node_key(NodeId { index: u32::MAX, ..from }));
        let items = self.stream_range("read a stream's bits", life, range, limit).await?;
        items.iter().map(|item| node_of(TABLE, item)).collect()
    }

    async fn drop_nodes(&self, life: &Life, nodes: &[NodeId]) -> Result<()> {
        self.remove_parts_of("drop a stream's bits", life, nodes.iter().map(|node| node_key(*node)).collect()).await
    }

    async fn pages(&self, life: &Life, from: u64, to: u64, limit: usize) -> Result<Vec<Page>> {
        let Some(last) = to.checked_sub(1).filter(|last| from <= *last) else { return Ok(Vec::new()) };
        let items = self.stream_range("read what was fed", life, (page_key(from), page_key(last)), limit).await?;
        items.iter().map(page_of).collect()
    }

    async fn drop_pages(&self, life: &Life, starts: &[u64]) -> Result<()> {
        self.remove_parts_of("drop what was fed", life, starts.iter().map(|start| page_key(*start)).collect()).await
    }

    async fn due_streams(&self, look: Look<'_>) -> Result<Entries<StreamId>> {
        let part = look.part.stream_key();
        let part = Key::of(&self.tables.streams, Place::Streams, "Part", &part);
        let index = (Tables::DUE_INDEX, STREAM_ID, StreamId::new as fn(String) -> StreamId);
        self.due("query the streams that are due", part, index, look).await
    }

    async fn remove_stream(&self, stream: &Stream) -> Result<Stored> {
        let assumes = [
            Clause::AbsentOrEquals(OPENED_AT, number(stream.life.opened_at.0)),
            Clause::AbsentOrEquals(REVISION, number(stream.revision.0)),
        ];
        let key = self.stream_key(stream.life.id.as_str(), OWN);
        self.remove("remove a stream", key, &assumes).await
    }
}
