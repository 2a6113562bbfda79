//! The routes that a function works by: read from their table at cold start, and again every minute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use groupage_core::ports;
use groupage_core::routes::Routes;
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::RouteTable;

/// There are no routes to work by.
#[derive(Debug, thiserror::Error)]
pub enum NoRoutes {
    /// Nobody has pushed a routes file yet.
    #[error("no routes file is pushed: run `groupage push routes.yaml`")]
    NotPushed,
    /// The table did not answer.
    #[error(transparent)]
    Port(#[from] ports::Error),
    /// What is stored does not pass the check that `groupage push` makes: somebody wrote it by other means.
    #[error("the stored routes file is wrong: {0}")]
    Invalid(#[from] groupage_core::routes::Error),
}

/// How long routes are used before the table is asked again. A pushed file is in force everywhere after this.
const MAX_AGE: Duration = Duration::from_secs(60);

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
                Ok(Arc::clone(&old.routes))
            }
            (Err(failure), None) => Err(failure),
        }
    }
}

async fn load(table: &RouteTable, old: Option<&Loaded>) -> Result<Loaded, NoRoutes> {
    let stored = table.load().await?.ok_or(NoRoutes::NotPushed)?;
    let routes = match old {
        Some(old) if old.digest == stored.digest => Arc::clone(&old.routes),
        Some(_) | None => {
            info!(digest = stored.digest, "routes loaded");
            Arc::new(Routes::parse(&stored.yaml)?)
        }
    };
    Ok(Loaded { at: Instant::now(), digest: stored.digest, routes })
}
