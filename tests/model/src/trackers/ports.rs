//! The traits of `Tracking`, over a recorder.

use groupage_core::domain::id::{Part, TrackerId};
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
use groupage_core::ports::{
    Added, Cleared, Freshness, Looked, Marked, Opened, Outbox, Outgoing, Result, Stored, Trackers,
};

use super::io::{Answer, Op};
use crate::kept::Kept;
use crate::recorder::Recorder;
use crate::unasked::{named_time, unasked};

/// The calls of one process.
pub(super) type Ports = Recorder<Op, Answer>;

impl Trackers for Ports {
    async fn open_tracker(&self, _: &Tracker) -> Result<Opened> {
        Err(unasked())
    }

    async fn look(&self, _: &TrackerId, nodes: &[NodeId], freshness: Freshness) -> Result<Looked> {
        let Answer::Looked(tracker, nodes) = self.ask(Op::Look(nodes.to_vec(), freshness)).await else {
            return Err(unasked());
        };
        let nodes = nodes.iter().map(|node| (**node).clone()).collect();
        Ok(Looked { tracker: tracker.map(|tracker| (*tracker).clone()), nodes })
    }

    async fn store_tracker(&self, tracker: &Tracker) -> Result<Stored> {
        self.ask(Op::Store(Kept::new(tracker.clone()))).await.stored().ok_or_else(unasked)
    }

    async fn add(&self, grown: &Tracker, addition: &Addition) -> Result<Added> {
        match self.ask(Op::Add(Kept::new(grown.clone()), addition.clone())).await {
            Answer::Added(added) => Ok((*added).clone()),
            _ => Err(unasked()),
        }
    }

    async fn addition(&self, _: &TrackerId, key: &str) -> Result<Option<Addition>> {
        match self.ask(Op::Addition(key.to_owned())).await {
            Answer::Addition(found) => Ok(found.map(|addition| (*addition).clone())),
            _ => Err(unasked()),
        }
    }

    async fn mark(&self, _: &TrackerId, change: &Change) -> Result<Marked> {
        match self.ask(Op::Mark(Kept::new(change.clone()))).await {
            Answer::Marked(marked) => Ok((*marked).clone()),
            _ => Err(unasked()),
        }
    }

    async fn nodes(&self, _: &TrackerId, from: NodeId, _: usize, _: Freshness) -> Result<Vec<Node>> {
        match self.ask(Op::Nodes(from)).await {
            Answer::Looked(_, nodes) => Ok(nodes.iter().map(|node| (**node).clone()).collect()),
            _ => Err(unasked()),
        }
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

named_time!(Ports);
