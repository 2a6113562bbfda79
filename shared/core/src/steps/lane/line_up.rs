//! Tasks come to their lane.

use std::collections::HashSet;

use super::Ordering;
use crate::domain::id::{LaneId, Target, TaskId, Turn};
use crate::domain::lane::{Lane, Numbering, Place, Queued, State};
use crate::domain::task::{Status, Task};
use crate::ports::{Env, Freshness, Lanes, LinedUp, MAX_NEWCOMERS, Newcomer, Outbox, Streams, Tasks, Trackers};
use crate::routes::Notify;
use crate::steps::Error;
use crate::steps::cas::Tries;
use crate::steps::notices::Refused;

/// A task that comes to its lane: as it would wait for a batch if nobody were before it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The task.
    pub task: Task,
    /// What it is grouped by.
    pub target: Target,
    /// Its own number, if tasks bring theirs along.
    pub sequence: Option<Turn>,
}

/// What became of a task that came to its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lined {
    /// It has its turn at once: it waits for a batch.
    First,
    /// It waits for its turn; or it failed at once, as the task before it had.
    Behind,
    /// A task with this id was there.
    Existing(Box<Task>),
    /// Its number is used by another task.
    Used,
    /// It brings a number that is too far ahead.
    TooFarAhead,
    /// It brings a number, and the lane counts arrivals; or the other way round.
    OtherNumbering,
}

/// Bytes of payloads that come by one transaction: it takes 4 MB of items.
const MAX_BYTES: usize = 3_000_000;

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Ordering<'_, S, Q, E> {
    /// Lets tasks come to their lane, in this order, and says what became of each, in this order. After an error nobody
    /// else comes: the answers are fewer then, and it is the last.
    pub async fn line_up(
        &self,
        id: &LaneId,
        numbering: Numbering,
        arrivals: &[Arrival],
        notify: &Notify,
    ) -> Vec<Result<Lined, Error>> {
        let mut lined = Vec::with_capacity(arrivals.len());
        let mut rest = arrivals;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(transaction_len(rest));
            match self.line_some_up(id, numbering, now, notify).await {
                Ok(some) => lined.extend(some.into_iter().map(Ok)),
                Err(error) => {
                    lined.push(Err(error));
                    return lined;
                }
            }
            rest = later;
        }
        lined
    }

    /// By one transaction, less those who cannot come.
    async fn line_some_up(
        &self,
        id: &LaneId,
        numbering: Numbering,
        arrivals: &[Arrival],
        notify: &Notify,
    ) -> Result<Vec<Lined>, Error> {
        let mut lined: Vec<Option<Lined>> = vec![None; arrivals.len()];
        let mut tries = Tries::of("lining tasks up in a lane", self.env);
        loop {
            let coming: Vec<usize> = (0..arrivals.len()).filter(|position| lined[*position].is_none()).collect();
            let found = self.store.lane(id).await?;
            let is_new = found.is_none();
            let now = self.env.now();
            let before = found.unwrap_or_else(|| Lane::open(id.clone(), numbering, now));
            let ids: Vec<_> = coming.iter().map(|&position| numbered(&arrivals[position])).collect();
            let (after, places) = before.lined_up(&ids, now);
            let mut newcomers = Vec::with_capacity(coming.len());
            for (&position, place) in coming.iter().zip(places) {
                match newcomer(id, &arrivals[position], place) {
                    Ok(newcomer) => newcomers.push((position, newcomer)),
                    Err(refused) => lined[position] = Some(refused),
                }
            }
            let (positions, newcomers): (Vec<usize>, Vec<Newcomer>) = newcomers.into_iter().unzip();
            let outcome = match &after {
                Some(after) => self.store.line_up(after, is_new, &newcomers).await?,
                None => LinedUp::Yes,
            };
            match outcome {
                LinedUp::Yes => {
                    for (position, newcomer) in positions.into_iter().zip(newcomers) {
                        lined[position] = Some(if newcomer.queued.is_some() { Lined::Behind } else { Lined::First });
                    }
                    self.tell_repeats(arrivals, &mut lined).await?;
                    let lined: Vec<Lined> = lined.into_iter().flatten().collect();
                    let lane = after.unwrap_or(before);
                    if matches!(lane.state, State::Failing(_)) || lined.iter().any(is_half_done) {
                        self.pass_over(&lane, notify, Refused::IsRejected).await?;
                    }
                    return Ok(lined);
                }
                LinedUp::Before(tasks) => {
                    for task in tasks {
                        let of_task = |position: &&usize| arrivals[**position].task.id == task.id;
                        if let Some(position) = positions.iter().find(of_task) {
                            lined[*position] = Some(Lined::Existing(Box::new(task)));
                        }
                    }
                    tries.again()?;
                }
                LinedUp::Used(turns) => {
                    for (position, newcomer) in positions.iter().zip(&newcomers) {
                        if newcomer.queued.as_ref().is_some_and(|queued| turns.contains(&queued.turn)) {
                            lined[*position] = Some(Lined::Used);
                        }
                    }
                    tries.again()?;
                }
                LinedUp::Conflict => tries.give_way().await?,
            }
        }
    }

    /// A number may be used by the very task that brings it again.
    async fn tell_repeats(&self, arrivals: &[Arrival], lined: &mut [Option<Lined>]) -> Result<(), Error> {
        let refused =
            |lined: &Option<Lined>| matches!(lined, Some(Lined::Used | Lined::TooFarAhead | Lined::OtherNumbering));
        let ids: Vec<TaskId> = arrivals
            .iter()
            .zip(&*lined)
            .filter(|(_, lined)| refused(lined))
            .map(|(arrival, _)| arrival.task.id.clone())
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        for task in self.store.read(&ids, Freshness::Latest).await? {
            let its = arrivals.iter().zip(&mut *lined).find(|(arrival, _)| arrival.task.id == task.id);
            if let Some((_, lined)) = its {
                *lined = Some(Lined::Existing(Box::new(task)));
            }
        }
        Ok(())
    }
}

/// Whether somebody may have died who was to fail the task, since its turn was over before it came.
fn is_half_done(lined: &Lined) -> bool {
    match lined {
        Lined::Existing(task) => matches!(task.status, Status::Queued | Status::Failed { batch: None, .. }),
        Lined::First | Lined::Behind | Lined::Used | Lined::TooFarAhead | Lined::OtherNumbering => false,
    }
}

/// How many of these come by one transaction: one at least, no id twice.
fn transaction_len(arrivals: &[Arrival]) -> usize {
    let (mut bytes, mut ids) = (0, HashSet::new());
    let fits = |Arrival { task, .. }: &Arrival| {
        bytes += task.payload.len();
        bytes <= MAX_BYTES && ids.insert(task.id.clone())
    };
    arrivals.iter().take(MAX_NEWCOMERS).map(fits).take_while(|fits| *fits).count().max(1)
}

fn numbered(arrival: &Arrival) -> (TaskId, Option<Turn>) {
    (arrival.task.id.clone(), arrival.sequence)
}

fn newcomer(lane: &LaneId, arrival: &Arrival, place: Place) -> Result<Newcomer, Lined> {
    let Arrival { task, target, .. } = arrival;
    match place {
        Place::First => Ok(Newcomer { task: Task { lane: Some(lane.clone()), ..task.clone() }, queued: None }),
        Place::Behind(turn) => {
            let queued = Some(Queued::of(task, target.clone(), turn));
            Ok(Newcomer { task: task.clone().queued_in(lane.clone()), queued })
        }
        Place::Used => Err(Lined::Used),
        Place::TooFarAhead => Err(Lined::TooFarAhead),
        Place::OtherNumbering => Err(Lined::OtherNumbering),
    }
}
