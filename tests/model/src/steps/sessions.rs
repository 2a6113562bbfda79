//! The sessions, under the preconditions that their port promises.

use std::collections::BTreeMap;

use derive_more::Deref;
use groupage_core::ports::{Ended, Renewed};

use crate::prelude::*;

/// The sessions by their ids.
#[derive(Clone, Debug, Default, Deref, Hash, PartialEq, Eq)]
pub struct Sessions(pub BTreeMap<SessionId, Kept<Session>>);

impl Sessions {
    /// Opens one.
    pub fn open(&mut self, session: &Kept<Session>) -> Stored {
        Stored::when(self.0.entry(session.id.clone()).or_insert_with(|| session.clone()) == session)
    }

    /// Renews one at the beat that follows its own.
    pub fn renew(&mut self, session: &Kept<Session>) -> Renewed {
        match self.get(&session.id) {
            Some(old) if old.beat.next() == session.beat || old == session => {
                self.0.insert(session.id.clone(), session.clone());
                Renewed::Kept
            }
            Some(_) | None => Renewed::Lost,
        }
    }

    /// Ends one that was not renewed since this beat.
    pub fn end(&mut self, id: &SessionId, beat: Beat) -> Ended {
        match self.get(id) {
            Some(session) if session.beat != beat => Ended::Lives((**session).clone()),
            Some(_) | None => {
                self.0.remove(id);
                Ended::Yes
            }
        }
    }
}
