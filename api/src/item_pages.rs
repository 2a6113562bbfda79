//! A tracker's items, listed by what became of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{ItemId, Place, Which};
use groupage_core::ports::{Freshness, Trackers as _};
use groupage_core::steps::track::Items;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::backend::Backend;
use crate::parameters::{Id, Parameters};
use crate::problem::Problem;
use crate::responses::{AnyPort, ById};

/// The most items of one page.
const MAX_LIMIT: usize = 1_000;
/// Those of a page whose request does not say.
const DEFAULT_LIMIT: usize = 100;

/// Which items.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the published contract; `Query::read` takes the parameters one by one")]
pub struct Listing {
    /// What became of them.
    #[param(inline, example = "failed")]
    outcome: ListedOutcome,
    /// Where to go on: the `next` of the page before.
    #[param(pattern = "^[0-9]{1,9}:([0-6]?[0-9]{1,3}|70[0-9]{2}|71[0-5][0-9]|716[0-7])$", nullable = false)]
    from: Option<String>,
    /// How many at most; 100 if it is missing.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u16>,
}

/// What became of items.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "the published contract; the words are read where they are used")]
enum ListedOutcome {
    /// They succeeded.
    Succeeded,
    /// They failed.
    Failed,
    /// Nobody has acked them.
    Missing,
}

struct Query {
    which: Which,
    from: Option<Place>,
    limit: usize,
}

impl Query {
    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let [outcome, from, limit] = parameters.only(["outcome", "from", "limit"])?;
        let which = match outcome {
            Some("succeeded") => Which::Succeeded,
            Some("failed") => Which::Failed,
            Some("missing") => Which::Missing,
            Some(_) => return Err(Problem::parameter("outcome", "must be `succeeded`, `failed` or `missing`")),
            None => return Err(Problem::parameter("outcome", "the parameter is required")),
        };
        let from = from.map(place).transpose()?;
        let limit = match limit.map(str::parse) {
            None => DEFAULT_LIMIT,
            Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
            Some(_) => return Err(Problem::parameter("limit", format!("must be a number from 1 to {MAX_LIMIT}"))),
        };
        Ok(Self { which, from, limit })
    }
}

/// Reads `group:index`, by the rules for items' ids.
fn place(text: &str) -> Result<Place, Problem> {
    let item = if text.matches(':').count() == 1 { ItemId::parse(&format!("t:{text}")).ok() } else { None };
    item.map(|item| item.at).ok_or_else(|| Problem::parameter("from", "must be `group:index`, as in `next`"))
}

/// A page of items.
#[derive(Debug, Serialize, ToSchema)]
pub struct ItemPage {
    /// Their ids, in order.
    #[schema(value_type = Vec<String>)]
    items: Vec<ItemId>,
    /// Where to go on, as `group:index`; null if these were the last. A page may be empty and not the last.
    #[schema(required = true)]
    next: Option<String>,
}

/// List items
///
/// By what became of them, in their order.
#[utoipa::path(
    get, path = "/trackers/{id}/items", tag = "trackers", operation_id = "list_items",
    params(
        (
            "id" = String, Path, description = "The tracker's id.", pattern = "^[A-Za-z0-9_-]{1,64}$",
            example = "catalog-7"
        ),
        Listing,
    ),
    responses(
        (
            status = 200, description = "A page of items.", body = ItemPage,
            example = json!({ "items": ["catalog-7:0:100"], "next": null }),
        ),
        ById, AnyPort,
    ),
)]
pub async fn list<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<TrackerId>,
    parameters: Parameters,
) -> Result<Json<ItemPage>, Problem> {
    let Query { which, from, limit } = Query::read(&parameters)?;
    let looked = backend.stack().store.look(&id, &[], Freshness::Latest).await?;
    let tracker = looked.tracker.ok_or_else(|| Problem::not_found("tracker"))?;
    let Items { items, next } = backend.tracking().items(&tracker, which, from, limit).await?;
    Ok(Json(ItemPage { items, next: next.map(|Place { group, index }| format!("{group}:{index}")) }))
}
