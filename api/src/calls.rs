//! The calls of a route or of a Target: why they wait, held back by hand, let go on.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_aws::entry::Stack;
use groupage_core::domain::Timestamp;
use groupage_core::domain::gate::{CallState, Gate, Scope};
use groupage_core::domain::id::{RouteName, Target};
use groupage_core::ports::Env as _;
use groupage_core::routes::Routes;
use groupage_core::steps::wake::Waker;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields};
use crate::parameters::Id;
use crate::problem::{Kind, Problem};
use crate::responses::{AnyPort, ById, WithBody};
use crate::routes::pushed;

/// How calls are held back.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Why, for people: one line.
    #[schema(max_length = 256)]
    reason: Option<String>,
}

impl Contents for Pause {
    const FIELDS: &[&str] = &["reason"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        Ok(Self { reason: fields.optional("reason", "a string")? })
    }
}

/// Why calls wait, limits apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallsState {
    /// They do not.
    Well,
    /// They are held back by hand.
    Held,
    /// The downstream counts as away: one call at a time finds out when it is back.
    Away,
    /// The downstream asked to be left alone.
    Paused,
    /// Calls failed, and none was answered since; others are made.
    InTrouble,
    /// What waited goes on, slowly at first.
    Draining,
}

/// The calls of a route or of a Target.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct Calls {
    /// Why they wait, if they do.
    state: CallsState,
    /// Since when it is so.
    #[schema(value_type = String, format = DateTime, required = false)]
    since: Option<String>,
    /// Why the last call failed, or what was said when calls were held back.
    #[schema(value_type = String, required = false)]
    reason: Option<String>,
    /// Until when the downstream asked to be left alone, or when the next probe may start.
    #[schema(value_type = String, format = DateTime, required = false)]
    until: Option<String>,
}

impl From<CallState> for Calls {
    fn from(standing: CallState) -> Self {
        let (state, since, reason, until) = match standing {
            CallState::Well => (CallsState::Well, None, None, None),
            CallState::Held { since, reason } => (CallsState::Held, Some(since), reason, None),
            CallState::Away { since, reason, next_probe } => {
                (CallsState::Away, Some(since), Some(reason.to_string()), Some(next_probe))
            }
            CallState::Paused { until } => (CallsState::Paused, None, None, Some(until)),
            CallState::InTrouble { since, reason, .. } => {
                (CallsState::InTrouble, Some(since), Some(reason.to_string()), None)
            }
            CallState::Draining { since } => (CallsState::Draining, Some(since), None, None),
        };
        Self { state, since: since.map(Timestamp::shown), reason, until: until.map(Timestamp::shown) }
    }
}

/// A route's name in a path, as the document shows it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "the published contract; `Id` reads it")]
pub struct OfRoute {
    /// The route's name.
    #[param(pattern = "^[a-z0-9-]{1,64}$", example = "parcels")]
    id: String,
}

/// A Target in a path, as the document shows it.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "the published contract; `Id` reads it")]
pub struct OfTarget {
    /// The Target as it is stored: its route, a colon, and what the route's `target` gave.
    #[param(pattern = "^[a-z0-9-]{1,64}:[^/]{1,512}$", example = "parcels:truck-7")]
    id: String,
}

/// Show a route's calls
///
/// Why they wait, if they do.
#[utoipa::path(
    get, path = "/routes/{id}/calls", tag = "calls", operation_id = "show_calls_of_route",
    params(OfRoute),
    responses((status = 200, description = "The route's calls.", body = Calls), ById, AnyPort),
)]
pub async fn show_route<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<RouteName>,
) -> Result<Json<Calls>, Problem> {
    show(&*backend, Scope::Route(id)).await
}

/// Hold a route's calls back
///
/// Tasks keep arriving and wait. A batch that is being called ends as ever. The same call again gives another reason.
#[utoipa::path(
    post, path = "/routes/{id}/pause", tag = "calls", operation_id = "pause_route",
    params(OfRoute),
    request_body(content = Pause, example = json!({ "reason": "deployment 42" })),
    responses((status = 200, description = "They are held back.", body = Calls), ById, WithBody, AnyPort),
)]
pub async fn pause_route<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<RouteName>,
    Body(pause): Body<Pause>,
) -> Result<Json<Calls>, Problem> {
    hold(&*backend, Scope::Route(id), pause).await
}

/// Let a route's calls go on
///
/// Whatever holds them back, limits apart: it ends a pause by hand, one that the downstream asked for, and the wait for
/// a downstream that counts as away.
#[utoipa::path(
    post, path = "/routes/{id}/resume", tag = "calls", operation_id = "resume_route",
    params(OfRoute),
    responses((status = 200, description = "They go on, slowly at first.", body = Calls), ById, AnyPort),
)]
pub async fn resume_route<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<RouteName>,
) -> Result<Json<Calls>, Problem> {
    resume(&*backend, Scope::Route(id)).await
}

/// Show the calls for a Target
///
/// Why they wait, if they do.
#[utoipa::path(
    get, path = "/targets/{id}/calls", tag = "calls", operation_id = "show_calls_of_target",
    params(OfTarget),
    responses((status = 200, description = "The calls for the Target.", body = Calls), ById, AnyPort),
)]
pub async fn show_target<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<Target>,
) -> Result<Json<Calls>, Problem> {
    show(&*backend, Scope::Target(id.whole())).await
}

/// Hold the calls for a Target back
///
/// As those of a route.
#[utoipa::path(
    post, path = "/targets/{id}/pause", tag = "calls", operation_id = "pause_target",
    params(OfTarget),
    request_body(content = Pause, example = json!({ "reason": "the truck is in repair" })),
    responses((status = 200, description = "They are held back.", body = Calls), ById, WithBody, AnyPort),
)]
pub async fn pause_target<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<Target>,
    Body(pause): Body<Pause>,
) -> Result<Json<Calls>, Problem> {
    hold(&*backend, Scope::Target(id.whole()), pause).await
}

/// Let the calls for a Target go on
///
/// As those of a route.
#[utoipa::path(
    post, path = "/targets/{id}/resume", tag = "calls", operation_id = "resume_target",
    params(OfTarget),
    responses((status = 200, description = "They go on; after an outage slowly at first.", body = Calls), ById, AnyPort),
)]
pub async fn resume_target<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<Target>,
) -> Result<Json<Calls>, Problem> {
    resume(&*backend, Scope::Target(id.whole())).await
}

async fn show<B: Backend>(backend: &B, scope: Scope) -> Result<Json<Calls>, Problem> {
    known(backend, &scope).await?;
    let gate = backend.holding().show(&scope).await?;
    Ok(shown(backend, &gate))
}

async fn hold<B: Backend>(backend: &B, scope: Scope, pause: Pause) -> Result<Json<Calls>, Problem> {
    known(backend, &scope).await?;
    let held = backend.holding().pause(&scope, pause.reason.as_deref()).await?;
    let held = held.map_err(|refused| Problem::field("reason", refused.to_string()))?;
    Ok(shown(backend, &held))
}

async fn resume<B: Backend>(backend: &B, scope: Scope) -> Result<Json<Calls>, Problem> {
    let routes = known(backend, &scope).await?;
    let resumed = backend.holding().resume(&scope).await?;
    if let Some(route) = scope.route().and_then(|route| routes.get(&route)) {
        let Stack { store, queues, env, .. } = backend.stack();
        Waker::new(store, queues, env, route).wake_behind(&scope).await?;
    }
    Ok(shown(backend, &resumed))
}

fn shown<B: Backend>(backend: &B, gate: &Gate) -> Json<Calls> {
    Json(gate.call_state(backend.stack().env.now()).into())
}

/// Only calls of routes that are in force are held back: nobody would look at another gate.
async fn known<B: Backend>(backend: &B, scope: &Scope) -> Result<Arc<Routes>, Problem> {
    let routes = pushed(&backend.stack().routes).await?;
    let known = routes.filter(|routes| scope.route().and_then(|route| routes.get(&route)).is_some());
    known.ok_or_else(|| Problem::new(Kind::NotFound, "no route in force has this name"))
}
