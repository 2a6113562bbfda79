//! The traits of `Ordering`, over a recorder.

use groupage_core::domain::batch::Member;
use groupage_core::domain::id::{BatchId, LaneId, Round, RouteName, Target, TaskId, Turn};
use groupage_core::domain::lane::{Lane, Queued};
use groupage_core::domain::message::{Elect, Election};
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::task::{Candidate, Task, Ties};
use groupage_core::domain::time::Timestamp;
use groupage_core::ports::{
    Destination, Freshness, Joined, Lanes, LinedUp, Newcomer, Outbox, Outgoing, Page, PassedOver, PutBack, Registered,
    Result, Segment, Settlement, Stored, Tasks, WaitingPage,
};

use super::io::{Answer, Op};
use crate::kept::Kept;
use crate::recorder::Recorder;
use crate::unasked::{expected, named_time, no_streams, no_trackers, unasked};

/// The calls of one process.
pub(super) type Ports = Recorder<Op, Answer>;

no_trackers!(Ports);
no_streams!(Ports);
named_time!(Ports);

impl Lanes for Ports {
    async fn lane(&self, _: &LaneId) -> Result<Option<Lane>> {
        Ok(expected!(Lane, self.ask(Op::Lane)).map(|lane| (*lane).clone()))
    }

    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        let op = Op::LineUp(Kept::new(lane.clone()), is_new, Kept::new(newcomers.to_vec()));
        Ok((*expected!(LinedUp, self.ask(op))).clone())
    }

    async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
        let is_stored = expected!(Is, self.ask(Op::StoreLane(Kept::new(lane.clone()))));
        Ok(if is_stored { Stored::Yes } else { Stored::Conflict })
    }

    async fn queued(&self, _: &LaneId, from: Turn, to: Turn, _: usize) -> Result<Vec<Queued>> {
        if from >= to {
            return Ok(Vec::new());
        }
        Ok((*expected!(Queued, self.ask(Op::Queued(from, to)))).clone())
    }

    async fn stopped(&self, _: &RouteName, _: usize) -> Result<Vec<LaneId>> {
        Err(unasked())
    }

    async fn leave(&self, _: &LaneId, queued: &[Queued]) -> Result<()> {
        if !queued.is_empty() {
            self.ask(Op::Leave(Kept::new(queued.to_vec()))).await;
        }
        Ok(())
    }
}

impl Tasks for Ports {
    type Cursor = ();

    async fn register(&self, _: &Task) -> Result<Registered> {
        Err(unasked())
    }

    async fn read(&self, ids: &[TaskId], _: Freshness) -> Result<Vec<Task>> {
        Ok(expected!(Tasks, self.ask(Op::Read(ids.to_vec()))).iter().map(|task| (**task).clone()).collect())
    }

    async fn waiting(&self, _: &Target, _: Option<&()>, _: usize) -> Result<Page<()>> {
        Err(unasked())
    }

    async fn waiting_long(&self, _: Timestamp, _: Segment, _: Option<&()>, _: usize) -> Result<WaitingPage<()>> {
        Err(unasked())
    }

    async fn take_turn(&self, task: &TaskId, _: &Target, _: Timestamp) -> Result<PutBack> {
        let waits = expected!(Is, self.ask(Op::TakeTurn(task.clone())));
        Ok(if waits { PutBack::Waits } else { PutBack::MovedOn })
    }

    async fn pass_over(&self, task: &TaskId, _: &Reason, now: Timestamp) -> Result<Option<PassedOver>> {
        let failed = expected!(Is, self.ask(Op::PassOver(task.clone())));
        Ok(failed.then(|| PassedOver { ties: Ties::default(), at: now }))
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
    match message.to {
        Destination::Elect => match serde_json::from_str(&message.body).ok()? {
            Elect::Waiting(election) => Some(elect([election])),
            Elect::Several(elections) => Some(elect(elections)),
            Elect::Returning(_) => None,
        },
        Destination::Notification(_) => {
            let event: serde_json::Value = serde_json::from_str(&message.body).ok()?;
            Some(Op::Tell(TaskId::new(event.get("data")?.get("task")?.as_str()?)))
        }
        Destination::Tasks
        | Destination::InOrder(_)
        | Destination::Gather(_)
        | Destination::Group
        | Destination::Handle
        | Destination::Rejected => None,
    }
}

fn elect(elections: impl IntoIterator<Item = Election>) -> Op {
    Op::Elect(elections.into_iter().flat_map(|election| election.tasks).map(|task| task.id).collect())
}
