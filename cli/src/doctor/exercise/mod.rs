//! `groupage doctor --exercise`: canary tasks through the whole stack, worked by the doctor itself.
//!
//! The canary route is pulled, so no endpoint is needed and no payload leaves the stack: the doctor is its worker. The
//! route must be in force already. To put it there the doctor would need a publisher's rights, which decide where every
//! payload and secret goes; that is no right for a command that looks whether all is well.
//!
//! What the doctor settles expires within a day, a failed task is taken out of the list, and its session is ended. If
//! the process dies, batches of the canary route wait for the next exercise, which works them off.

mod canary;
mod echo;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::join;
use groupage_aws::entry::NoRoutes;
use groupage_aws::{Connection, Dynamo, Meter, Sqs, System, config, dollars};
use groupage_core::domain::session::Timing;
use groupage_core::domain::{Pool, SessionId, TaskId};
use groupage_core::ports::{Destination, Env, Freshness, Outgoing, Sessions, Tasks, send_all};
use groupage_core::routes::Routes;
use groupage_core::steps::failed::Failing;
use groupage_core::steps::heartbeat::Heartbeat;
use groupage_core::steps::process::Processor;
use groupage_core::steps::process::notify::Announced;
use groupage_core::steps::work::Worker;
use groupage_doctor::Finding;
use indicatif::ProgressBar;

use crate::output::Output;
use crate::stack;
use canary::{Canary, Does, FULL, WAITING};
use echo::Echo;
pub use verdict::Costs;
use verdict::{Outcome, Sent, judge};

/// What the doctor settles is kept for so long, in milliseconds: a late copy of a message must still find its task.
const KEPT_MS: u64 = 24 * 60 * 60 * 1_000;
/// How often it is looked whether all have settled.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// An exercise that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(270);
/// The pause of a worker that found no batch.
const REST_MS: u64 = 250;
/// How long one answer of the echo may take, in milliseconds.
const ANSWER_MS: u64 = 10_000;

/// One run of the exercise.
struct Exercise {
    store: Dynamo,
    queues: Sqs,
    meter: Arc<Meter>,
    routes: Routes,
    timing: Timing,
    echo: Echo,
    run: String,
}

/// Sends canaries, works on them, and judges what became of them.
pub async fn run(connection: &Connection, output: &Output) -> Result<(Vec<Finding>, Costs)> {
    let meter = Arc::new(Meter::new());
    let routes = match connection.routes(&meter).load().await? {
        Some(stored) => Routes::parse(&stored.yaml).map_err(NoRoutes::Invalid)?,
        None => bail!(NoRoutes::NotPushed),
    };
    canary::check(&routes)?;
    let exercise = Exercise {
        store: connection.store(KEPT_MS, &meter),
        queues: connection.sqs(&meter),
        meter,
        routes,
        timing: config::timing_from_env()?,
        echo: Echo::default(),
        run: System.fresh_id().chars().take(12).collect(),
    };
    exercise.nobody_else_works().await?;
    let progress = if output.is_json() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    progress.set_message("canary tasks are under way; this takes more than two minutes");
    progress.enable_steady_tick(Duration::from_millis(200));
    let outcome = Box::pin(exercise.perform()).await;
    progress.finish_and_clear();
    let outcome = outcome?;
    let usage = exercise.meter.snapshot();
    let (read, write) = (usage.capacity().read.count(), usage.capacity().write.count());
    let requests = usage.sqs.total();
    let costs = Costs {
        read_units: read,
        write_units: write,
        sqs_requests: requests,
        dollars: (read * dollars::READ + write * dollars::WRITE + requests as f64 * dollars::SQS) / 1e6,
    };
    Ok((judge(&outcome, &costs), costs))
}

impl Exercise {
    /// Two workers would share the canaries, and neither would see them all.
    async fn nobody_else_works(&self) -> Result<()> {
        let pool = Pool::of_route(&canary::route());
        let sessions = self.store.sessions(&pool, None, 10).await?.all();
        let now = System.now();
        match sessions.into_iter().find(|session| session.expires_at > now) {
            Some(session) => bail!("{} works on the route `{}` now: try again when it is done", session.worker, pool),
            None => Ok(()),
        }
    }

    async fn perform(&self) -> Result<Outcome> {
        let id = SessionId::within(&Pool::of_route(&canary::route()), &System.fresh_id());
        let heartbeat = Heartbeat::new(&self.store, &System, self.timing, id, format!("doctor of {}", stack::person()));
        if heartbeat.open().await?.is_err() {
            bail!("no session can be opened");
        }
        let is_over = AtomicBool::new(false);
        let performed = heartbeat
            .keep(Box::pin(async {
                let (sent, ()) = join!(self.send_and_wait(&is_over), self.work(&heartbeat, &is_over));
                sent
            }))
            .await;
        // Not left to expire: the next exercise may begin at once.
        heartbeat.end().await;
        let sent = performed??;
        let outcome = self.outcome(sent).await?;
        self.leave_nothing(&outcome).await?;
        Ok(outcome)
    }

    /// Works on whatever batch of the canary route there is, until all is over and none is left. What fails is tried
    /// again: the end of patience judges it.
    async fn work(&self, heartbeat: &Heartbeat<'_, Dynamo, System>, is_over: &AtomicBool) {
        let Self { store, queues: outbox, routes, echo, .. } = self;
        let processor = Processor {
            store,
            outbox,
            downstream: echo,
            env: &System,
            routes,
            patience_ms: ANSWER_MS,
            announced: &Announced::default(),
            heartbeat,
        };
        let mut worker = Worker::new(processor, canary::route());
        loop {
            match worker.work().await {
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "trying again"),
            }
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            System.sleep(REST_MS).await;
        }
    }

    /// Sends all canaries, and waits until each was answered; says then that all is over.
    async fn send_and_wait(&self, is_over: &AtomicBool) -> Result<Vec<Sent>> {
        let sent = self.send_all_and_wait().await;
        is_over.store(true, Ordering::Relaxed);
        sent
    }

    async fn send_all_and_wait(&self) -> Result<Vec<Sent>> {
        let new = |part, target, n, does| Canary::new(&self.run, (part, target), n, does);
        // Together they fill a batch.
        let burst = (2..FULL).map(|n| new("burst", "burst", n, Does::Succeed));
        let special = [new("refused", "burst", 0, Does::Fail), new("retried", "burst", 0, Does::RetryOnce)];
        let trickle = (0..WAITING).map(|n| new("trickle", "trickle", n, Does::Succeed));
        let sent = self.send(burst.chain(special).chain(trickle).collect()).await?;
        let all = async {
            while !sent.iter().all(|one| self.echo.has_settled(&one.canary.id)) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        // What did not come by then is told of by name.
        let _ = tokio::time::timeout(PATIENCE, all).await;
        Ok(sent)
    }

    async fn send(&self, canaries: Vec<Canary>) -> Result<Vec<Sent>> {
        let message = |canary: &Canary| Outgoing {
            to: Destination::Tasks,
            body: canary.message(),
            delay_ms: 0,
            attributes: Vec::new(),
            tenant: None,
        };
        let messages = canaries.iter().map(message).collect();
        send_all(&self.queues, messages).await?;
        let at = System.now();
        Ok(canaries.into_iter().map(|canary| Sent { canary, at }).collect())
    }

    async fn outcome(&self, sent: Vec<Sent>) -> Result<Outcome> {
        let ids: Vec<TaskId> = sent.iter().map(|one| one.canary.id.clone()).collect();
        let tasks = self.store.read(&ids, Freshness::Latest).await?;
        let statuses: BTreeMap<TaskId, &'static str> =
            tasks.into_iter().map(|task| (task.id, task.status.word())).collect();
        Ok(Outcome { sent, statuses, heard: self.echo.heard() })
    }

    /// Takes the canaries that failed out of the list of failed tasks.
    async fn leave_nothing(&self, outcome: &Outcome) -> Result<()> {
        let failed = outcome.statuses.iter().filter(|(_, status)| **status == "failed");
        let failed: Vec<TaskId> = failed.map(|(id, _)| id.clone()).collect();
        let failing = Failing { store: &self.store, outbox: &self.queues, env: &System };
        for (_, unfiled) in failing.unfile(&failed).await {
            let _ = unfiled?;
        }
        Ok(())
    }
}
