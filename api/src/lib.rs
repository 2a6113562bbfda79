//! Groupage's HTTP API: tasks are sent, held back on lists and released, or fed by streams; failed ones are found and
//! run again; trackers opened, filled, acked and ended; and statuses read.
//!
//! The router stands on the same [`Stack`](groupage_aws::entry::Stack) as the steps, so it is the same in the Lambda
//! function, in `groupage local` and in the tests. Whatever is wrong with a request is answered as a [`Problem`] that
//! names the field and never a value, before anything is changed; a port that does not answer is a 503, and the call
//! may be repeated. The document at `/openapi.json` is made from the types that the handlers take and give.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod acks;
mod backend;
mod batches;
mod body;
mod calls;
mod cancel;
mod document;
mod erase;
mod export;
mod failed;
mod item_pages;
mod items;
mod lists;
mod parameters;
mod problem;
mod responses;
mod routes;
mod streams;
mod tasks;
mod trackers;
mod versions;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::FutureExt;
use tracing::error;

pub use backend::Backend;
pub use body::MAX_BODY_BYTES;
pub use document::document;
pub use export::{Export, export};
pub use problem::{Kind, Problem};

/// The API on a stack.
pub fn router<B: Backend>(backend: Arc<B>) -> Router {
    Router::new()
        .route("/tasks", post(tasks::send::<B>))
        .route("/tasks/{id}", get(tasks::show::<B>))
        .route("/tasks/{id}/failure", get(failed::show::<B>))
        .route("/tasks/{id}/output", get(tasks::show_output::<B>))
        .route("/tasks/cancellations", post(cancel::cancel::<B>))
        .route("/tasks/erasures", post(erase::erase::<B>))
        .route("/tasks/{id}/export", get(export::show::<B>))
        .route("/failed", get(failed::list::<B>))
        .route("/failed/retries", post(failed::retry::<B>))
        .route("/failed/drops", post(failed::unfile::<B>))
        .route("/batches/{id}", get(batches::show::<B>))
        .route("/routes", get(versions::list::<B>))
        .route("/routes/{id}/calls", get(calls::show_route::<B>))
        .route("/routes/{id}/pause", post(calls::pause_route::<B>))
        .route("/routes/{id}/resume", post(calls::resume_route::<B>))
        .route("/targets/{id}/calls", get(calls::show_target::<B>))
        .route("/targets/{id}/pause", post(calls::pause_target::<B>))
        .route("/targets/{id}/resume", post(calls::resume_target::<B>))
        .route("/trackers", post(trackers::open::<B>))
        .route("/trackers/{id}", get(trackers::show::<B>))
        .route("/trackers/{id}/items", post(items::add::<B>).get(item_pages::list::<B>))
        .route("/trackers/{id}/acks", post(acks::ack::<B>))
        .route("/trackers/{id}/seal", post(trackers::seal::<B>))
        .route("/trackers/{id}/abandon", post(trackers::abandon::<B>))
        .route("/trackers/{id}/cancellations", post(cancel::cancel_of::<B>))
        .route("/lists", post(lists::open::<B>))
        .route("/lists/{id}", get(lists::show::<B>))
        .route("/lists/{id}/tasks", post(lists::put::<B>).get(lists::peek::peek::<B>))
        .route("/lists/{id}/releases", post(lists::release::<B>))
        .route("/lists/{id}/discards", post(lists::discard::<B>))
        .route("/lists/{id}/close", post(lists::close::<B>))
        .route("/streams", post(streams::open::<B>))
        .route("/streams/{id}", get(streams::show::<B>))
        .route("/streams/{id}/events", post(streams::feed::<B>))
        .route("/streams/{id}/end", post(streams::end::<B>))
        .route("/streams/{id}/fail", post(streams::fail::<B>))
        .route("/openapi.json", get(document::show))
        .method_not_allowed_fallback(|| async { Problem::new(Kind::NoSuchMethod, "see the header Allow") })
        .fallback(|| async { Problem::new(Kind::NoSuchPath, "no resource has this path; /openapi.json lists them") })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(catch_panics))
        .with_state(backend)
}

/// A bug in one request is that request's answer, and nobody else's.
async fn catch_panics(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            error!(%method, "handling a request panicked; this is a bug");
            Problem::new(Kind::Internal, "this is a bug; the log says more").into_response()
        }
    }
}
