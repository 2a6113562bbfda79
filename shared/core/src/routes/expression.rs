//! JMESPath over payloads and answers.

use std::borrow::Cow;

use jmespath::{Rcvar, Variable};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::search::{Failed, Steps};

/// A compiled JMESPath expression.
#[derive(Clone, Debug)]
pub struct Expression(jmespath::Expression<'static>);

/// Brackets and operators in an expression at most. The parser and the search call themselves once for each that lies
/// within another, and a stack that overflows takes the process with it, neighbours included.
const MAX_PARTS: usize = 500;
/// The longest expression, in bytes.
const MAX_BYTES: usize = 8 * 1024;

/// Doubles below this are as exact as integers.
const EXACT: f64 = (1_u64 << 53) as f64;

/// JSON to look into.
#[derive(Clone, Debug)]
pub struct Data(Rcvar);

impl Data {
    /// Parses JSON.
    ///
    /// # Errors
    /// The text is no JSON or nests too deeply; the message could quote it, so none is passed on.
    pub fn parse(json: &str) -> Result<Self, NotJson> {
        Variable::from_json(json).map(|data| Self(Rcvar::new(data))).map_err(|_| NotJson)
    }

    /// As a list of more data, or `None` if it is no list.
    pub fn as_list(&self) -> Option<impl Iterator<Item = Self>> {
        self.0.as_array().map(|items| items.iter().cloned().map(Self))
    }

    /// As a whole number that is not negative. A double that does not tell it from its neighbours is none.
    pub fn as_whole_number(&self) -> Option<u64> {
        let Variable::Number(number) = &*self.0 else { return None };
        number.as_u64().or_else(|| {
            let double = number.as_f64().filter(|double| double.fract() == 0.0 && (0.0..EXACT).contains(double))?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
            Some(double as u64)
        })
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
    pub(super) fn holds(&self, data: &Data, steps: &mut Steps) -> Result<bool, Failed> {
        self.value(data, steps).map(|value| value.is_truthy())
    }

    /// The expression's value; JMESPath's `null` if it does not fit the value that it is for.
    pub(super) fn value(&self, data: &Data, steps: &mut Steps) -> Result<Data, Failed> {
        match steps.search(&data.0, self.ast()) {
            Ok(value) => Ok(Data(value)),
            Err(Failed::Misfit) => Ok(Data(Rcvar::new(Variable::Null))),
            Err(failed @ (Failed::OverBudget | Failed::Inexact)) => Err(failed),
        }
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
        jmespath::compile(&source).map(Self).map_err(|error| {
            de::Error::custom(format!(
                "`{source}` is no JMESPath expression: {} (at character {})",
                error.reason, error.offset
            ))
        })
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
                    expression.holds(&data, &mut Steps::default()).unwrap();
                }
                assert!(compiled(&of(100_000)).unwrap_err().contains("at most 500"), "{part}");
            }
        };
        std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(deep).unwrap().join().unwrap();
    }
}
