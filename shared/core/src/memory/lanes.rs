//! Lanes in memory.

use std::collections::BTreeMap;

use super::expiry::Row;
use super::{MemoryStore, Tables};
use crate::domain::id::{LaneId, RouteName, TaskId, Turn};
use crate::domain::lane::{Lane, Queued};
use crate::domain::task::{Status, Task};
use crate::domain::time::Timestamp;
use crate::ports::{Lanes, LinedUp, Newcomer, Result, Stored};

/// A lane and who waits in it.
#[derive(Clone, Debug, Default)]
pub(super) struct InLane {
    lane: Option<Lane>,
    queued: BTreeMap<Turn, Queued>,
}

impl InLane {
    pub(super) fn is_before(&self, next: &Lane) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.revision.next() == next.revision)
    }
}

impl Tables {
    pub(super) fn write_lane(&mut self, lane: &Lane) {
        let until = lane.is_idle().then(|| lane.active_at.plus_ms(self.expiry.keeps.retention_ms));
        self.expiry.keep(Row::Lane(lane.id.clone()), until);
        self.lanes.entry(lane.id.clone()).or_default().lane = Some(lane.clone());
    }

    /// Who waits in it has a record of their own.
    pub(super) fn forget_lane(&mut self, id: &LaneId) {
        if let Some(all) = self.lanes.get_mut(id) {
            all.lane = None;
        }
    }
}

impl MemoryStore {
    /// All lanes, in the order of their ids, each with how many wait in it.
    pub fn lanes(&self) -> Vec<(Lane, usize)> {
        let tables = self.tables();
        tables.lanes.values().filter_map(|all| Some((all.lane.clone()?, all.queued.len()))).collect()
    }
}

impl Lanes for MemoryStore {
    async fn lane(&self, id: &LaneId) -> Result<Option<Lane>> {
        Ok(self.tables().lanes.get(id).and_then(|all| all.lane.clone()))
    }

    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        let mut guard = self.tables();
        let tables = &mut *guard;
        let before: Vec<Task> =
            newcomers.iter().filter_map(|newcomer| tables.tasks.get(&newcomer.task.id).cloned()).collect();
        if !before.is_empty() {
            return Ok(LinedUp::Before(before));
        }
        let all = tables.lanes.entry(lane.id.clone()).or_default();
        let is_as_assumed = if is_new { all.lane.is_none() } else { all.is_before(lane) };
        if !is_as_assumed {
            return Ok(LinedUp::Conflict);
        }
        let turns = newcomers.iter().filter_map(|newcomer| newcomer.queued.as_ref().map(|queued| queued.turn));
        let used: Vec<Turn> = turns.filter(|turn| all.queued.contains_key(turn)).collect();
        if !used.is_empty() {
            return Ok(LinedUp::Used(used));
        }
        all.queued.extend(newcomers.iter().filter_map(|Newcomer { queued, .. }| queued.clone()).map(|q| (q.turn, q)));
        tables.write_lane(lane);
        for Newcomer { task, .. } in newcomers {
            if let Status::Created { target } = &task.status {
                tables.show(target, task.candidate());
            }
            tables.tasks.insert(task.id.clone(), task.clone());
        }
        Ok(LinedUp::Yes)
    }

    async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
        let mut tables = self.tables();
        let Some(all) = tables.lanes.get(&lane.id) else { return Ok(Stored::Conflict) };
        let is_written = all.lane.as_ref() == Some(lane) || all.is_before(lane);
        if is_written {
            tables.write_lane(lane);
        }
        Ok(Stored::when(is_written))
    }

    async fn queued(&self, id: &LaneId, from: Turn, to: Turn, limit: usize) -> Result<Vec<Queued>> {
        let tables = self.tables();
        let Some(all) = tables.lanes.get(id).filter(|_| from < to) else { return Ok(Vec::new()) };
        Ok(all.queued.range(from..to).take(limit).map(|(_, queued)| queued.clone()).collect())
    }

    async fn stopped(&self, route: &RouteName, missing_since: Timestamp, limit: usize) -> Result<Vec<LaneId>> {
        let tables = self.tables();
        let mut stopped: Vec<&Lane> = tables.lanes.values().filter_map(|all| all.lane.as_ref()).collect();
        let stands = |lane: &Lane| lane.is_stopped() || (lane.missing().is_some() && lane.active_at < missing_since);
        stopped.retain(|lane| stands(lane) && lane.id.route() == *route);
        stopped.sort_by_key(|lane| (lane.missing().is_some(), lane.active_at));
        Ok(stopped.into_iter().take(limit).map(|lane| lane.id.clone()).collect())
    }

    async fn leave(&self, id: &LaneId, queued: &[Queued]) -> Result<()> {
        if let Some(all) = self.tables().lanes.get_mut(id) {
            let leaves = |turn: &Turn, task: &TaskId| {
                queued.iter().any(|queued| queued.turn == *turn && queued.candidate.id == *task)
            };
            all.queued.retain(|turn, waits| !leaves(turn, &waits.candidate.id));
        }
        Ok(())
    }
}
