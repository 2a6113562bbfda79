//! The messages between the steps.
//!
//! Each may come twice, late, or after its sender died. They carry ids and positions, never payloads.
//!
//! While a stack is deployed, versions read each other's messages. A reader passes over a field that it does not know.
//! So a new field must be one without which the work is right. What a reader must know is a new kind of message: such
//! a message stays in its queue for a version that reads it.

use serde::{Deserialize, Serialize};

use super::batch::{Batch, Pace};
use super::copies::Copies;
use super::gate::Ticket;
use super::id::{BatchId, Fence, Revision, Shard, Target, TaskId, WorkflowId};
use super::lock::Term;
use super::task::Candidate;
use super::time::Timestamp;

/// At most this many tasks ride in one message, so that it stays far inside SQS's size limit whatever the ids.
pub const MAX_TASKS: usize = 500;
/// At most this many elections ride in one message, so that those of many Targets are still held side by side.
const MAX_ELECTIONS: usize = 10;

/// To elect-leader: find these tasks a leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elect {
    /// Tasks that wait for a batch.
    Waiting(Election),
    /// The same for several Targets, or shards of one: SQS is paid by the message, and an event's tasks are of many.
    Several(Vec<Election>),
    /// Members that failed alone and whose pause is over: put them back to waiting, then elect.
    Returning(Return),
    /// Scheduled tasks whose time has come: let them wait, then elect.
    Due(Due),
}

/// Tasks of one Target, and the workflow that drives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Election {
    /// Who asks for the lock.
    pub workflow: WorkflowId,
    /// The shard that it asks for; what waits there may also be led by its home's lock.
    pub target: Target,
    /// The tasks.
    pub tasks: Vec<Candidate>,
    /// Since when the first of them has waited.
    pub since: Timestamp,
    /// How often this workflow has lost, or failed.
    pub attempt: u32,
    /// The leader that it has signalled: the shard of its lock, and its fence. Each lock counts fences for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signalled: Option<(Shard, Fence)>,
    /// How often it was copied without getting on.
    #[serde(default, skip_serializing_if = "Copies::is_none")]
    pub copies: Copies,
}

impl Elect {
    /// The Target whose tasks it is about, if it is one.
    pub fn target(&self) -> Option<Target> {
        match self {
            Self::Waiting(election) => Some(election.target.whole()),
            Self::Several(elections) => {
                let mut targets = elections.iter().map(|election| election.target.whole());
                let first = targets.next()?;
                targets.all(|target| target == first).then_some(first)
            }
            Self::Returning(returning) => Some(returning.target.whole()),
            Self::Due(due) => Some(due.target.whole()),
        }
    }

    /// Whether one of its elections copies itself too fast.
    pub fn is_braked(&self, now: Timestamp) -> bool {
        match self {
            Self::Waiting(election) => election.copies.is_braked(now),
            Self::Several(elections) => elections.iter().any(|election| election.copies.is_braked(now)),
            Self::Returning(_) | Self::Due(_) => false,
        }
    }

    /// Elections in as few messages as hold them, in their order; each message with the keys of those in it.
    pub fn packed<K>(elections: impl IntoIterator<Item = (K, Election)>) -> Vec<(Vec<K>, Self)> {
        let mut packs: Vec<(Vec<K>, Vec<Election>)> = Vec::new();
        let mut tasks = 0;
        for (key, election) in elections {
            tasks += election.tasks.len();
            match packs.last_mut() {
                Some((keys, pack)) if pack.len() < MAX_ELECTIONS && tasks <= MAX_TASKS => {
                    keys.push(key);
                    pack.push(election);
                }
                Some(_) | None => {
                    tasks = election.tasks.len();
                    packs.push((vec![key], vec![election]));
                }
            }
        }
        packs.into_iter().map(|(keys, pack)| (keys, Self::of(pack))).collect()
    }

    fn of(elections: Vec<Election>) -> Self {
        match <[Election; 1]>::try_from(elections) {
            Ok([election]) => Self::Waiting(election),
            Err(elections) => Self::Several(elections),
        }
    }
}

/// Members of a settled batch on their way back to waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The batch that they were members of.
    pub batch: BatchId,
    /// Their Target.
    pub target: Target,
    /// The members.
    pub tasks: Vec<Returning>,
}

/// Scheduled tasks of one Target, of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// Their Target.
    pub target: Target,
    /// When the last of them is due.
    pub at: Timestamp,
    /// The tasks.
    pub tasks: Vec<Candidate>,
}

/// One member on its way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returning {
    /// The task, in the round of the batch it was in.
    pub task: Candidate,
    /// Calls it was part of so far.
    pub attempts: u32,
    /// Set if one of these may have been carried out, although no answer says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsure: bool,
}

/// To group-batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Lead: fill batches while tasks wait.
    Lead(Lead),
    /// Finish a batch whose leader may be gone.
    Finish(Finish),
}

impl Group {
    /// What it is about.
    pub const fn target(&self) -> &Target {
        match self {
            Self::Lead(lead) => &lead.term.target,
            Self::Finish(finish) => &finish.target,
        }
    }

    /// Whether it copies itself too fast.
    pub fn is_braked(&self, now: Timestamp) -> bool {
        let (Self::Lead(Lead { copies, .. }) | Self::Finish(Finish { copies, .. })) = self;
        copies.is_braked(now)
    }
}

/// A leader's own message: it lives as long as the leadership and as its tasks wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// The leadership.
    pub term: Term,
    /// Tasks that this message answers for; candidates without the index, which may lag.
    pub tasks: Vec<Candidate>,
    /// Whether candidates are read before they are moved: an earlier delivery, or the leader of another of the Target's
    /// shards, may have walked the index, and entries of tasks that it moved may linger there.
    pub verify: bool,
    /// How fast the leader's latest batch filled.
    pub pace: Pace,
    /// Set when the message comes back to a batch whose window is open.
    pub resume: Option<Resume>,
    /// Whether it only wakes a leader whose own message waits with an open batch: a task came that closes it. It does
    /// not wait itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wakes: bool,
    /// How often it was copied without getting on.
    #[serde(default, skip_serializing_if = "Copies::is_none")]
    pub copies: Copies,
}

/// What the leader knew when it left its open batch to wait for more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The batch. An earlier delivery may have gone on to the next one.
    pub batch: BatchId,
    /// The batch's revision; at any other, the knowledge is void.
    pub revision: Revision,
    /// Candidates that turned out to be elsewhere. All others have joined.
    pub missed: Vec<TaskId>,
    /// When the latest ones came, if the batch ends once nothing comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// How many bytes each candidate has, in the batch's order, if tasks may replace others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u32>,
}

/// A batch to finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The batch.
    pub batch: BatchId,
    /// Its Target.
    pub target: Target,
    /// How often it was copied without getting on.
    #[serde(default, skip_serializing_if = "Copies::is_none")]
    pub copies: Copies,
}

/// To batch-handler: a frozen batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// The batch.
    pub batch: BatchId,
    /// Its Target.
    pub target: Target,
    /// How often it has waited: each time a delayed copy takes its place.
    pub waits: u32,
    /// The batch's number of nudges when this message was first sent: a newer one may have been sent since.
    #[serde(default)]
    pub nudge: u32,
    /// Its number in the line of the gate that it waits at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Ticket>,
    /// How often it was copied without getting on.
    #[serde(default, skip_serializing_if = "Copies::is_none")]
    pub copies: Copies,
}

impl Handle {
    /// The message about a batch as it is now.
    pub fn about(batch: &Batch) -> Self {
        Self {
            batch: batch.id.clone(),
            target: batch.target.clone(),
            waits: 0,
            nudge: batch.nudges,
            ticket: batch.ticket,
            copies: Copies::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::Round;
    use crate::domain::traits::Traits;

    #[test]
    fn elections_of_one_targets_shards_are_those_of_that_target_and_others_of_none() {
        let of = |shard, n| {
            let election = election(n, 1);
            Election { target: election.target.in_shard(Shard(shard)), ..election }
        };
        assert_eq!(Elect::Waiting(of(3, 0)).target(), Some(Target::new("parcels:0")));
        assert_eq!(Elect::Several(vec![of(3, 0), of(0, 0)]).target(), Some(Target::new("parcels:0")));
        assert_eq!(Elect::Several(vec![of(3, 0), of(3, 1)]).target(), None);
    }

    fn election(n: usize, tasks: usize) -> Election {
        let task = Candidate {
            id: TaskId::new(format!("t{n}")),
            round: Round::default(),
            bytes: 30,
            traits: Traits::default(),
        };
        let (workflow, target) = (WorkflowId::new(format!("w{n}")), Target::new(format!("parcels:{n}")));
        Election {
            workflow,
            target,
            tasks: vec![task; tasks],
            since: Timestamp(0),
            attempt: 0,
            signalled: None,
            copies: Copies::NONE,
        }
    }

    proptest! {
        #[test]
        fn every_election_rides_in_one_message_and_none_is_overfull(
            sizes in proptest::collection::vec(1..=MAX_TASKS, 0..40),
        ) {
            let elections: Vec<Election> = sizes.iter().enumerate().map(|(n, tasks)| election(n, *tasks)).collect();
            let packs = Elect::packed(elections.iter().cloned().enumerate());
            let (mut ridden, mut room) = (Vec::new(), None);
            for (keys, message) in &packs {
                let pack = match message {
                    Elect::Waiting(election) => std::slice::from_ref(election),
                    Elect::Several(pack) => pack,
                    Elect::Returning(_) | Elect::Due(_) => &[],
                };
                if let (Some((elections, tasks)), Some(first)) = (room, pack.first()) {
                    prop_assert!(elections == 0 || tasks < first.tasks.len(), "it fits in the one before");
                }
                let tasks: usize = pack.iter().map(|election| election.tasks.len()).sum();
                prop_assert!(pack.len() <= MAX_ELECTIONS && tasks <= MAX_TASKS);
                room = Some((MAX_ELECTIONS - pack.len(), MAX_TASKS - tasks));
                ridden.extend(keys.iter().copied().zip(pack.iter().cloned()));
            }
            prop_assert_eq!(ridden, elections.into_iter().enumerate().collect::<Vec<_>>());
        }
    }
}
