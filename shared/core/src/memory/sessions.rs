//! Sessions in memory.

use super::due::{in_order, in_segment};
use super::expiry::Row;
use super::{MemoryStore, Tables};
use crate::domain::shelf::Position;
use crate::domain::{Beat, Pool, Session, SessionId};
use crate::ports::{Ended, Entries, Entry, Renewed, Result, Segment, Sessions, Stored};

fn entry(session: Session) -> Entry<Session> {
    Entry { at: Position(session.id.to_string()), what: session }
}

impl Tables {
    fn keep_session(&mut self, session: &Session) {
        let until = session.expires_at.plus_ms(self.expiry.keeps.session_ms);
        self.expiry.keep(Row::Session(session.id.clone()), Some(until));
    }
}

impl Sessions for MemoryStore {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        let mut tables = self.tables();
        let is_stored = tables.sessions.entry(session.id.clone()).or_insert_with(|| session.clone()) == session;
        if is_stored {
            tables.keep_session(session);
        }
        Ok(Stored::when(is_stored))
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        let mut tables = self.tables();
        match tables.sessions.get_mut(&session.id) {
            // At the same beat it is an earlier try of this renewal, whose answer was lost.
            Some(old) if old.beat == session.beat || old.beat.next() == session.beat => {
                *old = session.clone();
                tables.keep_session(session);
                Ok(Renewed::Kept)
            }
            Some(_) | None => Ok(Renewed::Lost),
        }
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        let mut tables = self.tables();
        match tables.sessions.get(id) {
            Some(session) if session.beat != beat => Ok(Ended::Lives(session.clone())),
            Some(_) | None => {
                tables.sessions.remove(id);
                Ok(Ended::Yes)
            }
        }
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        Ok(self.tables().sessions.get(id).cloned())
    }

    async fn sessions(&self, pool: &Pool, after: Option<&Position>, limit: usize) -> Result<Entries<Session>> {
        let tables = self.tables();
        let pooled = tables.sessions.values().filter(|session| session.id.pool() == *pool);
        Ok(in_order(pooled.cloned().map(entry), after, limit))
    }

    async fn all_sessions(&self, segment: Segment, after: Option<&Position>, limit: usize) -> Result<Entries<Session>> {
        Ok(in_segment(self.tables().sessions.values().cloned().map(entry), segment, after, limit))
    }
}
