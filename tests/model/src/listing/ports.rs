//! The traits of `Listing`, over a recorder. Nobody waits: a pause after a lost race is over at once. No task here has an
//! item, so nobody asks for trackers.

use shared::domain::id::{ListId, Part, Token, TrackerId};
use shared::domain::list::{Addition, Life, List, Move, Put, Record, Slot, Tail};
use shared::domain::time::Timestamp;
use shared::domain::tracker::{self, Change, Node, NodeId, Tracker};
use shared::ports::{
    Added, Cleared, Env, Error, Freshness, Lists, Looked, Marked, Moved, Opened, Outbox, Outgoing, PutOn, Result,
    Stored, Trackers,
};

use super::io::{Answer, Op};
use crate::kept::Kept;
use crate::recorder::Recorder;

/// The calls of one process.
pub(super) type Ports = Recorder<Op, Answer>;

const fn unasked() -> Error {
    Error::Broken { what: "the model", why: String::new() }
}

/// The value in an answer of this kind.
macro_rules! expect {
    ($kind:ident, $ask:expr) => {
        match $ask.await {
            Answer::$kind(value) => value,
            _ => return Err(unasked()),
        }
    };
}

const fn stored(is_stored: bool) -> Stored {
    if is_stored { Stored::Yes } else { Stored::Conflict }
}

impl Lists for Ports {
    async fn list(&self, _: &ListId) -> Result<Option<List>> {
        Ok(expect!(List, self.ask(Op::List)).map(|list| (*list).clone()))
    }

    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        Ok((*expect!(Put, self.ask(Op::Put(Kept::new(put.clone()))))).clone())
    }

    async fn additions(&self, _: &Life, keys: &[String]) -> Result<Vec<Addition>> {
        Ok((*expect!(Additions, self.ask(Op::Additions(keys.to_vec())))).clone())
    }

    async fn move_head(&self, _: &Life, next: &Move) -> Result<Moved> {
        Ok((*expect!(Moved, self.ask(Op::Move(Kept::new(next.clone()))))).clone())
    }

    async fn record(&self, _: &Life, key: &str) -> Result<Option<Record>> {
        Ok(expect!(Record, self.ask(Op::Record(key.to_owned()))).map(|record| (*record).clone()))
    }

    async fn store_record(&self, _: &Life, record: &Record, _: Timestamp) -> Result<Stored> {
        Ok(stored(expect!(Stored, self.ask(Op::StoreRecord(Kept::new(record.clone()))))))
    }

    async fn slots(&self, _: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        if from >= to {
            return Ok(Vec::new());
        }
        Ok((*expect!(Slots, self.ask(Op::Slots(from, to, limit)))).clone())
    }

    async fn remove_slots(&self, _: &Life, tokens: &[Token]) -> Result<()> {
        self.ask(Op::RemoveSlots(tokens.to_vec())).await;
        Ok(())
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        Ok(stored(expect!(Stored, self.ask(Op::StoreTail(Kept::new(tail.clone()))))))
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

impl Trackers for Ports {
    async fn open_tracker(&self, _: &Tracker) -> Result<Opened> {
        Err(unasked())
    }

    async fn look(&self, _: &TrackerId, _: &[NodeId], _: Freshness) -> Result<Looked> {
        Err(unasked())
    }

    async fn store_tracker(&self, _: &Tracker) -> Result<Stored> {
        Err(unasked())
    }

    async fn add(&self, _: &Tracker, _: &tracker::Addition) -> Result<Added> {
        Err(unasked())
    }

    async fn addition(&self, _: &TrackerId, _: &str) -> Result<Option<tracker::Addition>> {
        Err(unasked())
    }

    async fn mark(&self, _: &TrackerId, _: &Change) -> Result<Marked> {
        Err(unasked())
    }

    async fn nodes(&self, _: &TrackerId, _: NodeId, _: usize, _: Freshness) -> Result<Vec<Node>> {
        Err(unasked())
    }

    async fn due_trackers(&self, _: Part, _: Timestamp, _: usize) -> Result<Vec<TrackerId>> {
        Err(unasked())
    }

    async fn clear(&self, _: &Tracker) -> Result<Cleared> {
        Err(unasked())
    }

    async fn remove_tracker(&self, _: &Tracker) -> Result<Stored> {
        Err(unasked())
    }
}

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

/// The name is the process's time.
impl Env for Ports {
    fn now(&self) -> Timestamp {
        Timestamp(self.name.parse().unwrap_or_default())
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        String::new()
    }

    async fn sleep(&self, _: u64) {}
}
