//! What the console stands on: a stack's tables and queues, and what the steps of this process have done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use groupage_aws::desk::{self, Desk};
use groupage_aws::entry::{Counts, NoRoutes, RouteSource};
use groupage_aws::{Connection, Denied, Dynamo, Meter, Rights, RouteTable, Sqs, StoredRoutes, System, Units, Usage};
use groupage_core::domain::lane::missing_since;
use groupage_core::domain::task::RETENTION_DAYS;
use groupage_core::domain::time::DAY_MS;
use groupage_core::domain::{Failed, LaneId, RouteName, Timestamp, Tracker, TrackerId};
use groupage_core::ports::{self, Env, Freshness, Lanes, Trackers};
use groupage_core::routes::{Route, Routes};
use groupage_core::steps;
use groupage_core::steps::cancel::Cancelling;
use groupage_core::steps::failed::Failing;
use groupage_core::steps::hold::Holding;
use groupage_core::steps::lane::Ordering;
use groupage_core::steps::list::Listing;
use groupage_core::steps::look::Looking;
use groupage_core::steps::stream::Streaming;
use groupage_core::steps::track::Tracking;
use groupage_core::steps::wake::Waker;

use crate::History;
use crate::live::Watched;
use crate::recorded::Recorded;
use crate::view::View;

/// Gives what the secret of a link is exchanged for.
pub type Enter = Box<dyn Fn(&str) -> Option<Entry> + Send + Sync>;

/// Lets a browser in, and lets it act. Its secrets end, and nobody can tell the stack's key from one.
pub struct Pass {
    /// Exchanges the secret of the printed link; nothing for another one, or one that has ended.
    pub enter: Enter,
    /// Whether an act may be done that brings this secret.
    pub may_act: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// What a link is exchanged for.
pub struct Entry {
    /// For the cookie, which opens pages. Browsers send it to every port of this machine.
    pub cookie: String,
    /// For the page's script, which keeps it where no other port can read it, and puts it into each form.
    pub act: String,
    /// For how long both work.
    pub seconds: u64,
}

/// What the steps of this process have counted and consumed so far.
#[derive(Clone, Debug, Default)]
pub struct Worked {
    /// What they did.
    pub counts: Counts,
    /// What that consumed of the tables.
    pub usage: Usage,
}

/// Asks the steps of this process how far they are.
pub type Work = Box<dyn Fn() -> Worked + Send + Sync>;

/// The console of one stack.
#[must_use]
pub struct Console {
    pub(crate) name: String,
    pub(crate) pass: Pass,
    pub(crate) work: Option<Work>,
    pub(crate) history: History,
    pub(crate) recorded: Option<Recorded>,
    pub(crate) watched: Watched<View>,
    /// The first failed task of each route, as far as was looked. Each look goes on behind the one before.
    pub(crate) failed: Mutex<(usize, BTreeMap<RouteName, Option<Failed>>)>,
    desk: Desk,
    store: Dynamo,
    outbox: Sqs,
    routes: RouteSource,
    table: RouteTable,
    rights: Option<Rights>,
}

/// A page cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A table or queue did not answer, or refused.
    #[error(transparent)]
    Step(#[from] steps::Error),
    /// SQS did not answer, or refused.
    #[error(transparent)]
    Desk(#[from] desk::Error),
    /// The stored routes file is wrong.
    #[error("the stored routes file is wrong: {0}")]
    Routes(groupage_core::routes::Error),
    /// Nothing has the id.
    #[error("{0}")]
    Unknown(String),
    /// What is there does not allow it.
    #[error("{0}")]
    Refused(String),
}

impl From<ports::Error> for Trouble {
    fn from(error: ports::Error) -> Self {
        Self::Step(error.into())
    }
}

impl Console {
    /// Of the stack that `connection` leads to, called `name`. With `work`, its steps run in this process.
    pub fn new(connection: &Connection, name: String, pass: Pass, work: Option<Work>) -> Self {
        // For how long the stack keeps what is settled does not matter to a reader.
        let (meter, retention_ms) = (Arc::default(), RETENTION_DAYS * DAY_MS);
        Self {
            name,
            pass,
            work,
            history: History::default(),
            recorded: None,
            watched: Watched::default(),
            failed: Mutex::default(),
            desk: connection.desk(),
            store: connection.store(retention_ms, &meter),
            outbox: connection.sqs(&meter),
            routes: RouteSource::table(connection.routes(&meter)),
            table: connection.routes(&meter),
            rights: None,
        }
    }

    /// The same for somebody whom AWS may refuse: the buttons of acts that it does refuse are disabled.
    pub fn asking_for_rights(self, connection: &Connection) -> Self {
        Self { rights: Some(Rights::of(connection)), ..self }
    }

    /// The same of a stack whose steps run elsewhere and write their figures to CloudWatch.
    pub fn with_recorded(self, recorded: Option<Recorded>) -> Self {
        Self { recorded, ..self }
    }

    /// Keeps what the steps of this process have counted by now.
    pub fn note(&self) {
        if let Some(work) = &self.work {
            self.history.note(System.now(), work().counts);
        }
    }

    /// An id that nobody has.
    pub(crate) fn fresh_id(&self) -> String {
        System.fresh_id()
    }

    /// Somebody looks: what is read from now on is counted for that look alone.
    pub(crate) async fn visit(&self) -> Result<Visit<'_>, Trouble> {
        let (meter, began) = (Arc::new(Meter::new()), Instant::now());
        let routes = match self.routes.current().await {
            Ok(routes) => Some(routes),
            Err(NoRoutes::NotPushed) => None,
            Err(NoRoutes::Port(error)) => return Err(error.into()),
            Err(NoRoutes::Invalid(error)) => return Err(Trouble::Routes(error)),
        };
        Ok(Visit {
            console: self,
            store: self.store.metered(Arc::clone(&meter)),
            routes,
            denied: match &self.rights {
                Some(rights) => rights.denied().await,
                None => Arc::default(),
            },
            now: System.now(),
            meter,
            began,
        })
    }
}

/// The most read units of one page.
pub(crate) const BUDGET: f64 = 100.0;

/// Reads that a page may still make.
pub struct Spending<'a> {
    visit: &'a Visit<'a>,
    most: f64,
    dearest: f64,
    /// Where the meter stood before the read that is under way.
    at: Option<f64>,
    ran_out: bool,
}

impl Spending<'_> {
    /// Whether one read more fits in. The read before it is over by now.
    pub(crate) fn affords_one(&mut self) -> bool {
        let now = self.visit.read_units().count();
        if let Some(before) = self.at {
            self.dearest = self.dearest.max(now - before);
        }
        self.at = Some(now);
        self.ran_out = now + self.dearest > self.most;
        !self.ran_out
    }

    /// Whether a read was left out.
    pub(crate) const fn ran_out(&self) -> bool {
        self.ran_out
    }
}

/// One look at the console.
pub struct Visit<'a> {
    pub(crate) console: &'a Console,
    pub(crate) store: Dynamo,
    pub(crate) routes: Option<Arc<Routes>>,
    /// What AWS refuses the caller.
    pub(crate) denied: Arc<Denied>,
    pub(crate) now: Timestamp,
    meter: Arc<Meter>,
    began: Instant,
}

impl Visit<'_> {
    /// Looks at what stands where.
    pub(crate) fn looking(&self) -> Looking<'_, Dynamo, System> {
        Looking { store: &self.store, env: &System, routes: self.routes.as_deref() }
    }

    pub(crate) fn failing(&self) -> Failing<'_, Dynamo, Sqs, System> {
        Failing { store: &self.store, outbox: &self.console.outbox, env: &System }
    }

    pub(crate) fn cancelling(&self) -> Cancelling<'_, Dynamo, Sqs, System> {
        Cancelling { store: &self.store, outbox: &self.console.outbox, env: &System }
    }

    pub(crate) fn tracking(&self) -> Tracking<'_, Dynamo, Sqs, System> {
        Tracking { store: &self.store, outbox: &self.console.outbox, env: &System }
    }

    pub(crate) fn listing(&self) -> Listing<'_, Dynamo, Sqs, System> {
        Listing { store: &self.store, outbox: &self.console.outbox, env: &System }
    }

    pub(crate) fn ordering(&self) -> Ordering<'_, Dynamo, Sqs, System> {
        Ordering { store: &self.store, outbox: &self.console.outbox, env: &System }
    }

    pub(crate) fn streaming(&self) -> Streaming<'_, Dynamo, Sqs, System> {
        Streaming { store: &self.store, outbox: &self.console.outbox, env: &System }
    }

    pub(crate) const fn holding(&self) -> Holding<'_, Dynamo, System> {
        Holding { store: &self.store, env: &System }
    }

    pub(crate) fn waker<'a>(&'a self, route: &'a Route) -> Waker<'a, Dynamo, Sqs, System> {
        Waker::new(&self.store, &self.console.outbox, &System, route)
    }

    /// The routes in force, for what cannot be done without any.
    pub(crate) fn routes(&self) -> Result<&Routes, Trouble> {
        let none = || Trouble::Refused("no routes file is pushed yet".to_owned());
        self.routes.as_deref().ok_or_else(none)
    }

    /// The routes file as it was pushed.
    pub(crate) async fn stored_routes(&self) -> Result<Option<StoredRoutes>, Trouble> {
        Ok(self.console.table.metered(Arc::clone(&self.meter)).load().await?)
    }

    /// A former version of the routes file.
    pub(crate) async fn routes_of(&self, version: u64) -> Result<Option<StoredRoutes>, Trouble> {
        Ok(self.console.table.metered(Arc::clone(&self.meter)).load_version(version).await?)
    }

    /// A tracker, without a look at its items.
    pub(crate) async fn tracker(&self, id: &TrackerId) -> Result<Option<Tracker>, Trouble> {
        Ok(self.store.look(id, &[], Freshness::Eventual).await?.tracker)
    }

    /// The lanes of a route that stand still, those first that have done so for longest.
    pub(crate) async fn stopped(&self, route: &RouteName, limit: usize) -> Result<Vec<LaneId>, Trouble> {
        Ok(Lanes::stopped(&self.store, route, missing_since(self.now), limit).await?)
    }

    pub(crate) const fn desk(&self) -> &Desk {
        &self.console.desk
    }

    /// What was read so far.
    pub(crate) fn read_units(&self) -> Units {
        self.meter.snapshot().capacity().read
    }

    /// Reads again and again what a page lists, for as long as the page stays within [`BUDGET`]: a read is made only if
    /// it fits in though it cost as much as the dearest before it. `reserve` is kept for what the page reads later.
    pub(crate) fn spending(&self, reserve: f64) -> Spending<'_> {
        Spending { visit: self, most: BUDGET - reserve, dearest: 1.0, at: None, ran_out: false }
    }

    /// Milliseconds since it began.
    pub(crate) fn took_ms(&self) -> u128 {
        self.began.elapsed().as_millis()
    }
}
