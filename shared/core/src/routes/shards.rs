//! How many shards each Target of a route has: a number, or as many as its load needs.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::limited::Limited;
use crate::domain::Shards;

/// As it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written(pub(super) Shards);

type Fixed = Limited<1, 64>;

impl Default for Written {
    fn default() -> Self {
        Self(Shards::Fixed(1))
    }
}

/// It is written so that the schema has its default.
impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Shards::Fixed(count) => serializer.serialize_u8(count),
            Shards::ByLoad => serializer.collect_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl de::Visitor<'_> for Any {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 1 to 64, or `auto`")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Written, E> {
                let Limited(count) = Fixed::deserialize(de::value::U64Deserializer::new(value))?;
                Ok(Written(Shards::Fixed(u8::try_from(count).unwrap_or(u8::MAX))))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Written, E> {
                let Ok(value) = u64::try_from(value) else { return Err(other(value)) };
                self.visit_u64(value)
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Written, E> {
                Err(other(value))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Written, E> {
                if value == "auto" { Ok(Written(Shards::ByLoad)) } else { Err(other(value)) }
            }
        }

        deserializer.deserialize_any(Any)
    }
}

fn other<E: de::Error>(value: impl fmt::Display) -> E {
    E::custom(format!("must be a number from 1 to 64, or `auto`, not `{value}`"))
}

impl JsonSchema for Written {
    fn schema_name() -> Cow<'static, str> {
        "Shards".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fixed = Fixed::json_schema(generator);
        json_schema!({ "anyOf": [fixed, { "type": "string", "enum": ["auto"] }] })
    }
}
