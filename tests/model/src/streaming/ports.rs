//! The traits of `Streaming`, over a recorder.

use groupage_core::domain::batch::Member;
use groupage_core::domain::id::{BatchId, Part, Round, StreamId, Target, TaskId};
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::stream::{Bits, EventId, Life, Page, Stream};
use groupage_core::domain::task::{Candidate, Task, Ties};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Change, Node, NodeId};
use groupage_core::ports::{
    self, Destination, Freshness, Joined, Marked, Outbox, Outgoing, PassedOver, PutBack, Registered, Result, Seen,
    Segment, Settlement, Stored, StreamOpened, Streams, Tasks, WaitingPage,
};

use super::io::{Answer, Op};
use crate::kept::Kept;
use crate::recorder::Recorder;
use crate::unasked::{expected, named_time, unasked};

/// The calls of one process.
pub(super) type Ports = Recorder<Op, Answer>;

named_time!(Ports);

/// The last node of a level that any setting has. What lies beyond is never there, so nobody needs to ask.
const fn last(level: u8) -> Option<u32> {
    match level {
        0 => Some(1),
        1 => Some(0),
        _ => None,
    }
}

impl Streams for Ports {
    async fn open_stream(&self, _: &Stream) -> Result<StreamOpened> {
        Err(unasked())
    }

    async fn stream(&self, _: &StreamId) -> Result<Option<Stream>> {
        Ok(Some((*expected!(Stream, self.ask(Op::Stream))).clone()))
    }

    async fn see(&self, _: &Life, nodes: &[NodeId]) -> Result<Seen> {
        let (stream, nodes) = expected!(Seen, self.ask(Op::See(nodes.to_vec())));
        let bits = Bits::of(nodes.iter().map(|node| (**node).clone()));
        Ok(Seen { stream: Some((*stream).clone()), bits })
    }

    async fn feed(&self, fed: &Stream, page: &Page) -> Result<Stored> {
        let op = Op::Feed(Kept::new(fed.clone()), Kept::new(page.clone()));
        Ok(stored(expected!(Is, self.ask(op))))
    }

    async fn commit(&self, stream: &Stream) -> Result<Stored> {
        Ok(stored(expected!(Is, self.ask(Op::Commit(Kept::new(stream.clone()))))))
    }

    async fn mark_events(&self, _: &Life, change: &Change) -> Result<Marked> {
        Ok((*expected!(Marked, self.ask(Op::Mark(Kept::new(change.clone()))))).clone())
    }

    async fn stream_nodes(&self, _: &Life, from: NodeId, _: usize) -> Result<Vec<Node>> {
        if last(from.level).is_none_or(|last| from.index > last) {
            return Ok(Vec::new());
        }
        Ok(expected!(Nodes, self.ask(Op::Nodes(from))).iter().map(|node| (**node).clone()).collect())
    }

    async fn drop_nodes(&self, _: &Life, nodes: &[NodeId]) -> Result<()> {
        self.ask(Op::DropNodes(nodes.to_vec())).await;
        Ok(())
    }

    async fn pages(&self, _: &Life, from: u64, to: u64, _: usize) -> Result<Vec<Page>> {
        if from >= to {
            return Ok(Vec::new());
        }
        Ok(expected!(Pages, self.ask(Op::Pages(from, to))).iter().map(|page| (**page).clone()).collect())
    }

    async fn drop_pages(&self, _: &Life, starts: &[u64]) -> Result<()> {
        self.ask(Op::DropPages(starts.to_vec())).await;
        Ok(())
    }

    async fn due_streams(&self, _: Part, _: Timestamp, _: usize) -> Result<Vec<StreamId>> {
        Err(unasked())
    }

    async fn remove_stream(&self, _: &Stream) -> Result<Stored> {
        Err(unasked())
    }
}

const fn stored(is_stored: bool) -> Stored {
    if is_stored { Stored::Yes } else { Stored::Conflict }
}

/// A task is forgotten as soon as it is settled, so nobody learns from it what an event held.
impl Tasks for Ports {
    type Cursor = ();

    async fn register(&self, _: &Task) -> Result<Registered> {
        Err(unasked())
    }

    async fn read(&self, _: &[TaskId], _: Freshness) -> Result<Vec<Task>> {
        Ok(Vec::new())
    }

    async fn waiting(&self, _: &Target, _: Option<&()>, _: usize) -> Result<ports::Page<()>> {
        Err(unasked())
    }

    async fn waiting_long(&self, _: Timestamp, _: Segment, _: Option<&()>, _: usize) -> Result<WaitingPage<()>> {
        Err(unasked())
    }

    async fn take_turn(&self, _: &TaskId, _: &Target, _: Timestamp) -> Result<PutBack> {
        Err(unasked())
    }

    async fn pass_over(&self, _: &TaskId, _: &Reason, _: Timestamp) -> Result<Option<PassedOver>> {
        Err(unasked())
    }

    async fn join(&self, _: &TaskId, _: Round, _: &BatchId) -> Result<Joined> {
        Err(unasked())
    }

    async fn put_back(&self, _: &Candidate, _: &BatchId, _: &Target, _: u32, _: Timestamp) -> Result<PutBack> {
        Err(unasked())
    }

    async fn settle(&self, _: &Member, _: &BatchId, _: &Settlement, _: Timestamp) -> Result<Ties> {
        Err(unasked())
    }
}

impl Outbox for Ports {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for message in messages {
            let Some(op) = parse(&message) else { return vec![Err(unasked())] };
            self.ask(op).await;
            answers.push(Ok(()));
        }
        answers
    }
}

fn parse(message: &Outgoing) -> Option<Op> {
    let body: Option<serde_json::Value> = serde_json::from_str(&message.body).ok();
    match message.to {
        Destination::Tasks => {
            let body = body?;
            let id = EventId::parse(body.get("event")?.as_str()?).ok()?;
            Some(Op::Send(id.number, u8::try_from(body.get("payload")?.get("c")?.as_u64()?).ok()?))
        }
        Destination::Rejected => {
            let (_, id) = message.attributes.iter().find(|(name, _)| *name == "MessageId")?;
            Some(Op::Reject(EventId::parse(id).ok()?.number))
        }
        Destination::Notification(_) => Some(Op::Tell(body?.get("data")?.get("watermark")?.as_u64()?)),
        Destination::InOrder(_)
        | Destination::Gather(_)
        | Destination::Elect
        | Destination::Group
        | Destination::Handle => None,
    }
}
