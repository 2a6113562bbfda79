//! The lane table: under each lane's id the lane itself and one small item for each task that waits for its turn; and
//! the index of lanes that stand still.

use aws_sdk_dynamodb::types::CancellationReason;
use groupage_core::domain::lane::{Lane, Queued, State};
use groupage_core::domain::traits::{Traits, are_usual};
use groupage_core::domain::{Candidate, LaneId, Revision, Round, RouteName, Target, Task, TaskId, Timestamp, Turn};
use groupage_core::ports::{Freshness, Lanes, LinedUp, Newcomer, Result, Stored};
use serde::{Deserialize, Serialize};

use crate::config::Tables;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, decode, encode, nonsense, number, text};
use crate::dynamo::query::Query;
use crate::dynamo::transaction::{self, item_in};
use crate::dynamo::{Dynamo, Key};
use crate::meter::Place;
use crate::tables::tasks::task_of;

const TABLE: &str = "lane table";
const LANE_ID: &str = "LaneId";
const TURN: &str = "Turn";
const REVISION: &str = "Revision";
const TASK: &str = "Task";
/// The sort key of the lane itself.
const LANE: &str = "lane";
const MISSING: &str = "#missing";

/// A lane as its item says it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredLane {
    lane_id: LaneId,
    turn: String,
    state: String,
    /// Who has the turn, or failed.
    task: Option<TaskId>,
    head: Turn,
    next: Turn,
    /// From which round on the outcomes of the task that has the turn count; its first, if it was never retried.
    since: Option<Round>,
    by_sequence: bool,
    is_resuming: Option<bool>,
    revision: Revision,
    active_at: Timestamp,
    /// The index's key, while the lane stands still.
    stopped: Option<String>,
    /// When it may be forgotten, in seconds since 1970.
    ttl: Option<u64>,
}

/// Who waits for a turn, as its item says it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StoredQueued {
    lane_id: LaneId,
    turn: String,
    task: TaskId,
    target: Target,
    bytes: u32,
    #[serde(default, skip_serializing_if = "are_usual")]
    traits: Traits,
}

fn turn_key(turn: Turn) -> String {
    format!("turn#{:016x}", turn.0)
}

fn turn_of(key: &str) -> Option<Turn> {
    u64::from_str_radix(key.strip_prefix("turn#")?, 16).ok().map(Turn)
}

/// The index's key: the route of a lane that a failure stopped, or with a suffix that of one that misses a number.
fn stands(lane: &Lane) -> Option<String> {
    let route = lane.id.route();
    lane.is_stopped().then(|| route.to_string()).or_else(|| lane.missing().map(|_| format!("{route}{MISSING}")))
}

pub(super) fn lane_item(lane: &Lane, retention_ms: u64) -> Result<Item> {
    let (state, task) = match &lane.state {
        State::Free => ("free", None),
        State::Taken(task) => ("taken", Some(task)),
        State::Held(task) => ("held", Some(task)),
        State::Failing(task) => ("failing", Some(task)),
    };
    let stored = StoredLane {
        lane_id: lane.id.clone(),
        turn: LANE.to_owned(),
        state: state.to_owned(),
        task: task.cloned(),
        head: lane.head,
        next: lane.next,
        since: (lane.since > Round(0)).then_some(lane.since),
        by_sequence: lane.by_sequence,
        is_resuming: lane.is_resuming.then_some(true),
        revision: lane.revision,
        active_at: lane.active_at,
        stopped: stands(lane),
        ttl: lane.is_idle().then(|| lane.active_at.plus_ms(retention_ms).as_secs()),
    };
    encode(TABLE, lane.id.as_str(), &stored)
}

fn lane_of(item: Item) -> Result<Lane> {
    let stored: StoredLane = decode(TABLE, "", item)?;
    let strange = |attribute, why: &str| nonsense(TABLE, stored.lane_id.as_str(), attribute, why);
    let task = || stored.task.clone().ok_or_else(|| strange("Task", "is missing"));
    let state = match stored.state.as_str() {
        "free" => State::Free,
        "taken" => State::Taken(task()?),
        "held" => State::Held(task()?),
        "failing" => State::Failing(task()?),
        _ => return Err(strange("State", "is no state of a lane")),
    };
    let StoredLane { lane_id: id, head, next, since, by_sequence, is_resuming, revision, active_at, .. } = stored;
    let (since, is_resuming) = (since.unwrap_or_default(), is_resuming.is_some());
    Ok(Lane { id, state, head, next, since, by_sequence, is_resuming, revision, active_at })
}

fn queued_item(lane: &LaneId, queued: &Queued) -> Result<Item> {
    let stored = StoredQueued {
        lane_id: lane.clone(),
        turn: turn_key(queued.turn),
        task: queued.candidate.id.clone(),
        target: queued.target.clone(),
        bytes: queued.candidate.bytes,
        traits: queued.candidate.traits,
    };
    encode(TABLE, lane.as_str(), &stored)
}

fn queued_of(item: Item) -> Result<Queued> {
    let StoredQueued { lane_id, turn, task, target, bytes, traits } = decode(TABLE, "", item)?;
    let turn = turn_of(&turn).ok_or_else(|| nonsense(TABLE, lane_id.as_str(), TURN, "is no turn"))?;
    // Only a task that never had its turn waits for it.
    Ok(Queued { turn, target, candidate: Candidate { id: task, round: Round(0), bytes, traits } })
}

impl Dynamo {
    fn lane_key<'a>(&'a self, id: &'a LaneId, sort: &'a str) -> Key<'a> {
        Key { sort: Some((TURN, sort)), ..Key::of(&self.tables.lanes, Place::Lanes, LANE_ID, id.as_str()) }
    }
}

impl Lanes for Dynamo {
    async fn lane(&self, id: &LaneId) -> Result<Option<Lane>> {
        self.get("read a lane", self.lane_key(id, LANE)).await?.map(lane_of).transpose()
    }

    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        const WHAT: &str = "line tasks up in a lane";
        let assumes = if is_new { Clause::Absent(LANE_ID) } else { is_before(lane) };
        let table = &self.tables.lanes;
        let mut writes = vec![transaction::put(WHAT, table, lane_item(lane, self.retention_ms)?, &[assumes])?];
        for newcomer in newcomers {
            writes.push(self.new_task(WHAT, &newcomer.task)?);
        }
        for queued in newcomers.iter().filter_map(|newcomer| newcomer.queued.as_ref()) {
            let item = queued_item(&lane.id, queued)?;
            writes.push(transaction::put(WHAT, table, item, &[Clause::Absent(LANE_ID)])?);
        }
        let Err(reasons) = self.transact(WHAT, Place::Lanes, writes).await? else { return Ok(LinedUp::Yes) };
        refusal(lane, newcomers, &reasons)
    }

    async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
        let (key, item) = (self.lane_key(&lane.id, LANE), lane_item(lane, self.retention_ms)?);
        self.replace("write a lane", key, (lane, item), &[is_before(lane)], lane_of).await
    }

    async fn queued(&self, id: &LaneId, from: Turn, to: Turn, limit: usize) -> Result<Vec<Queued>> {
        let Some(last) = to.0.checked_sub(1).filter(|last| from.0 <= *last) else { return Ok(Vec::new()) };
        let (from, last) = (turn_key(from), turn_key(Turn(last)));
        let range = (self.lane_key(id, &from), last.as_str());
        let found = self.range("read who waits in a lane", range, limit, Freshness::Latest).await?;
        found.into_iter().map(queued_of).collect()
    }

    async fn stopped(&self, route: &RouteName, missing_since: Timestamp, limit: usize) -> Result<Vec<LaneId>> {
        const WHAT: &str = "query the lanes that stand still";
        let key = |of| Key::of(&self.tables.lanes, Place::Lanes, "Stopped", of);
        let stopped = Query::of(WHAT, key(route.as_str()), limit).by(Tables::STOPPED_INDEX);
        let mut found = self.ids(stopped, LANE_ID).await?;
        if found.len() < limit && missing_since > Timestamp::default() {
            let of_route = format!("{route}{MISSING}");
            let missing = Query::of(WHAT, key(&of_route), limit - found.len()).by(Tables::STOPPED_INDEX);
            let before = Clause::Between("ActiveAt", number(0_u64), number(missing_since.0 - 1));
            found.extend(self.ids(missing.only_if(before), LANE_ID).await?);
        }
        Ok(found.into_iter().map(LaneId::new).collect())
    }

    async fn leave(&self, id: &LaneId, queued: &[Queued]) -> Result<()> {
        for queued in queued {
            // Refused means that it is gone already.
            let sort = turn_key(queued.turn);
            let waits = [Clause::Equals(TASK, text(queued.candidate.id.as_str()))];
            self.delete("leave a lane", self.lane_key(id, &sort), &waits).await?;
        }
        Ok(())
    }
}

/// Why nobody came, by the reasons of a cancelled transaction: for the lane, for each task, for each place.
fn refusal(lane: &Lane, newcomers: &[Newcomer], reasons: &[CancellationReason]) -> Result<LinedUp> {
    let (tasks, places) = reasons.get(1..).unwrap_or_default().split_at_checked(newcomers.len()).unwrap_or_default();
    let before: Vec<Task> = tasks.iter().filter_map(item_in).map(task_of).collect::<Result<_>>()?;
    if !before.is_empty() {
        // The very same content is our own write, whose answer was lost.
        let is_own = before.iter().eq(newcomers.iter().map(|newcomer| &newcomer.task))
            && reasons.first().and_then(item_in).map(lane_of).transpose()?.as_ref() == Some(lane);
        return Ok(if is_own { LinedUp::Yes } else { LinedUp::Before(before) });
    }
    // Only a lane that is as it was read says which turns are free. It may be another, or in another transaction just
    // now.
    let lane_is_as_read = reasons.first().is_some_and(|reason| reason.code() == Some("None"));
    let queued = newcomers.iter().filter_map(|newcomer| newcomer.queued.as_ref());
    let used = places.iter().zip(queued).filter(|(reason, _)| item_in(reason).is_some());
    let used: Vec<Turn> = used.map(|(_, queued)| queued.turn).collect();
    Ok(if lane_is_as_read && !used.is_empty() { LinedUp::Used(used) } else { LinedUp::Conflict })
}

/// What a write of a lane assumes.
pub(super) fn is_before(lane: &Lane) -> Clause {
    Clause::Equals(REVISION, number(lane.revision.0.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item;

    fn lane(state: State) -> Lane {
        let id = LaneId::of(&RouteName::new("payments"), "DE02120300000000202051");
        let now = Timestamp(1_700_000_000_123);
        let (revision, is_resuming) = (Revision(now.0), false);
        let (head, next, since, by_sequence) = (Turn(7), Turn(9), Round(2), false);
        Lane { id, state, head, next, since, by_sequence, is_resuming, revision, active_at: now }
    }

    #[test]
    fn every_state_survives_storage_within_one_write_unit() {
        let task = TaskId::new("3f0c8a51-55f0-4f5e-9a32-6d4c5f8e2b10");
        for state in [State::Free, State::Taken(task.clone()), State::Held(task.clone()), State::Failing(task)] {
            let lane = lane(state);
            let item = lane_item(&lane, 1_000).unwrap();
            assert!(item::size(&item) < 400, "{} bytes", item::size(&item));
            assert_eq!(item.contains_key("Stopped"), lane.is_stopped() || lane.missing().is_some());
            assert_eq!(item.contains_key("Ttl"), lane.is_idle());
            assert_eq!(lane_of(item).unwrap(), lane);
        }
    }

    #[test]
    fn a_turn_counts_as_used_only_if_the_lane_is_as_it_was_read() {
        let lane = lane(State::Taken(TaskId::new("t0")));
        let target = Target::of(&RouteName::new("payments"), "b");
        let task = Task::new(TaskId::new("t1"), target.clone(), "{}".into(), String::new(), lane.active_at);
        let queued = Queued::of(&task, target, Turn(8));
        let place = queued_item(&lane.id, &queued).unwrap();
        let newcomer = Newcomer { task: task.queued_in(lane.id.clone()), queued: Some(queued) };
        let reason = |code: &str, item: Option<Item>| CancellationReason::builder().code(code).set_item(item).build();
        let refused = |of_lane| {
            let reasons = [of_lane, reason("None", None), reason("ConditionalCheckFailed", Some(place.clone()))];
            refusal(&lane, std::slice::from_ref(&newcomer), &reasons).unwrap()
        };
        assert_eq!(refused(reason("None", None)), LinedUp::Used(vec![Turn(8)]));
        assert_eq!(refused(reason("TransactionConflict", None)), LinedUp::Conflict);
        let moved_on = lane_item(&lane, 1_000).unwrap();
        assert_eq!(refused(reason("ConditionalCheckFailed", Some(moved_on))), LinedUp::Conflict);
    }

    #[test]
    fn turns_lie_in_their_order() {
        assert!(turn_key(Turn(9)) < turn_key(Turn(10)) && turn_key(Turn(255)) < turn_key(Turn(u64::MAX)));
        assert_eq!(turn_of(&turn_key(Turn(4_711))), Some(Turn(4_711)));
    }
}
