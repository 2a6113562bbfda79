//! Body templates: Jinja over a call's members.
//!
//! A payload is parsed when the template looks into it, and forgotten with the loop's turn, so that rendering holds one
//! payload's tree and not all of them. What is missing is an error wherever it is used, unless the template says
//! `default`.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, filters};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use tokio::sync::{Mutex, MutexGuard};

use super::body::{Body, Item, Unmade};
use super::encoding::{base64, urlencode, xmlescape};
use super::members;
use super::rendering::{self, Rendered};
use super::secrets::Uses;
use crate::domain::outcome::Reason;

/// A compiled body template.
#[derive(Clone, Debug)]
pub struct Template(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    environment: Environment<'static>,
    secrets: Uses,
    /// Held while one rendering computes.
    turn: Mutex<()>,
}

const NAME: &str = "body";

/// The longest template, in bytes. Jinja's compiler calls itself for each sign of a chain, such as `- - - 1`.
const MAX_BYTES: usize = 16 * 1024;
/// A stack on which the deepest template of that length is compiled. A stack that overflows takes the process with it,
/// neighbours included. What is not touched of it takes no memory.
const STACK_BYTES: usize = 128 * 1024 * 1024;
/// What a template may read, make and compare, in bytes and 8 for each value: so much in any case, shared by members
/// that are tried alone, and so much for each byte of its payloads.
pub(super) const MAX_WORK: usize = 16 * 1024 * 1024;
const WORK_A_BYTE: usize = 16;
/// How deep a loop may call itself: that takes its stack from the process that makes the call.
const MAX_CALLS: usize = 50;

impl Template {
    /// Compiles a template.
    fn compile(source: String) -> Result<Self, String> {
        if source.len() > MAX_BYTES {
            return Err(format!("`body` is over {MAX_BYTES} bytes"));
        }
        if let Some(line) = rendering::multiplied(&source) {
            return Err(format!("`body` is no template: only numbers are multiplied (in line {line})"));
        }
        let compiling = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            let mut environment = Environment::new();
            // A misspelt field must fail the member, not send an empty string in its place.
            environment.set_undefined_behavior(UndefinedBehavior::Strict);
            environment.set_recursion_limit(MAX_CALLS);
            // It shows what the template was given; a value that others can be put into could hold itself.
            environment.remove_global("debug");
            environment.remove_global("namespace");
            environment.add_filter("tojson", tojson);
            environment.add_filter("base64", |value: &Value| text(value).map(|text| base64(&text)));
            environment.add_filter("urlencode", |value: &Value| text(value).map(|text| urlencode(&text)));
            environment.add_filter("xmlescape", |value: &Value| text(value).map(|text| xmlescape(&text)));
            let added = environment.add_template_owned(NAME, source);
            added.map_err(|error| format!("`body` is no template: {error:#}"))?;
            if let Some(what) = rendering::unknown(&environment, NAME) {
                return Err(format!("`body` is no template: {what}"));
            }
            let secrets = rendering::secrets(&environment, NAME);
            let secrets = secrets.map_err(|what| format!("`body` is no template: {what}"))?;
            rendering::prepare(&mut environment);
            Ok(Compiled { environment, secrets, turn: Mutex::default() })
        });
        let compiled = compiling.map_err(|error| format!("`body` cannot be compiled now: {error}"))?.join();
        compiled
            .unwrap_or_else(|_| Err("`body` is no template: it makes its compiler panic".to_owned()))
            .map(Arc::new)
            .map(Self)
    }

    /// Lists the names of the secrets that it writes.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.secrets.names()
    }

    /// Waits until no other call renders the template.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.0.turn.lock().await
    }

    /// Writes the body of a call with these members, of at most `limit` bytes, for `share` calls that have the budget
    /// of one.
    ///
    /// # Errors
    /// The line and the kind of what went wrong, `template_error:3:undefined` for example.
    pub(super) fn render(
        &self,
        batch: &str,
        target: &str,
        items: &[Item<'_>],
        limit: usize,
        share: usize,
    ) -> Result<Body, Unmade> {
        let bytes: usize = items.iter().map(|item| item.payload.get().len()).sum();
        let context = minijinja::context! { batch, target, items => members::list(items) };
        let Compiled { environment, secrets, .. } = &*self.0;
        let members = items.iter().flat_map(|item| [item.id, item.payload.get()]);
        let mark = secrets.mark([batch, target].into_iter().chain(members));
        let marks = secrets.marks(mark.as_deref());
        let budget = MAX_WORK / share.max(1) + WORK_A_BYTE * bytes;
        let rendered = rendering::render(environment, NAME, context, budget, &marks);
        let Rendered { text, result, is_over_budget } = rendered.map_err(|error| Unmade::Template(reason(&error)))?;
        let (text, secrets) = secrets.places(text, mark.as_deref());
        match result {
            _ if text.len() > limit => Err(Unmade::TooLarge),
            Ok(()) => Ok(Body { text, secrets }),
            Err(error) if is_over_budget => Err(Unmade::Template(told(&error, "over_budget"))),
            Err(error) => Err(Unmade::Template(reason(&error))),
        }
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
    told(error, kind)
}

fn told(error: &Error, kind: &str) -> Reason {
    Reason::new(format!("template_error:{}:{kind}", error.line().unwrap_or_default()))
}

/// Jinja's `tojson`, except that a missing value is an error: as `null` it would reach the downstream unnoticed.
fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    if misses_something(value) {
        return Err(ErrorKind::UndefinedError.into());
    }
    filters::tojson(value, indent, options)
}

/// Returns a string, number or truth value as text.
fn text(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => Ok(value.to_string()),
        ValueKind::Undefined => Err(ErrorKind::UndefinedError.into()),
        _ => Err(ErrorKind::InvalidOperation.into()),
    }
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
        Self::compile(String::deserialize(deserializer)?).map_err(de::Error::custom)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As much of `part` as a template holds, within `begin` and `end`.
    fn filled(begin: &str, part: &str, end: &str) -> String {
        let times = (MAX_BYTES - begin.len() - end.len()) / part.len();
        format!("{begin}{}{end}", part.repeat(times))
    }

    #[test]
    fn no_chain_that_fits_a_template_overflows_the_stack() {
        for (begin, part, end) in [
            ("{{ ", "-", "1 }}"),
            ("{{ ", "not ", "1 }}"),
            ("{{ 1", "%1", " }}"),
            ("{{ 1", "if 0 else 1 ", " }}"),
            ("{{ a", ".a", " }}"),
            ("{{ ", "(", " }}"),
            ("{{ a | default(", "b.c | default(", " }}"),
            ("{% if a %}", "{% elif a %}", "{% endif %}"),
            ("", "{% if a %}", ""),
            ("", "{% for a in a %}", ""),
        ] {
            let source = filled(begin, part, end);
            assert!(source.len() + part.len() > MAX_BYTES);
            // It may be a template or none.
            drop(Template::compile(source));
        }
        assert!(Template::compile(" ".repeat(MAX_BYTES + 1)).is_err());
    }

    #[test]
    fn text_is_encoded_for_base64_forms_and_xml() {
        let payload =
            serde_json::value::RawValue::from_string(r#"{"t":"<é&\"'>\u0001","n":7,"l":[]}"#.to_owned()).unwrap();
        let rendered = |source: &str| {
            let template = Template::compile(format!("{{{{ {source} }}}}")).unwrap();
            template.render("b", "t", &[Item { id: "a", payload: &payload }], 100, 1).map(|body| body.text)
        };
        for (source, text) in [
            ("items[0].payload.t | base64", "PMOpJiInPgE="),
            ("items[0].payload.t | urlencode", "%3C%C3%A9%26%22%27%3E%01"),
            ("items[0].payload.t | xmlescape", "&lt;é&amp;&quot;&apos;&gt;\u{fffd}"),
            ("items[0].payload.n | base64", "Nw=="),
            ("'a b' | urlencode", "a%20b"),
        ] {
            assert_eq!(rendered(source).as_deref(), Ok(text), "{source}");
        }
        for (source, kind) in
            [("items[0].payload.x | base64", "undefined"), ("items[0].payload.l | xmlescape", "operation")]
        {
            assert_eq!(rendered(source).unwrap_err().reason().as_str(), format!("template_error:1:{kind}"));
        }
    }

    #[test]
    fn a_loop_that_calls_itself_for_ever_is_an_error() {
        let endless = "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}";
        let template = Template::compile(endless.to_owned()).unwrap();
        let rendered = template.render("b", "t", &[], 100, 1);
        assert_eq!(rendered.unwrap_err().reason().as_str(), "template_error:1:operation");
    }
}
