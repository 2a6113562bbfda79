//! The sessions: opened, renewed, ended.

use groupage_core::domain::{Beat, Session, SessionId};
use groupage_core::ports::{Ended, Renewed, Stored};

use super::{Laws, World};
use crate::harness::kept::Kept;
use crate::pipeline::promises::Promise;
use crate::pipeline::rules::Rule;
use crate::pipeline::tables::lives;

impl World {
    pub(super) fn open_session(&mut self, session: &Kept<Session>) -> Stored {
        match self.tables.session(&session.id) {
            Some(old) if old == session => Stored::Yes,
            Some(_) => Stored::Conflict,
            None => {
                self.tables.put_session(session.clone());
                Stored::Yes
            }
        }
    }

    pub(super) fn renew(&mut self, session: &Kept<Session>) -> Renewed {
        match self.tables.session(&session.id) {
            Some(old) if old.beat.next() == session.beat => {
                self.tables.put_session(session.clone());
                Renewed::Kept
            }
            Some(old) if old == session => Renewed::Kept,
            Some(_) | None => Renewed::Lost,
        }
    }

    pub(super) fn end_session(&mut self, id: &SessionId, beat: Beat, laws: Laws) -> Ended {
        let renewed = self.tables.session(id).filter(|session| session.beat != beat).cloned();
        match renewed {
            Some(session) if laws.keeps(Rule::BeatUnchanged) => Ended::Lives((*session).clone()),
            renewed => {
                self.promise(!renewed.is_some_and(|session| lives(&session)), Promise::RenewedLives);
                self.tables.sessions.retain(|session| session.id != *id);
                Ended::Yes
            }
        }
    }
}
