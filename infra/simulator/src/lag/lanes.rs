//! Lanes, whose tasks the index shows later.

use groupage_core::domain::lane::Lane;
use groupage_core::ports::{Env, Lanes, LinedUp, Newcomer, Result, layer};

use super::Lagging;

impl<S: Lanes, E: Env> layer::Lanes for Lagging<S, E> {
    async fn line_up(&self, lane: &Lane, is_new: bool, newcomers: &[Newcomer]) -> Result<LinedUp> {
        let answer = self.inner.line_up(lane, is_new, newcomers).await?;
        if answer == LinedUp::Yes {
            newcomers.iter().for_each(|newcomer| self.appeared(&newcomer.task));
        }
        Ok(answer)
    }
}
