//! Handing the turn over when a task is settled.

use futures::{StreamExt, TryStreamExt, stream};

use super::{Ordering, TRIES};
use crate::domain::id::{LaneId, TaskId};
use crate::domain::lane::{OnFailure, Queued, State};
use crate::domain::tracker::Outcome;
use crate::ports::{Env, Lanes, Outbox, Stored, Streams, Tasks, Trackers};
use crate::routes::Notify;
use crate::steps::{CONCURRENCY, Error, let_others_go_first};

/// What handing turns over came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Lanes that a failure stopped.
    pub stopped: usize,
    /// Tasks that failed with the one before them.
    pub passed_over: usize,
}

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Ordering<'_, S, Q, E> {
    /// Hands the turns of settled tasks over to those behind them. May be repeated.
    ///
    /// # Errors
    /// A port did not answer: the call may be repeated.
    pub async fn hand_over(
        &self,
        settled: &[(TaskId, LaneId, Outcome)],
        on_failure: OnFailure,
        notify: &Notify,
    ) -> Result<HandedOver, Error> {
        let handing: Vec<_> = settled
            .iter()
            .map(|(task, lane, outcome)| async move {
                let (next, came_to) = self.hand_one_over(task, lane, *outcome, on_failure, notify).await?;
                Ok::<_, Error>((next.map(|next| (lane.clone(), next)), came_to))
            })
            .collect();
        let handed: Vec<_> = stream::iter(handing).buffer_unordered(CONCURRENCY).try_collect().await?;
        let (entered, came_to): (Vec<_>, Vec<HandedOver>) = handed.into_iter().unzip();
        self.start(entered.into_iter().flatten().collect()).await?;
        Ok(came_to.into_iter().fold(HandedOver::default(), |sum, one| HandedOver {
            stopped: sum.stopped + one.stopped,
            passed_over: sum.passed_over + one.passed_over,
        }))
    }

    async fn hand_one_over(
        &self,
        task: &TaskId,
        id: &LaneId,
        outcome: Outcome,
        on_failure: OnFailure,
        notify: &Notify,
    ) -> Result<(Option<Queued>, HandedOver), Error> {
        let mut came_to = HandedOver::default();
        for tries in 0..TRIES {
            // A lane that is gone was idle for long: whoever had the turn handed it over.
            let Some(mut lane) = self.store.lane(id).await? else { return Ok((None, came_to)) };
            let mut next = None;
            if lane.state == State::Taken(task.clone()) {
                next = self.next_in(&lane).await?;
                if let Some(moved) = lane.settled(task, outcome, on_failure, next.as_ref(), self.env.now()) {
                    if self.store.store_lane(&moved).await? == Stored::Conflict {
                        let_others_go_first(self.env, tries).await;
                        continue;
                    }
                    came_to.stopped = usize::from(moved.is_stopped());
                    lane = moved;
                }
            }
            if let State::Failing(_) = lane.state {
                came_to.passed_over = self.pass_over(&lane, notify).await?;
            }
            return Ok((self.enter(&lane, next).await?, came_to));
        }
        Err(Error::Conflict("handing a lane's turn over"))
    }
}
