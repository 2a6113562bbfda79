//! Tasks: sent to the task queue, and looked up.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use groupage_core::domain::output::Output;
use groupage_core::domain::shown::Shown;
use groupage_core::domain::task::{self, Status};
use groupage_core::domain::task_message::{self, Code, MAX_MESSAGE_BYTES, Rejection, TaskMessage};
use groupage_core::domain::times::Times;
use groupage_core::domain::trace::TRACEPARENT;
use groupage_core::domain::{Batch, BatchId, ItemId, TaskId, Timestamp, TraceParent};
use groupage_core::ports::{self, Batches, Destination, Env as _, Freshness, Outgoing, Tasks, send_all};
use groupage_core::routes::Routes;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::parameters::Id;
use crate::problem::Problem;
use crate::responses::{AnyPort, ById, WithBody};
use crate::routes::pushed;

/// Tasks of one call at most.
const MAX_TASKS: usize = 100;

/// Tasks to send.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the published contract; `NewTasks` keeps each task as it was written")]
pub struct TaskList {
    /// The tasks, in the order in which their ids are answered.
    #[schema(min_items = 1, max_items = 100)]
    tasks: Vec<NewTask>,
}

/// A task to send: the same as a message on the task queue.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the published contract; the parser of task messages reads it")]
pub struct NewTask {
    /// The version of this contract.
    #[schema(minimum = 1, maximum = 1)]
    version: Option<u8>,
    /// The task's id, unique among all tasks; sending the same id with the same payload again is safe. Without one, the
    /// task gets an id that nobody has, and a call whose answer was lost cannot be repeated safely.
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    id: Option<String>,
    /// The work itself. Routes look into it for what to do; the downstream receives it as it is. No object in it has
    /// two fields of one name, no string holds the character NUL, and nothing lies more than 100 levels deep.
    #[schema(value_type = Object)]
    payload: serde_json::Map<String, serde_json::Value>,
    /// The item of a tracker that is acked when the task settles.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}:[0-9]{1,9}:([0-6]?[0-9]{1,3}|70[0-9]{2}|71[0-5][0-9]|716[0-7])$")]
    item: Option<String>,
    /// The list that the task waits on until it is released. Without it, the task goes on at once.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    list: Option<String>,
    /// When the task is called at the earliest: a time as RFC 3339 has it, or a delay in whole seconds from its
    /// registration, a year at most. It is registered at once, and waits. No ordered route takes it.
    not_before: Option<Written>,
    /// Until when the task is wanted. Later no call with it begins: it ends as expired. A time as RFC 3339 has it, or a
    /// delay in whole seconds from its registration, a year at most.
    expires_at: Option<Written>,
    /// The trace context of its sender, as W3C's `traceparent` has it. Without one, that of the call's header counts.
    /// Whatever else it is, it is ignored.
    #[schema(value_type = Option<serde_json::Value>)]
    traceparent: Option<String>,
}

/// A moment that a sender names.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the published contract; the parser of task messages reads it")]
pub enum Written {
    /// A time.
    Time(Moment),
    /// A delay.
    Delay(Seconds),
}

/// A time as RFC 3339 has it, of any offset.
#[derive(Debug, ToSchema)]
#[schema(format = DateTime)]
#[expect(dead_code, reason = "as `Written`")]
pub struct Moment(String);

/// A delay in whole seconds, counted from the registration; a year at most.
#[derive(Debug, ToSchema)]
#[schema(minimum = 0, maximum = 31_622_400)]
#[expect(dead_code, reason = "as `Written`")]
pub struct Seconds(u32);

/// Tasks as they were written.
#[derive(Debug)]
pub struct NewTasks(Vec<Box<RawValue>>);

impl Contents for NewTasks {
    const FIELDS: &[&str] = &["tasks"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        let tasks: Vec<Box<RawValue>> = fields.required("tasks", "a list of tasks")?;
        if (1..=MAX_TASKS).contains(&tasks.len()) {
            Ok(Self(tasks))
        } else {
            Err(Problem::field("tasks", format!("`tasks` must hold 1 to {MAX_TASKS} tasks")))
        }
    }
}

/// Tasks that were sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sent {
    /// Their ids, in the order of the call.
    #[schema(value_type = Vec<String>)]
    ids: Vec<TaskId>,
}

/// Send tasks
///
/// Checks all of them and sends them to the task queue; if one is wrong, none is sent. They are registered within
/// seconds; those of one order key in the order of the call. If the answer is lost, repeat the call: tasks that brought
/// their ids are not doubled.
#[utoipa::path(
    post, path = "/tasks", tag = "tasks", operation_id = "send_tasks",
    request_body(
        content = TaskList,
        example = json!({
            "tasks": [
                { "id": "parcel-4711", "payload": { "type": "parcel", "truck": "truck-7" }, "item": "catalog-7:0:17" },
            ],
        }),
    ),
    responses(
        (
            status = 202, description = "All are sent.", body = Sent,
            links((
                "show" = (
                    operation_id = "show_task",
                    parameters(("id" = "$response.body#/ids/0")),
                    description = "Once it is registered.",
                )
            )),
            example = json!({ "ids": ["parcel-4711"] }),
        ),
        WithBody, AnyPort,
    ),
)]
pub async fn send<B: Backend>(
    State(backend): State<Arc<B>>,
    headers: HeaderMap,
    Body(NewTasks(tasks)): Body<NewTasks>,
) -> Result<(StatusCode, Json<Sent>), Problem> {
    let stack = backend.stack();
    let caller = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.to_str().ok()?).ok());
    let routes = pushed(&stack.routes).await?;
    let (mut ids, mut messages) = (Vec::new(), Vec::new());
    for (position, task) in tasks.iter().enumerate() {
        let (fresh_id, now) = (stack.env.fresh_id(), stack.env.now());
        let (message, body) =
            message(task.get(), &fresh_id, caller).map_err(|why| refusal(position, task.get(), &why))?;
        Times::of(&message, now).check(false, now).map_err(|why| refusal(position, task.get(), &why))?;
        messages.push(Outgoing {
            to: intake(routes.as_deref(), &message),
            body,
            delay_ms: 0,
            attributes: Vec::new(),
            tenant: tenant(routes.as_deref(), &message),
        });
        ids.push(message.id);
    }
    send_all(&stack.queues, messages).await?;
    Ok((StatusCode::ACCEPTED, Json(Sent { ids })))
}

/// The queue that a task is sent to. Without routes nothing is in order.
fn intake(routes: Option<&Routes>, message: &TaskMessage) -> Destination {
    routes.map_or(Destination::Tasks, |routes| routes.intake(message))
}

/// A task's Target, among which the task queue is fair. One that no route wants is refused later.
fn tenant(routes: Option<&Routes>, message: &TaskMessage) -> Option<String> {
    routes?.assign(&message.payload).ok().map(|assigned| assigned.target.whole().to_string())
}

/// The message of a task that says its id, whether or not the sender did.
fn message(task: &str, fresh_id: &str, caller: Option<TraceParent>) -> Result<(TaskMessage, String), Rejection> {
    let parsed = task_message::parse(task, fresh_id)?;
    let parsed = TaskMessage { trace: parsed.trace.or(caller), ..parsed };
    if parsed.event.is_some() {
        return Err(Rejection::new(Code::BadEvent, "`event` is given by the stream that the task is fed to"));
    }
    let too_large = || format!("with its id the task is over {MAX_MESSAGE_BYTES} bytes");
    let body = parsed.fitting_body().ok_or_else(|| Rejection::new(Code::TooLarge, too_large()))?;
    Ok((parsed, body))
}

/// Names the field of the task that the parser refused.
fn refusal(position: usize, task: &str, why: &Rejection) -> Problem {
    let field = match why.code {
        Code::MissingField => Some("payload"),
        Code::NotAnObject if task.starts_with('{') => Some("payload"),
        Code::BadField => Some("version"),
        Code::BadId => Some("id"),
        Code::BadItem => Some("item"),
        Code::BadList => Some("list"),
        Code::BadEvent => Some("event"),
        Code::BadTime if why.detail.starts_with("`not_before`") => Some("not_before"),
        Code::BadTime => Some("expires_at"),
        Code::NotAnObject
        | Code::NotJson
        | Code::DuplicateField
        | Code::BadText
        | Code::BadNumber
        | Code::TooDeep
        | Code::UnknownField
        | Code::TooLarge
        | Code::BadSender
        | Code::ListClosed
        | Code::NoRoute
        | Code::BadTarget
        | Code::BadWeight
        | Code::BadPriority
        | Code::BadCollapse
        | Code::BadOrder
        | Code::BadSequence
        | Code::IdConflict
        | Code::Panicked => None,
    };
    let task = format!("tasks[{position}]");
    Problem::field(field.map_or_else(|| task.clone(), |field| format!("{task}.{field}")), why.detail.clone())
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// Waits for its time.
    Scheduled,
    /// Waits for its turn: a task of its order key before it is not settled yet.
    Queued,
    /// Waits for a batch.
    Created,
    /// In a batch that is not being called yet, or waits for its next attempt.
    Batched,
    /// Its batch is claimed and being called.
    InProgress,
    /// Settled well.
    Succeeded,
    /// Settled badly.
    Failed,
    /// Ended by a person while it waited, before a call.
    Cancelled,
    /// Ended before a call, since nobody wanted it any more.
    Expired,
    /// Ended before a call, since a newer task with the same collapse key is called in its place.
    Superseded,
}

impl From<Shown> for TaskState {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::Scheduled => Self::Scheduled,
            Shown::Queued => Self::Queued,
            Shown::Created => Self::Created,
            Shown::Batched => Self::Batched,
            Shown::InProgress => Self::InProgress,
            Shown::Succeeded => Self::Succeeded,
            Shown::Failed => Self::Failed,
            Shown::Cancelled => Self::Cancelled,
            Shown::Expired => Self::Expired,
            Shown::Superseded => Self::Superseded,
        }
    }
}

/// A task without its payload.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct Task {
    /// Its id.
    #[schema(value_type = String)]
    id: TaskId,
    /// Where it stands.
    status: TaskState,
    /// What it is grouped by, as `route:value`.
    #[schema(value_type = String, required = false)]
    target: Option<String>,
    /// The batch it is or was in.
    #[schema(value_type = String, required = false)]
    batch: Option<BatchId>,
    /// Why it failed.
    #[schema(value_type = String, required = false)]
    reason: Option<String>,
    /// The newer task that is called in its place.
    #[schema(value_type = String, required = false)]
    superseded_by: Option<TaskId>,
    /// Whether its downstream gave an output for it; only if it did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    has_output: bool,
    /// How often it has returned to waiting.
    returned: u32,
    /// The tracker's item that is acked when it settles.
    #[schema(value_type = String, required = false)]
    item: Option<ItemId>,
    /// When it was registered.
    #[schema(format = DateTime)]
    registered_at: String,
    /// When its time comes, while it waits for that.
    #[schema(value_type = String, format = DateTime, required = false)]
    not_before: Option<String>,
    /// Until when it is wanted.
    #[schema(value_type = String, format = DateTime, required = false)]
    expires_at: Option<String>,
}

/// Show a task
///
/// A task that was sent a moment ago may not be registered yet: it is not known then.
#[utoipa::path(
    get, path = "/tasks/{id}", tag = "tasks", operation_id = "show_task",
    params((
        "id" = String, Path, description = "The task's id.", min_length = 1, max_length = 128, pattern = "^[!-~]+$",
        example = "parcel-4711"
    )),
    responses(
        (
            status = 200, description = "The task.", body = Task,
            links(("batch" = (operation_id = "show_batch", parameters(("id" = "$response.body#/batch"))))),
            example = json!({
                "id": "parcel-4711", "status": "in-progress", "target": "parcels:truck-7",
                "batch": "0123456789abcdef0123456789abcdef", "returned": 0, "item": "catalog-7:0:17",
                "registered_at": "2026-01-01T12:00:00.000Z",
            }),
        ),
        ById, AnyPort,
    ),
)]
pub async fn show<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<TaskId>) -> Result<Json<Task>, Problem> {
    let (task, batch) = find(&backend.stack().store, &id).await?.ok_or_else(|| Problem::not_found("task"))?;
    Ok(Json(Task::of(task, batch)))
}

/// Reads a task, if it is there, with its batch if that is.
pub async fn find(
    store: &(impl Tasks + Batches),
    id: &TaskId,
) -> Result<Option<(task::Task, Option<Batch>)>, ports::Error> {
    let found = store.read(std::slice::from_ref(id), Freshness::Latest).await?.into_iter().next();
    let Some(task) = found else { return Ok(None) };
    let batch = match task.status.batch() {
        Some(batch) => store.batch(batch).await?,
        None => None,
    };
    Ok(Some((task, batch)))
}

/// Reads the output of a task, if its batch keeps one.
pub async fn output(store: &impl Batches, id: &TaskId, batch: Option<&Batch>) -> Result<Option<Output>, ports::Error> {
    match batch {
        Some(batch) => store.output(batch, id).await,
        None => Ok(None),
    }
}

/// The output of a task.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskOutput {
    /// Any JSON; null if it is too large to be kept.
    #[schema(value_type = Value, required = true, nullable)]
    output: Output,
    /// The size of an output that is too large to be kept, in bytes.
    #[schema(value_type = u64, required = false)]
    omitted_bytes: Option<u64>,
}

/// Show a task's output
///
/// A downstream may say more of a task than its outcome, such as a tracking number, if the task's route asks for it.
#[utoipa::path(
    get, path = "/tasks/{id}/output", tag = "tasks", operation_id = "show_output",
    params((
        "id" = String, Path, description = "The task's id.", min_length = 1, max_length = 128, pattern = "^[!-~]+$",
        example = "parcel-4711"
    )),
    responses(
        (status = 200, description = "The output.", body = TaskOutput, example = json!({ "output": "1Z999AA10123456784" })),
        ById, AnyPort,
    ),
)]
pub async fn show_output<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<TaskId>,
) -> Result<Json<TaskOutput>, Problem> {
    let store = &backend.stack().store;
    let (_, batch) = find(store, &id).await?.ok_or_else(|| Problem::not_found("task"))?;
    let output = output(store, &id, batch.as_ref()).await?.ok_or_else(|| Problem::not_found("output"))?;
    Ok(Json(TaskOutput { omitted_bytes: output.omitted_bytes(), output }))
}

impl Task {
    /// A task, with its batch if it is or was in one that is still there.
    pub fn of(task: task::Task, batch: Option<Batch>) -> Self {
        let status = Shown::of(&task, batch.as_ref()).into();
        let has_output = batch.as_ref().is_some_and(|batch| batch.output_part(&task.id).is_some());
        let superseded_by = batch.as_ref().and_then(|batch| batch.superseder(&task)).cloned();
        let task::Task { id, status: stored, round, created_at, item, expires_at, .. } = task;
        let target = match &stored {
            Status::Queued => None,
            Status::Scheduled { target, .. } | Status::Created { target } => Some(target.clone()),
            Status::Batched { .. } | Status::Succeeded { .. } | Status::Failed { .. } => {
                batch.map(|batch| batch.target)
            }
        };
        Self {
            id,
            status,
            target: target.map(|target| target.whole().to_string()),
            batch: stored.batch().cloned(),
            reason: stored.reason().map(ToString::to_string),
            superseded_by,
            has_output,
            returned: round.0,
            item,
            registered_at: created_at.shown(),
            not_before: stored.due().map(Timestamp::shown),
            expires_at: expires_at.map(Timestamp::shown),
        }
    }
}
