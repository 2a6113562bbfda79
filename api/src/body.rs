//! Bodies of requests, read field by field: serde's own messages would quote values, which may be secret.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use serde::de::DeserializeOwned;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::problem::{Kind, Problem};

/// The largest body of a request, in bytes.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// What a body holds, once it is read.
pub trait Contents: Sized {
    /// The names of its fields; any other is refused.
    const FIELDS: &[&str];

    /// Reads it.
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
    /// The fields of an object within a body, which is known to be JSON.
    ///
    /// # Errors
    /// A [`Problem`] if it is none, or names a field that is not known.
    pub fn of(json: &str, known: &[&str]) -> Result<Self, Problem> {
        Self::parse(json.as_bytes(), known)
    }

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
    pub fn required<T: DeserializeOwned>(&self, name: &str, expected: &str) -> Result<T, Problem> {
        let raw = self.0.get(name).ok_or_else(|| Problem::field(name, format!("the field `{name}` is required")))?;
        serde_json::from_str(raw.get()).map_err(|_| Problem::field(name, format!("`{name}` must be {expected}")))
    }

    /// A field that may be missing, or null.
    pub fn optional<T: DeserializeOwned>(&self, name: &str, expected: &str) -> Result<Option<T>, Problem> {
        if self.0.contains_key(name) { self.required(name, expected) } else { Ok(None) }
    }

    /// A whole number within bounds that must be there.
    pub fn whole(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<u64, Problem> {
        let number = self.optional_whole(name, bounds)?;
        number.ok_or_else(|| Problem::field(name, format!("the field `{name}` is required")))
    }

    /// A whole number within bounds that may be missing, or null.
    pub fn optional_whole(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let expected = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        let Some(number) = self.optional::<Number>(name, &expected)? else { return Ok(None) };
        let within = whole(&number).filter(|number| bounds.contains(number));
        within.map(Some).ok_or_else(|| Problem::field(name, format!("`{name}` must be {expected}")))
    }
}

/// A number that is whole: to JSON Schema, `5.0` is.
fn whole(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
        // Every whole number up to there has a float of its own.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and within bounds")]
        (0.0..=MAX_WHOLE as f64).contains(&number).then_some(number as u64)
    })
}

/// The largest whole number that every JSON parser keeps as it is.
pub const MAX_WHOLE: u64 = (1 << 53) - 1;
