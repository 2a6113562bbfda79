//! The routes that calls go by.

use std::sync::Arc;

use groupage_aws::entry::{NoRoutes, RouteSource};
use groupage_core::routes::Routes;
use tracing::error;

use crate::problem::{Kind, Problem};

/// The routes in force; `None` if none were pushed yet.
pub async fn pushed(source: &RouteSource) -> Result<Option<Arc<Routes>>, Problem> {
    match source.current().await {
        Ok(routes) => Ok(Some(routes)),
        Err(NoRoutes::NotPushed) => Ok(None),
        Err(NoRoutes::Port(failure)) => Err(failure.into()),
        Err(NoRoutes::Invalid(failure)) => {
            error!(%failure, "the stored routes file is wrong");
            Err(Problem::new(Kind::Internal, "the stored routes file is wrong; the log says more"))
        }
    }
}
