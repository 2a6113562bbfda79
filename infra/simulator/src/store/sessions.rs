//! Sessions, with their prices.

use groupage_aws::Place;
use groupage_aws::price::Image;
use groupage_core::domain::shelf::Position;
use groupage_core::domain::{Beat, Pool, Session, SessionId};
use groupage_core::ports::{Ended, Entries, Freshness, Renewed, Result, Segment, Sessions, Stored};

use super::Store;
use crate::keys::Keys;
use crate::latency::Hop;

impl Store {
    async fn session_image(&self, id: &SessionId) -> Result<Option<Image>> {
        self.memory().session(id).await?.map(|session| Image::session(&session)).transpose()
    }

    /// Counts a page of sessions.
    fn read_all(&self, pool: &str, found: &Entries<Session>) -> Result<()> {
        let images: Vec<Image> = found.found.iter().map(|entry| Image::session(&entry.what)).collect::<Result<_>>()?;
        self.read(keys(pool), images.iter().map(Image::bytes).sum(), Freshness::Eventual);
        Ok(())
    }

    /// Makes a write of one session and counts it.
    async fn session_write<T>(
        &self,
        id: &SessionId,
        write: impl Future<Output = Result<T>>,
        did: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        self.write(keys(id.as_str()), || self.session_image(id), write, did).await
    }
}

const fn keys(item: &str) -> Keys<'_> {
    Keys::of(Place::Sessions, item, None)
}

impl Sessions for Store {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        let write = self.inner.open_session(session);
        self.session_write(&session.id, write, |stored| *stored == Stored::Yes).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        let write = self.inner.renew(session);
        self.session_write(&session.id, write, |renewed| *renewed == Renewed::Kept).await
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        let write = self.inner.end_session(id, beat);
        self.session_write(id, write, |ended| *ended == Ended::Yes).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        self.look(keys(id.as_str()), self.session_image(id), self.inner.session(id)).await
    }

    async fn sessions(&self, pool: &Pool, after: Option<&Position>, limit: usize) -> Result<Entries<Session>> {
        self.call(Hop::Page, keys(pool.as_str())).await?;
        let found = self.inner.sessions(pool, after, limit).await?;
        self.read_all(pool.as_str(), &found)?;
        Ok(found)
    }

    async fn all_sessions(&self, segment: Segment, after: Option<&Position>, limit: usize) -> Result<Entries<Session>> {
        self.call(Hop::Page, keys("")).await?;
        let found = self.inner.all_sessions(segment, after, limit).await?;
        self.read_all("", &found)?;
        Ok(found)
    }
}
