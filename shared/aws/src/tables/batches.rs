//! The batch table: one item per batch, written whole each time.
//!
//! Its write units grow with its members, and the largest batch there can be (1,000 members, the longest ids, all of
//! them failed) must stay inside DynamoDB's 400 KB. So a member is stored as its id alone, once; what else there is to
//! say of some members, their rounds and results, is in maps keyed by the member's position in the list.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::TransactWriteItem;
use groupage_core::domain::answer::Excerpts;
use groupage_core::domain::batch::bisection::Bisection;
use groupage_core::domain::batch::{Assumes, Batch, Claim, Excused, FollowUp, Left, Member, Omitted, Status};
use groupage_core::domain::gate::Ticket;
use groupage_core::domain::outcome::{Exception, Results};
use groupage_core::domain::{BatchId, Fence, Revision, Round, RouteName, SessionId, Target, TaskId, Timestamp, Traits};
use groupage_core::ports::{Batches, Entries, Look, Result, Stored};
use serde::{Deserialize, Serialize};

use crate::config::Tables;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, decode, encode, id_in, nonsense, number};
use crate::dynamo::{Dynamo, Key, transaction};
use crate::meter::Place;

const TABLE: &str = "batch table";
const BATCH_ID: &str = "BatchId";
const REVISION: &str = "Revision";

/// A member's place in `Members`, counted from 0. Text, as the keys of DynamoDB's maps are.
type Position = String;

/// A batch as its item says it.
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
    /// Of a batch that is filled: the traits of those candidates that have some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    traits: BTreeMap<Position, Traits>,
    attempts: u32,
    /// Calls of these that use up no attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    excused: Option<Excused>,
    /// Members that it is called without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    omitted: Option<Box<Omitted>>,
    /// How far a batch is taken apart, if that takes more than one claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    apart: Option<Box<Bisection>>,
    /// What its calls were answered that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answers: Option<Box<Excerpts>>,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled_at: Option<Timestamp>,
    /// Outcomes of those members that did not succeed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    results: BTreeMap<Position, Exception>,
    /// The index's key while work is left, and then no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<String>,
    due: Timestamp,
    #[serde(default, skip_serializing_if = "is_zero")]
    nudges: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pulled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ticket: Option<Ticket>,
    /// Whether a settled batch only waits for members to return.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    returning: bool,
    /// What is left of a pending follow-up of which some could not be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<Box<Left>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
            traits: by_position(&batch.members, traits),
            attempts: batch.attempts,
            excused: batch.excused,
            omitted: batch.omitted.clone(),
            apart: batch.apart.clone(),
            answers: batch.answers.clone(),
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
            ttl: None,
        };
        // What is left to do never expires: nobody may have been told of it.
        let expiry = |last: Timestamp| batch.unfinished().is_none().then(|| last.plus_ms(retention_ms).as_secs());
        match &batch.status {
            Status::Open { until } => stored.open_until = Some(*until),
            Status::Closing | Status::Frozen => {}
            Status::Paused { until } => stored.paused_until = Some(*until),
            Status::InProgress { claim } => stored.session = Some(claim.session.clone()),
            Status::Settled { at, results, follow_up } => {
                stored.returning = *follow_up == FollowUp::Returning;
                stored.settled_at = Some(*at);
                stored.results = by_position(&batch.members, |member| results.get(&member.id).cloned());
                stored.ttl = expiry(*at);
            }
            Status::Empty | Status::Void => stored.ttl = expiry(batch.created_at),
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
            traits,
            attempts: self.attempts,
            excused: self.excused,
            omitted: self.omitted,
            apart: self.apart,
            answers: self.answers,
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

pub(crate) fn item_of(batch: &Batch, retention_ms: u64) -> Result<Item> {
    encode(TABLE, batch.id.as_str(), &StoredBatch::of(batch, retention_ms))
}

fn batch_of(item: Item) -> Result<Batch> {
    let id = id_in(&item, BATCH_ID);
    decode::<StoredBatch>(TABLE, &id, item)?.into_batch()
}

impl Dynamo {
    fn batch_key<'a>(&'a self, id: &'a BatchId) -> Key<'a> {
        Key::of(&self.tables.batches, Place::Batches, BATCH_ID, id.as_str())
    }
}

impl Batches for Dynamo {
    async fn batch(&self, id: &BatchId) -> Result<Option<Batch>> {
        self.get("read a batch", self.batch_key(id)).await?.map(batch_of).transpose()
    }

    async fn store(&self, batch: &Batch, assumes: Assumes) -> Result<Stored> {
        let item = item_of(batch, self.retention_ms)?;
        let clause = match assumes {
            Assumes::Absent => Clause::Absent(BATCH_ID),
            Assumes::At(revision) => Clause::Equals(REVISION, number(revision)),
        };
        self.replace("write a batch", self.batch_key(&batch.id), (batch, item), &[clause], batch_of).await
    }

    async fn unfinished(&self, route: &RouteName, look: Look<'_>) -> Result<Entries<BatchId>> {
        let part = look.part.key(route);
        let open = Key::of(&self.tables.batches, Place::Batches, "Open", &part);
        let index = (Tables::UNFINISHED_INDEX, BATCH_ID, BatchId::new as fn(String) -> BatchId);
        self.due("query the unfinished batches", open, index, look).await
    }
}

impl Dynamo {
    /// The acknowledgement of `settled` as one item of a transaction of your own: it and your results are committed
    /// together or not at all. It assumes that the batch is as its claim left it.
    ///
    /// A transaction that is cancelled because of this item says that the claim was lost: somebody else has the batch,
    /// and your results must not count. It costs twice the write that it stands for.
    ///
    /// # Errors
    /// [`Error::Broken`](groupage_core::ports::Error::Broken) if the batch has no stored form.
    pub fn acknowledgement(&self, claimed: &Batch, settled: &Batch) -> Result<TransactWriteItem> {
        const WHAT: &str = "acknowledge a batch in a transaction";
        let item = encode(TABLE, settled.id.as_str(), &StoredBatch::of(settled, self.retention_ms))?;
        transaction::put(WHAT, &self.tables.batches, item, &[Clause::Equals(REVISION, number(claimed.revision))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item;
    use groupage_core::domain::answer::Excerpt;
    use groupage_core::domain::batch::Positions;
    use groupage_core::domain::ended::Ended;
    use groupage_core::domain::gate::Of;
    use groupage_core::domain::{Reason, RouteName};
    use groupage_core::ports::Error;

    fn said() -> Excerpts {
        let said = Excerpt { status: 400, text: "too heavy".to_owned() };
        Excerpts::default().with(Reason::new("http_400"), said)
    }

    fn batch(status: Status) -> Batch {
        let member = |id: &str, round| Member { id: TaskId::new(id), round: Round(round) };
        Batch {
            id: BatchId::new("b1"),
            target: Target::of(&RouteName::new("parcels"), "truck-7"),
            fence: Fence(1_700_000_000_123),
            revision: Revision(4),
            status,
            members: vec![member("c", 0), member("a", 2), member("b", 0)],
            bytes: 1_234,
            priority: 2,
            traits: None,
            attempts: 2,
            excused: None,
            omitted: None,
            apart: None,
            answers: Some(Box::new(said())),
            left: None,
            created_at: Timestamp(1_700_000_000_000),
            due: Timestamp(1_700_000_061_000),
            nudges: 3,
            pulled: true,
            ticket: Some(Ticket { of: Of::Route, number: 1_764_000_000_000, attempts: 2 }),
        }
    }

    fn all() -> [Status; 10] {
        let failed = Exception::Failed { reason: Reason::new("too_heavy"), attempts: 3 };
        let returned = Exception::Returned { attempts: 1, delay_ms: 500, bytes: 17, traits: Traits::default() };
        let results = Results::from([(TaskId::new("a"), failed), (TaskId::new("b"), returned)]);
        [
            Status::Open { until: Timestamp(9) },
            Status::Closing,
            Status::Frozen,
            Status::InProgress { claim: Claim { session: SessionId::new("#handlers-1/s") } },
            Status::Settled { at: Timestamp(7_000), results: results.clone(), follow_up: FollowUp::Pending },
            Status::Settled { at: Timestamp(7_000), results: results.clone(), follow_up: FollowUp::Returning },
            Status::Settled { at: Timestamp(7_000), results, follow_up: FollowUp::Done },
            Status::Empty,
            Status::Void,
            Status::Paused { until: Timestamp(6) },
        ]
    }

    #[test]
    fn every_status_survives_storage() {
        for status in all() {
            let batch = batch(status);
            let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
            assert_eq!(batch_of(item).unwrap(), batch);
        }
    }

    #[test]
    fn how_far_a_batch_is_taken_apart_survives_storage_and_costs_nothing_else() {
        let frozen = batch(Status::Frozen);
        assert!(!encode(TABLE, "", &StoredBatch::of(&frozen, 0)).unwrap().contains_key("Apart"));
        let lost = Reason::new("worker_lost");
        let mut apart = Bisection::of(3, 2, &lost);
        let mut stages = vec![apart.clone()];
        apart.begin();
        stages.push(apart.clone());
        apart.refused(&lost);
        stages.push(apart.clone());
        apart.begin();
        apart.answered(&frozen.members, BTreeMap::new());
        stages.push(apart);
        for apart in stages {
            let batch = Batch { apart: Some(Box::new(apart)), ..frozen.clone() };
            let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
            assert_eq!(batch_of(item).unwrap(), batch);
        }
    }

    #[test]
    fn what_is_excused_survives_storage_and_costs_nothing_else() {
        let frozen = batch(Status::Frozen);
        assert!(!encode(TABLE, "", &StoredBatch::of(&frozen, 0)).unwrap().contains_key("Excused"));
        let excused = Batch { excused: Some(Excused { calls: 2, since: Timestamp(7) }), ..frozen };
        let item = encode(TABLE, "", &StoredBatch::of(&excused, 1_000)).unwrap();
        assert_eq!(batch_of(item).unwrap(), excused);
    }

    #[test]
    fn who_is_left_out_survives_storage_and_costs_nothing_else() {
        let frozen = batch(Status::Frozen);
        assert!(!encode(TABLE, "", &StoredBatch::of(&frozen, 0)).unwrap().contains_key("Omitted"));
        let omitting = frozen.leaving_out([(0, 0), (2, 4)], Ended::Expired, Timestamp(7)).all_told();
        let omitting = omitting.leaving_out([(1, 0)], Ended::Cancelled, Timestamp(8));
        let item = encode(TABLE, "", &StoredBatch::of(&omitting, 1_000)).unwrap();
        assert_eq!(batch_of(item).unwrap(), omitting);
    }

    #[test]
    fn what_is_known_of_candidates_survives_storage_and_costs_nothing_else() {
        let open = batch(Status::Open { until: Timestamp(9) });
        assert!(!encode(TABLE, "", &StoredBatch::of(&open, 0)).unwrap().contains_key("Traits"));
        let traits = Traits { weight: 7, closes: true, ..Traits::default() };
        let open = Batch { traits: Some(Box::new([(TaskId::new("a"), traits)].into())), ..open };
        let item = encode(TABLE, "", &StoredBatch::of(&open, 1_000)).unwrap();
        assert_eq!(batch_of(item).unwrap(), open);
    }

    #[test]
    fn what_is_left_of_a_follow_up_survives_storage_and_costs_nothing_else() {
        let settled = batch(all()[4].clone());
        assert!(!encode(TABLE, "", &StoredBatch::of(&settled, 0)).unwrap().contains_key("Left"));
        for left in
            [Left::all(3, &Positions::default()), Left { untold: [0, 2].into_iter().collect(), ..Left::default() }]
        {
            let batch = settled.with_left(left);
            let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
            assert_eq!(batch_of(item).unwrap(), batch);
        }
    }

    #[test]
    fn the_index_shows_just_the_batches_with_work_left() {
        for status in all() {
            let batch = batch(status);
            let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
            assert_eq!(item.contains_key("Open"), batch.unfinished().is_some(), "{:?}", batch.status);
        }
    }

    #[test]
    fn only_a_batch_of_which_nothing_is_left_to_do_expires() {
        for status in all() {
            let batch = batch(status);
            let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
            assert_eq!(item.contains_key("Ttl"), batch.unfinished().is_none(), "{:?}", batch.status);
        }
        let settled = StoredBatch::of(&batch(all()[6].clone()), 3_000);
        assert_eq!(settled.ttl, Some(10));
    }

    #[test]
    fn members_keep_their_order_and_only_later_rounds_are_stored() {
        let stored = StoredBatch::of(&batch(Status::Frozen), 0);
        assert_eq!(stored.members, [TaskId::new("c"), TaskId::new("a"), TaskId::new("b")]);
        assert_eq!(stored.rounds, BTreeMap::from([("1".to_owned(), Round(2))]));
    }

    #[test]
    fn the_largest_batch_stays_inside_400_kb() {
        let ids = (0..1_000).map(|n| TaskId::new(format!("{n:0>128}")));
        let members: Vec<Member> = ids.map(|id| Member { id, round: Round(49) }).collect();
        let reason = Reason::new("x".repeat(64));
        let failed = Exception::Failed { reason, attempts: 50 };
        let results: Results = members.iter().map(|member| (member.id.clone(), failed.clone())).collect();
        let largest =
            Batch { members, ..batch(Status::Settled { at: Timestamp(1), results, follow_up: FollowUp::Pending }) };
        let item = encode(TABLE, "", &StoredBatch::of(&largest, 0)).unwrap();
        assert!(item::size(&item) < 400 * 1024, "{} bytes", item::size(&item));
        assert_eq!(batch_of(item).unwrap(), largest);
        let mut apart = Bisection::of(1_000, 50, &Reason::new("x".repeat(64)));
        while !apart.is_over() {
            apart.begin();
            apart.refused(&Reason::new("x".repeat(64)));
        }
        let largest = Batch { apart: Some(Box::new(apart)), status: Status::Frozen, ..largest };
        let item = encode(TABLE, "", &StoredBatch::of(&largest, 0)).unwrap();
        assert!(item::size(&item) < 400 * 1024, "{} bytes", item::size(&item));
        assert_eq!(batch_of(item).unwrap(), largest);
    }

    #[test]
    fn an_unknown_status_names_table_item_and_attribute() {
        let mut stored = StoredBatch::of(&batch(Status::Frozen), 0);
        stored.status = "thawed".to_owned();
        let error = stored.into_batch().unwrap_err();
        assert!(matches!(error, Error::Broken { .. }));
        let said = error.to_string();
        assert!(said.contains("batch table") && said.contains("`b1`") && said.contains("`Status`"), "{said}");
    }
}
