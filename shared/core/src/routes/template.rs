//! Body templates: Jinja over a call's members.
//!
//! A payload is parsed when the template looks into it, and forgotten with the loop's turn, so that rendering holds one
//! payload's tree and not all of them. What is missing is an error wherever it is used, unless the template says
//! `default`.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, OnceLock};

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, filters};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::body::Item;
use crate::domain::outcome::Reason;

/// A compiled body template.
#[derive(Clone, Debug)]
pub struct Template(Arc<Environment<'static>>);

const NAME: &str = "body";

impl Template {
    /// Writes the body of a call with these members.
    ///
    /// # Errors
    /// The line and the kind of what went wrong, `template_error:3:undefined` for example.
    pub(super) fn render(
        &self,
        batch: &str,
        target: &str,
        items: &[Item<'_>],
        to: &mut impl Write,
    ) -> Result<(), Reason> {
        let items = Members(items.iter().map(Member::from).map(Arc::new).collect());
        let context = minijinja::context! { batch, target, items => Value::from_object(items) };
        let rendered =
            self.0.get_template(NAME).and_then(|template| template.render_captured_to(context, to).map(drop));
        rendered.map_err(|error| reason(&error))
    }
}

/// What is said of an error: never its text, which may quote a payload.
fn reason(error: &Error) -> Reason {
    let kind = match error.kind() {
        ErrorKind::UndefinedError => "undefined",
        ErrorKind::InvalidOperation => "operation",
        ErrorKind::CannotDeserialize => "payload",
        _ => "failed",
    };
    Reason::new(format!("template_error:{}:{kind}", error.line().unwrap_or_default()))
}

/// A call's members, as a list.
#[derive(Debug)]
struct Members(Vec<Arc<Member>>);

/// A member, as an object with `id` and `payload`.
struct Member {
    id: Arc<str>,
    payload: Arc<str>,
}

/// A member whose payload is parsed once it is asked for. Each turn of a loop has one of its own.
struct Looked {
    member: Arc<Member>,
    payload: OnceLock<Value>,
}

impl From<&Item<'_>> for Member {
    fn from(item: &Item<'_>) -> Self {
        Self { id: item.id.into(), payload: item.payload.get().into() }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}", self.id)
    }
}

impl fmt::Debug for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.member.fmt(f)
    }
}

impl Object for Members {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let member = Arc::clone(self.0.get(key.as_usize()?)?);
        Some(Value::from_object(Looked { member, payload: OnceLock::new() }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

impl Object for Looked {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "id" => Some(Value::from(Arc::clone(&self.member.id))),
            "payload" => Some(self.payload.get_or_init(|| parsed(&self.member.payload)).clone()),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["id", "payload"])
    }
}

/// A payload as templates see it; one that is nested too deeply is an error where it is used.
fn parsed(payload: &str) -> Value {
    let too_deep = |_| Value::from(Error::new(ErrorKind::CannotDeserialize, "the payload is nested too deeply"));
    serde_json::from_str(payload).unwrap_or_else(too_deep)
}

/// Jinja's `tojson`, except that a missing value is an error: as `null` it would reach the downstream unnoticed.
fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    if misses_something(value) {
        return Err(ErrorKind::UndefinedError.into());
    }
    filters::tojson(value, indent, options)
}

/// Whether a value, or one within it, is missing.
fn misses_something(value: &Value) -> bool {
    let within = || value.try_iter().into_iter().flatten();
    match value.kind() {
        ValueKind::Undefined => true,
        ValueKind::Seq | ValueKind::Iterable => within().any(|item| misses_something(&item)),
        ValueKind::Map => within().any(|key| value.get_item(&key).is_ok_and(|item| misses_something(&item))),
        _ => false,
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        let mut environment = Environment::new();
        // A misspelt field must fail the member, not send an empty string in its place.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_filter("tojson", tojson);
        environment
            .add_template_owned(NAME, source)
            .map_err(|error| de::Error::custom(format!("`body` is no template: {error:#}")))?;
        Ok(Self(Arc::new(environment)))
    }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A Jinja template, for example `{% for i in items %}{{ i.payload | tojson }}\n{% endfor %}`." })
    }
}
