//! Running a world until nothing is left to do.

use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use groupage_core::domain::tracker::State;

use super::World;
use crate::prelude::*;

/// How often somebody looks whether everything is at rest, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// How often a person looks for lanes that a failure stopped, in milliseconds.
const PERSON_MS: u64 = 600_000;

impl World {
    /// Runs until nothing is left to do.
    ///
    /// # Errors
    /// It cannot come to rest, or does not within its setting's patience.
    pub async fn run_to_rest(&self) -> Result<(), String> {
        self.run_while(|| true).await
    }

    /// Runs for so long, in milliseconds, or until nothing is left to do.
    pub async fn run_for(&self, ms: u64) -> Result<(), String> {
        let until = self.env.now().plus_ms(ms);
        self.run_while(|| self.env.now() < until).await
    }

    /// Runs until nothing is left to do or `go_on` says stop; the process at work then dies.
    pub async fn run_while(&self, go_on: impl Fn() -> bool) -> Result<(), String> {
        let end = self.env.now().plus_ms(self.setting.patience_ms);
        let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut background: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        if self.setting.sweeps && self.setting.mutation != Some(Mutation::NeverSweeps) {
            background.push(Box::pin(self.sweep_for_ever()));
        }
        if let Some(expires) = self.setting.expires {
            background.push(Box::pin(self.expire_for_ever(expires)));
        }
        for _ in 0..self.setting.workers.map_or(0, |(_, count)| count) {
            background.push(Box::pin(self.work_for_ever()));
        }
        let mut looks_at = self.env.now().plus_ms(PERSON_MS);
        while go_on() {
            while let Some(job) = self.next_job() {
                running.push(Box::pin(self.run(job)));
            }
            let (now, next) = (self.env.now(), self.next_job_at());
            // A source whose window is full is never idle, so people look after lanes now and then, too.
            if now >= looks_at {
                looks_at = now.plus_ms(PERSON_MS);
                self.somebody_lets_lanes_go_on();
            }
            if self.somebody_retries() | self.somebody_cancels() {
                continue;
            }
            if running.is_empty() {
                if next.is_none() && self.is_at_rest() {
                    return Ok(());
                }
                if next.is_none() && self.somebody_lets_lanes_go_on() {
                    continue;
                }
                if next.is_none() && background.is_empty() {
                    return Err(self.stuck());
                }
            }
            if now > end || self.fate.count() > self.setting.most_calls {
                return Err(self.stuck());
            }
            let wait_ms = next.map_or(LOOK_MS, |next| next.since(now).clamp(1, LOOK_MS));
            tokio::select! {
                biased;
                Some(()) = running.next(), if !running.is_empty() => {}
                Some(()) = background.next(), if !background.is_empty() => {}
                () = self.queues.changed() => {}
                () = self.jobs_changed.notified() => {}
                () = self.env.sleep(wait_ms) => {}
            }
        }
        Ok(())
    }

    fn is_at_rest(&self) -> bool {
        self.tables().tasks().iter().all(|task| task.status.is_settled())
            && self.tables().untold().is_empty()
            && self.tables().batches().iter().all(|batch| batch.unfinished().is_none())
            && self.tables().trackers().iter().all(is_told_of)
            && self.tables().lists().iter().all(|list| list.head.reservations.is_empty())
            && self.tables().streams().iter().all(is_complete)
            && self.stopped_lanes().is_empty()
    }

    fn stuck(&self) -> String {
        let tasks = self.tables().tasks();
        let tasks = tasks.iter().filter(|task| !task.status.is_settled());
        let tasks: Vec<String> = tasks.map(|task| format!("{} is {:?}", task.id, task.status)).collect();
        let batches = self.tables().batches();
        let batches = batches.iter().filter(|batch| batch.unfinished().is_some());
        let batches: Vec<String> =
            batches.map(|batch| format!("{} is {:?}, due {}", batch.id, batch.status, batch.due.0)).collect();
        let trackers: Vec<_> = self.tables().trackers().into_iter().filter(|tracker| !is_told_of(tracker)).collect();
        let heads: Vec<_> = self.tables().lists().into_iter().map(|list| list.head).collect();
        let heads: Vec<_> = heads.into_iter().filter(|head| !head.reservations.is_empty()).collect();
        let now = self.env.now().0;
        format!("no task is lost: nothing moves at {now}: {tasks:?}, {batches:?}, {trackers:?}, {heads:?}")
    }
}

/// Whether all of a stream is settled, and that is told.
fn is_complete(stream: &Stream) -> bool {
    stream.state == stream::State::Completed && stream.is_told
}

/// Whether a tracker has ended, and its notice is sent.
fn is_told_of(tracker: &Tracker) -> bool {
    matches!(&tracker.state, State::Ended(end) if end.told)
}
