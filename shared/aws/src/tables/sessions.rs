//! The session table: one item per live worker, found by its pool.
//!
//! A clean shutdown removes the item, and so does a process that finds the session over. One that nobody looked for
//! expires a day later.

use groupage_core::domain::shelf::Position;
use groupage_core::domain::{BatchId, Beat, Pool, Session, SessionId, Timestamp};
use groupage_core::ports::{Ended, Entries, Entry, Renewed, Result, Segment, Sessions, Stored};
use serde::{Deserialize, Serialize};

use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, decode, encode, id_in, number};
use crate::dynamo::position::{keys_at, position_of};
use crate::dynamo::query::{Query, Scan};
use crate::dynamo::{Dynamo, Key, Written};
use crate::meter::Place;

const TABLE: &str = "session table";
const POOL: &str = "Pool";
const SESSION_ID: &str = "SessionId";
const BEAT: &str = "Beat";

/// How long an item outlives its session, in milliseconds.
const FORGOTTEN_MS: u64 = 24 * 60 * 60 * 1000;

/// A session as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredSession {
    pool: Pool,
    session_id: SessionId,
    beat: Beat,
    expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    claims: Vec<BatchId>,
    worker: String,
    ttl: u64,
}

pub(crate) fn item_of(session: &Session) -> Result<Item> {
    let stored = StoredSession {
        pool: session.id.pool(),
        session_id: session.id.clone(),
        beat: session.beat,
        expires_at: session.expires_at,
        claims: session.claims.clone(),
        worker: session.worker.clone(),
        ttl: session.expires_at.plus_ms(FORGOTTEN_MS).as_secs(),
    };
    encode(TABLE, session.id.as_str(), &stored)
}

fn session_of(item: Item) -> Result<Session> {
    let id = id_in(&item, SESSION_ID);
    let StoredSession { session_id, beat, expires_at, claims, worker, .. } = decode(TABLE, &id, item)?;
    Ok(Session { id: session_id, beat, expires_at, claims, worker })
}

impl Dynamo {
    fn session_key<'a>(&'a self, pool: &'a Pool, id: &'a SessionId) -> Key<'a> {
        let sort = Some((SESSION_ID, id.as_str()));
        Key { sort, ..Key::of(&self.tables.sessions, Place::Sessions, POOL, pool.as_str()) }
    }

    fn entries(&self, (found, next): (Vec<Item>, Option<Item>)) -> Result<Entries<Session>> {
        let entry = |item| {
            let what = session_of(item)?;
            let at = position_of(&self.session_key(&what.id.pool(), &what.id).item())?;
            Ok(Entry { what, at })
        };
        Ok(Entries { found: found.into_iter().map(entry).collect::<Result<_>>()?, are_last: next.is_none() })
    }
}

impl Sessions for Dynamo {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        let pool = session.id.pool();
        let (key, absent) = (self.session_key(&pool, &session.id), [Clause::Absent(SESSION_ID)]);
        self.replace("open a session", key, (session, item_of(session)?), &absent, session_of).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        let pool = session.id.pool();
        let Beat(beat) = session.beat;
        // Only its owner renews it: the same beat is an earlier try of this renewal, whose answer was lost.
        let assumes = Clause::OneOf(BEAT, vec![number(beat.saturating_sub(1)), number(beat)]);
        match self.put("renew a session", self.session_key(&pool, &session.id), item_of(session)?, &[assumes]).await? {
            Written::Done(_) => Ok(Renewed::Kept),
            Written::Refused(_) => Ok(Renewed::Lost),
        }
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        let pool = id.pool();
        let assumes = Clause::AbsentOrEquals(BEAT, number(beat));
        match self.delete("end a session", self.session_key(&pool, id), &[assumes]).await? {
            Written::Done(_) | Written::Refused(None) => Ok(Ended::Yes),
            Written::Refused(Some(old)) => session_of(old).map(Ended::Lives),
        }
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        let pool = id.pool();
        self.get("read a session", self.session_key(&pool, id)).await?.map(session_of).transpose()
    }

    async fn sessions(&self, pool: &Pool, after: Option<&Position>, limit: usize) -> Result<Entries<Session>> {
        let all = Key::of(&self.tables.sessions, Place::Sessions, POOL, pool.as_str());
        let query = Query::of("query a pool of sessions", all, limit).after(after.map(keys_at).transpose()?);
        self.entries(self.query(query).await?)
    }

    async fn all_sessions(&self, segment: Segment, after: Option<&Position>, limit: usize) -> Result<Entries<Session>> {
        let all = Scan::of("scan the sessions", &self.tables.sessions, Place::Sessions);
        let after = after.map(keys_at).transpose()?;
        self.entries(self.scanned(Scan { segment: Some(segment), after, limit: Some(limit), ..all }).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item;

    #[test]
    fn a_session_survives_storage_and_fits_one_write_unit() {
        let session = Session {
            id: SessionId::of_handler(&"f".repeat(32)),
            beat: Beat(7),
            expires_at: Timestamp(1_700_000_000_123),
            claims: vec![BatchId::new("9".repeat(32))],
            worker: "groupage-batch-handler/2026/01/01/[$LATEST]0123456789abcdef0123456789abcdef".to_owned(),
        };
        let item = item_of(&session).unwrap();
        assert!(item::size(&item) <= 1024);
        assert_eq!(session_of(item).unwrap(), session);
    }
}
