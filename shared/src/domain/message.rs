//! The messages between the steps.
//!
//! Each may come twice, late, or after its sender died. They carry ids and positions, never payloads. Unknown fields
//! are refused: a message that a newer version wrote waits in its queue for that version.

use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::id::{BatchId, Fence, Revision, Shard, Target, TaskId, WorkflowId};
use super::lock::Term;
use super::task::Candidate;

/// At most this many tasks ride in one message, so that it stays far inside SQS's size limit whatever the ids.
pub const MAX_TASKS: usize = 500;

/// To elect-leader: find these tasks a leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Elect {
    /// Tasks that wait for a batch.
    Waiting(Election),
    /// Members that failed alone and whose pause is over: put them back to waiting, then elect.
    Returning(Return),
}

/// Tasks of one Target, and the workflow that drives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Election {
    /// Who asks for the lock.
    pub workflow: WorkflowId,
    /// The shard that it asks for; what waits there may also be led by its home's lock.
    pub target: Target,
    /// The tasks.
    pub tasks: Vec<Candidate>,
    /// How often this workflow has lost.
    pub attempt: u32,
    /// The leader that it has signalled: the shard of its lock, and its fence. Each lock counts fences for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signalled: Option<(Shard, Fence)>,
}

/// Members of a settled batch on their way back to waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Return {
    /// The batch that they were members of.
    pub batch: BatchId,
    /// Their Target.
    pub target: Target,
    /// The members.
    pub tasks: Vec<Returning>,
}

/// One member on its way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Returning {
    /// The task, in the round of the batch it was in.
    pub task: Candidate,
    /// Calls it was part of so far.
    pub attempts: u32,
}

/// To group-batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Group {
    /// Lead: fill batches while tasks wait.
    Lead(Lead),
    /// Finish a batch whose leader may be gone.
    Finish(Finish),
}

impl Group {
    /// What it is about.
    #[must_use]
    pub const fn target(&self) -> &Target {
        match self {
            Self::Lead(lead) => &lead.term.target,
            Self::Finish(finish) => &finish.target,
        }
    }
}

/// A leader's own message: it lives as long as the leadership and as its tasks wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lead {
    /// The leadership.
    pub term: Term,
    /// Tasks that this message answers for; candidates without the index, which may lag.
    pub tasks: Vec<Candidate>,
    /// Whether candidates are read before they are moved: an earlier delivery, or the leader of another of the Target's
    /// shards, may have walked the index, and entries of tasks that it moved may linger there.
    pub verify: bool,
    /// Set when the message comes back to a batch whose window is open.
    pub resume: Option<Resume>,
}

/// What the leader knew when it left its open batch to wait for more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The batch. An earlier delivery may have gone on to the next one.
    pub batch: BatchId,
    /// The batch's revision; at any other, the knowledge is void.
    pub revision: Revision,
    /// Candidates that turned out to be elsewhere. All others have joined.
    pub missed: Vec<TaskId>,
}

/// A batch to finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The batch.
    pub batch: BatchId,
    /// Its Target.
    pub target: Target,
}

/// To batch-handler: a frozen batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handle {
    /// The batch.
    pub batch: BatchId,
    /// Its Target.
    pub target: Target,
    /// How often it has waited for a place or for another worker's claim; no call was made then.
    pub waits: u32,
    /// The batch's number of nudges when this message was first sent: sweep may have sent a newer one since.
    #[serde(default)]
    pub nudge: u32,
}

impl Handle {
    /// The message about a batch as it is now.
    #[must_use]
    pub fn about(batch: &Batch) -> Self {
        Self { batch: batch.id.clone(), target: batch.target.clone(), waits: 0, nudge: batch.nudges }
    }
}
