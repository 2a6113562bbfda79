//! Lanes under observation: a task has the turn only when every task before it is settled.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;

use groupage_core::domain::lane::State;
use groupage_core::ports::Result;

use super::Witness;
use crate::prelude::*;

/// Who came to which lane.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    lanes: BTreeMap<LaneId, InLane>,
    places: HashMap<TaskId, (LaneId, Turn)>,
}

#[derive(Debug, Default)]
struct InLane {
    by_turn: BTreeMap<Turn, TaskId>,
    /// Everybody with a lower turn was settled when somebody last had a turn.
    settled_below: Turn,
}

impl Witness {
    /// Who came to each lane, in the order of their turns.
    pub fn accepted(&self) -> BTreeMap<LaneId, Vec<TaskId>> {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.lanes.iter().map(|(id, lane)| (id.clone(), lane.by_turn.values().cloned().collect())).collect()
    }

    /// A task that was let in: everybody before it in its lane is settled.
    pub(super) async fn comes_in_order(&self, id: &TaskId) -> Result<()> {
        let before: Vec<TaskId> = {
            let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
            let Accepted { lanes, places } = &mut *accepted;
            let place = places.get(id).and_then(|(lane, turn)| Some((lanes.get_mut(lane)?, *turn)));
            let Some((lane, turn)) = place.filter(|(lane, turn)| lane.settled_below < *turn) else { return Ok(()) };
            let before = lane.by_turn.range(lane.settled_below..turn).map(|(_, task)| task.clone()).collect();
            lane.settled_below = turn;
            before
        };
        for task in self.tables.read(&before, Freshness::Latest).await? {
            if !task.status.is_settled() {
                self.note(format!("in order: {id} has its turn, and {} before it is not settled", task.id));
            }
        }
        Ok(())
    }

    /// A task that is run again: nobody behind it in its lane has had a turn.
    pub(super) fn overtakes_nobody(&self, id: &TaskId) {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let place = accepted.places.get(id).and_then(|(lane, turn)| Some((accepted.lanes.get(lane)?, *turn)));
        let is_late = place.is_some_and(|(lane, turn)| lane.settled_below > turn);
        drop(accepted);
        if is_late {
            self.note(format!("in order: {id} is run again, and one behind it has had its turn"));
        }
    }

    /// The same lane at the revision that would be stored whatever is there.
    async fn anyway(&self, lane: &Lane) -> Result<Lane> {
        let there = self.tables.lane(&lane.id).await?;
        let revision = there.map_or(lane.revision, |there| Revision(there.revision.0 + 1));
        Ok(Lane { revision, ..lane.clone() })
    }
}

impl layer::Lanes for Witness {
    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        let lane = match self.mutation {
            Some(Mutation::LinesUpUnconditionally) => self.anyway(lane).await?,
            Some(_) | None => lane.clone(),
        };
        let answer = self.tables.line_up(&lane, is_new, newcomers).await?;
        if answer == LinedUp::Yes {
            newcomers.iter().for_each(|newcomer| self.event_came(&newcomer.task));
            let mut first = None;
            {
                let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
                let Accepted { lanes, places } = &mut *accepted;
                let of_lane = &mut lanes.entry(lane.id.clone()).or_default().by_turn;
                for Newcomer { task, queued } in newcomers {
                    let turn = queued.as_ref().map_or(lane.head, |queued| queued.turn);
                    places.insert(task.id.clone(), (lane.id.clone(), turn));
                    if of_lane.insert(turn, task.id.clone()).is_some() {
                        self.note(format!("in order: two tasks have turn {turn} of {}", lane.id));
                    }
                    if queued.is_none() {
                        first = Some(task.id.clone());
                    }
                }
            }
            if let Some(first) = first {
                self.comes_in_order(&first).await?;
                if lane.state != State::Taken(first.clone()) {
                    self.note(format!("in order: {first} has its turn, and its lane says otherwise"));
                }
            }
        }
        Ok(answer)
    }

    async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
        match self.mutation {
            Some(Mutation::WritesLanesUnconditionally) => self.tables.store_lane(&self.anyway(lane).await?).await,
            Some(_) | None => self.tables.store_lane(lane).await,
        }
    }
}
