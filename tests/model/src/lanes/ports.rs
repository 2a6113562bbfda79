//! The traits of `Ordering`, over a recorder: what a call asks of the tables, and what it does to them.

use groupage_core::domain::lane::Queued;
use groupage_core::domain::task::Ties;
use groupage_core::ports::{LinedUp, Newcomer, PassedOver, Result};

use super::setting::{Setting, number};
use crate::prelude::*;

#[derive(Clone, Debug)]
pub enum Sent {
    /// A leader for these tasks.
    Elect(Vec<TaskId>),
    /// A failed task's notice.
    Tell(TaskId),
}

impl layer::Lanes for Ports<Setting> {
    async fn lane(&self, _: &LaneId) -> Result<Option<Lane>> {
        self.read("lane", (), |act, ()| act.shown_lane()).await
    }

    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        let coming = (Kept::new(lane.clone()), is_new, newcomers.to_vec());
        self.write("line_up", coming, |act, (lane, is_new, newcomers)| act.line_up(lane, *is_new, newcomers)).await
    }

    async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
        self.write("store_lane", Kept::new(lane.clone()), |act, lane| act.store_lane(lane)).await
    }

    async fn queued(&self, _: &LaneId, from: Turn, to: Turn, _: usize) -> Result<Vec<Queued>> {
        if from >= to {
            return Ok(Vec::new());
        }
        self.read("queued", (from, to), |act, (from, to)| act.queued(*from, *to)).await
    }

    async fn leave(&self, _: &LaneId, queued: &[Queued]) -> Result<()> {
        if queued.is_empty() {
            return Ok(());
        }
        self.write("leave", queued.to_vec(), |act, queued| queued.iter().for_each(|queued| act.leave(queued))).await
    }
}

impl layer::Tasks for Ports<Setting> {
    type Cursor = ();

    async fn read(&self, ids: &[TaskId], _: Freshness) -> Result<Vec<Task>> {
        self.read("read", ids.to_vec(), |act, ids| {
            ids.iter().filter_map(|id| act.tasks.get(&number(id)).cloned()).collect::<Vec<_>>()
        })
        .await
    }

    async fn take_turn(&self, (task, _): (&TaskId, Traits), _: &Target, _: Timestamp) -> Result<PutBack> {
        self.write("take_turn", task.clone(), |act, task| act.take_turn(task)).await
    }

    async fn pass_over(&self, task: &TaskId, _: &Failure, now: Timestamp) -> Result<Option<PassedOver>> {
        let failed = self.write("pass_over", task.clone(), |act, task| act.pass_over(number(task))).await?;
        Ok(failed.then(|| PassedOver { ties: Ties::default(), at: now, trace: None }))
    }
}

groupage_core::hand_on!(Ports<Setting>: Trackers, Streams);
