//! The body of a call: the default JSON, or the route's own template.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::{Environment, UndefinedBehavior};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use super::Route;
use crate::domain::id::{BatchId, Target};

/// One member as the downstream sees it.
#[derive(Debug, Serialize)]
pub struct Item<'a> {
    /// The task's id.
    pub id: &'a str,
    /// Its payload, as the sender wrote it.
    pub payload: &'a RawValue,
}

/// What a body says; also what a template sees. The same on every attempt: an API may refuse another body under the
/// `Idempotency-Key` of an earlier one. The attempt's number goes into a header.
#[derive(Debug, Serialize)]
struct Body<'a> {
    batch: &'a str,
    target: &'a str,
    items: &'a [Item<'a>],
}

/// A body could not be made: the template failed on this batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the route's body template failed")]
pub struct TemplateFailed;

/// A compiled body template.
#[derive(Clone, Debug)]
pub struct Template(Arc<Environment<'static>>);

const NAME: &str = "body";

impl Route {
    /// The body of a call under this key with these members.
    ///
    /// # Errors
    /// [`TemplateFailed`]; its cause could quote a payload and is not passed on.
    pub fn body(&self, key: &BatchId, target: &Target, items: &[Item<'_>]) -> Result<String, TemplateFailed> {
        let body = Body { batch: key.as_str(), target: target.value(), items };
        match &self.body {
            None => serde_json::to_string(&body).map_err(|_| TemplateFailed),
            Some(Template(environment)) => {
                // Templates look into payloads, so these are parsed here and only here.
                let context = serde_json::to_value(&body).map_err(|_| TemplateFailed)?;
                let context = minijinja::Value::from(minijinja::value::Serde(context));
                environment.get_template(NAME).and_then(|t| t.render(context)).map_err(|_| TemplateFailed)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        let mut environment = Environment::new();
        // A misspelt field must fail the batch, not send an empty string in its place.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
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
