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
/// Those that wait for a batch, for their turn or for their time are settled as cancelled. One that is in a batch is
/// left out of its call. Once a call has begun it is refused. So it is while its batch is being filled: repeat the call
/// then.
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
