//! What handlers answer beside their own, for the OpenAPI document: problems, by what a call has or needs.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ContentBuilder, Header, Object, Ref, RefOr, Response, ResponseBuilder};

use crate::problem::MEDIA_TYPE;

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

/// Answers of a call with parameters in its query, and no id.
pub struct Searching;

impl IntoResponses for Searching {
    fn responses() -> Responses {
        of(&[(400, "A parameter is missing or malformed.")])
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
