//! Tasks that wait, ended before any call.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::backend::Backend;
use crate::body::Body;
use crate::failed::{Done, TaskIds, routes};
use crate::problem::Problem;
use crate::responses::{AnyPort, Conflicts, WithBody};

/// Cancel tasks
///
/// Those that wait for a batch or for their turn are settled as cancelled. One that is in a batch is refused, since its
/// call may have begun. The call may be repeated.
#[utoipa::path(
    post, path = "/tasks/cancellations", tag = "tasks", operation_id = "cancel_tasks",
    request_body(content = TaskIds, example = json!({ "ids": ["parcel-4711"] })),
    responses(
        (status = 200, description = "Each is cancelled or refused.", body = Done),
        Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn cancel<B: Backend>(
    State(backend): State<Arc<B>>,
    Body(TaskIds { ids }): Body<TaskIds>,
) -> Result<Json<Done>, Problem> {
    let routes = routes(&*backend).await?;
    Ok(Json(Done::of(backend.cancelling().cancel(&routes, &ids).await)?))
}
