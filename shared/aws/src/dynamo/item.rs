//! Stored items: encoding, decoding, and their size as DynamoDB bills it.

use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::types::AttributeValue;
use groupage_core::ports::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_dynamo::aws_sdk_dynamodb_1::{from_item, to_item};

use crate::meter::Units;

/// A write unit writes this many bytes of an item.
pub(crate) const WRITE_UNIT_BYTES: u64 = 1024;

/// An item as the SDK has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A string attribute.
pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A number attribute.
pub(crate) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// What an item says in a string attribute.
pub(crate) fn text_in<'i>(item: &'i Item, attribute: &str) -> Option<&'i str> {
    item.get(attribute)?.as_s().ok().map(String::as_str)
}

/// An item's id, for errors; empty if it has none.
pub(crate) fn id_in(item: &Item, attribute: &str) -> String {
    text_in(item, attribute).unwrap_or_default().to_owned()
}

/// A stored form as an item.
pub(crate) fn encode<T: Serialize>(table: &'static str, id: &str, stored: &T) -> Result<Item> {
    to_item(stored)
        .map_err(|error| Error::Broken { what: table, why: format!("item `{id}` cannot be encoded: {error}") })
}

/// An item's stored form.
pub(crate) fn decode<T: DeserializeOwned>(table: &'static str, id: &str, item: Item) -> Result<T> {
    from_item(item).map_err(|error| Error::Broken { what: table, why: format!("item `{id}`: {error}") })
}

/// The item says something that nobody here writes.
pub(crate) fn nonsense(table: &'static str, id: &str, attribute: &'static str, why: impl Display) -> Error {
    Error::Broken { what: table, why: format!("item `{id}`, attribute `{attribute}`: {why}") }
}

/// An item's size in bytes, by "DynamoDB item sizes and formats" in the DynamoDB developer guide: names and strings as
/// UTF-8, numbers at half a byte a digit plus one, lists and maps with three bytes of their own and one for each
/// element.
pub(crate) fn size(item: &Item) -> u64 {
    item.iter().map(|(name, value)| name.len() as u64 + value_size(value)).sum()
}

/// What a write costs whose condition failed: billed by the item that was there, and at least one unit.
pub(crate) fn refused(old: Option<&Item>) -> Units {
    Units::whole(old.map_or(0, size).div_ceil(WRITE_UNIT_BYTES).max(1))
}

fn value_size(value: &AttributeValue) -> u64 {
    const NESTING: u64 = 3;
    const ELEMENT: u64 = 1;
    match value {
        AttributeValue::S(text) => text.len() as u64,
        AttributeValue::N(number) => number_size(number),
        AttributeValue::B(bytes) => bytes.as_ref().len() as u64,
        AttributeValue::Ss(texts) => texts.iter().map(|text| text.len() as u64).sum(),
        AttributeValue::Ns(numbers) => numbers.iter().map(|number| number_size(number)).sum(),
        AttributeValue::Bs(blobs) => blobs.iter().map(|bytes| bytes.as_ref().len() as u64).sum(),
        AttributeValue::L(list) => NESTING + list.iter().map(|value| ELEMENT + value_size(value)).sum::<u64>(),
        AttributeValue::M(map) => {
            NESTING + map.iter().map(|(key, value)| ELEMENT + key.len() as u64 + value_size(value)).sum::<u64>()
        }
        // A boolean or a null; and what a later SDK may add is no larger in any table of ours.
        _ => 1,
    }
}

/// Leading and trailing zeros are free; two significant digits take a byte, and so does a sign.
fn number_size(number: &str) -> u64 {
    let negative = u64::from(number.starts_with('-'));
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let significant = digits.trim_start_matches('0').trim_end_matches('0').len() as u64;
    significant.div_ceil(2) + 1 + negative
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_attribute_counts_its_name_and_its_bytes() {
        assert_eq!(size(&Item::from([("Id".into(), text("task-1"))])), 8);
        assert_eq!(size(&Item::from([("Ä".into(), text("ö"))])), 4);
        assert_eq!(size(&Item::new()), 0);
    }

    #[test]
    fn two_significant_digits_of_a_number_take_a_byte() {
        for (number, bytes) in [("0", 1), ("7", 2), ("42", 2), ("100", 2), ("1700000000123", 8), ("-15", 3)] {
            assert_eq!(number_size(number), bytes, "{number}");
        }
    }

    #[test]
    fn nesting_costs_three_bytes_and_one_for_each_element() {
        let list = AttributeValue::L(vec![text("ab"), text("c")]);
        assert_eq!(value_size(&list), 3 + 3 + 2);
        let map = AttributeValue::M(HashMap::from([("k".to_owned(), AttributeValue::Bool(true))]));
        assert_eq!(value_size(&map), 3 + 3);
    }
}
