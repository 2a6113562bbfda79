//! The heartbeat of a worker's session: opens it with its first claim, renews it while there is work, and ends it.
//!
//! A worker trusts its session from the *start* of the last renewal that succeeded, for a little less than the expiry.
//! When that is over it stops where it is, whatever the table may say: others may have taken over. A renewal whose
//! answer was lost costs nothing, since the next one overwrites it.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{Either, select};
use tokio::sync::Mutex;

use crate::domain::session::{Holder, Session, Timing};
use crate::domain::{BatchId, SessionId, Timestamp};
use crate::ports::{self, Ended, Env, Renewed, Sessions, Stored};

/// The session is over: a worker under it must stop, and its results do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session is over: it could not be renewed in time, or somebody ended it")]
pub struct Lost;

/// A worker's session. Nothing is written before it is opened or makes a claim.
#[derive(Debug)]
pub struct Heartbeat<'a, S, E> {
    store: &'a S,
    env: &'a E,
    timing: Timing,
    id: SessionId,
    worker: String,
    /// As the table has it.
    session: Mutex<Option<Session>>,
    /// In milliseconds. A renewal under way has the session for itself, and nobody waits for that to know this.
    trusted_until: AtomicU64,
}

impl<'a, S: Sessions, E: Env> Heartbeat<'a, S, E> {
    /// A session to be; `worker` says to people who it is.
    pub fn new(store: &'a S, env: &'a E, timing: Timing, id: SessionId, worker: impl Into<String>) -> Self {
        Self {
            store,
            env,
            timing,
            id,
            worker: worker.into(),
            session: Mutex::default(),
            trusted_until: AtomicU64::new(0),
        }
    }

    /// Its id.
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// Opens it without a claim.
    ///
    /// # Errors
    /// The store did not answer. `Ok(Err(Lost))`: the session is over.
    pub async fn open(&self) -> Result<Result<(), Lost>, ports::Error> {
        self.write(&mut *self.session.lock().await, |_| {}).await
    }

    /// Names a batch among its claims; opens the session if need be. Comes before the claim itself.
    ///
    /// # Errors
    /// The store did not answer. `Ok(Err(Lost))`: the session is over.
    pub async fn name(&self, batch: &BatchId) -> Result<Result<(), Lost>, ports::Error> {
        let name = |claims: &mut Vec<BatchId>| {
            if !claims.contains(batch) {
                claims.push(batch.clone());
            }
        };
        self.write(&mut *self.session.lock().await, name).await
    }

    /// Whether a batch is among its claims: this worker has it in hand.
    pub async fn names(&self, batch: &BatchId) -> bool {
        self.session.lock().await.as_ref().is_some_and(|session| session.claims.contains(batch))
    }

    /// Forgets a claim that was settled or given up; the next renewal names it no more.
    pub async fn forget(&self, batch: &BatchId) {
        if let Some(session) = &mut *self.session.lock().await {
            session.claims.retain(|claim| claim != batch);
        }
    }

    /// Whether the worker may still act under its session.
    pub fn is_trusted(&self) -> bool {
        self.env.now() < self.trusted_until()
    }

    fn trusted_until(&self) -> Timestamp {
        Timestamp(self.trusted_until.load(Ordering::Acquire))
    }

    /// Does `work` and renews the session meanwhile; drops the work where it is when the session is over.
    pub async fn keep<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let lost = {
            let (work, renewals) = (pin!(work), pin!(self.renew_for_ever()));
            match select(work, renewals).await {
                Either::Left((done, _)) => return Ok(done),
                Either::Right((lost, _)) => lost,
            }
            // Here the work is gone, with its call and its turn at our state: nothing of it goes on while we clean up.
        };
        self.end().await;
        Err(lost)
    }

    /// Removes the session, so that its claims are free at once. One that cannot be removed expires.
    pub async fn end(&self) {
        let Some(session) = self.session.lock().await.take() else { return };
        let mut beat = session.beat;
        // A renewal whose answer was lost has moved the beat on.
        for _ in 0..2 {
            match self.store.end_session(&self.id, beat).await {
                Ok(Ended::Lives(found)) => beat = found.beat,
                Ok(Ended::Yes) | Err(_) => return,
            }
        }
    }

    async fn renew_for_ever(&self) -> Lost {
        loop {
            self.env.sleep(self.timing.heartbeat_ms).await;
            let mut session = self.session.lock().await;
            if session.is_none() {
                continue;
            }
            let left_ms = self.trusted_until().since(self.env.now());
            let renewal = pin!(self.write(&mut session, |_| {}));
            match select(renewal, pin!(self.env.sleep(left_ms))).await {
                Either::Left((Ok(Ok(())) | Err(_), _)) => {}
                Either::Left((Ok(Err(lost)), _)) => return lost,
                Either::Right(((), _)) => return Lost,
            }
        }
    }

    /// Opens the session, or renews it, with its claims changed.
    async fn write(
        &self,
        kept: &mut Option<Session>,
        change: impl FnOnce(&mut Vec<BatchId>),
    ) -> Result<Result<(), Lost>, ports::Error> {
        let started = self.env.now();
        let Some(session) = &*kept else {
            let mut claims = Vec::new();
            change(&mut claims);
            let session = Session::open(self.id.clone(), self.worker.clone(), claims, started, self.timing);
            return Ok(match self.store.open_session(&session).await? {
                Stored::Yes => {
                    *kept = Some(session);
                    self.trust(started);
                    Ok(())
                }
                Stored::Conflict => Err(Lost),
            });
        };
        if started >= self.trusted_until() {
            return Ok(Err(Lost));
        }
        let mut claims = session.claims.clone();
        change(&mut claims);
        let next = session.renewed(claims, started, self.timing);
        Ok(match self.store.renew(&next).await? {
            Renewed::Kept => {
                *kept = Some(next);
                self.trust(started);
                Ok(())
            }
            Renewed::Lost => Err(Lost),
        })
    }

    fn trust(&self, started: Timestamp) {
        self.trusted_until.store(started.plus_ms(self.timing.trust_ms()).0, Ordering::Release);
    }
}

/// Ends a session if it is over; says until when it lives otherwise.
pub async fn lives_until<S: Sessions>(
    store: &S,
    env: &impl Env,
    id: &SessionId,
) -> Result<Option<Timestamp>, ports::Error> {
    let found = store.session(id).await?;
    match Holder::of(found.as_ref(), env.now()) {
        Holder::Gone => Ok(None),
        Holder::Lives(until) => Ok(Some(until)),
        Holder::Expired(beat) => Ok(match store.end_session(id, beat).await? {
            Ended::Yes => None,
            Ended::Lives(session) => Some(session.expires_at),
        }),
    }
}
