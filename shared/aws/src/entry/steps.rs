//! The functions: an SQS event (or a schedule's) in, a partial batch response and counts out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use groupage_core::domain::BatchId;
use groupage_core::domain::message::{Elect, Group, Handle};
use groupage_core::domain::retry::Retryable;
use groupage_core::domain::sender::Senders;
use groupage_core::domain::session::Timing;
use groupage_core::ports::{Destination, Downstream, Env, Inbox, Outbox, Store};
use groupage_core::routes::Routes;
use groupage_core::steps::Error;
use groupage_core::steps::elect::{self, ElectLeader};
use groupage_core::steps::group::{self, GroupBatch};
use groupage_core::steps::handle::{Delivery, HandleBatch};
use groupage_core::steps::process::notify::{Announced, Refusals};
use groupage_core::steps::process::{self, Outcome};
use groupage_core::steps::register::{Asked, Rations, Record, Register};
use groupage_core::steps::sweep::{self, Sweep};
use groupage_core::steps::track::Lifetimes;
use tracing::{debug, error, info, warn};

use super::mapping::{GROUP, TASKS};
use super::metrics::{Counts, Metric};
use super::records::{self, Fate, Fates, Received};
use super::routes::{NoRoutes, RouteSource};
use super::spans;
use crate::spans::Spans;

/// What the functions work with, built once.
#[derive(Debug)]
pub struct Stack<S, Q, E> {
    /// The tables.
    pub store: S,
    /// The queues.
    pub queues: Q,
    /// Time, randomness, ids.
    pub env: E,
    /// The routes.
    pub routes: RouteSource,
    /// How the sessions of its workers live.
    pub timing: Timing,
    /// How long trackers live.
    pub lifetimes: Lifetimes,
    /// Who the workers are, for people.
    pub worker: String,
    /// What the senders of task messages may say.
    pub senders: Senders,
    /// What this process remembers of Targets that were throttled.
    pub rations: Arc<Rations>,
    /// For which Targets this process has lately asked for a leader.
    pub asked: Arc<Asked>,
    /// Whether logs name Targets, which may be somebody's; else they name the route.
    pub logs_targets: bool,
    /// Where spans go.
    pub spans: Spans,
}

impl<S, Q, E> Stack<S, Q, E> {
    /// A process of its own that remembers nothing yet, trusts every sender and exports no spans.
    pub fn new(store: S, queues: Q, env: E, routes: RouteSource) -> Self {
        let (timing, lifetimes, senders) = (Timing::default(), Lifetimes::default(), Senders::default());
        let (rations, asked, spans) = (Arc::default(), Arc::default(), Spans::default());
        let (worker, logs_targets) = ("worker".to_owned(), true);
        Self { store, queues, env, routes, timing, lifetimes, worker, senders, rations, asked, logs_targets, spans }
    }
}

/// What an invocation came to.
#[derive(Debug, Default)]
pub struct Handled {
    /// For Lambda: the messages that must come again.
    pub response: SqsBatchResponse,
    /// For people.
    pub counts: Counts,
}

/// register-task.
pub async fn register_task<S: Store, Q: Outbox + Inbox, E: Env>(stack: &Stack<S, Q, E>, event: SqsEvent) -> Handled {
    let Some(routes) = current(&stack.routes).await else { return all_failed(event) };
    let began = stack.env.now();
    let deadline = began.plus_ms(TASKS.budget_ms());
    let first = event.records.first().and_then(|record| record.message_id.clone()).unwrap_or_default();
    let Stack { store, queues, env, rations, asked, .. } = stack;
    let step = Register { store, queues, env, routes: &routes, deadline, rations, asked };
    let records = event
        .records
        .into_iter()
        .map(|record| Record {
            received: records::received(&record),
            sender: stack.senders.who(records::sender(&record)),
            trace: records::trace(&record),
            message_id: record.message_id.unwrap_or_default(),
            receipt: record.receipt_handle.unwrap_or_default(),
            body: record.body.unwrap_or_default(),
        })
        .collect();
    let report = step.run(records).await;
    spans::registered(&stack.spans, &report, &first, (began, stack.env.now()));
    let mut counts = Counts::default();
    counts.add(Metric::TasksRegistered, report.registered);
    counts.add(Metric::TasksListed, report.listed);
    counts.add(Metric::TasksRepeated, report.repeated);
    counts.add(Metric::TasksRejected, report.rejected);
    counts.add(Metric::BatchesFrozen, report.batches);
    counts.add(Metric::BatchMembers, report.members);
    counts.add(Metric::TasksGathered, report.gathered);
    counts.add(Metric::TasksYielded, report.yielded);
    counts.add(Metric::ElectionsLost, report.told);
    counts.add(Metric::RecordsFailed, report.failed.len() + report.sent_back.len());
    match report.overloads.first() {
        Some((target, error)) => {
            let targets = report.overloads.len();
            let target = if stack.logs_targets { target.to_string() } else { target.route().to_string() };
            warn!(tasks = report.yielded, targets, %target, %error, "tasks wait on the queue: too many came");
            counts.add(Metric::TargetsThrottled, targets);
        }
        None if report.late > 0 => warn!(tasks = report.late, "tasks wait on the queue: no time was left"),
        None if report.yielded > 0 => {
            info!(tasks = report.yielded, "tasks wait on the queue: their Targets were throttled lately");
        }
        None => {}
    }
    if report.batches > 0 {
        info!(batches = report.batches, members = report.members, "batches handed on");
    }
    if let Some(error) = report.not_gathered.first() {
        warn!(rests = report.not_gathered.len(), %error, "rests could not gather; they are elected instead");
    }
    if let Some(error) = report.not_told.first() {
        warn!(elections = report.not_told.len(), %error, "leaders could not be told; their elections are held instead");
    }
    for (message_id, failure) in report.failed.iter().chain(&report.sent_back) {
        records::log(message_id, failure);
    }
    Handled { response: records::keeping(report.kept().map(str::to_owned)), counts }
}

/// elect-leader.
pub async fn elect_leader<S: Store, Q: Outbox, E: Env>(stack: &Stack<S, Q, E>, event: SqsEvent) -> Handled {
    let Some(routes) = current(&stack.routes).await else { return all_failed(event) };
    let step = &ElectLeader { store: &stack.store, env: &stack.env, routes: &routes, draw: stack.env.random() };
    let braked = &Braked::default();
    let decided = records::each(event, |received: Received<Elect>| async move {
        braked.look(received.message.is_braked(stack.env.now()), &received.message_id);
        let (began, message) = (stack.env.now(), stack.spans.are_collected().then(|| received.message.clone()));
        let decided = step.run(received.message, received.received > 1).await?;
        if let Some(message) = message {
            let how = |wanted: &elect::Outcome| decided.outcomes.iter().flatten().filter(|how| *how == wanted).count();
            let held = (how(&elect::Outcome::Won), how(&elect::Outcome::Lost));
            spans::elected(&stack.spans, &message, &received.message_id, held, (began, stack.env.now()));
        }
        for outcome in &decided.outcomes {
            match outcome {
                Ok(elect::Outcome::PutOff) => {
                    warn!("an election is put off: its message came again, or there was no time")
                }
                Ok(outcome) => debug!(?outcome, "election"),
                Err((workflow, failure)) => match failure.retryable() {
                    Retryable::Yes => warn!(%workflow, %failure, "the election goes on alone"),
                    Retryable::No => {
                        error!(%workflow, %failure, "the election cannot be held as things are; it goes on alone")
                    }
                },
            }
        }
        Ok(Fate::Done((decided.outcomes, decided.next_messages)))
    })
    .await;
    let fates = records::send(&stack.queues, decided).await;
    braked.counted(summarise(fates, |outcomes, counts| {
        for outcome in outcomes {
            match outcome {
                Ok(elect::Outcome::Won) => counts.add(Metric::ElectionsWon, 1),
                Ok(elect::Outcome::Lost) => counts.add(Metric::ElectionsLost, 1),
                Ok(elect::Outcome::NothingWaits) => {}
                Ok(elect::Outcome::PutOff) | Err(_) => counts.add(Metric::RecordsFailed, 1),
            }
        }
    }))
}

/// group-batch.
pub async fn group_batch<S: Store, Q: Outbox + Inbox, E: Env>(stack: &Stack<S, Q, E>, event: SqsEvent) -> Handled {
    let Some(routes) = current(&stack.routes).await else { return all_failed(event) };
    let deadline = stack.env.now().plus_ms(GROUP.budget_ms());
    let step = &GroupBatch { store: &stack.store, queue: &stack.queues, env: &stack.env, routes: &routes, deadline };
    let braked = &Braked::default();
    let fates = records::each(event, |received: Received<Group>| async move {
        braked.look(received.message.is_braked(stack.env.now()), &received.message_id);
        let target = received.message.target();
        let target = if stack.logs_targets { target.to_string() } else { target.route().to_string() };
        let delivery = Delivery { receipt: &received.receipt, received: received.received };
        let (began, message) = (stack.env.now(), stack.spans.are_collected().then(|| received.message.clone()));
        let report = step.run(received.message, delivery).await?;
        if let Some(message) = message {
            spans::grouped(&stack.spans, &message, &received.message_id, &report, (began, stack.env.now()));
        }
        if report.batches > 0 {
            info!(%target, batches = report.batches, members = report.members, "batches handed on");
        }
        if let Some(failure) = &report.interrupted {
            warn!(%target, %failure, "the leader stopped in the middle and comes back soon");
        }
        Ok(Fate::Done(report))
    })
    .await;
    braked.counted(summarise(fates, |report: group::Report, counts| {
        counts.add(Metric::BatchesFrozen, report.batches);
        counts.add(Metric::BatchMembers, report.members);
        counts.add(Metric::RecordsFailed, usize::from(report.interrupted.is_some()));
    }))
}

/// batch-handler of the queue that it `reads`: that of usual calls, or of long ones.
pub async fn batch_handler<S: Store, Q: Outbox + Inbox, D: Downstream, E: Env>(
    stack: &Stack<S, Q, E>,
    reads: &Destination,
    downstream: &D,
    event: SqsEvent,
) -> Handled {
    let Some(routes) = current(&stack.routes).await else { return all_failed(event) };
    let Stack { store, queues: queue, env, timing, worker, .. } = stack;
    let announced = Announced::default();
    let (routes, timing, announced) = (&routes, *timing, &announced);
    let step = &HandleBatch { store, queue, reads, downstream, env, routes, timing, worker, announced };
    let braked = &Braked::default();
    let fates = records::each(event, |received: Received<Handle>| async move {
        braked.look(received.message.copies.is_braked(env.now()), &received.message_id);
        let batch = received.message.batch.clone();
        let delivery = Delivery { receipt: &received.receipt, received: received.received };
        let outcome = step.run(received.message, delivery).await?;
        log_outcome(stack, &batch, &outcome);
        if let Outcome::Settled(process::Counts { interrupted: Some(failure), .. }) = &outcome {
            records::log(&received.message_id, failure);
        }
        Ok(if outcome.keeps_its_message() { Fate::Keep(outcome) } else { Fate::Done(outcome) })
    })
    .await;
    let mut handled = braked.counted(summarise(fates, |outcome, counts| match outcome {
        Outcome::Settled(settled) => counts.add_settled(&settled),
        Outcome::CallAgain { begins_outage, .. } => {
            counts.add(Metric::CallsRetried, 1);
            counts.add(Metric::OutagesBegun, usize::from(begins_outage));
        }
        Outcome::Away(_) => counts.add(Metric::CallsHeldBack, 1),
        Outcome::ClaimLost => counts.add(Metric::ClaimsLost, 1),
        Outcome::Waits(_) => counts.add(Metric::CallsWaited, 1),
        Outcome::UnderWay { .. } => {}
        Outcome::FollowedUp(settled) => counts.add_repeated(&settled),
        Outcome::Nothing => {}
    }));
    let Refusals { unsent, undeliverable, refusal } = announced.take();
    let refusal = refusal.unwrap_or_default();
    if unsent > 0 {
        warn!(unsent, refusal, "notices of outages are refused; the gates remember which, and they are sent again");
        handled.counts.add(Metric::NoticesRefused, unsent);
    }
    if undeliverable > 0 {
        error!(undeliverable, refusal, "notices of outages were refused for a day: they are in the rejected queue");
        handled.counts.add(Metric::NoticesUndeliverable, undeliverable);
    }
    handled
}

/// Says what became of a batch, to people and to a collector of traces.
fn log_outcome<S, Q, E>(stack: &Stack<S, Q, E>, batch: &BatchId, outcome: &Outcome) {
    let counts = match outcome {
        Outcome::CallAgain { reason, begins_outage: false, .. } => {
            return info!(%batch, %reason, "the call will be made again");
        }
        Outcome::CallAgain { reason, begins_outage: true, .. } => {
            return warn!(%batch, %reason, "the downstream is away: one call at a time is made until one is answered");
        }
        Outcome::UnderWay { until } => {
            return debug!(%batch, next_look_ms = until.0, "the downstream is at work on its job");
        }
        Outcome::ClaimLost => return warn!(%batch, "the claim was lost: the call's result is dropped"),
        Outcome::Waits(_) | Outcome::Away(_) | Outcome::Nothing => return debug!(%batch, ?outcome, "no call"),
        Outcome::FollowedUp(counts) => counts,
        Outcome::Settled(counts) => {
            let process::Counts { succeeded, failed, ended, returned, lanes_stopped, passed_over, .. } = counts;
            info!(%batch, succeeded, failed, ended, returned, "batch settled");
            if *lanes_stopped > 0 {
                warn!(%batch, lanes_stopped, passed_over, "failed tasks stop their order keys: see `groupage lane`");
            }
            if counts.unknown_events > 0 {
                warn!(%batch, unknown_events = counts.unknown_events, "no stream knows these events (any more)");
            }
            if counts.unknown_items > 0 {
                warn!(%batch, unknown_items = counts.unknown_items, "no tracker counts these items (any more)");
            }
            counts
        }
    };
    if let Some(followed) = &counts.followed {
        spans::followed(&stack.spans, batch, followed);
    }
    let process::Counts { untold, undeliverable, refusal, .. } = counts;
    let refusal = refusal.as_deref().unwrap_or_default();
    if *untold > 0 {
        warn!(%batch, untold, refusal, "notices are refused; the batch remembers which, and they are sent again");
    }
    if *undeliverable > 0 {
        error!(%batch, undeliverable, refusal, "notices were refused for a day: they are in the rejected queue");
    }
}

/// sweep. Its schedule calls it again after `every_ms`, whatever became of this run. Without routes, or if a port did
/// not answer, the function fails, and its alarm says so; what was done all the same is counted.
pub async fn sweep<S: Store, Q: Outbox, E: Env>(
    stack: &Stack<S, Q, E>,
    every_ms: u64,
) -> (Counts, Result<(), SweepFailed>) {
    let mut counts = Counts::default();
    let routes = match stack.routes.current().await {
        Ok(routes) => routes,
        Err(none) => return (counts, Err(none.into())),
    };
    let Stack { store, queues: outbox, env, lifetimes, .. } = stack;
    let (budget, lifetimes) = (sweep::Budget::every(every_ms), *lifetimes);
    let (report, done) = Sweep { store, outbox, env, routes: &routes, budget, every_ms, lifetimes }.run().await;
    if report != sweep::Report::default() {
        info!(?report, "sent on");
    }
    counts.add(Metric::RoutesBehind, usize::from(stack.routes.is_behind().await));
    counts.add(Metric::SessionsExpired, report.sessions);
    counts.add(Metric::BatchesRevived, report.finishes + report.batches);
    counts.add(Metric::TasksRevived, report.tasks);
    counts.add(Metric::TasksStranded, report.stranded);
    counts.add(Metric::OldestWaiting, usize::try_from(report.oldest_waiting.ms).unwrap_or(usize::MAX));
    counts.add(Metric::OldestUnvisited, usize::try_from(report.oldest_unvisited.ms).unwrap_or(usize::MAX));
    counts.add(Metric::TrackersRevived, report.trackers.completed + report.trackers.told);
    counts.add(Metric::TrackersOverdue, report.trackers.overdue);
    counts.add(Metric::TrackersAbandoned, report.trackers.abandoned);
    counts.add(Metric::StreamsCommitted, report.streams.committed);
    counts.add(Metric::ListsRevived, report.lists.revived);
    counts.add(Metric::ListsRemoved, report.lists.removed);
    counts.add(Metric::ListTasksExpired, usize::try_from(report.lists.expired).unwrap_or(usize::MAX));
    counts.add(Metric::TasksRejected, usize::try_from(report.lists.set_aside).unwrap_or(usize::MAX));
    counts.add(Metric::ListTasksLost, usize::try_from(report.lists.lost).unwrap_or(usize::MAX));
    (counts, done.map_err(SweepFailed::from))
}

/// A sweep could not finish.
#[derive(Debug, thiserror::Error)]
pub enum SweepFailed {
    /// Nothing can be swept without routes.
    #[error(transparent)]
    Routes(#[from] NoRoutes),
    /// A port did not answer.
    #[error(transparent)]
    Step(#[from] Error),
}

/// Counts the messages of an event that copied themselves too fast.
#[derive(Debug, Default)]
struct Braked(AtomicUsize);

impl Braked {
    fn look(&self, is_braked: bool, message_id: &str) {
        if is_braked {
            warn!(
                message_id,
                "the message copied itself without getting on: it waits for a quarter of an hour each time"
            );
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counted(&self, mut handled: Handled) -> Handled {
        handled.counts.add(Metric::MessagesBraked, self.0.load(Ordering::Relaxed));
        handled
    }
}

fn summarise<T>(fates: Fates<T>, mut count: impl FnMut(T, &mut Counts)) -> Handled {
    let mut counts = Counts::default();
    let mut kept = Vec::new();
    for (message_id, fate) in fates {
        match fate {
            Fate::Done(outcome) => count(outcome, &mut counts),
            Fate::Keep(outcome) => {
                count(outcome, &mut counts);
                kept.push(message_id);
            }
            Fate::Failed => {
                counts.add(Metric::RecordsFailed, 1);
                kept.push(message_id);
            }
        }
    }
    Handled { response: records::keeping(kept), counts }
}

async fn current(routes: &RouteSource) -> Option<Arc<Routes>> {
    routes.current().await.inspect_err(|failure| error!(%failure, "nothing can be handled without routes")).ok()
}

fn all_failed(event: SqsEvent) -> Handled {
    let ids: Vec<String> = event.records.into_iter().filter_map(|record| record.message_id).collect();
    let mut counts = Counts::default();
    counts.add(Metric::RecordsFailed, ids.len());
    Handled { response: records::keeping(ids), counts }
}
