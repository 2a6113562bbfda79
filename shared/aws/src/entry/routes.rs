//! The routes that a function works by: read from their table at cold start, and again every minute.
//!
//! Routes that cannot be used change nothing: the newest former version that can be used is in force instead, for all
//! functions alike, and [`RouteSource::is_behind`] says so. If not even the table can be read, a function goes on with
//! what it read last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use groupage_core::ports;
use groupage_core::routes::{self, Routes};
use tokio::sync::Mutex;
use tracing::{error, info, warn};

use crate::{RouteTable, StoredRoutes};

/// There are no routes to work by.
#[derive(Debug, thiserror::Error)]
pub enum NoRoutes {
    /// Nobody has pushed a routes file yet.
    #[error("no routes file is pushed: run `groupage push routes.yaml`")]
    NotPushed,
    /// The table did not answer.
    #[error(transparent)]
    Port(#[from] ports::Error),
    /// What is stored does not pass the check that `groupage push` makes, and neither does any former version.
    #[error("the stored routes file is wrong: {0}")]
    Invalid(#[from] routes::Error),
}

/// How long routes are used before the table is asked again. A pushed file is in force everywhere after this.
const MAX_AGE: Duration = Duration::from_secs(60);

/// How many former versions are tried if the newest cannot be used.
const FORMER: usize = 10;

/// Where routes come from.
#[derive(Debug)]
pub enum RouteSource {
    /// Given once; for tests and the demo.
    Fixed(Arc<Routes>),
    /// The table, with what was read last and when.
    Table(RouteTable, Mutex<Option<Loaded>>),
}

/// Routes as they were read.
#[derive(Debug)]
pub struct Loaded {
    at: Instant,
    digest: String,
    routes: Arc<Routes>,
    /// Whether the table names others, which cannot be used.
    is_behind: bool,
}

impl RouteSource {
    /// Routes from their table.
    pub fn table(table: RouteTable) -> Self {
        Self::Table(table, Mutex::new(None))
    }

    /// The routes in force. If the table cannot be read now, those that were read last.
    pub async fn current(&self) -> Result<Arc<Routes>, NoRoutes> {
        let (table, loaded) = match self {
            Self::Fixed(routes) => return Ok(Arc::clone(routes)),
            Self::Table(table, loaded) => (table, loaded),
        };
        let mut loaded = loaded.lock().await;
        if let Some(fresh) = loaded.as_ref().filter(|loaded| loaded.at.elapsed() < MAX_AGE) {
            return Ok(Arc::clone(&fresh.routes));
        }
        match (load(table, loaded.as_ref()).await, loaded.as_mut()) {
            (Ok(new), _) => Ok(Arc::clone(&loaded.insert(new).routes)),
            (Err(failure), Some(old)) => {
                warn!(%failure, "the routes could not be read again; the old ones stay in force");
                old.at = Instant::now();
                old.is_behind = true;
                Ok(Arc::clone(&old.routes))
            }
            (Err(failure), None) => Err(failure),
        }
    }

    /// The latest versions that were pushed, up to this number; none of routes that were given once.
    pub async fn history(&self, most: u64) -> ports::Result<Vec<StoredRoutes>> {
        match self {
            Self::Fixed(_) => Ok(Vec::new()),
            Self::Table(table, _) => table.history(most).await,
        }
    }

    /// Whether the routes in force are not those that the table names: these cannot be read, or cannot be used.
    pub async fn is_behind(&self) -> bool {
        match self {
            Self::Fixed(_) => false,
            Self::Table(_, loaded) => loaded.lock().await.as_ref().is_some_and(|loaded| loaded.is_behind),
        }
    }
}

async fn load(table: &RouteTable, old: Option<&Loaded>) -> Result<Loaded, NoRoutes> {
    let stored = table.load().await?.ok_or(NoRoutes::NotPushed)?;
    match usable(&stored, old) {
        Ok(routes) => Ok(Loaded { at: Instant::now(), digest: stored.digest, routes, is_behind: false }),
        Err(wrong) => {
            error!(version = stored.version, digest = stored.digest, %wrong, "routes cannot be used");
            former(table, &stored, old).await?.ok_or(NoRoutes::Invalid(wrong))
        }
    }
}

/// The newest version that can be used: the one in force if only its own item was spoilt, or else one before it.
async fn former(table: &RouteTable, stored: &StoredRoutes, old: Option<&Loaded>) -> Result<Option<Loaded>, NoRoutes> {
    let newest = table.newest_version(stored).await?;
    for version in (0..=newest).rev().take(FORMER) {
        let Some(kept) = table.load_version(version).await? else { continue };
        if let Ok(routes) = usable(&kept, old) {
            return Ok(Some(Loaded { at: Instant::now(), digest: kept.digest, routes, is_behind: true }));
        }
    }
    Ok(None)
}

/// The routes of a file; those that are in force already if it is the same.
fn usable(stored: &StoredRoutes, old: Option<&Loaded>) -> Result<Arc<Routes>, routes::Error> {
    if let Some(same) = old.filter(|old| old.digest == stored.digest) {
        return Ok(Arc::clone(&same.routes));
    }
    let routes = Arc::new(stored.parse()?);
    info!(version = stored.version, digest = stored.digest, "routes loaded");
    Ok(routes)
}
