//! The traits of `Listing`, over a recorder: what a call asks of the tables, and what it does to them.

use groupage_core::domain::list::{Addition, Life, Move, Put, Record, Slot, Tail};
use groupage_core::ports::{Moved, PutOn, Result};

use super::setting::Setting;
use crate::prelude::*;

impl layer::Lists for Ports<Setting> {
    async fn list(&self, _: &ListId) -> Result<Option<List>> {
        self.read("list", (), |act, ()| act.list.clone()).await
    }

    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        self.write("put", put.clone(), |act, put| act.put(put)).await
    }

    async fn additions(&self, _: &Life, keys: &[String]) -> Result<Vec<Addition>> {
        self.read("additions", keys.to_vec(), |act, keys| {
            keys.iter().filter_map(|key| act.additions.get(key).cloned()).collect::<Vec<_>>()
        })
        .await
    }

    async fn move_head(&self, _: &Life, next: &Move) -> Result<Moved> {
        self.write("move", next.clone(), |act, next| act.move_head(next)).await
    }

    async fn record(&self, _: &Life, key: &str) -> Result<Option<Record>> {
        self.read("record", key.to_owned(), |act, key| act.record(key)).await
    }

    async fn store_record(&self, _: &Life, record: &Record, _: Timestamp) -> Result<Stored> {
        self.write("store_record", Kept::new(record.clone()), |act, record| {
            let before = act.records.get(&record.key);
            if before.is_some_and(|before| before.done >= record.done && before != record) {
                return Stored::Conflict;
            }
            act.records.insert(record.key.clone(), record.clone());
            Stored::Yes
        })
        .await
    }

    async fn slots(&self, _: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        if from >= to {
            return Ok(Vec::new());
        }
        self.read_old(
            "slots",
            (from, to, limit),
            |world, (_, to, _), left, _| {
                let may_lag = left.lags > 0 && world.slots.range(world.unseen..to.0.max(world.unseen)).next().is_some();
                if may_lag { vec![false, true] } else { vec![false] }
            },
            |act, (from, to, limit)| act.slots(*from, *to, *limit),
        )
        .await
    }

    async fn remove_slots(&self, _: &Life, tokens: &[Token]) -> Result<()> {
        self.write("remove", tokens.to_vec(), |act, tokens| {
            tokens.iter().for_each(|token| drop(act.slots.remove(&token.0)));
        })
        .await
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        self.write("store_tail", tail.clone(), |act, tail| act.store_tail(tail)).await
    }
}

impl layer::Trackers for Ports<Setting> {}
