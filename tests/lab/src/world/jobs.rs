//! The jobs of a world's processes: when each begins, and what becomes of it when its process dies.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use groupage_core::steps::lane::Skipped;
use groupage_core::steps::register::{Record, Report};

use super::fan_out::FanOut;
use super::shelf::Caller;
use super::source::Source;
use super::{VISIBILITY_MS, World};
use crate::prelude::*;
use crate::records::received;

/// Jobs that begin at their time.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    waiting: VecDeque<(Timestamp, u64, Job)>,
    made: u64,
}

/// What a process is started with.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// Records of the task queue, for register-task.
    Event(Vec<Record>),
    /// The same as another job, at the same time. It leaves it to that one to come again: else each of the two would
    /// beget others like it.
    Beside(Box<Job>),
    /// Messages of the task queue or the FIFO queue, for register-task.
    Tasks(Vec<Delivery>),
    /// A message between the steps.
    Delivery(Delivery),
    /// A fan-out's owner.
    Own(Arc<FanOut>),
    /// A stream's source.
    Feed(Arc<Source>),
    /// A person who lets a lane go on.
    Resume(LaneId),
    /// A person who gives up a number that never comes.
    Skip(LaneId, Turn),
    /// A person who runs a failed task again.
    Retry(TaskId),
    /// A person who cancels a task.
    Cancel(TaskId),
    /// A person who cancels a tracker's tasks.
    CancelOf(TrackerId),
    /// A person who has a task erased, and asks again until it is.
    Erase(TaskId),
    /// Somebody who makes calls to a list.
    List(Arc<Caller>),
    /// A person who holds a route's calls back, and lets them go on when they were held for a while.
    Hold(RouteName),
    /// The same person, then.
    LetGo(RouteName),
    /// A person who pushes a routes file.
    Push(String),
    /// A person who sends again what no route wanted.
    Redrive,
}

/// For how long a person holds calls back, in milliseconds.
const HELD_MS: u64 = 40_000;

/// This many messages come to register-task together at most.
const MOST_AT_ONCE: usize = 10;

impl World {
    /// Starts a job later; it can be forgotten by the number until then.
    pub(crate) fn later(&self, delay_ms: u64, job: Job) -> u64 {
        let at = self.env.now().plus_ms(delay_ms);
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.made += 1;
        let number = jobs.made;
        jobs.waiting.push_back((at, number, job));
        self.jobs_changed.notify_one();
        number
    }

    /// Whether the job was still waiting.
    pub(crate) fn forget(&self, number: u64) -> bool {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let before = jobs.waiting.len();
        jobs.waiting.retain(|(_, other, _)| *other != number);
        jobs.waiting.len() < before
    }

    pub(crate) fn next_job(&self) -> Option<Job> {
        let now = self.env.now();
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = jobs.waiting.iter().position(|(at, _, _)| *at <= now) {
            return jobs.waiting.remove(at).map(|(_, _, job)| job);
        }
        drop(jobs);
        let most = |to: &Destination| match to {
            Destination::Tasks | Destination::Gather(_) if self.setting.mixes => MOST_AT_ONCE,
            _ => 1,
        };
        let mut deliveries = self.queues.receive_together(most, VISIBILITY_MS);
        let job = if most(&deliveries.first()?.outgoing.to) > 1 {
            Job::Tasks(deliveries)
        } else {
            Job::Delivery(deliveries.pop()?)
        };
        if self.setting.twice > 0.0 && self.env.chance(self.setting.twice) {
            self.later(0, job.clone());
        }
        Some(job)
    }

    pub(crate) fn next_job_at(&self) -> Option<Timestamp> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.waiting.iter().map(|(at, _, _)| *at).chain(self.queues.now().next_visible_at()).min()
    }

    /// One process's life.
    pub(crate) async fn run(&self, job: Job) {
        let process = self.mortal(step(&job));
        let (job, is_beside) = if let Job::Beside(job) = job { (*job, true) } else { (job, false) };
        let twin = || {
            self.later(0, Job::Beside(Box::new(job.clone())));
        };
        let later = |delay_ms| (!is_beside).then(|| self.later(delay_ms, job.clone()));
        let forget = |next: Option<u64>| next.is_some_and(|next| self.forget(next));
        match &job {
            Job::Event(records) => {
                // Hidden, and shown again unless it is deleted.
                let again = |record: &Record| Record { received: record.received + 1, ..record.clone() };
                let shown: &[Record] = if is_beside { &[] } else { records };
                let parts = self.parted(&shown.iter().map(again).collect::<Vec<_>>());
                let hidden: Vec<(u64, Vec<Record>)> = parts
                    .into_iter()
                    .map(|(delay_ms, part)| (self.later(VISIBILITY_MS + delay_ms, Job::Event(part.clone())), part))
                    .collect();
                if self.setting.mutation == Some(Mutation::AcknowledgesFirst) {
                    for (number, _) in &hidden {
                        self.forget(*number);
                    }
                }
                let Some(report) = process.run(self.register_as(&process, records.clone()), twin).await else { return };
                for (number, part) in hidden {
                    if self.forget(number) {
                        let failed: Vec<Record> = part.into_iter().filter(|record| is_kept(&report, record)).collect();
                        if !failed.is_empty() {
                            self.later(VISIBILITY_MS, Job::Event(failed));
                        }
                    }
                }
            }
            Job::Tasks(deliveries) => {
                let delete = |delivery: &Delivery| self.queues.now().delete(&delivery.receipt);
                if self.setting.mutation == Some(Mutation::AcknowledgesFirst) {
                    deliveries.iter().for_each(delete);
                }
                let records: Vec<Record> = deliveries.iter().map(received).collect();
                if let Some(report) = process.run(self.register_as(&process, records), twin).await {
                    deliveries.iter().filter(|delivery| !is_kept(&report, &received(delivery))).for_each(delete);
                }
            }
            Job::Delivery(delivery) => {
                if self.setting.mutation == Some(Mutation::AcknowledgesFirst) {
                    self.queues.now().delete(&delivery.receipt);
                }
                if let Some(Ok(true)) = process.run(self.deliver_as(&process, delivery), twin).await {
                    self.queues.now().delete(&delivery.receipt);
                }
            }
            // If that person dies, the lane is still stopped, or another looks after it.
            Job::Resume(lane) => drop(process.run(self.resume_as(&process, lane), twin).await),
            Job::Skip(lane, missing) => {
                let next = later(VISIBILITY_MS);
                let is_over = |skipped: Skipped| match skipped {
                    Skipped::Yes => true,
                    // It may not have come to that number yet.
                    Skipped::NotMissing(lane) => lane.head > *missing,
                    Skipped::Unknown => false,
                };
                if process
                    .run(self.skip_as(&process, lane, *missing), twin)
                    .await
                    .is_some_and(|it| it.is_ok_and(is_over))
                {
                    forget(next);
                }
            }
            // The same of a person who dies with a retry.
            Job::Retry(task) => drop(process.run(self.retry_as(&process, task), twin).await),
            Job::Cancel(task) => drop(process.run(self.cancel_as(&process, task), twin).await),
            Job::CancelOf(tracker) => drop(process.run(self.cancel_of_as(&process, tracker), twin).await),
            Job::Erase(task) => {
                let next = later(VISIBILITY_MS);
                let erased = process.run(self.erase_as(&process, task), twin).await;
                if let Some(Ok(each)) = erased
                    && each.iter().all(|(_, outcome)| matches!(outcome, Ok(Ok(()))))
                {
                    forget(next);
                }
            }
            Job::Feed(source) => {
                // Another one begins soon, and never two: a source that is two is started as two.
                if process.run(self.feed_as(&process, source), || {}).await.is_none() {
                    self.later(self.env.pick(0..=5_000), job.clone());
                }
            }
            Job::Own(fan_out) => {
                // Somebody notices after a while that it died.
                let next = later(VISIBILITY_MS + fan_out.pauses_ms());
                if process.run(self.own_as(&process, fan_out), twin).await.is_some() {
                    forget(next);
                }
            }
            // A person who gets no answer repeats what they asked for.
            Job::Hold(route) => {
                let next = later(VISIBILITY_MS);
                if let Some(Ok(_)) = process.run(self.hold_as(&process, &Scope::Route(route.clone())), twin).await
                    && forget(next)
                {
                    let held_ms = self.setting.expires.map_or(HELD_MS, |expires| expires.standstill_ms);
                    self.later(held_ms, Job::LetGo(route.clone()));
                }
            }
            Job::LetGo(route) => {
                let next = later(VISIBILITY_MS);
                let scope = Scope::Route(route.clone());
                if let Some(Ok(_)) = process.run(self.let_go_as(&process, &scope), twin).await {
                    forget(next);
                }
            }
            Job::Push(routes) => self.push_now(routes),
            // What is beside another was taken out of its box above.
            Job::Beside(_) => {}
            Job::Redrive => self.redrive(),
            Job::List(caller) => {
                let next = if caller.is_repeated { later(VISIBILITY_MS + caller.pauses_ms()) } else { None };
                if process.run(self.call_as(&process, caller), twin).await.is_some() {
                    forget(next);
                }
            }
        }
    }
}

impl World {
    /// The events in which records come again, each so much later: the queue knows messages only.
    fn parted(&self, records: &[Record]) -> Vec<(u64, Vec<Record>)> {
        if !self.setting.mixes {
            return if records.is_empty() { Vec::new() } else { vec![(0, records.to_vec())] };
        }
        let (middle, later_ms) = (self.env.pick(0..=records.len() as u64), self.env.pick(0..=20));
        let (first, second) = records.split_at(usize::try_from(middle).unwrap_or_default());
        [(0, first), (later_ms, second)]
            .into_iter()
            .filter(|(_, part)| !part.is_empty())
            .map(|(delay_ms, part)| (delay_ms, part.to_vec()))
            .collect()
    }
}

const fn step(job: &Job) -> &'static str {
    match job {
        Job::Event(_) | Job::Tasks(_) => "register-task",
        Job::Beside(job) => step(job),
        Job::Own(_) => "own",
        Job::Feed(_) => "feed",
        Job::Resume(_) => "resume",
        Job::Skip(..) => "skip",
        Job::Retry(_) => "retry",
        Job::Cancel(_) | Job::CancelOf(_) => "cancel",
        Job::Erase(_) => "erase",
        Job::List(_) => "list",
        Job::Hold(_) => "hold",
        Job::LetGo(_) => "let-go",
        Job::Push(_) | Job::Redrive => "push",
        Job::Delivery(delivery) => match delivery.outgoing.to {
            Destination::Tasks | Destination::InOrder(_) | Destination::Gather(_) => "register-task",
            Destination::Elect => "elect-leader",
            Destination::Group => "group-batch",
            Destination::Handle | Destination::LongHandle => "batch-handler",
            Destination::Rejected | Destination::Notification(_) => "nobody",
        },
    }
}

fn is_kept(report: &Report, record: &Record) -> bool {
    report.kept().any(|id| *id == record.message_id)
}
