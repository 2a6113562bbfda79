//! The traits of the real steps, over a [`Recorder`]. Time is that of the latest answer.

use groupage_core::domain::batch::Assumes;
use groupage_core::domain::gate::{LOOK_MS, Scope};
use groupage_core::domain::lock::Acquisition;
use groupage_core::domain::shelf::{Bookmarks, Position};
use groupage_core::domain::task::Ties;
use groupage_core::ports::{
    self, Acquired, Advanced, Call, Downstream, Ended, Entries, Entry, Env, Inbox, Joined, Look, NoAnswer, Outbox,
    Page, Registered, Released, Renewed, Result, Scheduled, Segment, Unasked, Unfinished, WaitingPage, WayBack,
};

use super::io::{Body, Op, Ports, Says, Sent};
use super::process::number;
use crate::harness::act::Plain;
use crate::prelude::*;

/// The time that a call takes, in milliseconds.
pub const CALL_MS: u64 = 500;
/// The pause that a downstream asks for, in milliseconds.
pub const RETRY_AFTER_MS: u64 = 5_000;

impl Ports {
    /// What a step is told when it asks.
    async fn told<P: Plain>(&self, op: Op) -> Result<P::Of> {
        self.ask(op).await.answer.plain::<P>()
    }
}

impl layer::Tasks for Ports {
    type Cursor = ();

    async fn register(&self, task: &Task) -> Result<Registered> {
        self.told::<Kept<Registered>>(Op::Register(task.clone())).await
    }

    async fn read(&self, ids: &[TaskId], freshness: Freshness) -> Result<Vec<Task>> {
        self.told::<Vec<Kept<Task>>>(Op::Read(ids.to_vec(), freshness)).await
    }

    async fn waiting(&self, target: &Target, _: Option<&()>, _: usize) -> Result<Page<()>> {
        let candidates = self.told::<Kept<Vec<Candidate>>>(Op::Waiting(target.clone())).await?;
        Ok(Page { candidates, next: None })
    }

    async fn join(&self, task: &TaskId, round: Round, batch: &BatchId) -> Result<Joined> {
        self.told::<Kept<Joined>>(Op::Join(task.clone(), round, batch.clone())).await
    }

    async fn put_back(&self, back: WayBack<'_>) -> Result<PutBack> {
        let WayBack { member, batch, target, attempts, is_unsure: _, at: _ } = back;
        let op = Op::PutBack(member.clone(), batch.clone(), target.clone(), attempts);
        self.told::<Kept<PutBack>>(op).await
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, _: Timestamp) -> Result<Ties> {
        self.told::<()>(Op::Settle(member.clone(), batch.clone(), settlement.clone())).await?;
        Ok(Ties::default())
    }

    async fn waiting_long(&self, _: Look<'_, Segment>) -> Result<WaitingPage> {
        Ok(WaitingPage { tasks: Vec::new(), ended: Vec::new(), next: None })
    }

    async fn due(&self, _: Look<'_>) -> Result<Entries<Scheduled>> {
        Ok(entries(Vec::new()))
    }
}

impl layer::Locks for Ports {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.told::<Option<Kept<Lock>>>(Op::Lock(target.clone())).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        self.told::<Kept<Acquired>>(Op::Acquire(target.clone(), acquisition.clone())).await
    }

    async fn signal(&self, term: &Term) -> Result<Signalled> {
        self.told::<Kept<Signalled>>(Op::Signal(term.clone())).await
    }

    async fn advance(&self, term: &Term, seq: Seq, lease_until: Timestamp) -> Result<Advanced> {
        self.told::<Kept<Advanced>>(Op::Advance(term.clone(), seq, lease_until)).await
    }

    async fn release(&self, term: &Term, seq: Seq, signals: u64, _: Timestamp) -> Result<Released> {
        self.told::<Kept<Released>>(Op::Release(term.clone(), seq, signals)).await
    }
}

impl layer::Batches for Ports {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.told::<Option<Kept<Batch>>>(Op::Batch(id.clone())).await
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        self.told::<Kept<Stored>>(Op::Store(Kept::new(batch.clone()), assumes)).await
    }

    async fn all_unfinished(&self, segment: Segment, _: Option<&Position>, _: usize) -> Result<Entries<Unfinished>> {
        if segment.index > 0 {
            return Ok(entries(Vec::new()));
        }
        let due = self.told::<Kept<Vec<BatchId>>>(Op::Unfinished(Env::now(self))).await?;
        let listed = |id| Unfinished { id, due: Timestamp(0), route: RouteName::new("r"), is_pulled: false };
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

    async fn all_sessions(&self, segment: Segment, _: Option<&Position>, _: usize) -> Result<Entries<Session>> {
        match Pool::of_handlers().nth(usize::from(segment.index)) {
            Some(pool) => Ok(entries(self.told::<Kept<Vec<Session>>>(Op::Sessions(pool)).await?)),
            None => Ok(entries(Vec::new())),
        }
    }
}

impl layer::Gates for Ports {
    async fn gate(&self, scope: &Scope) -> Result<Gate> {
        self.told::<Kept<Gate>>(Op::Gate(scope.clone())).await
    }

    async fn store_gate(&self, scope: &Scope, gate: &Gate, _: Timestamp) -> Result<Stored> {
        self.told::<Kept<Stored>>(Op::StoreGate(scope.clone(), Kept::new(gate.clone()))).await
    }

    async fn take_ticket(&self, scope: &Scope, flow: u64, behind: u64) -> Result<Option<Gate>> {
        self.told::<Option<Kept<Gate>>>(Op::TakeTicket(scope.clone(), flow, behind)).await
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

/// A sweep comes to the end of everything, and leaves no bookmark.
impl layer::Shelves for Ports {
    async fn is_empty(&self, _: &Shelf) -> Result<bool> {
        Ok(false)
    }

    async fn bookmarks(&self, _: &Shelf) -> Result<Bookmarks> {
        Ok(Bookmarks::default())
    }
}

groupage_core::hand_on!(Ports: Failures, Lanes, Lists, Streams, Trackers);

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
        let sent: Option<Vec<Sent>> = messages.iter().map(parse).collect();
        let Some(sent) = sent else { return vec![Err(Unasked::was_asked("send"))] };
        self.ask(Op::Send(sent)).await;
        (0..count).map(|_| Ok(())).collect()
    }
}

fn parse(outgoing: &Outgoing) -> Option<Sent> {
    let body = match outgoing.to {
        Destination::Elect => Body::Elect(serde_json::from_str(&outgoing.body).ok()?),
        Destination::Group => Body::Group(serde_json::from_str(&outgoing.body).ok()?),
        Destination::Handle | Destination::LongHandle => Body::Handle(serde_json::from_str(&outgoing.body).ok()?),
        Destination::Gather(_) => {
            let rest = Rest::parse(&outgoing.body)?;
            Body::Rest(rest.tasks().map(number).collect::<Option<_>>()?, rest.stage())
        }
        Destination::Tasks | Destination::InOrder(_) | Destination::Rejected | Destination::Notification(_) => {
            return None;
        }
    };
    Some(Sent { body: Kept::new(body), delay_ms: outgoing.delay_ms })
}

impl Inbox for Ports {
    async fn postpone(&self, _: &Destination, receipts: Vec<String>, _: u64) -> Vec<Result<()>> {
        receipts.iter().map(|_| Ok(())).collect()
    }
}

impl Downstream for Ports {
    async fn call(&self, call: &Call<'_>) -> std::result::Result<ports::Answer, NoAnswer> {
        let body: serde_json::Value = serde_json::from_str(&call.body).unwrap_or_default();
        let id = |item: &serde_json::Value| item.get("id").and_then(|id| id.as_str()).map(TaskId::new);
        let items: Vec<TaskId> =
            body.get("items").and_then(|items| items.as_array()).into_iter().flatten().filter_map(id).collect();
        let first = items.first().cloned();
        let says = self.told::<Kept<Says>>(Op::Call(call.batch.clone(), items)).await.unwrap_or(Says::Unavailable);
        let body = match (says, first) {
            (Says::FirstFailed, Some(first)) => {
                format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{first}"}}]}}"#).into_bytes()
            }
            _ => Vec::new(),
        };
        self.sleep(CALL_MS).await;
        let status = match says {
            Says::Accepted | Says::FirstFailed => 200,
            Says::RetryAfter => 429,
            Says::Unavailable => 503,
        };
        let retry_after_ms = (says == Says::RetryAfter).then_some(RETRY_AFTER_MS);
        Ok(ports::Answer { status, retry_after_ms, body, ..ports::Answer::default() })
    }
}

/// Pauses of so long are heartbeats or the patience of sweep, in milliseconds.
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

    /// Shorter pauses than that between two looks at a full gate let others go first: between two I/Os anything may
    /// happen, so they are over at once. One that waits in place must not look again before time has gone on.
    async fn sleep(&self, ms: u64) {
        if ms >= HEARTBEAT_MS {
            self.ask(Op::Pause).await;
        } else if ms >= LOOK_MS {
            self.ask(Op::Sleep(Self::now(self) + ms)).await;
        }
    }
}
