//! The journal's file: an SQLite database with a row for each message that is not consumed yet.
//!
//! SQLite has the parts that are easy to get wrong: a write that a kill cut short does not count, space is used again,
//! and a damaged file is refused. Bodies are checked by their digests when the queues are filled again
//! ([`Kept::digest`]), and the end of the write-ahead log by [`log`](super::log).

use std::{collections::HashMap, path::Path};

use rusqlite::{Connection, Row, Transaction, params};
use rustack_sqs_core::provider::SqsQueueSnapshot;
use rustack_sqs_model::types::MessageAttributeValue;
use serde_json::Value;

use super::log::{self, Reason};
use super::{Change, Number};
use crate::folder::Durability;

/// Says that a file is a journal of queues: `GpQu`.
const APPLICATION: i32 = 0x4770_5175;
/// Of the tables below.
const VERSION: i32 = 1;

/// For so long a FIFO queue knows the deduplication id of a message that was sent.
pub(crate) const DEDUPLICATED_MS: i64 = 5 * 60 * 1_000;

/// After this many transactions it is looked whether the file is mostly empty.
const LOOK_EVERY: u32 = 1_024;
/// A file whose empty part has fewer pages than this is left as it is.
const WORTH_IT_PAGES: i64 = 1_024;

/// `receives` counts those of all processes, `before` those of earlier ones. What a queue has handed out as often as
/// its redrive policy allows is in its dead-letter queue, or goes there before it is handed out again: `place` says so.
/// A row without a body is a message that was consumed, but whose deduplication id is still known.
const TABLES: &str = "
    CREATE TABLE queue (name TEXT PRIMARY KEY, definition TEXT NOT NULL, dead TEXT, max_receives INTEGER) WITHOUT ROWID;
    CREATE TABLE message (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL, queue TEXT NOT NULL, body TEXT, attributes TEXT, digest TEXT NOT NULL,
        message_group TEXT, deduplication TEXT, sent_ms INTEGER NOT NULL, delay_ms INTEGER,
        receives INTEGER NOT NULL DEFAULT 0, before INTEGER NOT NULL DEFAULT 0, first_ms INTEGER, source TEXT);
    CREATE INDEX consumed ON message (sent_ms) WHERE body IS NULL;
    CREATE VIEW place AS
        SELECT number, CASE WHEN receives - before >= max_receives THEN dead ELSE queue END AS queue
        FROM message LEFT JOIN queue ON queue.name = message.queue;";

/// A message as it was sent, and what became of it so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) number: i64,
    /// The id under which its sender and receivers know it.
    pub(crate) id: String,
    pub(crate) queue: String,
    /// `None` once it is consumed.
    pub(crate) body: Option<String>,
    pub(crate) attributes: HashMap<String, MessageAttributeValue>,
    /// The digests of body and attributes that its sender got.
    pub(crate) digest: String,
    pub(crate) group: Option<String>,
    /// Of a FIFO queue's message: what its sender gave, or what its body came to.
    pub(crate) deduplication: Option<String>,
    pub(crate) sent_ms: i64,
    /// `None` where the queue decides.
    pub(crate) delay_ms: Option<i64>,
    pub(crate) receives: u32,
    pub(crate) first_ms: Option<i64>,
    /// The queue from which it was dead-lettered.
    pub(crate) source: Option<String>,
}

/// What a journal held when it was opened.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The file was not there, or held nothing yet.
    pub(crate) is_new: bool,
    pub(crate) queues: Vec<SqsQueueSnapshot>,
    /// In the order in which they were sent.
    pub(crate) messages: Vec<Kept>,
}

/// The open file.
#[derive(Debug)]
pub(super) struct JournalFile {
    connection: Connection,
    transactions: u32,
}

impl JournalFile {
    /// Opens the file, or makes it, and reads what it holds.
    pub(super) fn open(path: &Path, durability: Durability, now_ms: i64) -> Result<(Self, Found), Reason> {
        let logged = log::commits(path)?;
        let mut connection = Connection::open(path).map_err(text)?;
        let is_new = prepare(&mut connection, durability).map_err(text)??;
        log::check(&connection, logged)?;
        let damage: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(text)?;
        if damage != "ok" {
            return Err(damage);
        }
        let found = settle(&mut connection, now_ms, is_new).map_err(text)?;
        let mut file = Self { connection, transactions: 0 };
        file.shrink().map_err(text)?;
        Ok((file, found))
    }

    /// Writes changes, all or none.
    pub(super) fn apply(&mut self, changes: &[Change]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for change in changes {
            apply(&transaction, change)?;
        }
        transaction.commit()?;
        self.transactions += 1;
        if self.transactions.is_multiple_of(LOOK_EVERY) { self.shrink() } else { Ok(()) }
    }

    /// Gives space back if most of the file is empty.
    fn shrink(&mut self) -> rusqlite::Result<()> {
        let number = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (empty, all) = (number("freelist_count")?, number("page_count")?);
        if empty >= WORTH_IT_PAGES && empty * 2 > all {
            self.connection.execute_batch("PRAGMA incremental_vacuum")?;
        }
        Ok(())
    }
}

/// Settings, and the tables of a new file; says whether it is new.
fn prepare(connection: &mut Connection, durability: Durability) -> rusqlite::Result<Result<bool, Reason>> {
    let (application, version, tables) = (
        connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0))?,
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0))?,
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?,
    );
    let is_new = (application, version, tables) == (0, 0, 0);
    if !is_new && application != APPLICATION {
        return Ok(Err("it is not a journal of queues".to_owned()));
    }
    if !is_new && version != VERSION {
        return Ok(Err(format!("its version is {version}, and this program reads version {VERSION}")));
    }
    // The folder's lock keeps others out; SQLite then needs no memory to share.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    if is_new {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Machine => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    if is_new {
        let transaction = connection.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
    }
    Ok(Ok(is_new))
}

/// Puts every message where it would have gone by now, and reads all of them.
fn settle(connection: &mut Connection, now_ms: i64, is_new: bool) -> rusqlite::Result<Found> {
    let transaction = connection.transaction()?;
    let dead = "(SELECT dead FROM queue WHERE name = message.queue AND receives >= max_receives)";
    transaction.execute_batch(&format!(
        "UPDATE message SET source = queue, queue = {dead}, receives = 0, first_ms = NULL WHERE {dead} IS NOT NULL;
         UPDATE message SET before = receives;"
    ))?;
    forget(&transaction, now_ms)?;
    let queues = transaction
        .prepare("SELECT definition FROM queue ORDER BY name")?
        .query_map([], |row| row.get::<_, String>(0))?
        .map(|definition| serde_json::from_str(&definition?).map_err(unreadable))
        .collect::<rusqlite::Result<_>>()?;
    let messages = transaction
        .prepare("SELECT * FROM message ORDER BY number")?
        .query_map([], kept)?
        .collect::<rusqlite::Result<_>>()?;
    transaction.commit()?;
    Ok(Found { is_new, queues, messages })
}

fn kept(row: &Row<'_>) -> rusqlite::Result<Kept> {
    let attributes = row.get::<_, Option<String>>("attributes")?;
    let attributes = attributes.map(|attributes| serde_json::from_str(&attributes)).transpose().map_err(unreadable)?;
    Ok(Kept {
        number: row.get("number")?,
        id: row.get("id")?,
        queue: row.get("queue")?,
        body: row.get("body")?,
        attributes: attributes.unwrap_or_default(),
        digest: row.get("digest")?,
        group: row.get("message_group")?,
        deduplication: row.get("deduplication")?,
        sent_ms: row.get("sent_ms")?,
        delay_ms: row.get("delay_ms")?,
        receives: row.get("receives")?,
        first_ms: row.get("first_ms")?,
        source: row.get("source")?,
    })
}

fn apply(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Sent(messages) => messages.iter().try_for_each(|message| put(transaction, message)),
        Change::Received { queue, messages, at_ms } => {
            // A message that another queue hands out has been moved there.
            let mut received = transaction.prepare_cached(
                "UPDATE message SET receives = CASE queue WHEN ?2 THEN receives ELSE 0 END + 1,
                     before = CASE queue WHEN ?2 THEN before ELSE 0 END,
                     first_ms = CASE queue WHEN ?2 THEN coalesce(first_ms, ?3) ELSE ?3 END,
                     source = CASE queue WHEN ?2 THEN source ELSE queue END, queue = ?2
                 WHERE number = ?1",
            )?;
            messages.iter().try_for_each(|number| received.execute(params![number.0, queue, at_ms]).map(drop))
        }
        Change::Consumed { messages, at_ms } => {
            messages.iter().try_for_each(|number| consume(transaction, *number))?;
            forget(transaction, *at_ms)
        }
        Change::Purged(queue) => transaction
            .prepare_cached("DELETE FROM message WHERE number IN (SELECT number FROM place WHERE queue = ?1)")?
            .execute([queue])
            .map(drop),
        Change::Queues(queues) => define(transaction, queues),
    }
}

fn put(transaction: &Transaction<'_>, message: &Kept) -> rusqlite::Result<()> {
    let attributes = match message.attributes.is_empty() {
        true => None,
        false => Some(serde_json::to_string(&message.attributes).map_err(unwritable)?),
    };
    let mut put = transaction.prepare_cached(
        "INSERT INTO message (number, id, queue, body, attributes, digest, message_group, deduplication, sent_ms, delay_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let Kept { number, id, queue, body, digest, group, deduplication, sent_ms, delay_ms, .. } = message;
    put.execute(params![number, id, queue, body, attributes, digest, group, deduplication, sent_ms, delay_ms]).map(drop)
}

/// A message that has no deduplication id leaves nothing behind.
fn consume(transaction: &Transaction<'_>, number: Number) -> rusqlite::Result<()> {
    let plain = "DELETE FROM message WHERE number = ?1 AND deduplication IS NULL";
    if transaction.prepare_cached(plain)?.execute([number.0])? == 0 {
        let known = "UPDATE message SET body = NULL, attributes = NULL WHERE number = ?1";
        transaction.prepare_cached(known)?.execute([number.0])?;
    }
    Ok(())
}

/// Forgets the deduplication ids of those that were consumed and sent long ago.
fn forget(transaction: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<()> {
    let old = "DELETE FROM message WHERE body IS NULL AND sent_ms <= ?1";
    transaction.prepare_cached(old)?.execute([now_ms - DEDUPLICATED_MS]).map(drop)
}

/// Writes down which queues there are. Those that are gone take their messages along.
fn define(transaction: &Transaction<'_>, queues: &[SqsQueueSnapshot]) -> rusqlite::Result<()> {
    let names =
        serde_json::to_string(&queues.iter().map(|queue| &queue.name).collect::<Vec<_>>()).map_err(unwritable)?;
    let gone = "DELETE FROM message WHERE number IN
        (SELECT number FROM place WHERE queue NOT IN (SELECT value FROM json_each(?1)))";
    transaction.execute(gone, [names])?;
    transaction.execute("DELETE FROM queue", [])?;
    let mut define = transaction.prepare_cached("INSERT INTO queue VALUES (?1, ?2, ?3, ?4)")?;
    for queue in queues {
        let definition = serde_json::to_string(queue).map_err(unwritable)?;
        let redrive = queue.attributes.get("RedrivePolicy").map(|policy| serde_json::from_str::<Value>(policy));
        let redrive = redrive.transpose().map_err(unwritable)?.unwrap_or_default();
        let dead = redrive["deadLetterTargetArn"].as_str().and_then(|arn| arn.rsplit(':').next());
        define.execute(params![queue.name, definition, dead, redrive["maxReceiveCount"].as_i64()])?;
    }
    Ok(())
}

fn text(error: rusqlite::Error) -> Reason {
    error.to_string()
}

fn unreadable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}

fn unwritable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
}
