//! JMESPath over payloads and answers.

use std::borrow::Cow;
use std::sync::LazyLock;

use jmespath::functions::{ArgumentType, CustomFunction, Signature};
use jmespath::{Rcvar, Runtime, Variable};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::growth::{self, is_exact};

/// A compiled JMESPath expression.
#[derive(Clone, Debug)]
pub struct Expression(jmespath::Expression<'static>);

/// Brackets and operators in an expression at most. The parser and the search call themselves once for each that lies
/// within another, and a stack that overflows takes the process with it, neighbours included.
const MAX_PARTS: usize = 500;
/// The longest expression, in bytes.
const MAX_BYTES: usize = 8 * 1024;

/// JSON to look into.
#[derive(Clone, Debug)]
pub struct Data(Rcvar);

impl Data {
    /// Parses JSON. The interpreter does not tell apart integers from 2^51 on: an integer of that size is its text
    /// here, and another number of that size, which only a double holds, is `null`.
    ///
    /// # Errors
    /// The text is no JSON or nests too deeply; the message could quote it, so none is passed on.
    pub fn parse(json: &str) -> Result<Self, NotJson> {
        let mut data = Rcvar::new(Variable::from_json(json).map_err(|_| NotJson)?);
        keep_exact(&mut data);
        Ok(Self(data))
    }

    /// Returns it as JSON.
    pub(super) fn to_json(&self) -> String {
        self.0.to_string()
    }

    /// Returns JSON's `null`.
    pub(super) fn null() -> Self {
        Self(Rcvar::new(Variable::Null))
    }

    /// Returns a string.
    pub(super) fn text(text: &str) -> Self {
        Self(Rcvar::new(Variable::String(text.to_owned())))
    }

    /// Returns a number.
    pub(super) fn number(number: u32) -> Self {
        Self(Rcvar::new(Variable::Number(number.into())))
    }

    /// Returns a list of these items.
    pub(super) fn list(items: Vec<Self>) -> Self {
        Self(Rcvar::new(Variable::Array(items.into_iter().map(|item| item.0).collect())))
    }

    /// Returns an object with these fields.
    pub(super) fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value.0));
        Self(Rcvar::new(Variable::Object(fields.collect())))
    }

    /// Returns the items of a list, or `None` if it is none.
    pub(super) fn as_list(&self) -> Option<impl Iterator<Item = Self>> {
        self.0.as_array().map(|items| items.iter().cloned().map(Self))
    }

    /// Returns the fields of an object, or `None` if it is none.
    pub(super) fn as_object(&self) -> Option<impl Iterator<Item = (&str, Self)>> {
        self.0.as_object().map(|fields| fields.iter().map(|(name, value)| (name.as_str(), Self(value.clone()))))
    }

    /// Returns a field of an object.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        self.0.as_object()?.get(name).cloned().map(Self)
    }

    /// As a whole number that is not negative. A double that does not tell it from its neighbours is none.
    pub fn as_whole_number(&self) -> Option<u64> {
        let Variable::Number(number) = &*self.0 else { return None };
        number.as_u64().or_else(|| {
            let double =
                number.as_f64().filter(|double| double.fract() == 0.0 && *double >= 0.0 && is_exact(number))?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
            Some(double as u64)
        })
    }

    /// Returns whether it is an object.
    pub(super) fn is_object(&self) -> bool {
        self.0.is_object()
    }

    /// Whether it says nothing.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Whether it is true in JMESPath's sense.
    pub fn is_truthy(&self) -> bool {
        self.0.is_truthy()
    }

    /// As text if it is a string.
    pub fn into_string(self) -> Option<String> {
        self.0.as_string().cloned()
    }

    /// As text: a string, or a number as JSON writes it.
    pub fn as_text(&self) -> Option<String> {
        self.0.as_string().cloned().or_else(|| self.0.is_number().then(|| self.0.to_string()))
    }
}

/// The text was no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

fn keep_exact(data: &mut Rcvar) {
    match Rcvar::get_mut(data) {
        Some(Variable::Array(items)) => items.iter_mut().for_each(keep_exact),
        Some(Variable::Object(fields)) => fields.values_mut().for_each(keep_exact),
        Some(value @ Variable::Number(_)) => {
            if let Variable::Number(number) = value
                && !is_exact(number)
            {
                *value = if number.is_f64() { Variable::Null } else { Variable::String(number.to_string()) };
            }
        }
        Some(Variable::Null | Variable::String(_) | Variable::Bool(_) | Variable::Expref(_)) | None => {}
    }
}

/// The interpreter, with a `to_number` that keeps to what [`Data::parse`] says of large numbers.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    let of_any = Signature::new(vec![ArgumentType::Any], None);
    let function = CustomFunction::new(of_any, Box::new(|args, _| Ok(to_number(&args[0]))));
    runtime.register_function("to_number", Box::new(function));
    runtime
});

fn to_number(value: &Rcvar) -> Rcvar {
    let read = value.as_string().and_then(|text| Variable::from_json(text).ok());
    let mut number = read.map_or_else(|| value.clone(), Rcvar::new);
    if !number.is_number() {
        return Rcvar::new(Variable::Null);
    }
    keep_exact(&mut number);
    number
}

impl Expression {
    /// The expression that holds for everything.
    pub(super) fn always() -> Self {
        #[expect(clippy::expect_used, reason = "a constant that a test compiles")]
        Self(jmespath::compile("`true`").expect("`true` is JMESPath"))
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// What it was parsed into.
    pub(super) fn ast(&self) -> &jmespath::ast::Ast {
        self.0.as_ast()
    }

    /// Whether the expression's value is true in JMESPath's sense; one that does not fit the value is false.
    pub(super) fn holds(&self, data: &Data) -> bool {
        self.value(data).is_truthy()
    }

    /// The expression's value; JMESPath's `null` if it does not fit the value that it is for.
    pub(super) fn value(&self, data: &Data) -> Data {
        self.fitting(data).unwrap_or_else(Data::null)
    }

    /// Returns the expression's value, or `None` if it does not fit the value that it is for.
    pub(super) fn fitting(&self, data: &Data) -> Option<Data> {
        self.0.search(&data.0).ok().map(Data)
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        if source.matches(['(', '[', '{', '!', '&', '|', '.', '<', '>', '=']).count() > MAX_PARTS {
            let what = format!("an expression has at most {MAX_PARTS} brackets and operators");
            return Err(de::Error::custom(what));
        }
        if source.len() > MAX_BYTES {
            return Err(de::Error::custom(format!("an expression has at most {MAX_BYTES} bytes")));
        }
        let compiled = RUNTIME.compile(&source).map_err(|error| {
            de::Error::custom(format!(
                "`{source}` is no JMESPath expression: {} (at character {})",
                error.reason, error.offset
            ))
        })?;
        growth::check(compiled.as_ast()).map_err(|what| de::Error::custom(format!("`{source}` is refused: {what}")))?;
        Ok(Self(compiled))
    }
}

impl JsonSchema for Expression {
    fn schema_name() -> Cow<'static, str> {
        "Expression".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A JMESPath expression (https://jmespath.org)." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(source: &str) -> Result<Expression, String> {
        let source = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(source);
        Expression::deserialize(source).map_err(|error| error.to_string())
    }

    /// On a stack as small as a runtime's worker has it: an overflow would end the whole test.
    #[test]
    fn an_expression_as_deep_as_allowed_fits_the_stack_and_a_deeper_one_is_refused() {
        let deep = || {
            let data = Data::parse(r#"{"a":{"a":1}}"#).unwrap();
            for part in ["(", "[", "!", "a.", "a||", "a[?", "{a:", "a|", "&", "[].", "a=="] {
                let each = part.matches(['(', '[', '{', '!', '&', '|', '.', '<', '>', '=']).count();
                let close = match part {
                    "(" => ")",
                    "[" | "a[?" => "]",
                    "{a:" => "}",
                    _ => "",
                };
                let of = |times: usize| part.repeat(times) + "a" + &close.repeat(times);
                if let Ok(expression) = compiled(&of(MAX_PARTS / each)) {
                    let _ = expression.holds(&data);
                }
                assert!(compiled(&of(100_000)).unwrap_err().contains("at most 500"), "{part}");
            }
        };
        std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(deep).unwrap().join().unwrap();
    }

    #[test]
    fn integers_from_2_to_the_51_on_are_their_text_and_other_numbers_of_that_size_are_null() {
        for (source, json, value) in [
            ("n == '9007199254740993'", r#"{"n":9007199254740993}"#, "true"),
            ("n == '9007199254740993'", r#"{"n":9007199254740992}"#, "false"),
            ("[n][0]", r#"{"n":18446744073709551615}"#, r#""18446744073709551615""#),
            ("n", r#"{"n":-9223372036854775808}"#, r#""-9223372036854775808""#),
            ("n[0].m", r#"{"n":[{"m":18446744073709551616}]}"#, "null"),
            ("n", r#"{"n":-1e300}"#, "null"),
            ("n > `2251799813685246`", r#"{"n":2251799813685247}"#, "true"),
            ("n == `2251799813685247`", r#"{"n":2251799813685246}"#, "false"),
            ("n", r#"{"n":-2251799813685248}"#, r#""-2251799813685248""#),
            ("n == `0.3`", r#"{"n":0.30000000000000004}"#, "true"),
            ("n == `7.0`", r#"{"n":7}"#, "true"),
            ("to_number(n) == to_number('9007199254740993')", r#"{"n":"9007199254740992"}"#, "false"),
            ("to_number(n)", r#"{"n":"2251799813685248"}"#, r#""2251799813685248""#),
            ("to_number(n) < `7.5`", r#"{"n":"7"}"#, "true"),
            ("to_number(n)", r#"{"n":"1e300"}"#, "null"),
            ("to_number(n)", r#"{"n":"[2251799813685248]"}"#, "null"),
        ] {
            let found = compiled(source).unwrap().value(&Data::parse(json).unwrap());
            assert_eq!(found.0.to_string(), value, "{source} of {json}");
        }
    }
}
