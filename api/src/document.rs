//! The OpenAPI document, made from the types that the handlers take and give.

use axum::Json;
use utoipa::OpenApi;

use crate::problem::Problem;
use crate::{
    acks, batches, calls, cancel, erase, export, failed, item_pages, items, lists, streams, tasks, trackers, versions,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Groupage",
        description = "Tasks are sent and looked up. Trackers count the items of a fan-out. Lists hold tasks back until they \
                       are released. Streams number the events of an ordered source, and say up to where all of it is \
                       settled. Every call that brings its own ids may be repeated. An error is answered as problem \
                       details (RFC 9457), which name the field. A deployed stack takes requests signed for IAM. Before \
                       they reach Groupage, AWS answers a request that is not signed with 403, and one too many with \
                       429, in a form of its own.",
    ),
    paths(
        tasks::send,
        tasks::show,
        tasks::show_output,
        export::show,
        cancel::cancel,
        erase::erase,
        failed::show,
        failed::list,
        failed::retry,
        failed::unfile,
        batches::show,
        versions::list,
        calls::show_route,
        calls::pause_route,
        calls::resume_route,
        calls::show_target,
        calls::pause_target,
        calls::resume_target,
        trackers::open,
        trackers::show,
        items::add,
        item_pages::list,
        acks::ack,
        trackers::seal,
        trackers::abandon,
        cancel::cancel_of,
        lists::open,
        lists::show,
        lists::put,
        lists::peek::peek,
        lists::release,
        lists::discard,
        lists::close,
        streams::open,
        streams::show,
        streams::feed,
        streams::end,
        streams::fail,
        show,
    ),
    components(schemas(Problem)),
    tags(
        (name = "tasks", description = "Units of work, grouped into batches."),
        (name = "failed tasks", description = "Tasks that failed, until they are run again or need not run."),
        (name = "routes", description = "The versions of the routes file."),
        (name = "calls", description = "The calls of a route or of a Target: why they wait, held back by hand, let go on."),
        (name = "trackers", description = "Fan-outs being counted."),
        (name = "lists", description = "Tasks that wait until they are released."),
        (name = "streams", description = "Ordered sources, and up to where all of them is settled."),
        (name = "document", description = "This document."),
    ),
)]
struct Document;

/// The OpenAPI 3.1 document.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// Show this document
///
/// As OpenAPI 3.1.
#[utoipa::path(
    get, path = "/openapi.json", tag = "document", operation_id = "show_document",
    responses((status = 200, description = "The document.", body = Object, content_type = "application/json")),
)]
pub async fn show() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}
