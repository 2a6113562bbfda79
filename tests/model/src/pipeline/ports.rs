//! The traits of the real steps, over a [`Recorder`].

use groupage_core::domain::batch::{Assumes, Batch, Member};
use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::lock::{Acquisition, Held, Lock, Term};
use groupage_core::domain::task::{Candidate, Task, Ties};
use groupage_core::domain::{BatchId, Beat, Rest, Round, Seq, Session, SessionId, Target, TaskId, Timestamp};
use groupage_core::ports::layer;
use groupage_core::ports::{
    self, Acquired, Advanced, Call, Destination, Downstream, Ended, Env, Freshness, Inbox, Joined, NoAnswer, Outbox,
    Outgoing, Page, PutBack, Registered, Released, Renewed, Result, Settlement, Signalled, Stored, Unasked, WayBack,
};

use crate::harness::act::Plain;
use crate::harness::kept::Kept;
use crate::pipeline::io::{Body, Op, Ports, Says, Sent};
use crate::pipeline::process::number;

impl Ports {
    /// What a step is told when it asks.
    async fn told<P: Plain>(&self, op: Op) -> Result<P::Of> {
        self.ask(op).await.plain::<P>()
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
        let WayBack { member, batch, target, attempts, at: _ } = back;
        let op = Op::PutBack(member.clone(), batch.clone(), target.clone(), attempts);
        self.told::<Kept<PutBack>>(op).await
    }

    async fn settle(&self, member: &Member, batch: &BatchId, settlement: &Settlement, _: Timestamp) -> Result<Ties> {
        self.told::<()>(Op::Settle(member.clone(), batch.clone(), settlement.clone())).await?;
        Ok(Ties::default())
    }
}

impl layer::Locks for Ports {
    async fn lock(&self, target: &Target) -> Result<Option<Lock>> {
        self.told::<Option<Kept<Lock>>>(Op::Lock(target.clone())).await
    }

    async fn acquire(&self, target: &Target, acquisition: &Acquisition) -> Result<Acquired> {
        self.told::<Kept<Acquired>>(Op::Acquire(target.clone(), acquisition.clone())).await
    }

    async fn signal(&self, target: &Target, held: &Held) -> Result<Signalled> {
        self.told::<Kept<Signalled>>(Op::Signal(target.clone(), held.clone())).await
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
}

impl layer::Gates for Ports {
    async fn gate(&self, _: &Scope) -> Result<Gate> {
        Ok(Gate::default())
    }

    async fn store_gate(&self, _: &Scope, _: &Gate, _: Timestamp) -> Result<Stored> {
        Ok(Stored::Yes)
    }
}

impl layer::Failures for Ports {}
impl layer::Lanes for Ports {}
impl layer::Lists for Ports {}
impl layer::Streams for Ports {}
impl layer::Shelves for Ports {}
impl layer::Trackers for Ports {}

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

/// Heartbeats come no faster, in milliseconds.
const SHORTEST_BEAT_MS: u64 = 1_000;

/// Counters that only stretch a delay are cut off, so that a message which goes round does so unchanged.
fn parse(outgoing: &Outgoing) -> Option<Sent> {
    use groupage_core::domain::Copies;
    use groupage_core::domain::message::{Elect, Finish, Group, Lead};
    let body = match outgoing.to {
        Destination::Elect => {
            let mut elect = serde_json::from_str(&outgoing.body).ok()?;
            let elections = match &mut elect {
                Elect::Waiting(election) => std::slice::from_mut(election),
                Elect::Several(elections) => elections,
                Elect::Returning(_) | Elect::Due(_) => &mut [],
            };
            for election in elections {
                election.attempt = election.attempt.min(1);
                election.copies = Copies::NONE;
            }
            Body::Elect(elect)
        }
        Destination::Group => {
            let mut group = serde_json::from_str(&outgoing.body).ok()?;
            let (Group::Lead(Lead { copies, .. }) | Group::Finish(Finish { copies, .. })) = &mut group;
            *copies = Copies::NONE;
            Body::Group(group)
        }
        Destination::Handle => {
            let mut handle: groupage_core::domain::message::Handle = serde_json::from_str(&outgoing.body).ok()?;
            handle.waits = handle.waits.min(1);
            handle.copies = Copies::NONE;
            Body::Handle(handle)
        }
        Destination::Gather(_) => {
            let rest = Rest::parse(&outgoing.body)?;
            Body::Rest(rest.tasks().map(number).collect::<Option<_>>()?, rest.stage())
        }
        Destination::Tasks | Destination::InOrder(_) | Destination::Rejected | Destination::Notification(_) => {
            return None;
        }
    };
    Some(Sent { body: Kept::new(body), delayed: outgoing.delay_ms > 0 })
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
        let status = if says == Says::Unavailable { 503 } else { 200 };
        Ok(ports::Answer { status, retry_after_ms: None, body })
    }
}

impl Env for Ports {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        self.name.clone()
    }

    /// Between two I/Os anything may happen, so a short pause is over at once. A heartbeat's is not: it is as long as a
    /// lease may take to be over.
    async fn sleep(&self, ms: u64) {
        if ms >= SHORTEST_BEAT_MS {
            self.ask(Op::Sleep).await;
        }
    }
}
