//! Tasks whose contents are erased, on somebody's request.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::backend::Backend;
use crate::body::Body;
use crate::failed::{Done, TaskIds, routes};
use crate::problem::Problem;
use crate::responses::{AnyPort, Conflicts, WithBody};

/// Erase tasks
///
/// Payload, Target and the downstream's answer go; the id stays used, so that nothing is done twice. A task that waits
/// is cancelled first. One that is in a batch is refused until the batch is settled, since its call may be under way.
/// The call may be repeated.
#[utoipa::path(
    post, path = "/tasks/erasures", tag = "tasks", operation_id = "erase_tasks",
    request_body(content = TaskIds, example = json!({ "ids": ["parcel-4711"] })),
    responses(
        (status = 200, description = "Each is erased or refused.", body = Done),
        Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn erase<B: Backend>(
    State(backend): State<Arc<B>>,
    Body(TaskIds { ids }): Body<TaskIds>,
) -> Result<Json<Done>, Problem> {
    let routes = routes(&*backend).await?;
    Ok(Json(Done::of(backend.erasing().erase(&routes, &ids).await?)?))
}
