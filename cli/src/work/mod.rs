//! `groupage work`: a worker that pulls the batches of a route and runs a command for each.
//!
//! It has one session for as long as it lives, which [`Heartbeat::keep`] renews while the command runs. If the session
//! is lost, so is the batch in hand: the command is killed, others go on with it, and a new session begins.

mod exec;
mod group;
mod pause;
mod report;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use groupage_aws::entry::{self, AwsStack};
use groupage_aws::spans::Traced;
use groupage_aws::{Dynamo, Sqs, System};
use groupage_core::domain::{Pool, Retryable, RouteName, SessionId};
use groupage_core::ports::Env;
use groupage_core::routes::{Route, Routes};
use groupage_core::steps;
use groupage_core::steps::heartbeat::{Heartbeat, Lost};
use groupage_core::steps::process::notify::{Announced, Refusals};
use groupage_core::steps::process::{Outcome, Processor};
use groupage_core::steps::work::Worker;

use crate::output::{Ending, Output};
use crate::stack;
use crate::stop::Stop;
use exec::Exec;
use pause::Pause;
use report::{Ended, Line};

const EXAMPLE: &str = "\
Example, for a route `- { name: labels, target: printer, downstream: pull }`:
  groupage work --route labels --exec 'jq -r .items[].payload.text | lp -d \"$GROUPAGE_TARGET\" >&2'";

/// Work on the batches of a route that says `downstream: pull`: run a command for each, until it is stopped.
///
/// The command runs by `sh -c`. It gets the batch as JSON on standard input, as an HTTP downstream gets it:
///
///   {"batch": "…", "target": "…", "items": [{"id": "…", "payload": {…}}, …]}
///
/// Its environment has GROUPAGE_BATCH (the idempotency key), GROUPAGE_TARGET, GROUPAGE_FENCE and GROUPAGE_ATTEMPT, and
/// TRACEPARENT if a task of the batch has a trace, or spans are collected. The worker's own keys are not in it:
/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, GROUPAGE_API_TOKEN, GROUPAGE_CONSOLE_URL and
/// GROUPAGE_SECRET_…. It prints nothing if all items succeeded. Otherwise it prints one of these:
///
///   {"results": [{"id": "…", "status": "succeeded|failed|retry", "reason": "…", "output": …}, …]}
///
///   {"batchItemFailures": [{"itemIdentifier": "…"}, …]}
///
/// An exit code other than 0 is a failed attempt, and the batch is tried again by the route's retry policy. The codes
/// 69 and 75 (EX_UNAVAILABLE, EX_TEMPFAIL) say that something the command needs is away: that uses up no attempt. So
/// does a command that prints no JSON or over 1 MiB, or outlasts --timeout. A command that is not found stops the
/// route.
///
/// Any number of workers share a route. When one dies, another takes its batch over 5 s later, once its session has
/// expired. So the command must bear being run again for the same batch.
///
/// The first Ctrl-C or SIGTERM finishes the batch in hand. A second one, or the end of --grace, gives it up to others.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The route whose batches are worked on.
    #[arg(long, value_name = "NAME")]
    route: String,
    /// What to run for each batch.
    #[arg(long, value_name = "COMMAND")]
    exec: String,
    /// How long the command may take for one batch before it is killed with all it started.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = some_time)]
    timeout: Duration,
    /// How long the batch in hand may go on after the first signal. Without it, to its end.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    grace: Option<Duration>,
    /// Stop after this many batches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batches: Option<u64>,
}

/// A time that is not zero, and under a day: a batch is not settled before its command ends.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);
    if allowed.contains(&time) { Ok(time) } else { Err("expected 1ms to 1day".to_owned()) }
}

const ONLY_PULL: &str = "only `downstream: pull` leaves batches to workers";

/// One worker.
struct Post {
    stack: Arc<AwsStack>,
    exec: Traced<Exec>,
    announced: Announced,
    route: RouteName,
    patience_ms: u64,
    /// This many batches are left to do; `None` for no end.
    left: Cell<Option<u64>>,
    pause: Pause,
    output: Output,
    stop: Stop,
}

type Keeping<'a> = Heartbeat<'a, Dynamo, System>;
type Pulling<'a> = Worker<'a, Dynamo, Sqs, Traced<Exec>, System>;

/// Works until the process is told to stop, or a new routes file leaves nothing to claim.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let stack = stack::remote_steps(&stack::open(name).await?)?;
    let spans = stack.spans.clone();
    let post = Post {
        stack,
        exec: Traced::new(Exec::new(&options.exec, options.timeout), spans.clone()),
        announced: Announced::default(),
        route: RouteName::new(&options.route),
        patience_ms: u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX),
        left: Cell::new(options.batches),
        pause: Pause::default(),
        output: *output,
        stop: Stop::listen(options.grace),
    };
    post.routes().await?;
    if !output.is_json() {
        output.line(&(), || format!("# {} works on {}. Stop with Ctrl-C.", post.stack.worker, post.route));
    }
    let work = async {
        while !post.is_done() {
            post.session().await?;
        }
        Ok::<_, anyhow::Error>(Ending::Well)
    };
    let ended = tokio::select! {
        ended = work => ended,
        () = spans.keep_sending() => Ok(Ending::Well),
    };
    spans.flush().await;
    ended
}

impl Post {
    fn is_done(&self) -> bool {
        self.stop.is_requested() || self.left.get() == Some(0)
    }

    /// The routes in force, with this worker's among them.
    async fn routes(&self) -> Result<Arc<Routes>> {
        let routes = self.stack.routes.current().await?;
        let what = match routes.get(&self.route) {
            Some(route) if route.is_pulled() => return Ok(routes),
            Some(Route { name, .. }) => format!("route `{name}` calls its downstream itself: {ONLY_PULL}"),
            None => format!("no route is named `{}`", self.route),
        };
        let pulled: Vec<_> = routes.iter().filter(|route| route.is_pulled()).map(|route| route.name.as_str()).collect();
        match pulled.as_slice() {
            [] => bail!("{what}; no route says `downstream: pull`"),
            names => bail!("{what}; these routes say `downstream: pull`: {}", names.join(", ")),
        }
    }

    /// Works under one session until it is over or the worker is done.
    async fn session(&self) -> Result<()> {
        let AwsStack { store, env, timing, worker, .. } = &*self.stack;
        let id = SessionId::within(&Pool::of_route(&self.route), &env.fresh_id());
        let heartbeat = Heartbeat::new(store, env, *timing, id, worker);
        match heartbeat.open().await {
            Ok(Ok(())) => {}
            Ok(Err(Lost)) => return Ok(()),
            Err(error) => {
                tracing::warn!(%error, "no session can be opened; trying again");
                self.rest().await;
                return Ok(());
            }
        }
        let worked = tokio::select! {
            biased;
            () = self.stop.at_once() => {
                tracing::warn!("the batch in hand is given up");
                Ok(Ok(()))
            }
            // Boxed: the whole protocol would otherwise be one type, too deep for the compiler.
            worked = heartbeat.keep(Box::pin(self.work(&heartbeat))) => worked,
        };
        // Not left to expire: what it has claimed is free at once.
        heartbeat.end().await;
        worked.unwrap_or_else(|lost| {
            tracing::warn!("{lost}; what was in hand is dropped, and a new session begins");
            Ok(())
        })
    }

    /// Works until the worker is done.
    async fn work(&self, heartbeat: &Keeping<'_>) -> Result<()> {
        let AwsStack { store, queues: outbox, env, .. } = &*self.stack;
        loop {
            let routes = self.routes().await?;
            let patience_ms = self.patience_ms;
            let processor = Processor {
                store,
                outbox,
                downstream: &self.exec,
                env,
                routes: &routes,
                patience_ms,
                announced: &self.announced,
                heartbeat,
            };
            let mut worker = Worker::new(processor, self.route.clone());
            while Arc::ptr_eq(&routes, &self.routes().await?) {
                if self.is_done() {
                    return Ok(());
                }
                let turned = self.turn(&mut worker).await;
                let Refusals { unsent, undeliverable, refusal } = self.announced.take();
                if unsent + undeliverable > 0 {
                    let refusal = refusal.unwrap_or_default();
                    tracing::warn!(unsent, undeliverable, refusal, "notices of outages are refused");
                }
                match turned {
                    Ok(true) => self.pause.reset(),
                    Ok(false) => self.rest().await,
                    Err(error) => {
                        log(&error);
                        self.rest().await;
                    }
                }
            }
        }
    }

    /// Claims and processes one batch; `false` if none can be claimed now.
    async fn turn(&self, worker: &mut Pulling<'_>) -> Result<bool, steps::Error> {
        let began = Instant::now();
        let Some((batch, outcome)) = worker.work().await? else { return Ok(false) };
        let ended = match outcome {
            Outcome::Settled(counts) => {
                if let Some(followed) = &counts.followed {
                    entry::followed(&self.stack.spans, &batch.id, followed);
                }
                counts.interrupted.iter().for_each(|failure| log(failure));
                counts.into()
            }
            Outcome::CallAgain { reason, .. } => Ended::CallAgain { reason },
            Outcome::ClaimLost => Ended::ClaimLost,
            Outcome::FollowedUp(_)
            | Outcome::UnderWay { .. }
            | Outcome::Waits(_)
            | Outcome::Away(_)
            | Outcome::Nothing => return Ok(false),
        };
        self.left.update(|left| left.map(|left| left.saturating_sub(1)));
        let line = Line::new(&batch, ended, began.elapsed());
        self.output.line(&line, || line.text());
        Ok(true)
    }

    async fn rest(&self) {
        tokio::select! {
            () = self.stack.env.sleep(self.pause.next_ms(self.stack.env.random())) => {}
            () = self.stop.requested() => {}
        }
    }
}

/// A batch that could not be finished is found again, by this worker or another.
fn log(failure: &steps::Error) {
    match failure {
        steps::Error::Conflict(_) => tracing::debug!(%failure, "another worker was faster"),
        steps::Error::Port(_) | steps::Error::NoTime | steps::Error::UnknownRoute(_) | steps::Error::BadMessage(_) => {
            match failure.retryable() {
                Retryable::Yes => tracing::warn!(%failure, "trying again"),
                Retryable::No => tracing::error!(%failure, "this cannot be done as things are; trying again"),
            }
        }
    }
}
