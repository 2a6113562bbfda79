//! Lists whose tasks are seen after their tail: DynamoDB shows a transaction's writes one by one to reads that are none.

use std::sync::PoisonError;

use shared::domain::id::{ListId, Part, Token};
use shared::domain::list::{Addition, Life, List, Move, Put, Record, Slot, Tail};
use shared::domain::time::Timestamp;
use shared::ports::{Cleared, Env, Lists, Moved, PutOn, Result, Stored};

use super::Lagging;

impl<S: Lists, E: Env> Lists for Lagging<S, E> {
    async fn list(&self, id: &ListId) -> Result<Option<List>> {
        self.inner.list(id).await
    }

    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        let answer = self.inner.put_on_list(put).await?;
        if answer == PutOn::Yes && self.lag.slots_ms > 0 {
            let shown: Vec<_> = put.slots.iter().map(|slot| (slot.token, self.visible_at(self.lag.slots_ms))).collect();
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.extend(shown.into_iter().map(|(token, at)| ((put.tail.life.clone(), token), at)));
        }
        Ok(answer)
    }

    async fn additions(&self, life: &Life, keys: &[String]) -> Result<Vec<Addition>> {
        self.inner.additions(life, keys).await
    }

    async fn move_head(&self, life: &Life, next: &Move) -> Result<Moved> {
        self.inner.move_head(life, next).await
    }

    async fn record(&self, life: &Life, key: &str) -> Result<Option<Record>> {
        self.inner.record(life, key).await
    }

    async fn store_record(&self, life: &Life, record: &Record, now: Timestamp) -> Result<Stored> {
        self.inner.store_record(life, record, now).await
    }

    async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        let mut found = self.inner.slots(life, from, to, limit).await?;
        let (now, shown) = (self.clock.now(), self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        found.retain(|slot| shown.get(&(life.clone(), slot.token)).is_none_or(|at| *at <= now));
        Ok(found)
    }

    async fn remove_slots(&self, life: &Life, tokens: &[Token]) -> Result<()> {
        self.inner.remove_slots(life, tokens).await
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        self.inner.store_tail(tail).await
    }

    async fn due_lists(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<ListId>> {
        self.inner.due_lists(part, before, limit).await
    }

    async fn clear_list(&self, life: &Life) -> Result<Cleared> {
        self.inner.clear_list(life).await
    }

    async fn remove_list(&self, tail: &Tail) -> Result<Stored> {
        self.inner.remove_list(tail).await
    }
}
