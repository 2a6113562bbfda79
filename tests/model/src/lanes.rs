//! No route here is ordered, so nobody asks.

use groupage_core::domain::id::{LaneId, RouteName, Turn};
use groupage_core::domain::lane::{Lane, Queued};
use groupage_core::ports::{Lanes, LinedUp, Newcomer, Result, Stored};

use crate::recorder::Recorder;
use crate::unasked::unasked;

impl Lanes for Recorder {
    async fn lane(&self, _: &LaneId) -> Result<Option<Lane>> {
        Err(unasked())
    }

    async fn line_up(&self, _: &Lane, _: bool, _: &[Newcomer]) -> Result<LinedUp> {
        Err(unasked())
    }

    async fn store_lane(&self, _: &Lane) -> Result<Stored> {
        Err(unasked())
    }

    async fn queued(&self, _: &LaneId, _: Turn, _: Turn, _: usize) -> Result<Vec<Queued>> {
        Err(unasked())
    }

    async fn stopped(&self, _: &RouteName, _: usize) -> Result<Vec<LaneId>> {
        Err(unasked())
    }

    async fn leave(&self, _: &LaneId, _: &[Queued]) -> Result<()> {
        Err(unasked())
    }
}
