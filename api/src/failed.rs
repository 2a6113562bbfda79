//! Failed tasks: found, run again, or taken off the list.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::failed::{self, Filed, Wanted};
use groupage_core::domain::{Reason, RouteName, Target, TaskId, Timestamp};
use groupage_core::ports::Env as _;
use groupage_core::routes::Routes;
use groupage_core::steps::cas::Outcome;
use groupage_core::steps::failed::Page;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::parameters::{Id, Parameters};
use crate::problem::{Kind, Problem};
use crate::responses::{AnyPort, ById, Conflicts, Searching, WithBody};
use crate::routes::pushed;

/// The most tasks of one page, or of one call.
const MAX_LIMIT: usize = 100;

/// A failed task.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct Failed {
    /// Its id.
    #[schema(value_type = String)]
    id: TaskId,
    /// When it failed.
    #[schema(format = DateTime)]
    failed_at: String,
    /// What it was grouped by, as `route:value`.
    target: String,
    /// Why it failed.
    reason: String,
    /// Calls that it was part of.
    attempts: u32,
    /// The status that the downstream answered with, if that was no 2xx.
    #[schema(required = false, nullable = false)]
    answer_status: Option<u16>,
    /// The beginning of what it said. It may quote a payload. Lists leave it out.
    #[schema(required = false, nullable = false)]
    answer: Option<String>,
}

impl From<failed::Failed> for Failed {
    fn from(failed: failed::Failed) -> Self {
        let failed::Failed { filed, target, reason, attempts, answer } = failed;
        Self {
            id: filed.id,
            failed_at: filed.at.shown(),
            target: target.as_str().to_owned(),
            reason: reason.to_string(),
            attempts,
            answer_status: answer.as_ref().map(|answer| answer.status),
            answer: answer.map(|answer| answer.text).filter(|text| !text.is_empty()),
        }
    }
}

/// A page of failed tasks.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailedPage {
    /// The tasks, those first that failed first.
    tasks: Vec<Failed>,
    /// Where to go on; null if these were the last. A page may be empty and not the last.
    #[schema(required = true)]
    next: Option<String>,
}

/// Which failed tasks.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the published contract; `Search::read` takes the parameters one by one")]
pub struct Filter {
    /// Their route.
    #[param(example = "parcels", pattern = "^[a-z0-9-]{1,64}$")]
    route: String,
    /// Only those of this Target, as `route:value`.
    #[param(nullable = false)]
    target: Option<String>,
    /// Only those that failed for this reason.
    #[param(nullable = false)]
    reason: Option<String>,
    /// Only those that failed then or later.
    #[param(nullable = false, format = DateTime)]
    from: Option<String>,
    /// Only those that failed before.
    #[param(nullable = false, format = DateTime)]
    until: Option<String>,
    /// Where to go on: the `next` of the page before.
    #[param(nullable = false, pattern = "^[0-9]{15}#[!-~]{1,128}$")]
    after: Option<String>,
    /// How many at most; 100 if it is missing.
    #[param(minimum = 1, maximum = 100, nullable = false)]
    limit: Option<u16>,
}

struct Search {
    wanted: Wanted,
    after: Option<Filed>,
    limit: usize,
}

impl Search {
    fn read(parameters: &Parameters, now: Timestamp) -> Result<Self, Problem> {
        let [route, target, reason, from, until, after, limit] =
            parameters.only(["route", "target", "reason", "from", "until", "after", "limit"])?;
        let route = route.ok_or_else(|| Problem::parameter("route", "the parameter is required"))?;
        let route = RouteName::parse(route).map_err(|why| Problem::parameter("route", why.to_string()))?;
        let time = |name: &str, text: Option<&str>| {
            text.map(Timestamp::parse).transpose().map_err(|why| Problem::parameter(name, why))
        };
        let (from, until) = (time("from", from)?.unwrap_or_default(), time("until", until)?.unwrap_or(now));
        let after = after.map(str::parse::<Filed>).transpose().map_err(|why| Problem::parameter("after", why))?;
        let limit = match limit.map(str::parse) {
            None => MAX_LIMIT,
            Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
            Some(_) => return Err(Problem::parameter("limit", format!("must be a number from 1 to {MAX_LIMIT}"))),
        };
        let (target, reason) = (target.map(Target::new), reason.map(Reason::new));
        Ok(Self { wanted: Wanted { route, target, reason, from, until }, after, limit })
    }
}

/// Tasks that are named.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskIds {
    /// Their ids.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 100)]
    pub ids: Vec<TaskId>,
}

impl Contents for TaskIds {
    const FIELDS: &[&str] = &["ids"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        let ids: Vec<String> = fields.required("ids", "a list of ids")?;
        if !(1..=MAX_LIMIT).contains(&ids.len()) {
            return Err(Problem::field("ids", format!("`ids` must hold 1 to {MAX_LIMIT} ids")));
        }
        let id = |(position, id): (usize, &String)| {
            TaskId::parse(id).map_err(|why| Problem::field(format!("ids[{position}]"), why))
        };
        Ok(Self { ids: ids.iter().enumerate().map(id).collect::<Result<_, _>>()? })
    }
}

/// What became of the tasks that were named.
#[derive(Debug, Serialize, ToSchema)]
pub struct Done {
    /// Those of which it was done.
    #[schema(value_type = Vec<String>)]
    pub done: Vec<TaskId>,
    /// Those of which it was not. Nothing was changed of them.
    pub refused: Vec<NotDone>,
}

/// A task of which it was not done.
#[derive(Debug, Serialize, ToSchema)]
pub struct NotDone {
    /// The task.
    #[schema(value_type = String)]
    id: TaskId,
    /// Why not, for people.
    detail: String,
}

impl Done {
    /// A port that does not answer is an answer for all: the call may be repeated.
    pub fn of<R: std::error::Error>(each: Vec<(TaskId, Outcome<(), R>)>) -> Result<Self, Problem> {
        let mut all = Self { done: Vec::new(), refused: Vec::new() };
        for (id, outcome) in each {
            match outcome? {
                Ok(()) => all.done.push(id),
                Err(refused) => all.refused.push(NotDone { id, detail: refused.to_string() }),
            }
        }
        Ok(all)
    }
}

/// The routes in force; without any, nothing can be done with a task.
pub async fn routes<B: Backend>(backend: &B) -> Result<Arc<Routes>, Problem> {
    let routes = pushed(&backend.stack().routes).await?;
    routes.ok_or_else(|| Problem::new(Kind::Conflict, "no routes are in force: push a routes file"))
}

/// Show a failed task
///
/// What is kept of its failure.
#[utoipa::path(
    get, path = "/tasks/{id}/failure", tag = "failed tasks", operation_id = "show_failure",
    params((
        "id" = String, Path, description = "The task's id.", min_length = 1, max_length = 128, pattern = "^[!-~]+$",
        example = "failed"
    )),
    responses((status = 200, description = "Its failure.", body = Failed), ById, Conflicts, AnyPort),
)]
pub async fn show<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<TaskId>) -> Result<Json<Failed>, Problem> {
    Ok(Json(backend.failing().show(&id).await??.into()))
}

/// List failed tasks
///
/// Those of one route, those first that failed first, for as long as the route keeps them.
#[utoipa::path(
    get, path = "/failed", tag = "failed tasks", operation_id = "list_failed",
    params(Filter),
    responses(
        (
            status = 200, description = "A page of failed tasks.", body = FailedPage,
            links((
                "retry_the_first" = (
                    operation_id = "retry_failed",
                    request_body = json!({ "ids": ["$response.body#/tasks/0/id"] }),
                )
            )),
        ),
        Searching, AnyPort,
    ),
)]
pub async fn list<B: Backend>(
    State(backend): State<Arc<B>>,
    parameters: Parameters,
) -> Result<Json<FailedPage>, Problem> {
    let now = backend.stack().env.now();
    let Search { wanted, after, limit } = Search::read(&parameters, now)?;
    let routes = pushed(&backend.stack().routes).await?;
    let route = routes.as_ref().and_then(|routes| routes.get(&wanted.route));
    let wanted = wanted.kept_for(route.map_or(u64::MAX, |route| route.keep_failed_ms), now);
    let Page { tasks, next } = backend.failing().list(&wanted, after.as_ref(), limit).await?;
    let next = next.map(|next| next.to_string());
    Ok(Json(FailedPage { tasks: tasks.into_iter().map(Failed::from).collect(), next }))
}

/// Run failed tasks again
///
/// The same tasks under the same ids, with their attempts at zero. Each is judged for itself. The call may be repeated:
/// a task that does not stand as failed is refused. Items of trackers keep their first outcome.
#[utoipa::path(
    post, path = "/failed/retries", tag = "failed tasks", operation_id = "retry_failed",
    request_body(content = TaskIds, example = json!({ "ids": ["parcel-4711"] })),
    responses(
        (status = 200, description = "Each was run again or refused.", body = Done),
        Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn retry<B: Backend>(
    State(backend): State<Arc<B>>,
    Body(TaskIds { ids }): Body<TaskIds>,
) -> Result<Json<Done>, Problem> {
    let routes = routes(&*backend).await?;
    Ok(Json(Done::of(backend.failing().retry(&routes, &ids).await?)?))
}

/// Take failed tasks off the list
///
/// They need not run. Their records stay, and so their ids stay used. The call may be repeated.
#[utoipa::path(
    post, path = "/failed/drops", tag = "failed tasks", operation_id = "drop_failed",
    request_body(content = TaskIds, example = json!({ "ids": ["parcel-4711"] })),
    responses(
        (status = 200, description = "Each was taken off the list or refused.", body = Done),
        WithBody, AnyPort,
    ),
)]
pub async fn unfile<B: Backend>(
    State(backend): State<Arc<B>>,
    Body(TaskIds { ids }): Body<TaskIds>,
) -> Result<Json<Done>, Problem> {
    Ok(Json(Done::of(backend.failing().unfile(&ids).await)?))
}
