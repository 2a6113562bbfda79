//! Acks: what became of items.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{ItemRange, Outcome};
use groupage_core::steps::track::{Acked, Refused};
use serde::Serialize;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::parameters::{Id, OfTracker};
use crate::problem::Problem;
use crate::responses::{AnyPort, ById, Conflicts, WithBody};
use crate::trackers::TrackerState;

/// Ranges of one call at most.
const MAX_RANGES: usize = 1_000;
/// Items of one call at most: fourteen full groups, so that a call ends within seconds.
const MAX_ITEMS: u64 = 100_000;

/// Items with what became of them: ids, as `tracker:group:index`, or ranges within a group, as
/// `tracker:group:first-last`. At most 1,000 of them together, with at most 100,000 items.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the published contract; `NewAcks` has the ranges parsed")]
pub struct AckList {
    /// Items that succeeded.
    #[schema(max_items = 1000)]
    succeeded: Option<Vec<Range>>,
    /// Items that failed for good.
    #[schema(max_items = 1000)]
    failed: Option<Vec<Range>>,
}

/// An item, as `tracker:group:index`, or several of one group, as `tracker:group:first-last`.
#[derive(Debug, ToSchema)]
#[schema(
    pattern = "^[A-Za-z0-9_-]{1,64}:[0-9]{1,9}:([0-6]?[0-9]{1,3}|70[0-9]{2}|71[0-5][0-9]|716[0-7])(-([0-6]?[0-9]{1,3}|70[0-9]{2}|71[0-5][0-9]|716[0-7]))?$"
)]
#[expect(dead_code, reason = "the published contract; `NewAcks` has the ranges parsed")]
struct Range(String);

/// Ranges with what became of them, those that succeeded first.
#[derive(Debug)]
pub struct NewAcks {
    ranges: Vec<(ItemRange, Outcome)>,
    succeeded: usize,
}

impl Contents for NewAcks {
    const FIELDS: &[&str] = &["succeeded", "failed"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        let mut ranges = Vec::new();
        let mut succeeded = 0;
        for (name, outcome) in [("succeeded", Outcome::Succeeded), ("failed", Outcome::Failed)] {
            let texts: Vec<String> = fields.optional(name, "a list of strings")?.unwrap_or_default();
            if ranges.len() + texts.len() > MAX_RANGES {
                return Err(Problem::field(name, format!("one call takes at most {MAX_RANGES} ranges")));
            }
            for (position, text) in texts.iter().enumerate() {
                let range = ItemRange::parse(text);
                let range = range.map_err(|why| Problem::field(format!("{name}[{position}]"), why.to_string()))?;
                ranges.push((range, outcome));
            }
            if outcome == Outcome::Succeeded {
                succeeded = ranges.len();
            }
            if ranges.iter().map(|(range, _)| range.len()).sum::<u64>() > MAX_ITEMS {
                return Err(Problem::field(name, format!("one call takes at most {MAX_ITEMS} items")));
            }
        }
        Ok(Self { ranges, succeeded })
    }
}

impl NewAcks {
    /// The field that the range at this position came from.
    fn field(&self, position: usize) -> String {
        match position.checked_sub(self.succeeded) {
            None => format!("succeeded[{position}]"),
            Some(position) => format!("failed[{position}]"),
        }
    }
}

/// What an ack came to.
#[derive(Debug, Serialize, ToSchema)]
pub struct AckResult {
    /// Items acked for the first time.
    acked: u64,
    /// Items that were acked before; their first outcome counts.
    repeated: u64,
    /// Where the tracker stands, as far as the call looked.
    state: TrackerState,
}

/// Ack items
///
/// All of them or, if one cannot be acked, none. The first outcome of an item counts; to ack it again changes nothing.
#[utoipa::path(
    post, path = "/trackers/{id}/acks", tag = "trackers", operation_id = "ack_items",
    params(OfTracker),
    request_body(
        content = AckList,
        example = json!({ "succeeded": ["catalog-7:0:0-99"], "failed": ["catalog-7:0:100"] }),
    ),
    responses(
        (
            status = 200, description = "They are acked.", body = AckResult,
            example = json!({ "acked": 101, "repeated": 0, "state": "open" }),
        ),
        ById, Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn ack<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<TrackerId>,
    Body(acks): Body<NewAcks>,
) -> Result<Json<AckResult>, Problem> {
    let Acked { fresh, repeated, tracker } =
        backend.tracking().ack(&id, &acks.ranges).await?.map_err(|refused| match refused {
            Refused::NotAnItem { position, why } => Problem::field(acks.field(position), format!("the item {why}")),
            other => other.into(),
        })?;
    Ok(Json(AckResult { acked: fresh, repeated, state: (&tracker.state).into() }))
}
