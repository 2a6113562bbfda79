//! Locks and gates, which share a table, with their prices.

use groupage_aws::Place;
use groupage_aws::price::Image;
use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::lock::{Acquisition, Lock, Term};
use groupage_core::domain::{BatchId, Seq, Target, Timestamp};
use groupage_core::ports::{Acquired, Advanced, Gates, Locks, Released, Result, Signalled, Stored};

use super::Store;
use crate::keys::Keys;

impl Store {
    async fn lock_image(&self, target: &Target) -> Result<Option<Image>> {
        Ok(self.memory().lock(target).await?.map(|lock| Image::lock(target, &lock, self.now())))
    }

    /// Makes a write of one lock and counts it.
    async fn lock_write<T>(
        &self,
        target: &Target,
        write: impl Future<Output = Result<T>>,
        did: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        self.write(keys(target.as_str()), || self.lock_image(target), write, did).await
    }

    async fn gate_image(&self, scope: &Scope) -> Result<Option<Image>> {
        let gate = self.memory().gate(scope).await?;
        (gate != Gate::default()).then(|| Image::gate(scope, &gate, self.now())).transpose()
    }
}

const fn keys(item: &str) -> Keys<'_> {
    Keys::of(Place::Locks, item, None)
}

impl Locks for Store {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.look(keys(target.as_str()), self.lock_image(target), self.inner.lock(target)).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        let write = self.inner.acquire(target, acquisition);
        self.lock_write(target, write, |acquired| *acquired == Acquired::Yes).await
    }

    async fn signal(&self, term: &Term) -> Result<Signalled> {
        let write = self.inner.signal(term);
        self.lock_write(&term.target, write, |signalled| *signalled == Signalled::Yes).await
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        let write = self.inner.advance(term, seq, lease_until);
        self.lock_write(&term.target, write, |advanced| matches!(advanced, Advanced::Kept(_))).await
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released> {
        let write = self.inner.release(term, seq, signals, now);
        self.lock_write(&term.target, write, |released| *released == Released::Yes).await
    }
}

impl Gates for Store {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.tables.count_gate(|requests| requests.reads += 1);
        self.look(keys(&scope.key()), self.gate_image(scope), self.inner.gate(scope)).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        self.tables.count_gate(|requests| requests.writes += 1);
        let write = self.inner.store_gate(scope, gate, now);
        let did = |stored: &Stored| *stored == Stored::Yes;
        self.write(keys(&scope.key()), || self.gate_image(scope), write, did).await
    }

    async fn take_ticket(&self, scope: &Scope, flow: u64, behind: u64) -> Result<Option<Gate>> {
        self.tables.count_gate(|requests| requests.writes += 1);
        let write = self.inner.take_ticket(scope, flow, behind);
        self.write(keys(&scope.key()), || self.gate_image(scope), write, Option::is_some).await
    }

    async fn give_back(
        &self,
        scope: &Scope,
        batch: &BatchId,
        lease: Timestamp,
        ended: Option<Timestamp>,
    ) -> Result<Stored> {
        self.tables.count_gate(|requests| requests.writes += 1);
        let write = self.inner.give_back(scope, batch, lease, ended);
        let did = |stored: &Stored| *stored == Stored::Yes;
        self.write(keys(&scope.key()), || self.gate_image(scope), write, did).await
    }
}
