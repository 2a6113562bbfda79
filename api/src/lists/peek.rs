//! The tasks that wait next on a list, page by page.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::id::{ListId, Token};
use groupage_core::steps::list::MAX_PEEKED;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::backend::Backend;
use crate::body::MAX_WHOLE;
use crate::parameters::{Id, Parameters};
use crate::problem::Problem;
use crate::responses::{AnyPort, ById};

/// Tasks of a page whose request does not say how many.
const DEFAULT_LIMIT: usize = 20;

/// Which tasks.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the published contract; the parameters are taken one by one")]
pub struct Peek {
    /// Where to go on: the `next` of the page before.
    #[param(maximum = 9_007_199_254_740_991_u64, nullable = false)]
    from: Option<u64>,
    /// How many at most; 20 if it is missing.
    #[param(minimum = 1, maximum = 100, nullable = false)]
    limit: Option<usize>,
}

/// Tasks that wait next.
#[derive(Debug, Serialize, ToSchema)]
pub struct WaitingTasks {
    /// The tasks, in the order in which they will be released.
    tasks: Vec<WaitingTask>,
    /// Where to go on, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    next: Option<u64>,
}

/// A task that waits.
#[derive(Debug, Serialize, ToSchema)]
pub struct WaitingTask {
    /// Its number in the list.
    token: u64,
    /// The task message.
    #[schema(value_type = Object)]
    task: Box<RawValue>,
}

/// Look at the next tasks
///
/// Without taking them.
#[utoipa::path(
    get, path = "/lists/{id}/tasks", tag = "lists", operation_id = "peek_list",
    params(("id" = String, Path, description = "The list's name.", pattern = "^[A-Za-z0-9_-]{1,64}$"), Peek),
    responses((status = 200, description = "The tasks.", body = WaitingTasks), ById, AnyPort),
)]
pub async fn peek<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<ListId>,
    parameters: Parameters,
) -> Result<Json<WaitingTasks>, Problem> {
    let [from, limit] = parameters.only(["from", "limit"])?;
    let from = match from.map(str::parse) {
        None => None,
        Some(Ok(token)) if token <= MAX_WHOLE => Some(token),
        Some(_) => return Err(Problem::parameter("from", format!("must be a token, from 0 to {MAX_WHOLE}"))),
    };
    let limit = match limit.map(str::parse) {
        None => DEFAULT_LIMIT,
        Some(Ok(limit)) if (1..=MAX_PEEKED).contains(&limit) => limit,
        Some(_) => return Err(Problem::parameter("limit", format!("must be a number from 1 to {MAX_PEEKED}"))),
    };
    let peeked = backend.listing().peek(&id, from.map(Token), limit).await??;
    let task = |slot: groupage_core::domain::list::Slot| {
        Some(WaitingTask { token: slot.token.0, task: RawValue::from_string(slot.body).ok()? })
    };
    let tasks = peeked.slots.into_iter().filter_map(task).collect();
    Ok(Json(WaitingTasks { tasks, next: peeked.next.map(|next| next.0) }))
}
