//! Ports through which a process can be stopped, delayed or cheated at every call.
//!
//! Every method goes through [`Process::around`], so a call that is added to a step is covered by itself.

use groupage_core::domain::batch::{Assumes, Batch, Member};
use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::id::{
    BatchId, Beat, ListId, Part, Pool, Round, RouteName, Seq, SessionId, Target, TaskId, Token, TrackerId,
};
use groupage_core::domain::list::{self, Life, List, Move, Put, Record, Slot, Tail};
use groupage_core::domain::lock::{Acquisition, Held, Lock, Term};
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::session::Session;
use groupage_core::domain::task::{Candidate, Task, Ties};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use groupage_core::ports::{
    Acquired, Added, Advanced, Answer, Batches, Call, Cleared, Destination, Downstream, Ended, Freshness, Gates, Inbox,
    Joined, Lists, Locks, Looked, Marked, Moved, NoAnswer, Opened, Outbox, Outgoing, Page, PassedOver, PutBack, PutOn,
    Registered, Released, Renewed, Result, Segment, Sessions, Settlement, Signalled, Stored, Tasks, Trackers,
    WaitingPage, postpone_one,
};

use crate::process::Process;

/// A port as one process sees it.
#[derive(Debug)]
pub struct Faulty<'a, P> {
    pub(crate) inner: &'a P,
    pub(crate) process: &'a Process,
}

impl<'a, P> Faulty<'a, P> {
    /// `inner`, as `process` sees it.
    pub const fn new(inner: &'a P, process: &'a Process) -> Self {
        Self { inner, process }
    }
}

impl<S: Tasks<Cursor: std::fmt::Debug>> Tasks for Faulty<'_, S> {
    type Cursor = S::Cursor;

    async fn register(&self, task: &Task) -> Result<Registered> {
        self.process.around("register", self.inner.register(task)).await
    }

    async fn try_register(&self, task: &Task) -> Result<Registered> {
        self.process.around("try_register", self.inner.try_register(task)).await
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        self.process.around("read", self.inner.read(ids, freshness)).await
    }

    async fn waiting(&self, target: &Target, after: Option<&S::Cursor>, limit: usize) -> Result<Page<S::Cursor>> {
        self.process.around("waiting", self.inner.waiting(target, after, limit)).await
    }

    async fn waiting_long(
        &self,
        since: Timestamp,
        segment: Segment,
        after: Option<&S::Cursor>,
        limit: usize,
    ) -> Result<WaitingPage<S::Cursor>> {
        self.process.around("waiting_long", self.inner.waiting_long(since, segment, after, limit)).await
    }

    async fn join(&self, id: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        self.process.around("join", self.inner.join(id, round, batch)).await
    }

    async fn take_turn(&self, task: &TaskId, target: &Target, now: Timestamp) -> Result<PutBack> {
        self.process.around("take_turn", self.inner.take_turn(task, target, now)).await
    }

    async fn pass_over(&self, task: &TaskId, reason: &Reason, now: Timestamp) -> Result<Option<PassedOver>> {
        self.process.around("pass_over", self.inner.pass_over(task, reason, now)).await
    }

    async fn put_back(
        &self,
        member: &Candidate,
        batch: &BatchId,
        target: &Target,
        attempts: u32,
        now: Timestamp,
    ) -> Result<PutBack> {
        self.process.around("put_back", self.inner.put_back(member, batch, target, attempts, now)).await
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, now: Timestamp) -> Result<Ties> {
        self.process.around("settle", self.inner.settle(member, batch, settlement, now)).await
    }
}

impl<S: Locks> Locks for Faulty<'_, S> {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.process.around("lock", self.inner.lock(target)).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        self.process.around("acquire", self.inner.acquire(target, acquisition)).await
    }

    async fn signal(&self, target: &Target, held: &Held) -> Result<Signalled> {
        self.process.around("signal", self.inner.signal(target, held)).await
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        self.process.around("advance", self.inner.advance(term, seq, lease_until)).await
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, now: Timestamp) -> Result<Released> {
        self.process.around("release", self.inner.release(term, seq, signals, now)).await
    }
}

impl<S: Batches> Batches for Faulty<'_, S> {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.process.around("batch", self.inner.batch(id)).await
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        self.process.around("store", self.inner.store(batch, assumes)).await
    }

    async fn unfinished(&self, route: &RouteName, part: Part, before: Timestamp, limit: usize) -> Result<Vec<BatchId>> {
        self.process.around("unfinished", self.inner.unfinished(route, part, before, limit)).await
    }
}

impl<S: Sessions> Sessions for Faulty<'_, S> {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        self.process.around("open_session", self.inner.open_session(session)).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        self.process.around("renew", self.inner.renew(session)).await
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        self.process.around("end_session", self.inner.end_session(id, beat)).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        self.process.around("session", self.inner.session(id)).await
    }

    async fn sessions(&self, pool: &Pool, limit: usize) -> Result<Vec<Session>> {
        self.process.around("sessions", self.inner.sessions(pool, limit)).await
    }
}

impl<S: Gates> Gates for Faulty<'_, S> {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.process.around("gate", self.inner.gate(scope)).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, now: Timestamp) -> Result<Stored> {
        self.process.around("store_gate", self.inner.store_gate(scope, gate, now)).await
    }
}

impl<S: Trackers> Trackers for Faulty<'_, S> {
    async fn open_tracker(&self, tracker: &Tracker) -> Result<Opened> {
        self.process.around("open_tracker", self.inner.open_tracker(tracker)).await
    }

    async fn look(&self, id: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        self.process.around("look", self.inner.look(id, nodes, freshness)).await
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        self.process.around("store_tracker", self.inner.store_tracker(tracker)).await
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        self.process.around("add", self.inner.add(grown, addition)).await
    }

    async fn addition(&self, id: &TrackerId, key: &str) -> Result<Option<Addition>> {
        self.process.around("addition", self.inner.addition(id, key)).await
    }

    async fn mark(&self, id: &TrackerId, change: &Change) -> Result<Marked> {
        self.process.around("mark", self.inner.mark(id, change)).await
    }

    async fn nodes(&self, id: &TrackerId, from: NodeId, limit: usize, freshness: Freshness) -> Result<Vec<Node>> {
        self.process.around("nodes", self.inner.nodes(id, from, limit, freshness)).await
    }

    async fn due_trackers(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<TrackerId>> {
        self.process.around("due_trackers", self.inner.due_trackers(part, before, limit)).await
    }

    async fn clear(&self, tracker: &Tracker) -> Result<Cleared> {
        self.process.around("clear", self.inner.clear(tracker)).await
    }

    async fn remove_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        self.process.around("remove_tracker", self.inner.remove_tracker(tracker)).await
    }
}

impl<S: Lists> Lists for Faulty<'_, S> {
    async fn list(&self, id: &ListId) -> Result<Option<List>> {
        self.process.around("list", self.inner.list(id)).await
    }

    async fn put_on_list(&self, put: &Put) -> Result<PutOn> {
        self.process.around("put_on_list", self.inner.put_on_list(put)).await
    }

    async fn additions(&self, life: &Life, keys: &[String]) -> Result<Vec<list::Addition>> {
        self.process.around("additions", self.inner.additions(life, keys)).await
    }

    async fn move_head(&self, life: &Life, next: &Move) -> Result<Moved> {
        self.process.around("move_head", self.inner.move_head(life, next)).await
    }

    async fn record(&self, life: &Life, key: &str) -> Result<Option<Record>> {
        self.process.around("record", self.inner.record(life, key)).await
    }

    async fn store_record(&self, life: &Life, record: &Record, now: Timestamp) -> Result<Stored> {
        self.process.around("store_record", self.inner.store_record(life, record, now)).await
    }

    async fn slots(&self, life: &Life, from: Token, to: Token, limit: usize) -> Result<Vec<Slot>> {
        self.process.around("slots", self.inner.slots(life, from, to, limit)).await
    }

    async fn remove_slots(&self, life: &Life, tokens: &[Token]) -> Result<()> {
        self.process.around("remove_slots", self.inner.remove_slots(life, tokens)).await
    }

    async fn store_tail(&self, tail: &Tail) -> Result<Stored> {
        self.process.around("store_tail", self.inner.store_tail(tail)).await
    }

    async fn due_lists(&self, part: Part, before: Timestamp, limit: usize) -> Result<Vec<ListId>> {
        self.process.around("due_lists", self.inner.due_lists(part, before, limit)).await
    }

    async fn clear_list(&self, life: &Life) -> Result<Cleared> {
        self.process.around("clear_list", self.inner.clear_list(life)).await
    }

    async fn remove_list(&self, tail: &Tail) -> Result<Stored> {
        self.process.around("remove_list", self.inner.remove_list(tail)).await
    }
}

impl<Q: Outbox> Outbox for Faulty<'_, Q> {
    /// A message of several can be sent while another is not.
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for message in messages {
            let send = async { self.inner.send(vec![message]).await.into_iter().collect() };
            answers.push(self.process.around("send", send).await);
        }
        answers
    }
}

impl<Q: Inbox> Inbox for Faulty<'_, Q> {
    /// One of several can be postponed while another is not.
    async fn postpone(&self, from: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for receipt in receipts {
            let postpone = postpone_one(self.inner, from, &receipt, delay_ms);
            answers.push(self.process.around("postpone", postpone).await);
        }
        answers
    }
}

impl<D: Downstream> Downstream for Faulty<'_, D> {
    async fn call(&self, call: &Call<'_>) -> std::result::Result<Answer, NoAnswer> {
        let answer = async { Ok(self.inner.call(call).await) };
        self.process.around("call", answer).await.unwrap_or(Err(NoAnswer::Connection))
    }
}
