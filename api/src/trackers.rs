//! Trackers: opened, looked at, sealed, given up.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use groupage_aws::entry::RouteSource;
use groupage_core::domain::tracker::{End, Ending, Options, State as Stored, Tracker as StoredTracker};
use groupage_core::domain::{NotificationQueue, Timestamp, TrackerId};
use groupage_core::ports::Env as _;
use groupage_core::routes::Route;
use groupage_core::steps::track::Progress;
use serde::Serialize;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::parameters::{Id, OfTracker};
use crate::problem::Problem;
use crate::responses::{AnyPort, ById, Conflicts, WithBody};
use crate::routes::pushed;

/// How a tracker is opened.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTracker {
    /// Its id. Without one, it gets an id that nobody has, and a call whose answer was lost opens another.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    id: Option<String>,
    /// When it ends, complete or not; without one it never does by itself while it is used.
    #[schema(format = DateTime)]
    deadline: Option<String>,
    /// The queue that is told of its end: `default` (the stack's own queue), `none`, or the URL of a queue that the
    /// routes file names. `default` if it is missing.
    #[schema(pattern = "^(default|none|https?://.+)$")]
    notify: Option<String>,
}

impl Contents for NewTracker {
    const FIELDS: &[&str] = &["id", "deadline", "notify"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        Ok(Self {
            id: fields.optional("id", "a string")?,
            deadline: fields.optional("deadline", "a string")?,
            notify: fields.optional("notify", "a string")?,
        })
    }
}

/// Where a tracker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrackerState {
    /// Takes items and acks.
    Open,
    /// Takes acks; the last one completes it.
    Sealed,
    /// All its items are acked.
    Completed,
    /// Its deadline came first.
    Overdue,
    /// Nobody did anything with it for days, or its owner gave it up.
    Abandoned,
}

impl From<&Stored> for TrackerState {
    fn from(state: &Stored) -> Self {
        match state {
            Stored::Open => Self::Open,
            Stored::Sealed => Self::Sealed,
            Stored::Ended(End { how: Ending::Completed, .. }) => Self::Completed,
            Stored::Ended(End { how: Ending::Overdue, .. }) => Self::Overdue,
            Stored::Ended(End { how: Ending::Abandoned, .. }) => Self::Abandoned,
        }
    }
}

/// A tracker, without how far it is.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct Tracker {
    /// Its id, with which its items' ids begin.
    #[schema(value_type = String)]
    id: TrackerId,
    /// Where it stands.
    state: TrackerState,
    /// Items added so far.
    items: u64,
    /// When it was opened.
    #[schema(format = DateTime)]
    opened_at: String,
    /// When it ends, complete or not.
    #[schema(value_type = String, format = DateTime, required = false)]
    deadline: Option<String>,
    /// The queue that is told of its end.
    notify: String,
    /// When it ended.
    #[schema(value_type = String, format = DateTime, required = false)]
    ended_at: Option<String>,
    /// Whether the notice of its end is sent.
    notice_sent: bool,
}

impl From<StoredTracker> for Tracker {
    fn from(tracker: StoredTracker) -> Self {
        let (ended_at, told) = match &tracker.state {
            Stored::Ended(end) => (Some(end.at.shown()), end.told),
            Stored::Open | Stored::Sealed => (None, false),
        };
        Self {
            state: (&tracker.state).into(),
            items: tracker.items,
            opened_at: tracker.opened_at.shown(),
            deadline: tracker.deadline.map(Timestamp::shown),
            // One that nobody wants counts as done, but was never sent.
            notice_sent: told && tracker.notify != NotificationQueue::None,
            notify: tracker.notify.to_string(),
            ended_at,
            id: tracker.id,
        }
    }
}

/// A tracker, and how far it is.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrackerProgress {
    #[serde(flatten)]
    tracker: Tracker,
    /// Items that succeeded.
    succeeded: u64,
    /// Items that failed.
    failed: u64,
    /// Items that nobody has acked.
    missing: u64,
}

/// Open a tracker
///
/// The same call again finds what it opened.
#[utoipa::path(
    post, path = "/trackers", tag = "trackers", operation_id = "open_tracker",
    request_body(
        content = NewTracker,
        example = json!({ "id": "catalog-7", "deadline": "2099-12-31T00:00:00Z", "notify": "default" }),
    ),
    responses(
        (
            status = 201, description = "It is new.", body = Tracker,
            headers(("Location" = String, description = "Where it is shown.")),
            links(
                ("show" = (operation_id = "show_tracker", parameters(("id" = "$response.body#/id")))),
                ("add" = (operation_id = "add_items", parameters(("id" = "$response.body#/id")))),
                ("list" = (operation_id = "list_items", parameters(("id" = "$response.body#/id")))),
                ("seal" = (operation_id = "seal_tracker", parameters(("id" = "$response.body#/id")))),
                ("abandon" = (operation_id = "abandon_tracker", parameters(("id" = "$response.body#/id")))),
            ),
        ),
        (
            status = 200, description = "It was opened like this before.", body = Tracker,
            headers(("Location" = String, description = "Where it is shown.")),
        ),
        (status = 409, description = "It was opened otherwise.", body = Problem, content_type = "application/problem+json"),
        WithBody, AnyPort,
    ),
)]
pub async fn open<B: Backend>(
    State(backend): State<Arc<B>>,
    Body(new): Body<NewTracker>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Tracker>), Problem> {
    let stack = backend.stack();
    let id = match new.id {
        Some(id) => TrackerId::parse(&id).map_err(|why| Problem::field("id", why))?,
        None => TrackerId::new(stack.env.fresh_id()),
    };
    let deadline = new.deadline.map(|text| Timestamp::parse(&text)).transpose();
    let deadline = deadline.map_err(|why| Problem::field("deadline", format!("`deadline` {why}")))?;
    let notify = notification_queue(new.notify.as_deref().unwrap_or("default"), &stack.routes).await?;
    let (tracker, is_new) = backend.tracking().open(id, Options { deadline, notify }).await??;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let location = (header::LOCATION, format!("/trackers/{}", tracker.id));
    Ok((status, [location], Json(tracker.into())))
}

/// Only queues that the routes file names: what anybody may name, the stack may not be allowed to send to.
pub(crate) async fn notification_queue(text: &str, routes: &RouteSource) -> Result<NotificationQueue, Problem> {
    let queue = NotificationQueue::parse(text).map_err(|why| Problem::field("notify", format!("`notify` {why}")))?;
    if matches!(queue, NotificationQueue::Default | NotificationQueue::None) {
        return Ok(queue);
    }
    let routes = pushed(routes).await?;
    let names = |route: &Route| route.notify.queues().contains(&&queue);
    let named = routes.is_some_and(|routes| routes.iter().any(names));
    if named { Ok(queue) } else { Err(Problem::field("notify", "`notify` names a queue that no route names")) }
}

/// Show a tracker
///
/// Counts what is acked, unless the tracker has ended.
#[utoipa::path(
    get, path = "/trackers/{id}", tag = "trackers", operation_id = "show_tracker",
    params(OfTracker),
    responses((status = 200, description = "The tracker.", body = TrackerProgress), ById, AnyPort),
)]
pub async fn show<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<TrackerId>,
) -> Result<Json<TrackerProgress>, Problem> {
    let Progress { tracker, succeeded, failed, missing } = backend.tracking().progress(&id).await??;
    Ok(Json(TrackerProgress { tracker: tracker.into(), succeeded, failed, missing }))
}

/// Seal a tracker
///
/// It takes no more items; if all are acked, it is complete with that. The same call again finds it sealed.
#[utoipa::path(
    post, path = "/trackers/{id}/seal", tag = "trackers", operation_id = "seal_tracker",
    params(OfTracker),
    responses((status = 200, description = "It is sealed.", body = Tracker), ById, Conflicts, AnyPort),
)]
pub async fn seal<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<TrackerId>) -> Result<Json<Tracker>, Problem> {
    Ok(Json(backend.tracking().seal(&id).await??.into()))
}

/// Give a tracker up
///
/// What was added and not acked counts as missing. The same call again finds it given up.
#[utoipa::path(
    post, path = "/trackers/{id}/abandon", tag = "trackers", operation_id = "abandon_tracker",
    params(OfTracker),
    responses((status = 200, description = "It is given up.", body = Tracker), ById, Conflicts, AnyPort),
)]
pub async fn abandon<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<TrackerId>,
) -> Result<Json<Tracker>, Problem> {
    Ok(Json(backend.tracking().abandon(&id).await??.into()))
}
