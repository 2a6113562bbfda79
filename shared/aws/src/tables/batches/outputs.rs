//! A part of a batch's outputs as its item holds it: an attribute for each member, named by its position.

use aws_sdk_dynamodb::types::AttributeValue;
use groupage_core::domain::Timestamp;
use groupage_core::domain::batch::ByPosition;
use groupage_core::domain::output::Output;
use groupage_core::ports::Result;

use super::{BATCH_ID, TABLE};
use crate::dynamo::item::{Item, id_in, nonsense, number, text};

const TTL: &str = "Ttl";

/// Returns the attribute that holds a member's output: JSON as a string, or the size of what is not kept as a number.
pub(super) fn attribute(position: usize) -> String {
    position.to_string()
}

/// Returns the item of a part.
pub(super) fn item_of(id: &str, outputs: &ByPosition, until: Timestamp) -> Item {
    let output = |(position, output): (&usize, &Output)| {
        let value = match output {
            Output::Json(json) => text(json),
            Output::TooLarge(bytes) => number(bytes),
        };
        (attribute(*position), value)
    };
    let own = [(BATCH_ID.to_owned(), text(id)), (TTL.to_owned(), number(until.as_secs()))];
    own.into_iter().chain(outputs.iter().map(output)).collect()
}

/// Reads the item of a part.
pub(super) fn outputs_of(item: Item) -> Result<ByPosition> {
    let id = id_in(&item, BATCH_ID);
    let mut outputs = ByPosition::new();
    for (name, value) in item {
        let Ok(position) = name.parse() else { continue };
        let output = match &value {
            AttributeValue::S(json) => Some(Output::Json(json.clone())),
            AttributeValue::N(bytes) => bytes.parse().ok().map(Output::TooLarge),
            _ => None,
        };
        outputs.insert(position, output.ok_or_else(|| nonsense(TABLE, &id, "output", "is no output"))?);
    }
    Ok(outputs)
}
