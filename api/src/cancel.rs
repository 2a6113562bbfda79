//! Tasks that wait, ended before any call.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::{TaskId, TrackerId};
use groupage_core::ports::Env as _;
use serde::Serialize;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::failed::{Done, NotDone, TaskIds, routes};
use crate::parameters::{Id, OfTracker};
use crate::problem::Problem;
use crate::responses::{AnyPort, ById, Conflicts, WithBody};

/// One call looks for a tracker's tasks for so long, in milliseconds: the caller waits for the answer.
const LOOKS_MS: u64 = 10_000;

/// Cancel tasks
///
/// Those that wait for a batch, for their turn or for their time are settled as cancelled. One that is in a batch is
/// left out of its call, also while the batch is being filled. Once a call has begun it is refused.
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

/// From where on a tracker's tasks are looked for.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// The `next` of the answer before; without it, from the beginning.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    pub after: Option<TaskId>,
}

impl Contents for From {
    const FIELDS: &[&str] = &["after"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        let after: Option<String> = fields.optional("after", "the id of a task")?;
        let after = after.map(|id| TaskId::parse(&id).map_err(|why| Problem::field("after", why))).transpose()?;
        Ok(Self { after })
    }
}

/// What became of those of a tracker's tasks that were looked at.
#[derive(Debug, Serialize, ToSchema)]
pub struct Cancelled {
    /// Those that are cancelled.
    #[schema(value_type = Vec<String>)]
    done: Vec<TaskId>,
    /// Those that are not. Nothing was changed of them.
    refused: Vec<NotDone>,
    /// Where to go on; null if all tasks have been looked at. An answer may name no task and not be the last.
    #[schema(value_type = Option<String>, required = true)]
    next: Option<TaskId>,
}

/// Cancel a tracker's tasks
///
/// All tasks with an item of it that wait, as if each were named. A tracker does not know its tasks, so the call looks
/// through all tasks. It ends after ten seconds, or when many were found, and says where to go on. A task that is sent
/// later is not cancelled. The call may be repeated.
#[utoipa::path(
    post, path = "/trackers/{id}/cancellations", tag = "trackers", operation_id = "cancel_tracker",
    params(OfTracker),
    request_body(content = From, example = json!({})),
    responses(
        (status = 200, description = "Each that was looked at is cancelled or refused.", body = Cancelled),
        ById, Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn cancel_of<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<TrackerId>,
    Body(From { after }): Body<From>,
) -> Result<Json<Cancelled>, Problem> {
    let routes = routes(&*backend).await?;
    let until = backend.stack().env.now().plus_ms(LOOKS_MS);
    let came = backend.cancelling().cancel_of(&routes, &id, after.as_ref(), until).await??;
    let Done { done, refused } = Done::of(came.each)?;
    Ok(Json(Cancelled { done, refused, next: came.next }))
}
