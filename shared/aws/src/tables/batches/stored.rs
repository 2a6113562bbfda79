//! A batch as its item holds it.
//!
//! Its write units grow with its members, and the largest batch there can be (1,000 members, the longest ids, all of
//! them failed) must stay inside DynamoDB's 400 KB. So a member is stored as its id alone, once; what else there is to
//! say of some members, their rounds and results, is in maps keyed by the member's position in the list.

use std::collections::BTreeMap;

use groupage_core::domain::answer::Excerpts;
use groupage_core::domain::batch::bisection::Bisection;
use groupage_core::domain::batch::{Batch, Claim, Excused, FollowUp, Job, Left, Member, Omitted, OutputPart, Status};
use groupage_core::domain::gate::Ticket;
use groupage_core::domain::outcome::{Exception, Results};
use groupage_core::domain::{BatchId, Fence, Revision, Round, SessionId, Target, TaskId, Timestamp, Traits};
use groupage_core::ports::Result;
use serde::{Deserialize, Serialize};

use super::{BATCH_ID, TABLE};
use crate::dynamo::item::{Item, decode, encode, id_in, nonsense};

/// A member's place in `Members`, counted from 0. Text, as the keys of DynamoDB's maps are.
type Position = String;

/// A batch as its item says it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredBatch {
    batch_id: BatchId,
    target: Target,
    status: String,
    fence: Fence,
    revision: Revision,
    members: Vec<TaskId>,
    /// Rounds of those members that are not in their first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rounds: BTreeMap<Position, Round>,
    bytes: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: u8,
    weight: Option<u64>,
    /// Of a batch that is filled: the traits of those candidates that have some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    traits: BTreeMap<Position, Traits>,
    attempts: u32,
    /// Calls of these that use up no attempt.
    excused: Option<Excused>,
    /// Calls of these of which the downstream surely did nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    undone: u32,
    /// Members that it is called without.
    omitted: Option<Box<Omitted>>,
    /// How far a batch is taken apart, if that takes more than one claim.
    apart: Option<Box<Bisection>>,
    /// What its calls were answered that failed.
    answers: Option<Box<Excerpts>>,
    /// The job that its call has begun.
    job: Option<Box<Job>>,
    /// The parts in which outputs are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<OutputPart>,
    created_at: Timestamp,
    open_until: Option<Timestamp>,
    session: Option<SessionId>,
    paused_until: Option<Timestamp>,
    settled_at: Option<Timestamp>,
    /// Outcomes of those members that did not succeed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    results: BTreeMap<Position, Exception>,
    /// The index's key while work is left, and then no more.
    open: Option<String>,
    due: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    nudges: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pulled: bool,
    ticket: Option<Ticket>,
    /// Whether a settled batch only waits for members to return.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    returning: bool,
    /// What is left of a pending follow-up of which some could not be done.
    left: Option<Box<Left>>,
    ttl: Option<u64>,
}

impl StoredBatch {
    fn of(batch: &Batch, retention_ms: u64) -> Self {
        let later = |member: &Member| (member.round > Round(0)).then_some(member.round);
        let traits = |member: &Member| batch.traits.as_ref()?.get(&member.id).copied();
        let mut stored = Self {
            batch_id: batch.id.clone(),
            target: batch.target.clone(),
            status: batch.status.word().to_owned(),
            fence: batch.fence,
            revision: batch.revision,
            members: batch.members.iter().map(|member| member.id.clone()).collect(),
            rounds: by_position(&batch.members, later),
            bytes: batch.bytes,
            priority: batch.priority,
            weight: batch.weight,
            traits: by_position(&batch.members, traits),
            attempts: batch.attempts,
            excused: batch.excused,
            undone: batch.undone,
            omitted: batch.omitted.clone(),
            apart: batch.apart.clone(),
            answers: batch.answers.clone(),
            job: batch.job.clone(),
            outputs: batch.outputs.clone(),
            created_at: batch.created_at,
            open_until: None,
            session: None,
            paused_until: None,
            settled_at: None,
            results: BTreeMap::new(),
            open: batch.unfinished().map(|_| batch.part().key(&batch.target.route())),
            due: batch.due,
            nudges: batch.nudges,
            pulled: batch.pulled,
            ticket: batch.ticket,
            returning: false,
            left: batch.left.clone(),
            ttl: batch.over_since().map(|at| at.plus_ms(retention_ms).as_secs()),
        };
        match &batch.status {
            Status::Open { until } => stored.open_until = Some(*until),
            Status::Closing | Status::Frozen => {}
            Status::Paused { until } => stored.paused_until = Some(*until),
            Status::InProgress { claim } => stored.session = Some(claim.session.clone()),
            Status::Settled { at, results, follow_up } => {
                stored.returning = *follow_up == FollowUp::Returning;
                stored.settled_at = Some(*at);
                stored.results = by_position(&batch.members, |member| results.get(&member.id).cloned());
            }
            Status::Empty | Status::Void => {}
        }
        stored
    }

    fn into_batch(self) -> Result<Batch> {
        let status = self.status()?;
        let round = |position: usize| self.rounds.get(&position.to_string()).copied().unwrap_or_default();
        let traits = self.traits.iter().filter_map(|(position, traits)| {
            let position: usize = position.parse().ok()?;
            Some((self.members.get(position)?.clone(), *traits))
        });
        let traits = (!self.traits.is_empty()).then(|| Box::new(traits.collect()));
        let members = self.members.into_iter().enumerate();
        Ok(Batch {
            id: self.batch_id,
            target: self.target,
            fence: self.fence,
            revision: self.revision,
            status,
            members: members.map(|(position, id)| Member { id, round: round(position) }).collect(),
            bytes: self.bytes,
            priority: self.priority,
            weight: self.weight,
            traits,
            attempts: self.attempts,
            excused: self.excused,
            undone: self.undone,
            omitted: self.omitted,
            apart: self.apart,
            answers: self.answers,
            job: self.job,
            outputs: self.outputs,
            left: self.left,
            created_at: self.created_at,
            due: self.due,
            nudges: self.nudges,
            pulled: self.pulled,
            ticket: self.ticket,
        })
    }

    fn status(&self) -> Result<Status> {
        let missing = |attribute| {
            let why = format_args!("is missing while `{}`", self.status).to_string();
            nonsense(TABLE, self.batch_id.as_str(), attribute, why)
        };
        match self.status.as_str() {
            "open" => Ok(Status::Open { until: self.open_until.ok_or_else(|| missing("OpenUntil"))? }),
            "closing" => Ok(Status::Closing),
            "frozen" => Ok(Status::Frozen),
            "paused" => Ok(Status::Paused { until: self.paused_until.ok_or_else(|| missing("PausedUntil"))? }),
            "in-progress" => {
                let session = self.session.clone().ok_or_else(|| missing("Session"))?;
                Ok(Status::InProgress { claim: Claim { session } })
            }
            "settled" => Ok(Status::Settled {
                at: self.settled_at.ok_or_else(|| missing("SettledAt"))?,
                results: self.results()?,
                // What is in the index has work left, and nothing else.
                follow_up: match (self.open.is_some(), self.returning) {
                    (true, false) => FollowUp::Pending,
                    (true, true) => FollowUp::Returning,
                    (false, _) => FollowUp::Done,
                },
            }),
            "empty" => Ok(Status::Empty),
            "void" => Ok(Status::Void),
            unknown => {
                let why = format_args!("`{unknown}` is no status").to_string();
                Err(nonsense(TABLE, self.batch_id.as_str(), "Status", why))
            }
        }
    }

    fn results(&self) -> Result<Results> {
        let member = |position: &Position| position.parse().ok().and_then(|n: usize| self.members.get(n)).cloned();
        let of_nobody = |position: &Position| {
            let why = format_args!("`{position}` is no member's position").to_string();
            nonsense(TABLE, self.batch_id.as_str(), "Results", why)
        };
        let results = self
            .results
            .iter()
            .map(|(position, exception)| Ok((member(position).ok_or_else(|| of_nobody(position))?, exception.clone())));
        results.collect()
    }
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// What there is to say of some members, by their positions.
fn by_position<T>(members: &[Member], of: impl Fn(&Member) -> Option<T>) -> BTreeMap<Position, T> {
    let said = members.iter().enumerate().map(|(position, member)| (position.to_string(), of(member)));
    said.filter_map(|(position, said)| said.map(|said| (position, said))).collect()
}

/// The item of a batch.
pub(crate) fn item_of(batch: &Batch, retention_ms: u64) -> Result<Item> {
    encode(TABLE, batch.id.as_str(), &StoredBatch::of(batch, retention_ms))
}

/// The batch of an item.
pub(super) fn batch_of(item: Item) -> Result<Batch> {
    let id = id_in(&item, BATCH_ID);
    decode::<StoredBatch>(TABLE, &id, item)?.into_batch()
}

#[cfg(test)]
mod tests;
