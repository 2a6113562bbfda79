//! Locks, sessions, gates and streams, which do not lag.

use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::id::{Beat, Part, Pool, Seq, SessionId, StreamId, Target};
use groupage_core::domain::lock::{Acquisition, Held, Lock, Term};
use groupage_core::domain::session::Session;
use groupage_core::domain::stream::{Life, Page, Stream};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Change, Node, NodeId};
use groupage_core::ports::{
    Acquired, Advanced, Ended, Env, Gates, Locks, Marked, Released, Renewed, Result, Seen, Sessions, Signalled, Stored,
    StreamOpened, Streams,
};

use super::Lagging;

impl<S: Locks, E: Env> Locks for Lagging<S, E> {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.inner.lock(target).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        self.inner.acquire(target, acquisition).await
    }

    async fn signal(&self, target: &Target, held: &Held) -> Result<Signalled> {
        self.inner.signal(target, held).await
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        self.inner.advance(term, seq, lease_until).await
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released> {
        self.inner.release(term, seq, signals, now).await
    }
}

impl<S: Sessions, E: Env> Sessions for Lagging<S, E> {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        self.inner.open_session(session).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        self.inner.renew(session).await
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        self.inner.end_session(id, beat).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        self.inner.session(id).await
    }

    async fn sessions(&self, pool: &Pool, limit: usize) -> Result<Vec<Session>> {
        self.inner.sessions(pool, limit).await
    }
}

impl<S: Gates, E: Env> Gates for Lagging<S, E> {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.inner.gate(scope).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        self.inner.store_gate(scope, gate, now).await
    }
}

impl<S: Streams, E: Env> Streams for Lagging<S, E> {
    crate::pass::streams!();
}
