//! The traits of `Listing`, over a recorder.

use groupage_core::domain::id::{ListId, Part, Token};
use groupage_core::domain::list::{Addition, Life, List, Move, Put, Record, Slot, Tail};
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::{Cleared, Lists, Moved, Outbox, Outgoing, PutOn, Result, Stored};

use super::io::{Answer, Op};
use crate::kept::Kept;
use crate::recorder::Recorder;
use crate::unasked::{expected, named_time, no_trackers, unasked};

/// The calls of one process.
pub(super) type Ports = Recorder<Op, Answer>;

const fn stored(is_stored: bool) -> Stored {
    if is_stored { Stored::Yes } else { Stored::Conflict }
}

impl Lists for Ports {
    async fn list(&self, _: &ListId) -> Result<Option<List>> {
        Ok(expected!(List, self.ask(Op::List)).map(|list| (*list).clone()))
    }

    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        Ok((*expected!(Put, self.ask(Op::Put(Kept::new(put.clone()))))).clone())
    }

    async fn additions(&self, _: &Life, keys: &[String]) -> Result<Vec<Addition>> {
        Ok((*expected!(Additions, self.ask(Op::Additions(keys.to_vec())))).clone())
    }

    async fn move_head(&self, _: &Life, next: &Move) -> Result<Moved> {
        Ok((*expected!(Moved, self.ask(Op::Move(Kept::new(next.clone()))))).clone())
    }

    async fn record(&self, _: &Life, key: &str) -> Result<Option<Record>> {
        Ok(expected!(Record, self.ask(Op::Record(key.to_owned()))).map(|record| (*record).clone()))
    }

    async fn store_record(&self, _: &Life, record: &Record, _: Timestamp) -> Result<Stored> {
        Ok(stored(expected!(Stored, self.ask(Op::StoreRecord(Kept::new(record.clone()))))))
    }

    async fn slots(&self, _: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        if from >= to {
            return Ok(Vec::new());
        }
        Ok((*expected!(Slots, self.ask(Op::Slots(from, to, limit)))).clone())
    }

    async fn remove_slots(&self, _: &Life, tokens: &[Token]) -> Result<()> {
        self.ask(Op::RemoveSlots(tokens.to_vec())).await;
        Ok(())
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        Ok(stored(expected!(Stored, self.ask(Op::StoreTail(Kept::new(tail.clone()))))))
    }

    async fn due_lists(&self, _: Part, _: Timestamp, _: usize) -> Result<Vec<ListId>> {
        Err(unasked())
    }

    async fn clear_list(&self, _: &Life) -> Result<Cleared> {
        Err(unasked())
    }

    async fn remove_list(&self, _: &Tail) -> Result<Stored> {
        Err(unasked())
    }
}

no_trackers!(Ports);
named_time!(Ports);

impl Outbox for Ports {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for message in messages {
            self.ask(Op::Send(Kept::new(message.body))).await;
            answers.push(Ok(()));
        }
        answers
    }
}
