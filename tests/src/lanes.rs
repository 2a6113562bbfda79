//! Lanes as processes see them: through stores that fail at every call.

use groupage_core::domain::id::{LaneId, RouteName, Turn};
use groupage_core::domain::lane::{Lane, Queued};
use groupage_core::ports::{Lanes, LinedUp, Newcomer, Result, Stored};

use crate::faulty::Faulty;

impl<S: Lanes> Lanes for Faulty<'_, S> {
    async fn lane(&self, id: &LaneId) -> Result<Option<Lane>> {
        self.process.around("lane", self.inner.lane(id)).await
    }

    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        self.process.around("line_up", self.inner.line_up(lane, is_new, newcomers)).await
    }

    async fn store_lane(&self, lane: &Lane) -> Result<Stored> {
        self.process.around("store_lane", self.inner.store_lane(lane)).await
    }

    async fn queued(&self, id: &LaneId, from: Turn, to: Turn, limit: usize) -> Result<Vec<Queued>> {
        self.process.around("queued", self.inner.queued(id, from, to, limit)).await
    }

    async fn stopped(&self, route: &RouteName, limit: usize) -> Result<Vec<LaneId>> {
        self.process.around("stopped", self.inner.stopped(route, limit)).await
    }

    async fn leave(&self, id: &LaneId, queued: &[Queued]) -> Result<()> {
        self.process.around("leave", self.inner.leave(id, queued)).await
    }
}
