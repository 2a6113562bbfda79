//! All that the tables hold about a task.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::output::Output;
use groupage_core::domain::{EventId, TaskId, TraceParent};
use groupage_core::ports::{self, Batches, Failures, Tasks};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::failed::Failed;
use crate::parameters::Id;
use crate::problem::Problem;
use crate::responses::{AnyPort, ById};
use crate::tasks::{self, Task};

/// All that the tables hold about a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct Export {
    /// Where it stands.
    task: Task,
    /// Whether its contents were erased.
    erased: bool,
    /// The work as it was sent; null once it is erased.
    #[schema(value_type = Object, required = true, nullable)]
    payload: Option<Box<RawValue>>,
    /// What tells a repeat of its message from another task under its id. It is computed from the payload.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    digest: String,
    /// The stream's event that is settled with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    event: Option<EventId>,
    /// What orders it among others of its route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    order_key: Option<String>,
    /// The trace context of its sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    traceparent: Option<TraceParent>,
    /// Its output, if one is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Output>,
    /// What is kept of its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Failed, required = false)]
    failure: Option<Failed>,
}

/// Collects what the tables hold about a task; `None` if they know none of this id.
pub async fn export<S: Tasks + Batches + Failures>(store: &S, id: &TaskId) -> Result<Option<Export>, ports::Error> {
    let Some((task, batch)) = tasks::find(store, id).await? else { return Ok(None) };
    Ok(Some(Export {
        erased: task.is_erased(),
        // Only an object was ever stored.
        payload: RawValue::from_string(task.payload.clone()).ok(),
        digest: task.digest.clone(),
        event: task.event.clone(),
        order_key: task.lane.as_ref().map(|lane| lane.key().to_owned()),
        traceparent: task.trace,
        failure: store.failure(id).await?.map(Failed::from),
        output: tasks::output(store, id, batch.as_ref()).await?,
        task: Task::of(task, batch),
    }))
}

/// Export a task
///
/// All that the tables hold about it, payload included. Messages on their way, logs and backups are not looked at.
#[utoipa::path(
    get, path = "/tasks/{id}/export", tag = "tasks", operation_id = "export_task",
    params((
        "id" = String, Path, description = "The task's id.", min_length = 1, max_length = 128, pattern = "^[!-~]+$",
        example = "parcel-4711"
    )),
    responses((status = 200, description = "What is held.", body = Export), ById, AnyPort),
)]
pub async fn show<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<TaskId>) -> Result<Json<Export>, Problem> {
    let found = export(&backend.stack().store, &id).await?;
    found.map(Json).ok_or_else(|| Problem::not_found("task"))
}
