//! Positions in tables and indexes: the keys of an entry, as text that outlives the process.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use groupage_core::domain::shelf::Position;
use groupage_core::ports::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::dynamo::item::Item;

const WHAT: &str = "go on in an index";

/// A key's attribute. All of ours are strings or numbers.
#[derive(Serialize, Deserialize)]
enum Value {
    S(String),
    N(String),
}

/// Where the entry with these keys lies.
pub(crate) fn position_of(keys: &Item) -> Result<Position> {
    let value = |(name, value): (&String, &AttributeValue)| match value {
        AttributeValue::S(text) => Ok((name.clone(), Value::S(text.clone()))),
        AttributeValue::N(number) => Ok((name.clone(), Value::N(number.clone()))),
        _ => Err(Error::Broken { what: WHAT, why: format!("`{name}` is no string and no number") }),
    };
    let keys = keys.iter().map(value).collect::<Result<BTreeMap<String, Value>>>()?;
    serde_json::to_string(&keys).map(Position).map_err(|error| Error::Broken { what: WHAT, why: error.to_string() })
}

/// The keys of the entry that lies there.
pub(crate) fn keys_at(position: &Position) -> Result<Item> {
    let keys: BTreeMap<String, Value> = serde_json::from_str(&position.0)
        .map_err(|error| Error::Broken { what: WHAT, why: format!("the bookmark is none: {error}") })?;
    let value = |value| match value {
        Value::S(text) => AttributeValue::S(text),
        Value::N(number) => AttributeValue::N(number),
    };
    Ok(keys.into_iter().map(|(name, key)| (name, value(key))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamo::item::{number, text};

    #[test]
    fn a_position_leads_back_to_its_keys() {
        let keys = Item::from([("Id".to_owned(), text("t\"1")), ("Due".to_owned(), number(1_700_000_000_123_u64))]);
        assert_eq!(keys_at(&position_of(&keys).unwrap()).unwrap(), keys);
    }

    #[test]
    fn what_is_no_position_is_broken_and_not_passed_over() {
        assert!(matches!(keys_at(&Position("t1".to_owned())), Err(Error::Broken { .. })));
        let keys = Item::from([("Id".to_owned(), AttributeValue::Bool(true))]);
        assert!(matches!(position_of(&keys), Err(Error::Broken { .. })));
    }
}
