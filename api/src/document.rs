//! The OpenAPI document, made from the types that the handlers take and give.

use std::collections::BTreeMap;

use axum::Json;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ContentBuilder, Header, Object, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi};

use crate::problem::{MEDIA_TYPE, Problem};
use crate::{acks, batches, item_pages, items, lists, streams, tasks, trackers};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Groupage",
        description = "Tasks are sent and looked up; trackers count the items of a fan-out; lists hold tasks \
                       back until they are released; streams number the events of an ordered source, and say up to where all \
                       is settled. Every call that brings its own ids may be repeated. Everything that goes wrong is answered as problem details (RFC \
                       9457), which name the field. A deployed stack takes requests signed for IAM; before they \
                       reach Groupage, AWS answers what is not signed with 403, and what is too much with 429, in a \
                       form of its own.",
    ),
    paths(
        tasks::send,
        tasks::show,
        batches::show,
        trackers::open,
        trackers::show,
        items::add,
        item_pages::list,
        acks::ack,
        trackers::seal,
        trackers::abandon,
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
        (name = "trackers", description = "Fan-outs being counted."),
        (name = "lists", description = "Tasks that wait until they are released."),
        (name = "streams", description = "Ordered sources, and up to where all of them is settled."),
        (name = "document", description = "This document."),
    ),
)]
struct Document;

/// The OpenAPI 3.1 document.
#[must_use]
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

type Responses = BTreeMap<String, RefOr<Response>>;

/// Answers of every call that uses a table or a queue.
pub struct AnyPort;

impl IntoResponses for AnyPort {
    fn responses() -> Responses {
        let mut again = problem("A table or queue does not answer; the same call may be repeated.");
        let seconds = Object::builder().schema_type(Type::Integer).minimum(Some(1));
        let header = Header::builder().schema(Some(seconds)).description(Some("Seconds to wait before that."));
        again.headers.insert("Retry-After".to_owned(), RefOr::T(header.build()));
        BTreeMap::from([
            ("500".to_owned(), problem("A bug, or something is set up wrongly.").into()),
            ("503".to_owned(), again.into()),
        ])
    }
}

/// Answers of a call with an id in its path.
pub struct ById;

impl IntoResponses for ById {
    fn responses() -> Responses {
        of(&[(400, "A parameter is malformed."), (404, "Nothing with this id is known (any more).")])
    }
}

/// Answers of a call that needs a tracker or a list in some state.
pub struct Conflicts;

impl IntoResponses for Conflicts {
    fn responses() -> Responses {
        of(&[(409, "Its state, or an earlier call, does not allow it.")])
    }
}

/// Answers of a call with a body.
pub struct WithBody;

impl IntoResponses for WithBody {
    fn responses() -> Responses {
        of(&[
            (400, "The body is not JSON, or a parameter is malformed."),
            (413, "The body is over 1 MiB."),
            (415, "The body is not declared to be JSON."),
            (422, "A field is missing, unknown, or holds what it may not. Nothing was changed."),
        ])
    }
}

fn of(problems: &[(u16, &str)]) -> Responses {
    problems.iter().map(|(status, description)| (status.to_string(), problem(description).into())).collect()
}

fn problem(description: &str) -> Response {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(description).content(MEDIA_TYPE, content).build()
}
