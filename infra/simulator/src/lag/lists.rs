//! Lists whose tasks are seen after their tail: DynamoDB shows a transaction's writes one by one to reads that are
//! none.

use std::sync::PoisonError;

use groupage_core::domain::id::Token;
use groupage_core::domain::list::{Life, Put, Slot};
use groupage_core::ports::{Env, Lists, PutOn, Result, layer};

use super::Lagging;

impl<S: Lists, E: Env> layer::Lists for Lagging<S, E> {
    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        let answer = self.inner.put_on_list(put).await?;
        if answer == PutOn::Yes && self.lag.slots_ms > 0 {
            let shown: Vec<_> = put.slots.iter().map(|slot| (slot.token, self.visible_at(self.lag.slots_ms))).collect();
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.extend(shown.into_iter().map(|(token, at)| ((put.tail.life.clone(), token), at)));
        }
        Ok(answer)
    }

    async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        let mut found = self.inner.slots(life, from, to, limit).await?;
        let (now, shown) = (self.clock.now(), self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        found.retain(|slot| shown.get(&(life.clone(), slot.token)).is_none_or(|at| *at <= now));
        Ok(found)
    }
}
