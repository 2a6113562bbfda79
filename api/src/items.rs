//! Items, added to a tracker: the caller makes their ids from the answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{self, GROUP_SIZE, MAX_ADDED};
use serde::Serialize;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::parameters::{Id, OfTracker};
use crate::problem::Problem;
use crate::responses::{AnyPort, ById, Conflicts, WithBody};

/// Items to add.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewItems {
    /// The caller's name for this addition: a repeat under the same key adds nothing.
    #[schema(pattern = "^[!-~]{1,128}$")]
    key: String,
    /// How many.
    #[schema(minimum = 1, maximum = 7168000)]
    count: u64,
}

impl Contents for NewItems {
    const FIELDS: &[&str] = &["key", "count"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        Ok(Self { key: fields.required("key", "a string")?, count: fields.whole("count", 1..=MAX_ADDED)? })
    }
}

/// Items that were added, all consecutive.
#[derive(Debug, Serialize, ToSchema)]
pub struct AddedItems {
    /// How many the tracker had before.
    start: u64,
    /// How many were added.
    count: u64,
    /// Items that one group takes.
    group_size: u16,
    /// The items, group by group.
    groups: Vec<Group>,
    /// Whether an earlier call added them.
    repeated: bool,
}

/// Items of one group. Their ids are `tracker:group:index`, with `size` indexes from `first` on.
#[derive(Debug, Serialize, ToSchema)]
pub struct Group {
    /// The group.
    group: u32,
    /// The first one's index.
    first: u16,
    /// How many of the items lie in it.
    size: u16,
}

/// Add items
///
/// The same call again answers the same.
#[utoipa::path(
    post, path = "/trackers/{id}/items", tag = "trackers", operation_id = "add_items",
    params(OfTracker),
    request_body(content = NewItems, example = json!({ "key": "part-1", "count": 10_000 })),
    responses(
        (
            status = 200, description = "They are added.", body = AddedItems,
            links((
                "ack_the_first" = (
                    operation_id = "ack_items",
                    parameters(("id" = "$request.path.id")),
                    request_body = json!({ "succeeded": ["{$request.path.id}:0:0"] }),
                )
            )),
            example = json!({
                "start": 0, "count": 10_000, "group_size": 7_168,
                "groups": [{ "group": 0, "first": 0, "size": 7_168 }, { "group": 1, "first": 0, "size": 2_832 }],
                "repeated": false,
            }),
        ),
        ById, Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn add<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<TrackerId>,
    Body(new): Body<NewItems>,
) -> Result<Json<AddedItems>, Problem> {
    let (addition, is_new) = backend.tracking().add(&id, &new.key, new.count).await??;
    let group = |group: tracker::Group| Group { group: group.group, first: group.first, size: group.size };
    Ok(Json(AddedItems {
        start: addition.start,
        count: addition.count,
        group_size: GROUP_SIZE,
        groups: addition.groups().map(group).collect(),
        repeated: !is_new,
    }))
}
