//! Lanes, whose tasks the index shows later.

use groupage_core::domain::id::{LaneId, RouteName, Turn};
use groupage_core::domain::lane::{Lane, Queued};
use groupage_core::ports::{Env, Lanes, LinedUp, Newcomer, Result, Stored, Tasks};

use super::Lagging;

impl<S: Lanes + Tasks, E: Env> Lanes for Lagging<S, E> {
    crate::pass::lanes_but_line_up!();

    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        let answer = self.inner.line_up(lane, is_new, newcomers).await?;
        if answer == LinedUp::Yes {
            newcomers.iter().for_each(|newcomer| self.appeared(&newcomer.task));
        }
        Ok(answer)
    }
}
