//! The versions of the routes file: which there were, who pushed them, and which is in force.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_aws::StoredRoutes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::problem::Problem;
use crate::responses::AnyPort;

/// How many versions are shown at most.
pub const SHOWN: u64 = 20;

/// One push of a routes file, without the file.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct Version {
    /// Its number, counted from 1; 0 is what was pushed before they were counted.
    version: u64,
    /// The file's digest: two versions with one digest are the same file.
    digest: String,
    /// When it was pushed.
    #[schema(format = DateTime)]
    pushed_at: String,
    /// Who pushed it, as the command said.
    #[schema(value_type = String, required = false)]
    pushed_by: Option<String>,
    /// The former version that it put in force again.
    #[schema(value_type = u64, required = false)]
    restores: Option<u64>,
}

impl From<StoredRoutes> for Version {
    fn from(stored: StoredRoutes) -> Self {
        let StoredRoutes { version, digest, pushed_at, pushed_by, restores, .. } = stored;
        Self { version, digest, pushed_at: pushed_at.shown(), pushed_by, restores }
    }
}

/// The versions of the routes.
#[derive(Debug, Serialize, ToSchema)]
pub struct Versions {
    /// Which is in force; null if nothing is pushed yet.
    #[schema(required = true)]
    in_force: Option<u64>,
    /// The latest, the newest first.
    versions: Vec<Version>,
}

impl Versions {
    /// Of versions as [`groupage_aws::RouteTable::history`] gives them.
    pub fn of(history: Vec<StoredRoutes>) -> Self {
        let in_force = history.first().map(|now| now.version);
        Self { in_force, versions: history.into_iter().map(Version::from).collect() }
    }
}

/// List the versions of the routes
///
/// The latest 20: when each was pushed, by whom, and its digest. The first is in force.
#[utoipa::path(
    get, path = "/routes", tag = "routes", operation_id = "list_route_versions",
    responses((status = 200, description = "The versions.", body = Versions), AnyPort),
)]
pub async fn list<B: Backend>(State(backend): State<Arc<B>>) -> Result<Json<Versions>, Problem> {
    Ok(Json(Versions::of(backend.stack().routes.history(SHOWN).await?)))
}
