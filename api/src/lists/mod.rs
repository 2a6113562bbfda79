//! Lists of waiting tasks: opened, filled, released, discarded, closed, looked at.

pub mod peek;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use groupage_core::domain::id::ListId;
use groupage_core::domain::list::{MAX_RELEASED, Options, State as Stored};
use groupage_core::steps::list::{Progress, Taken as TakenTasks};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::parameters::Id;
use crate::problem::Problem;
use crate::responses::{AnyPort, ById, Conflicts, WithBody};

/// How a list is opened.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewList {
    /// Its name.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    id: String,
    /// Seconds after which it is removed, with all that waits on it, if nobody puts or takes anything. Without it tasks
    /// wait for ever.
    #[schema(minimum = 60, maximum = 315_360_000)]
    ttl_s: Option<u64>,
}

impl Contents for NewList {
    const FIELDS: &[&str] = &["id", "ttl_s"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        Ok(Self { id: fields.required("id", "a string")?, ttl_s: fields.optional_whole("ttl_s", 60..=315_360_000)? })
    }
}

/// Tasks to put on a list.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the published contract; `NewEntries` keeps each task as it was written")]
pub struct EntryList {
    /// Makes a repeat of this call safe: it puts nothing more.
    #[schema(pattern = "^[!-~]{1,128}$")]
    key: String,
    /// The tasks, in the order in which they will be released. One without an id gets one that follows from the key.
    #[schema(min_items = 1, max_items = 97)]
    tasks: Vec<crate::tasks::NewTask>,
}

/// Tasks as they were written.
#[derive(Debug)]
pub struct NewEntries {
    key: String,
    tasks: Vec<String>,
}

impl Contents for NewEntries {
    const FIELDS: &[&str] = &["key", "tasks"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        let tasks: Vec<Box<RawValue>> = fields.required("tasks", "a list of tasks")?;
        let tasks = tasks.into_iter().map(|task| task.get().to_owned()).collect();
        Ok(Self { key: fields.required("key", "a string")?, tasks })
    }
}

/// How much is released.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Makes a repeat of this call safe: it releases nothing more. It is remembered for the stack's retention.
    #[schema(pattern = "^[!-~]{1,128}$")]
    key: String,
    /// How many tasks. If fewer wait, those are released.
    #[schema(minimum = 1, maximum = 10_000)]
    count: u64,
}

impl Contents for Release {
    const FIELDS: &[&str] = &["key", "count"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        Ok(Self { key: fields.required("key", "a string")?, count: fields.whole("count", 1..=MAX_RELEASED)? })
    }
}

/// The discarding of everything that waits.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Discard {
    /// Makes a repeat of this call safe: it discards nothing more.
    #[schema(pattern = "^[!-~]{1,128}$")]
    key: String,
}

impl Contents for Discard {
    const FIELDS: &[&str] = &["key"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        Ok(Self { key: fields.required("key", "a string")? })
    }
}

/// Where a list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ListState {
    /// Takes and releases tasks.
    Open,
    /// Neither takes nor releases tasks until it is opened again.
    Closed,
    /// Its time to live is over.
    Removing,
}

/// A list, and how far it is.
#[derive(Debug, Serialize, ToSchema)]
pub struct List {
    /// Its name.
    #[schema(value_type = String)]
    id: ListId,
    /// Where it stands.
    state: ListState,
    /// Tasks put on it so far.
    put: u64,
    /// Tasks that wait.
    waiting: u64,
    /// Tasks that went on.
    released: u64,
    /// Tasks of releases that are under way: sweep goes on with what its caller leaves.
    releasing: u64,
    /// Tasks discarded, or about to be.
    discarded: u64,
    /// When it was opened.
    #[schema(format = DateTime)]
    opened_at: String,
    /// When somebody last put or took anything.
    #[schema(format = DateTime)]
    active_at: String,
    /// Seconds after which it is removed if it is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    ttl_s: Option<u64>,
}

impl From<Progress> for List {
    fn from(progress: Progress) -> Self {
        let Progress { list, put, waiting, released, releasing, discarded } = progress;
        let state = match list.tail.state {
            Stored::Open => ListState::Open,
            Stored::Closed => ListState::Closed,
            Stored::Removing => ListState::Removing,
        };
        Self {
            state,
            put,
            waiting,
            released,
            releasing,
            discarded,
            opened_at: list.tail.life.opened_at.shown(),
            active_at: list.active_at().shown(),
            ttl_s: list.tail.options.ttl_ms.map(|ttl_ms| ttl_ms / 1_000),
            id: list.tail.life.id,
        }
    }
}

/// Tasks that were put on a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct Put {
    /// The first one's token; the others follow.
    start: u64,
    /// How many.
    count: u64,
    /// Whether an earlier call put them, under the same key.
    repeated: bool,
}

/// Tasks that were released or discarded.
#[derive(Debug, Serialize, ToSchema)]
pub struct Taken {
    /// The first one's token; the others follow.
    start: u64,
    /// How many: fewer than asked for, or none, if no more waited.
    count: u64,
    /// Those of them that sweep still has to discard.
    left: u64,
    /// Whether an earlier call took them, under the same key.
    repeated: bool,
}

impl From<TakenTasks> for Taken {
    fn from(TakenTasks { start, count, left, repeated }: TakenTasks) -> Self {
        Self { start: start.0, count, left, repeated }
    }
}

/// Open a list
///
/// Makes it, or opens it again if it is closed. The same call again finds it open. Putting a task makes a list, too.
#[utoipa::path(
    post, path = "/lists", tag = "lists", operation_id = "open_list",
    request_body = NewList,
    responses(
        (status = 201, description = "It is new.", body = List),
        (status = 200, description = "It was there.", body = List),
        (status = 409, description = "It has another time to live.", body = Problem, content_type = "application/problem+json"),
        WithBody, AnyPort,
    ),
)]
pub async fn open<B: Backend>(
    State(backend): State<Arc<B>>,
    Body(new): Body<NewList>,
) -> Result<(StatusCode, Json<List>), Problem> {
    let id = ListId::parse(&new.id).map_err(|why| Problem::field("id", why))?;
    let options = Options { ttl_ms: new.ttl_s.map(|ttl_s| ttl_s.saturating_mul(1_000)) };
    let (_, is_new) = backend.listing().open(&id, options).await??;
    let progress = backend.listing().progress(&id).await??;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(progress.into())))
}

/// Show a list
#[utoipa::path(
    get, path = "/lists/{id}", tag = "lists", operation_id = "show_list",
    params(("id" = String, Path, description = "The list's name.", pattern = "^[A-Za-z0-9_-]{1,64}$")),
    responses((status = 200, description = "The list.", body = List), ById, AnyPort),
)]
pub async fn show<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<ListId>) -> Result<Json<List>, Problem> {
    Ok(Json(backend.listing().progress(&id).await??.into()))
}

/// Put tasks on a list
///
/// All of them or, if one is wrong, none. The list is made if it is not there.
#[utoipa::path(
    post, path = "/lists/{id}/tasks", tag = "lists", operation_id = "put_on_list",
    params(("id" = String, Path, description = "The list's name.", pattern = "^[A-Za-z0-9_-]{1,64}$")),
    request_body = EntryList,
    responses((status = 200, description = "They wait.", body = Put), Conflicts, WithBody, AnyPort),
)]
pub async fn put<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<ListId>,
    Body(NewEntries { key, tasks }): Body<NewEntries>,
) -> Result<Json<Put>, Problem> {
    let (addition, is_new) = backend.listing().put(&id, &key, &tasks).await??;
    Ok(Json(Put { start: addition.start.0, count: addition.count, repeated: !is_new }))
}

/// Release the next tasks
///
/// They go on as if they were sent now. No task is released twice, however many callers there are.
#[utoipa::path(
    post, path = "/lists/{id}/releases", tag = "lists", operation_id = "release_from_list",
    params(("id" = String, Path, description = "The list's name.", pattern = "^[A-Za-z0-9_-]{1,64}$")),
    request_body = Release,
    responses((status = 200, description = "They went on.", body = Taken), ById, Conflicts, WithBody, AnyPort),
)]
pub async fn release<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<ListId>,
    Body(Release { key, count }): Body<Release>,
) -> Result<Json<Taken>, Problem> {
    Ok(Json(backend.listing().release(&id, &key, count).await??.into()))
}

/// Discard what waits
///
/// Removes all tasks that wait now, for ever; the trackers' items that they carry fail.
#[utoipa::path(
    post, path = "/lists/{id}/discards", tag = "lists", operation_id = "discard_list",
    params(("id" = String, Path, description = "The list's name.", pattern = "^[A-Za-z0-9_-]{1,64}$")),
    request_body = Discard,
    responses((status = 200, description = "They are discarded.", body = Taken), ById, Conflicts, WithBody, AnyPort),
)]
pub async fn discard<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<ListId>,
    Body(Discard { key }): Body<Discard>,
) -> Result<Json<Taken>, Problem> {
    Ok(Json(backend.listing().discard(&id, &key).await??.into()))
}

/// Close a list
///
/// Nothing is put on it or released from it until it is opened again. The same call again finds it closed.
#[utoipa::path(
    post, path = "/lists/{id}/close", tag = "lists", operation_id = "close_list",
    params(("id" = String, Path, description = "The list's name.", pattern = "^[A-Za-z0-9_-]{1,64}$")),
    responses((status = 200, description = "It is closed.", body = List), ById, AnyPort),
)]
pub async fn close<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<ListId>) -> Result<Json<List>, Problem> {
    backend.listing().close(&id).await??;
    Ok(Json(backend.listing().progress(&id).await??.into()))
}
