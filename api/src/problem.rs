//! Problem details (RFC 9457): the one form in which everything that goes wrong is answered.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use groupage_core::domain::{Retryable, failed};
use groupage_core::ports;
use groupage_core::steps::{self, list, stream, track::Refused};
use serde::Serialize;
use tracing::{error, warn};
use utoipa::ToSchema;

/// The media type of problems.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Seconds after which a call is worth repeating that a port did not answer. Throttling passes within a few.
const RETRY_AFTER_S: &str = "2";

/// What kind of problem it is: each has one status and one `type`, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The body is not JSON, or could not be read.
    BadBody,
    /// An id in the path or a parameter of the query is malformed.
    BadParameter,
    /// No resource has this path.
    NoSuchPath,
    /// No task, batch, tracker, list or stream has this id (any more).
    NotFound,
    /// The resource does not take this method.
    NoSuchMethod,
    /// What was asked for does not go with what is there.
    Conflict,
    /// Too much is under way: the same call may succeed when some of it is done.
    Full,
    /// The body is too large.
    TooLarge,
    /// The body is not declared to be JSON.
    NotJson,
    /// A field is missing, unknown, or holds what it may not.
    BadField,
    /// A bug, a missing permission, or foreign data in a table.
    Internal,
    /// A table or queue did not answer: the same call may succeed later.
    Unavailable,
}

impl Kind {
    /// Its status; its `type`, a name of ours and not an address; and its title, for people.
    const fn facts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::BadBody => (StatusCode::BAD_REQUEST, "urn:groupage:bad-body", "The body cannot be read"),
            Self::BadParameter => (StatusCode::BAD_REQUEST, "urn:groupage:bad-parameter", "A parameter is malformed"),
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "urn:groupage:no-such-path", "No such path"),
            Self::NotFound => (StatusCode::NOT_FOUND, "urn:groupage:not-found", "Not known"),
            Self::NoSuchMethod => {
                (StatusCode::METHOD_NOT_ALLOWED, "urn:groupage:no-such-method", "The method is not allowed here")
            }
            Self::Conflict => (StatusCode::CONFLICT, "urn:groupage:conflict", "The state does not allow it"),
            Self::Full => (StatusCode::TOO_MANY_REQUESTS, "urn:groupage:full", "Too much is under way"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "urn:groupage:too-large", "The body is too large"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "urn:groupage:not-json", "The body must be JSON"),
            Self::BadField => (StatusCode::UNPROCESSABLE_ENTITY, "urn:groupage:bad-field", "A field is wrong"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "urn:groupage:internal", "Something is wrong here"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "urn:groupage:unavailable", "Not possible now; try again")
            }
        }
    }
}

/// What went wrong with a request, as RFC 9457 has it. Fields are named; what they hold is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// The kind of problem, for programs.
    #[serde(rename = "type")]
    #[schema(value_type = String, format = "uri-reference")]
    uri: &'static str,
    /// The kind of problem, for people.
    title: &'static str,
    /// The status code of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// This problem, for people.
    detail: String,
    /// The field or parameter at fault, as in `tasks[3].payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    field: Option<String>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let (status, uri, title) = kind.facts();
        Self { uri, title, status: status.as_u16(), detail: detail.into(), field: None }
    }

    /// A field of the body holds what it may not.
    pub fn field(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: Some(name.into()), ..Self::new(Kind::BadField, detail) }
    }

    /// The same problem, of a field within another one.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        let field = self.field.map_or_else(|| parent.to_owned(), |field| format!("{parent}.{field}"));
        Self { field: Some(field), ..self }
    }

    /// An id in the path, or a parameter of the query, is malformed.
    pub fn parameter(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: Some(name.into()), ..Self::new(Kind::BadParameter, detail) }
    }

    /// Nothing of this kind has the id.
    pub fn not_found(kind: &'static str) -> Self {
        let detail = format!("no {kind} with this id is known; what is over is forgotten after its retention time");
        Self { field: Some("id".to_owned()), ..Self::new(Kind::NotFound, detail) }
    }

    fn of_failure(retryable: Retryable, failure: &dyn std::error::Error) -> Self {
        match retryable {
            Retryable::Yes => {
                warn!(%failure, "a request cannot be answered now");
                Self::new(Kind::Unavailable, "a table or queue does not answer; the same call may be repeated")
            }
            Retryable::No => {
                error!(%failure, "a request cannot be answered as things are");
                Self::new(Kind::Internal, "a table or queue refused; the log says more")
            }
        }
    }
}

impl From<ports::Error> for Problem {
    fn from(failure: ports::Error) -> Self {
        Self::of_failure(failure.retryable(), &failure)
    }
}

impl From<steps::Error> for Problem {
    fn from(failure: steps::Error) -> Self {
        Self::of_failure(failure.retryable(), &failure)
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let detail = refused.to_string();
        match refused {
            Refused::Unknown(_) => Self::not_found("tracker"),
            Refused::Over(_) | Refused::Sealed | Refused::OpenedOtherwise | Refused::KeyUsed => {
                Self::new(Kind::Conflict, detail)
            }
            Refused::BadKey => Self::field("key", detail),
            Refused::BadCount | Refused::TooMany => Self::field("count", detail),
            Refused::NotAnItem { position, .. } => Self::field(format!("items[{position}]"), detail),
        }
    }
}

impl From<failed::Refused> for Problem {
    fn from(refused: failed::Refused) -> Self {
        let detail = refused.to_string();
        match refused {
            failed::Refused::Unknown => Self::not_found("task"),
            failed::Refused::NotFailed(_)
            | failed::Refused::PassedOver(_)
            | failed::Refused::Erased
            | failed::Refused::Expired(_)
            | failed::Refused::NoRoute(_) => Self::new(Kind::Conflict, detail),
        }
    }
}

impl From<list::Refused> for Problem {
    fn from(refused: list::Refused) -> Self {
        let detail = refused.to_string();
        match refused {
            list::Refused::Unknown(_) => Self::not_found("list"),
            list::Refused::Closed | list::Refused::OpenedOtherwise | list::Refused::KeyUsed => {
                Self::new(Kind::Conflict, detail)
            }
            list::Refused::Busy => Self::new(Kind::Unavailable, detail),
            list::Refused::BadKey => Self::field("key", detail),
            list::Refused::BadCount => Self::field("count", detail),
            list::Refused::BadTtl => Self::field("ttl_s", detail),
            list::Refused::BadLimit => Self::parameter("limit", detail),
            list::Refused::TooMany => Self::field("tasks", detail),
            list::Refused::BadTask { position, .. } => Self::field(format!("tasks[{position}]"), detail),
        }
    }
}

impl From<stream::Refused> for Problem {
    fn from(refused: stream::Refused) -> Self {
        let detail = refused.to_string();
        match refused {
            stream::Refused::Unknown(_) => Self::not_found("stream"),
            stream::Refused::OpenedOtherwise
            | stream::Refused::Over(_)
            | stream::Refused::Gap { .. }
            | stream::Refused::Behind { .. }
            | stream::Refused::Changed(_) => Self::new(Kind::Conflict, detail),
            stream::Refused::WindowFull { .. } => Self::new(Kind::Full, detail),
            stream::Refused::BadOption(_) => Self::new(Kind::BadField, detail),
            stream::Refused::BadCount | stream::Refused::TooMany | stream::Refused::SameOffset(_) => {
                Self::field("events", detail)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Strings and a number always have a JSON form.
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        response
    }
}
