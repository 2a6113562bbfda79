//! A stream's stored forms: its own item, and pages of what was fed.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use groupage_core::domain::stream::{Life, Offset, Options, Page, State, Stream, Trace, Watermark};
use groupage_core::domain::{NotificationQueue, Part, Revision, StreamId, Timestamp};
use groupage_core::ports::Result;
use serde::{Deserialize, Serialize};

use super::{NODE, STREAM_ID, TABLE};
use crate::dynamo::expression::Change;
use crate::dynamo::item::{Item, decode, encode, id_in, nonsense, number, text, text_in};

/// The sort key of a stream's own item.
pub(super) const OWN: &str = "stream";
pub(super) const OPENED_AT: &str = "OpenedAt";
pub(super) const REVISION: &str = "Revision";
pub(super) const STATE: &str = "State";
pub(super) const NEXT: &str = "Next";
const OFFSETS: &str = "Offsets";
const DIGESTS: &str = "Digests";
/// Bytes of an event's digest.
const DIGEST_BYTES: usize = 8;

/// A stream as its item says it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredStream {
    stream_id: StreamId,
    node: String,
    opened_at: Timestamp,
    revision: Revision,
    state: String,
    commit_ms: u64,
    commit_events: Option<u64>,
    window: u64,
    notify: NotificationQueue,
    next: u64,
    last: Option<Offset>,
    watermark: u64,
    offset: Option<Offset>,
    settled: u64,
    failed: u64,
    committed_at: Timestamp,
    told: bool,
    active_at: Timestamp,
    looks: u32,
    /// The index's keys.
    part: String,
    due: Option<Timestamp>,
}

/// The partition key of what belongs to one life of a stream. No name holds a `:`.
pub(super) fn life_key(life: &Life) -> String {
    format!("{}:{}", life.id, life.opened_at.0)
}

/// The sort key of a page: pages lie in the order of their events.
pub(super) fn page_key(start: u64) -> String {
    format!("p#{start:012x}")
}

/// A key of the table.
pub(super) fn key_item(id: &str, sort: &str) -> Item {
    Item::from([(STREAM_ID.to_owned(), text(id)), (NODE.to_owned(), text(sort))])
}

pub(super) fn stream_item(stream: &Stream) -> Result<Item> {
    let Stream { life, revision, state, options, next, last, watermark, is_told, active_at, looks, due } =
        stream.clone();
    let Options { commit_ms, commit_events, window, notify } = options;
    let stored = StoredStream {
        node: OWN.to_owned(),
        opened_at: life.opened_at,
        revision,
        state: state.word().to_owned(),
        commit_ms,
        commit_events,
        window,
        notify,
        next,
        last,
        watermark: watermark.number,
        offset: watermark.offset,
        settled: watermark.settled,
        failed: watermark.failed,
        committed_at: watermark.at,
        told: is_told,
        active_at,
        looks,
        part: Part::of_stream(&life.id).stream_key(),
        due,
        stream_id: life.id,
    };
    encode(TABLE, stream.life.id.as_str(), &stored)
}

pub(super) fn stream_of(item: Item) -> Result<Stream> {
    let id = id_in(&item, STREAM_ID);
    let stored: StoredStream = decode(TABLE, &id, item)?;
    let state = State::parse(&stored.state)
        .ok_or_else(|| nonsense(TABLE, &id, STATE, format_args!("`{}` is no state", stored.state)))?;
    let StoredStream { commit_ms, commit_events, window, notify, settled, failed, .. } = stored;
    Ok(Stream {
        life: Life { id: stored.stream_id, opened_at: stored.opened_at },
        revision: stored.revision,
        state,
        options: Options { commit_ms, commit_events, window, notify },
        next: stored.next,
        last: stored.last,
        watermark: Watermark {
            number: stored.watermark,
            offset: stored.offset,
            settled,
            failed,
            at: stored.committed_at,
        },
        is_told: stored.told,
        active_at: stored.active_at,
        looks: stored.looks,
        due: stored.due,
    })
}

/// The write that feeds: all that a commit does not write.
pub(super) fn feeding(fed: &Stream) -> Change {
    Change::default()
        .set(NEXT, number(fed.next))
        .set_or_remove("Last", fed.last.as_ref().map(|offset| text(offset.as_str())))
        .set("ActiveAt", number(fed.active_at.0))
        .set_or_remove("Due", fed.due.map(|due| number(due.0)))
}

/// The write that commits: all that feeding does not write, and when sweep looks.
pub(super) fn committing(stream: &Stream) -> Change {
    let Watermark { number: at, offset, settled, failed, at: committed_at } = &stream.watermark;
    Change::default()
        .set(REVISION, number(stream.revision.0))
        .set(STATE, text(stream.state.word()))
        .set("Watermark", number(at))
        .set_or_remove("Offset", offset.as_ref().map(|offset| text(offset.as_str())))
        .set("Settled", number(settled))
        .set("Failed", number(failed))
        .set("CommittedAt", number(committed_at.0))
        .set("Told", AttributeValue::Bool(stream.is_told))
        .set("ActiveAt", number(stream.active_at.0))
        .set("Looks", number(stream.looks))
        .set_or_remove("Due", stream.due.map(|due| number(due.0)))
}

/// A page as an item: the digests lie in one string of bytes, in the order of the offsets.
pub(super) fn page_item(life: &Life, page: &Page) -> Item {
    let mut item = key_item(&life_key(life), &page_key(page.start));
    let offsets = page.traces.iter().map(|trace| text(trace.offset.as_str())).collect();
    let digests: Vec<u8> = page.traces.iter().flat_map(|trace| trace.digest.to_be_bytes()).collect();
    item.insert(OFFSETS.to_owned(), AttributeValue::L(offsets));
    item.insert(DIGESTS.to_owned(), AttributeValue::B(Blob::new(digests)));
    item
}

pub(super) fn page_of(item: &Item) -> Result<Page> {
    let id = id_in(item, STREAM_ID);
    let wrong = |attribute, why: &str| nonsense(TABLE, &id, attribute, why);
    let start = text_in(item, NODE).and_then(|sort| sort.strip_prefix("p#"));
    let start =
        start.and_then(|start| u64::from_str_radix(start, 16).ok()).ok_or_else(|| wrong(NODE, "is no page's"))?;
    let offsets = item.get(OFFSETS).and_then(|offsets| offsets.as_l().ok());
    let offsets = offsets.ok_or_else(|| wrong(OFFSETS, "is no list"))?;
    let digests = item.get(DIGESTS).and_then(|digests| digests.as_b().ok());
    let digests = digests.ok_or_else(|| wrong(DIGESTS, "is no string of bytes"))?.as_ref().chunks_exact(DIGEST_BYTES);
    let trace = |(offset, digest): (&AttributeValue, &[u8])| {
        let offset = offset.as_s().ok().and_then(|offset| Offset::parse(offset).ok());
        let offset = offset.ok_or_else(|| wrong(OFFSETS, "holds what is no offset"))?;
        let digest = <[u8; DIGEST_BYTES]>::try_from(digest).map(u64::from_be_bytes);
        Ok(Trace { offset, digest: digest.map_err(|_| wrong(DIGESTS, "is cut off"))? })
    };
    if digests.len() != offsets.len() {
        return Err(wrong(DIGESTS, "has another length than the offsets"));
    }
    let traces = offsets.iter().zip(digests).map(trace).collect::<Result<_>>()?;
    Ok(Page { start, traces })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item;

    fn offset() -> Option<Offset> {
        Offset::parse(&"o".repeat(128)).ok()
    }

    fn stream(state: State) -> Stream {
        Stream {
            life: Life { id: StreamId::new("s".repeat(40)), opened_at: Timestamp(1_700_000_000_123) },
            revision: Revision(1_234_567),
            state,
            options: Options {
                commit_ms: 1_001,
                commit_events: Some(1_234),
                window: 999_999,
                notify: NotificationQueue::Default,
            },
            next: 368_293_445_631,
            last: offset(),
            watermark: Watermark {
                number: 368_293_445_630,
                offset: offset(),
                settled: 368_293_445_630,
                failed: 368_293_445_629,
                at: Timestamp(1_700_000_000_123),
            },
            is_told: true,
            active_at: Timestamp(1_700_000_000_123),
            looks: 11,
            due: Some(Timestamp(1_700_000_000_123)),
        }
    }

    #[test]
    fn every_state_survives_storage_and_costs_one_write_unit() {
        for state in State::ALL {
            let stream = stream(state);
            let item = stream_item(&stream).unwrap();
            assert!(item::size(&item) <= 1024, "{} bytes", item::size(&item));
            assert_eq!(stream_of(item).unwrap(), stream);
        }
    }

    #[test]
    fn a_page_survives_storage() {
        let life = stream(State::Open).life;
        let trace = |n: u64| Trace { offset: Offset::parse(&format!("{n} ä")).unwrap(), digest: u64::MAX - n };
        let page = Page { start: 4_711, traces: (0..500).map(trace).collect() };
        let item = page_item(&life, &page);
        assert_eq!(page_of(&item).unwrap(), page);
    }

    #[test]
    fn pages_lie_in_the_order_of_their_events() {
        let keys = [0, 9, 10, 255, 256, groupage_core::domain::stream::MAX_NUMBER].map(page_key);
        assert!(keys.is_sorted());
    }

    #[test]
    fn what_nobody_here_writes_names_table_item_and_attribute() {
        let mut item = stream_item(&stream(State::Open)).unwrap();
        item.insert(STATE.to_owned(), text("melted"));
        let said = stream_of(item).unwrap_err().to_string();
        assert!(said.contains("stream table") && said.contains("`State`") && said.contains("melted"), "{said}");
    }
}
