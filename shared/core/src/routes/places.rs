//! How many calls of a route may be in flight: a number, or what the downstream bears.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::limited::Limited;

const EXPECTED: &str = "a number from 1 to 1000, `auto`, or bounds such as `{ at_least: 2, at_most: 50 }`";

/// A limit on calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// This many.
    Fixed(Limited<1, 1_000>),
    /// As many as the downstream bears, between these.
    Auto(Bounds),
}

/// Between what a limit moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Bounds {
    /// It never falls below.
    at_least: Limited<1, 1_000>,
    /// It never rises above.
    at_most: Limited<1, 1_000>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { at_least: Limited(1), at_most: Limited(100) }
    }
}

impl Places {
    /// There are never more.
    pub(super) const fn at_most(&self) -> u64 {
        match self {
            Self::Fixed(limit) => limit.0,
            Self::Auto(bounds) => bounds.at_most.0,
        }
    }

    /// There are never fewer, if the limit moves.
    pub(super) const fn at_least(&self) -> Option<u64> {
        match self {
            Self::Fixed(_) => None,
            Self::Auto(bounds) => Some(bounds.at_least.0),
        }
    }
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> de::Visitor<'de> for Any {
            type Value = Places;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Places, E> {
                Limited::deserialize(de::value::U64Deserializer::new(value)).map(Places::Fixed)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Places, E> {
                u64::try_from(value).map_or_else(
                    |_| Err(E::custom(format!("must be from 1 to 1000, not {value}"))),
                    |value| self.visit_u64(value),
                )
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Places, E> {
                Err(other(value))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Places, E> {
                match value {
                    "auto" => Ok(Places::Auto(Bounds::default())),
                    _ => Err(other(value)),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Places, A::Error> {
                Bounds::deserialize(MapAccessDeserializer::new(map)).map(Places::Auto)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

fn other<E: de::Error>(value: impl fmt::Display) -> E {
    E::custom(format!("must be {EXPECTED}, not `{value}`"))
}

impl JsonSchema for Places {
    fn schema_name() -> Cow<'static, str> {
        "Places".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (fixed, bounds) = (Limited::<1, 1_000>::json_schema(generator), Bounds::json_schema(generator));
        json_schema!({ "anyOf": [fixed, { "type": "string", "enum": ["auto"] }, bounds] })
    }
}
