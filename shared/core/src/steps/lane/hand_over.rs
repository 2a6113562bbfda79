//! Handing the turn over when a task is settled.

use futures::{StreamExt, stream};

use super::Ordering;
use super::pass_over::PassedBy;
use crate::domain::id::{LaneId, Round, TaskId};
use crate::domain::lane::{Lane, OnFailure, Queued, State};
use crate::domain::tracker::Outcome;
use crate::ports::{Env, Lanes, Outbox, Stored, Streams, Tasks, Trackers};
use crate::routes::Notify;
use crate::steps::cas::Tries;
use crate::steps::notices::Refused;
use crate::steps::{CONCURRENCY, Error};

/// A task whose turn is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// The task.
    pub task: TaskId,
    /// The round in which it was settled.
    pub round: Round,
    /// Its lane.
    pub lane: LaneId,
    /// What became of it.
    pub outcome: Outcome,
}

/// What handing turns over came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Lanes that a failure stopped.
    pub stopped: usize,
    /// Tasks that failed with the one before them.
    pub passed_over: usize,
    /// Those of them whose notice was refused: it is sent when the turn is handed over once more.
    pub untold: usize,
    /// What the first queue that refused one said.
    pub refusal: Option<String>,
}

/// What handing one turn over came to.
#[derive(Default)]
struct Handed {
    /// The lane as it is then.
    lane: Option<Lane>,
    /// Who was let in.
    next: Option<Queued>,
    /// Whether the task's failure stopped the lane, now or in an earlier repeat.
    is_stopped: bool,
}

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Ordering<'_, S, Q, E> {
    /// Hands the turns of settled tasks over to those behind them. May be repeated.
    pub async fn hand_over(
        &self,
        settled: &[Over],
        on_failure: OnFailure,
        notify: &Notify,
    ) -> Result<HandedOver, Error> {
        let handing: Vec<_> = settled.iter().map(|over| self.hand_one_over(over, on_failure)).collect();
        let handed: Vec<Result<Handed, Error>> = stream::iter(handing).buffer_unordered(CONCURRENCY).collect().await;
        let (mut came_to, mut entered, mut failing, mut failed) = (HandedOver::default(), Vec::new(), Vec::new(), None);
        for handed in handed {
            match handed {
                Ok(Handed { lane: Some(lane), next, is_stopped }) => {
                    came_to.stopped += usize::from(is_stopped);
                    entered.extend(next.map(|next| (lane.id.clone(), next)));
                    failing.extend(matches!(lane.state, State::Failing(_)).then_some(lane));
                }
                Ok(_) => {}
                // It keeps no other lane back.
                Err(error) => failed = Some(error),
            }
        }
        self.start(entered).await?;
        for lane in &failing {
            match self.pass_over(lane, notify, Refused::ComesAgain).await {
                Ok(PassedBy { failed, untold, refusal }) => {
                    came_to.passed_over += failed;
                    came_to.untold += untold;
                    came_to.refusal = came_to.refusal.or_else(|| refusal.map(|refusal| refusal.to_string()));
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(came_to), Err)
    }

    async fn hand_one_over(&self, over: &Over, on_failure: OnFailure) -> Result<Handed, Error> {
        let Over { task, round, lane: id, outcome } = over;
        let mut tries = Tries::of("handing a lane's turn over", self.env);
        loop {
            // A lane that is gone was idle for long: the task that had the turn handed it over.
            let Some(mut lane) = self.store.lane(id).await? else { return Ok(Handed::default()) };
            let mut next = None;
            if lane.state == State::Taken(task.clone()) {
                next = self.next_in(&lane).await?;
                if let Some(moved) = lane.settled((task, *round), *outcome, on_failure, next.as_ref(), self.env.now()) {
                    if self.store.store_lane(&moved).await? == Stored::Conflict {
                        tries.give_way().await?;
                        continue;
                    }
                    lane = moved;
                }
            }
            let (lane, next) = self.enter(lane, next).await?;
            return Ok(Handed { is_stopped: lane.is_stopped_by(task), lane: Some(lane), next });
        }
    }
}
