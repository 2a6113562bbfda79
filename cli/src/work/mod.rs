//! `groupage work`: a worker that pulls the batches of a route and runs a command for each.
//!
//! It has one session for as long as it lives, which the heartbeat of [`Keeper::keep`] renews while the command runs. If
//! the session is lost, so is the batch in hand: the command is killed, others go on with it, and a new session begins.

mod exec;
mod group;
mod pause;
mod report;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use groupage_aws::config;
use groupage_aws::entry::{AwsStack, NoRoutes};
use groupage_aws::{Dynamo, Sqs, System};
use groupage_core::domain::id::{Pool, RouteName, SessionId};
use groupage_core::domain::retry::Retryable;
use groupage_core::ports::Env;
use groupage_core::routes::Routes;
use groupage_core::steps;
use groupage_core::steps::keeper::{Keeper, Lost};
use groupage_core::steps::process::Processor;
use groupage_core::steps::work::{Worked, Worker};

use crate::Ending;
use crate::args::Work;
use crate::connection;
use crate::output::Output;
use crate::stop::Stop;
use exec::Exec;
use pause::Pause;
use report::{Ended, Line};

/// The worker cannot work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no stack.
    #[error(transparent)]
    Connection(#[from] connection::Error),
    /// A variable makes no sense.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// There are no routes to work by.
    #[error(transparent)]
    Routes(#[from] NoRoutes),
    /// No such route.
    #[error("no route is named `{name}`; {pulled}")]
    UnknownRoute {
        /// What was asked for.
        name: RouteName,
        /// What there is.
        pulled: Pulled,
    },
    /// The route's batches are handed on by messages.
    #[error("route `{name}` calls its downstream itself: only `downstream: pull` leaves batches to workers; {pulled}")]
    NotPulled {
        /// The route.
        name: RouteName,
        /// What there is.
        pulled: Pulled,
    },
}

/// The routes whose batches are pulled, as an error names them.
#[derive(Debug)]
pub struct Pulled(Vec<String>);

impl std::fmt::Display for Pulled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("no route says `downstream: pull`"),
            names => write!(f, "these routes say `downstream: pull`: {}", names.join(", ")),
        }
    }
}

/// One worker.
struct Post {
    stack: Arc<AwsStack>,
    exec: Exec,
    route: RouteName,
    patience_ms: u64,
    /// So many batches are left to do; `None` for no end.
    left: Cell<Option<u64>>,
    pause: Pause,
    output: Output,
    stop: Stop,
}

type Keeping<'a> = Keeper<'a, Dynamo, System>;
type Pulling<'a> = Worker<'a, Dynamo, Sqs, Exec, System>;

/// Works until the process is told to stop.
///
/// # Errors
/// [`Error`]: nothing can be claimed, now or since a new routes file is in force.
pub async fn run(options: &Work, stack: Option<&str>, output: &Output) -> Result<Ending, Error> {
    let connection = connection::open(stack).await?;
    let post = Post {
        stack: crate::steps::remote(&connection)?,
        exec: Exec::new(&options.exec, options.timeout),
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
    while !post.is_done() {
        post.session().await?;
    }
    Ok(Ending::Well)
}

impl Post {
    fn is_done(&self) -> bool {
        self.stop.is_requested() || self.left.get() == Some(0)
    }

    /// The routes in force, with this worker's among them.
    async fn routes(&self) -> Result<Arc<Routes>, Error> {
        let routes = self.stack.routes.current().await?;
        let pulled = || Pulled(routes.iter().filter(|route| route.is_pulled()).map(|r| r.name.to_string()).collect());
        match routes.get(&self.route) {
            None => Err(Error::UnknownRoute { name: self.route.clone(), pulled: pulled() }),
            Some(route) if !route.is_pulled() => Err(Error::NotPulled { name: self.route.clone(), pulled: pulled() }),
            Some(_) => Ok(routes),
        }
    }

    /// Works under one session until it is over or the worker is done.
    async fn session(&self) -> Result<(), Error> {
        let AwsStack { store, env, timing, worker, .. } = &*self.stack;
        let id = SessionId::within(&Pool::of_route(&self.route), &env.fresh_id());
        let keeper = Keeper::new(store, env, *timing, id, worker);
        match keeper.open().await {
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
            worked = keeper.keep(Box::pin(self.work(&keeper))) => worked,
        };
        // Not left to expire: what it has claimed is free at once.
        keeper.end().await;
        worked.unwrap_or_else(|lost| {
            tracing::warn!("{lost}; what was in hand is dropped, and a new session begins");
            Ok(())
        })
    }

    /// Works until the worker is done.
    async fn work(&self, keeper: &Keeping<'_>) -> Result<(), Error> {
        let AwsStack { store, queues: outbox, env, .. } = &*self.stack;
        loop {
            let routes = self.routes().await?;
            let patience_ms = self.patience_ms;
            let processor = Processor { store, outbox, downstream: &self.exec, env, routes: &routes, patience_ms };
            let mut worker = Worker::new(processor, keeper, self.route.clone());
            while Arc::ptr_eq(&routes, &self.routes().await?) {
                if self.is_done() {
                    return Ok(());
                }
                match self.turn(&mut worker).await {
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
        let (batch, ended) = match worker.work().await? {
            Worked::Settled(batch, counts) => (batch, counts.into()),
            Worked::CallAgain { batch, reason } => (batch, Ended::CallAgain { reason }),
            Worked::ClaimLost(batch) => (batch, Ended::ClaimLost),
            Worked::Idle => return Ok(false),
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
        steps::Error::Port(_) | steps::Error::UnknownRoute(_) | steps::Error::BadMessage(_) => {
            match failure.retryable() {
                Retryable::Yes => tracing::warn!(%failure, "trying again"),
                Retryable::No => tracing::error!(%failure, "this cannot be done as things are; trying again"),
            }
        }
    }
}
