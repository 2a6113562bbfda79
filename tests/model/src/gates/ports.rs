//! The traits of batch-handler and of sweep, over a recorder. Time is that of the latest answer.

use groupage_core::domain::batch::{Assumes, Batch, Member};
use groupage_core::domain::gate::{Gate, LOOK_MS, Scope};
use groupage_core::domain::message::Handle;
use groupage_core::domain::shelf::{Bookmarks, Position, Shelf};
use groupage_core::domain::task::{Task, Ties};
use groupage_core::domain::{BatchId, Beat, Part, Pool, RouteName, Session, SessionId, TaskId, Timestamp};
use groupage_core::ports::{
    self, Call, Destination, Downstream, Ended, Entries, Entry, Env, Freshness, Inbox, Look, NoAnswer, Outbox,
    Outgoing, Renewed, Result, Scheduled, Segment, Settlement, Stored, Unasked, Unfinished, WaitingPage, layer,
};

use super::setting::{CALL_MS, RETRY_AFTER_MS, batch_id};
use crate::harness::act::{Answer, Plain};
use crate::harness::kept::{Kept, NAMES, fresh_name};
use crate::harness::recorder::Recorder;

/// The calls of one process.
pub type Ports = Recorder<Op, Told>;

/// An answer, and when it was given.
#[derive(Clone, Debug, Hash)]
pub struct Told {
    /// When, in milliseconds.
    pub at: u64,
    /// What.
    pub answer: Answer,
}

/// What a process asks for.
#[derive(Clone, Debug)]
pub enum Op {
    Gate(Scope),
    StoreGate(Scope, Kept<Gate>),
    /// `Gates::take_ticket`, of this flow.
    TakeTicket(Scope, u64),
    /// `Gates::give_back` of a lease, once a call has ended then.
    GiveBack(Scope, BatchId, Timestamp, Option<Timestamp>),
    Batch(BatchId),
    Store(Kept<Batch>, Assumes),
    /// `Batches::unfinished`, of the part that has all batches.
    Unfinished(Part, Timestamp),
    OpenSession(Kept<Session>),
    Renew(Kept<Session>),
    EndSession(SessionId, Beat),
    Session(SessionId),
    Sessions(Pool),
    Read(Vec<TaskId>),
    /// `Tasks::settle`, with the reason if it failed.
    Settle(TaskId, BatchId, Option<String>),
    /// `Outbox::send`: each with its delay in milliseconds.
    Send(Vec<(Kept<Handle>, u64)>),
    /// `Downstream::call` begins, under this key.
    Call(BatchId, Vec<TaskId>),
    /// `Env::sleep`, until then.
    Sleep(u64),
    /// A pause that nobody lives to see the end of: between heartbeats, or for a look that takes too long.
    Never,
}

/// What the downstream says.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Says {
    /// Every member is accepted.
    Accepted,
    /// Not before some time has passed.
    RetryAfter,
}

impl Op {
    /// Whether it changes what others see. A process that dies after a look dies as well before it.
    pub const fn writes(&self) -> bool {
        match self {
            Self::StoreGate(..)
            | Self::TakeTicket(..)
            | Self::GiveBack(..)
            | Self::Store(..)
            | Self::OpenSession(_)
            | Self::Renew(_)
            | Self::EndSession(..)
            | Self::Settle(..)
            | Self::Send(_)
            | Self::Call(..) => true,
            Self::Gate(_)
            | Self::Batch(_)
            | Self::Unfinished(..)
            | Self::Session(_)
            | Self::Sessions(_)
            | Self::Read(_)
            | Self::Sleep(_)
            | Self::Never => false,
        }
    }

    /// Whether it is about a gate: all others are of one batch alone.
    pub const fn is_of_a_gate(&self) -> bool {
        matches!(self, Self::Gate(_) | Self::StoreGate(..) | Self::TakeTicket(..) | Self::GiveBack(..))
    }
}

impl Ports {
    async fn told<P: Plain>(&self, op: Op) -> Result<P::Of> {
        self.ask(op).await.answer.plain::<P>()
    }
}

impl layer::Gates for Ports {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.told::<Kept<Gate>>(Op::Gate(scope.clone())).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, _: Timestamp) -> Result<Stored> {
        self.told::<Kept<Stored>>(Op::StoreGate(scope.clone(), Kept::new(gate.clone()))).await
    }

    async fn take_ticket(&self, scope: &Scope, flow: u64, _: u64) -> Result<Option<Gate>> {
        self.told::<Option<Kept<Gate>>>(Op::TakeTicket(scope.clone(), flow)).await
    }

    async fn give_back(
        &self,
        scope: &Scope,
        batch: &BatchId,
        lease: Timestamp,
        ended: Option<Timestamp>,
    ) -> Result<Stored> {
        self.told::<Kept<Stored>>(Op::GiveBack(scope.clone(), batch.clone(), lease, ended)).await
    }
}

impl layer::Batches for Ports {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.told::<Option<Kept<Batch>>>(Op::Batch(id.clone())).await
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        self.told::<Kept<Stored>>(Op::Store(Kept::new(batch.clone()), assumes)).await
    }

    async fn unfinished(&self, _: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>> {
        if look.part != Part::of(&batch_id(0)) {
            return Ok(entries(Vec::new()));
        }
        Ok(entries(self.told::<Kept<Vec<BatchId>>>(Op::Unfinished(look.part, look.before)).await?))
    }

    async fn all_unfinished(&self, segment: Segment, _: Option<&Position>, _: usize) -> Result<Entries<Unfinished>> {
        if segment.index > 0 {
            return Ok(entries(Vec::new()));
        }
        let (part, route) = (Part::of(&batch_id(0)), RouteName::new("r"));
        let due = self.told::<Kept<Vec<BatchId>>>(Op::Unfinished(part, Env::now(self))).await?;
        let listed = |id| Unfinished { id, due: Timestamp(0), route: route.clone(), is_pulled: false };
        Ok(entries(due.into_iter().map(listed).collect()))
    }
}

impl layer::Sessions for Ports {
    async fn open_session(&self, session: &Session) -> Result<Stored> {
        self.told::<Kept<Stored>>(Op::OpenSession(Kept::new(session.clone()))).await
    }

    async fn renew(&self, session: &Session) -> Result<Renewed> {
        self.told::<Kept<Renewed>>(Op::Renew(Kept::new(session.clone()))).await
    }

    async fn end_session(&self, id: &SessionId, beat: Beat) -> Result<Ended> {
        self.told::<Kept<Ended>>(Op::EndSession(id.clone(), beat)).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>> {
        self.told::<Option<Kept<Session>>>(Op::Session(id.clone())).await
    }

    async fn sessions(&self, pool: &Pool, _: Option<&Position>, _: usize) -> Result<Entries<Session>> {
        if !(0..NAMES).any(|n| SessionId::of_handler(&fresh_name(n)).pool() == *pool) {
            return Ok(entries(Vec::new()));
        }
        Ok(entries(self.told::<Kept<Vec<Session>>>(Op::Sessions(pool.clone())).await?))
    }

    async fn all_sessions(&self, segment: Segment, _: Option<&Position>, _: usize) -> Result<Entries<Session>> {
        match Pool::of_handlers().nth(usize::from(segment.index)) {
            Some(pool) => self.sessions(&pool, None, 0).await,
            None => Ok(entries(Vec::new())),
        }
    }
}

/// Nobody waits for a batch.
impl layer::Tasks for Ports {
    type Cursor = ();

    async fn read(&self, ids: &[TaskId], _: Freshness) -> Result<Vec<Task>> {
        self.told::<Vec<Kept<Task>>>(Op::Read(ids.to_vec())).await
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, _: Timestamp) -> Result<Ties> {
        let failed = match settlement {
            Settlement::Succeeded => None,
            Settlement::Failed(failure) => Some(failure.reason.to_string()),
            Settlement::Ended { ended, .. } => Some(ended.reason().to_string()),
        };
        self.told::<()>(Op::Settle(member.id.clone(), batch.clone(), failed)).await?;
        Ok(Ties::default())
    }

    async fn waiting_long(&self, _: Look<'_, Segment>) -> Result<WaitingPage> {
        Ok(WaitingPage { tasks: Vec::new(), ended: Vec::new(), next: None })
    }

    async fn due(&self, _: Look<'_>) -> Result<Entries<Scheduled>> {
        Ok(entries(Vec::new()))
    }
}

/// A sweep comes to the end of everything, and leaves no bookmark.
impl layer::Shelves for Ports {
    async fn is_empty(&self, _: &Shelf) -> Result<bool> {
        Ok(false)
    }

    async fn bookmarks(&self, _: &Shelf) -> Result<Bookmarks> {
        Ok(Bookmarks::default())
    }
}

impl layer::Failures for Ports {}
impl layer::Lanes for Ports {}
impl layer::Lists for Ports {}
impl layer::Locks for Ports {}
impl layer::Streams for Ports {}
impl layer::Trackers for Ports {}

fn entries<T>(all: Vec<T>) -> Entries<T> {
    let found = all.into_iter().map(|what| Entry { what, at: Position(String::new()) }).collect();
    Entries { found, are_last: true }
}

impl Outbox for Ports {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let count = messages.len();
        if count == 0 {
            return Vec::new();
        }
        let parse = |message: &Outgoing| {
            let handle = serde_json::from_str(&message.body).ok().filter(|_| message.to == Destination::Handle)?;
            Some((Kept::new(handle), message.delay_ms))
        };
        let sent: Option<Vec<_>> = messages.iter().map(parse).collect();
        let Some(sent) = sent else { return vec![Err(Unasked::was_asked("send"))] };
        self.ask(Op::Send(sent)).await;
        (0..count).map(|_| Ok(())).collect()
    }
}

impl Inbox for Ports {
    async fn postpone(&self, _: &Destination, receipts: Vec<String>, _: u64) -> Vec<Result<()>> {
        receipts.iter().map(|_| Ok(())).collect()
    }
}

impl Downstream for Ports {
    async fn call(&self, call: &Call<'_>) -> std::result::Result<ports::Answer, NoAnswer> {
        let body: serde_json::Value = serde_json::from_str(&call.body).unwrap_or_default();
        let items = body.get("items").and_then(|items| items.as_array());
        let id = |item: &serde_json::Value| item.get("id").and_then(|id| id.as_str()).map(TaskId::new);
        let items: Vec<TaskId> = items.into_iter().flatten().filter_map(id).collect();
        let says = self.told::<Kept<Says>>(Op::Call(call.batch.clone(), items)).await;
        self.sleep(CALL_MS).await;
        Ok(match says {
            Ok(Says::Accepted) => ports::Answer { status: 200, retry_after_ms: None, body: Vec::new() },
            _ => ports::Answer { status: 429, retry_after_ms: Some(RETRY_AFTER_MS), body: Vec::new() },
        })
    }
}

/// Shorter pauses than that between two looks at a full gate let others go first: between two I/Os anything may happen,
/// so they are over at once, in milliseconds. One that waits in place must not look again before time has gone on.
const LETS_OTHERS_GO_FIRST_MS: u64 = LOOK_MS;
/// Longer ones are heartbeats or the patience of sweep, in milliseconds.
const HEARTBEAT_MS: u64 = 10_000;

impl Env for Ports {
    fn now(&self) -> Timestamp {
        Timestamp(Self::now(self))
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        self.name.clone()
    }

    async fn sleep(&self, ms: u64) {
        if ms >= HEARTBEAT_MS {
            self.ask(Op::Never).await;
        } else if ms >= LETS_OTHERS_GO_FIRST_MS {
            self.ask(Op::Sleep(Self::now(self) + ms)).await;
        }
    }
}
