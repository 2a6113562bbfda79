//! Outputs: what a downstream says of a task beside its outcome, such as an id, a tracking number or an embedding.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::id::TaskId;

/// The output of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// JSON of at most [`MAX_OUTPUT_BYTES`].
    Json(String),
    /// The size in bytes of an output that is too large to be kept.
    TooLarge(u64),
}

/// The outputs of one answer.
pub type Outputs = BTreeMap<TaskId, Output>;

/// The largest output that is kept, in bytes of JSON: a notice that carries it fits every queue.
pub const MAX_OUTPUT_BYTES: usize = 128 * 1024;

impl Output {
    /// Returns this JSON as an output.
    pub fn of(json: String) -> Self {
        if json.len() <= MAX_OUTPUT_BYTES { Self::Json(json) } else { Self::TooLarge(json.len() as u64) }
    }

    /// Returns what is left of it where there is no room for it.
    #[must_use]
    pub fn omitted(self) -> Self {
        match self {
            Self::Json(json) => Self::TooLarge(json.len() as u64),
            Self::TooLarge(bytes) => Self::TooLarge(bytes),
        }
    }

    /// Returns the size of an output that is not kept, in bytes.
    pub const fn omitted_bytes(&self) -> Option<u64> {
        match self {
            Self::Json(_) => None,
            Self::TooLarge(bytes) => Some(*bytes),
        }
    }
}

/// The JSON as it is, or `null` in place of what is not kept.
impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = match self {
            Self::Json(json) => RawValue::from_string(json.clone()).ok(),
            Self::TooLarge(_) => None,
        };
        json.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_is_too_large_leaves_its_size() {
        assert_eq!(Output::of("1".repeat(MAX_OUTPUT_BYTES)), Output::Json("1".repeat(MAX_OUTPUT_BYTES)));
        let larger = Output::of("1".repeat(MAX_OUTPUT_BYTES + 1));
        assert_eq!(larger.omitted_bytes(), Some(MAX_OUTPUT_BYTES as u64 + 1));
        assert_eq!(serde_json::to_string(&larger).unwrap(), "null");
    }

    #[test]
    fn an_output_is_passed_on_as_it_was_said() {
        let json = r#"{"n": 12345678901234567890123, "x": [0.10]}"#;
        assert_eq!(serde_json::to_string(&Output::of(json.to_owned())).unwrap(), json);
    }
}
