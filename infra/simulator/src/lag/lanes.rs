//! Lanes, whose tasks the index shows later.

use shared::domain::id::{LaneId, RouteName, Turn};
use shared::domain::lane::{Lane, Queued};
use shared::ports::{Env, Lanes, LinedUp, Newcomer, Result, Stored, Tasks};

use super::Lagging;

impl<S: Lanes + Tasks, E: Env> Lanes for Lagging<S, E> {
    async fn lane(&self, id: &LaneId) -> Result<Option<Lane>> {
        self.inner.lane(id).await
    }

    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        let answer = self.inner.line_up(lane, is_new, newcomers).await?;
        if answer == LinedUp::Yes {
            newcomers.iter().for_each(|newcomer| self.appeared(&newcomer.task));
        }
        Ok(answer)
    }

    async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
        self.inner.store_lane(lane).await
    }

    async fn queued(&self, id: &LaneId, from: Turn, to: Turn, limit: usize) -> Result<Vec<Queued>> {
        self.inner.queued(id, from, to, limit).await
    }

    async fn stopped(&self, route: &RouteName, limit: usize) -> Result<Vec<LaneId>> {
        self.inner.stopped(route, limit).await
    }

    async fn leave(&self, id: &LaneId, queued: &[Queued]) -> Result<()> {
        self.inner.leave(id, queued).await
    }
}
