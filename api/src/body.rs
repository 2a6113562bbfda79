//! Bodies of requests, read field by field: serde's own messages would quote values, which may be secret.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::MAX_BODY_BYTES;
use crate::problem::{Kind, Problem};

/// What a body holds, once it is read.
pub trait Contents: Sized {
    /// The names of its fields; any other is refused.
    const FIELDS: &[&str];

    /// Reads it.
    ///
    /// # Errors
    /// A [`Problem`] that names the field.
    fn read(fields: &Fields) -> Result<Self, Problem>;
}

/// A request's body.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: Contents, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(Kind::NotJson, "the header Content-Type must be application/json"));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            if rejection.into_response().status() == StatusCode::PAYLOAD_TOO_LARGE {
                Problem::new(Kind::TooLarge, format!("the body is over {MAX_BODY_BYTES} bytes"))
            } else {
                Problem::new(Kind::BadBody, "the body ended too early")
            }
        })?;
        T::read(&Fields::parse(&bytes, T::FIELDS)?).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(header::CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}

/// A JSON object's fields, as they were written.
#[derive(Debug)]
pub struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    fn parse(body: &[u8], known: &[&str]) -> Result<Self, Problem> {
        // Whether it is JSON at all is asked first: then a wrong type can only be that of the whole.
        let whole: &RawValue = serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Problem::new(Kind::BadBody, format!("the body is not JSON (line {line}, column {column})"))
        })?;
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(whole.get())
            .map_err(|_| Problem::new(Kind::BadField, "the body must be a JSON object"))?;
        if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            let shown: String = unknown.chars().take(64).flat_map(char::escape_debug).collect();
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            let detail = format!("the field `{shown}` is not one of {}", known.join(", "));
            return Err(Problem::field(shown, detail));
        }
        Ok(Self(fields))
    }

    /// A field that must be there; `expected` says what it must be.
    ///
    /// # Errors
    /// A [`Problem`] that names it.
    pub fn required<T: DeserializeOwned>(&self, name: &str, expected: &str) -> Result<T, Problem> {
        let raw = self.0.get(name).ok_or_else(|| Problem::field(name, format!("the field `{name}` is required")))?;
        serde_json::from_str(raw.get()).map_err(|_| Problem::field(name, format!("`{name}` must be {expected}")))
    }

    /// A field that may be missing, or null.
    ///
    /// # Errors
    /// A [`Problem`] that names it.
    pub fn optional<T: DeserializeOwned>(&self, name: &str, expected: &str) -> Result<Option<T>, Problem> {
        if self.0.contains_key(name) { self.required(name, expected) } else { Ok(None) }
    }
}
