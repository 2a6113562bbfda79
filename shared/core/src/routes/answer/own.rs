//! Answers in Groupage's own forms, and in that of AWS Lambda.

use std::collections::{BTreeMap, HashSet};

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::format::{not_json, text_of};
use super::said::{Verdicts, all_succeeded, millis};
use super::unbelievable::Unbelievable;
use crate::domain::id::TaskId;
use crate::domain::json;
use crate::domain::outcome::{Reason, Said};

#[derive(Deserialize)]
struct Own {
    #[serde(rename = "batchItemFailures", default, deserialize_with = "null_is_empty")]
    batch_item_failures: Option<Vec<ItemFailure>>,
    results: Option<Vec<OwnResult>>,
}

#[derive(Deserialize)]
struct ItemFailure {
    #[serde(rename = "itemIdentifier")]
    item_identifier: String,
}

#[derive(Deserialize)]
struct OwnResult {
    id: String,
    status: OwnStatus,
    /// The seconds for which it is left alone at least; anything but a number says nothing.
    #[serde(default)]
    retry_after: serde_json::Value,
    /// Why it did not succeed; what is no text says nothing.
    #[serde(default)]
    reason: serde_json::Value,
    /// The member's output; `null`, and what is no sound JSON, says nothing.
    output: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OwnStatus {
    Succeeded,
    Failed,
    Retry,
}

/// Reads a list, of which Lambda takes `null` for an empty one.
fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ItemFailure>>, D::Error> {
    Option::deserialize(deserializer).map(|list| Some(list.unwrap_or_default()))
}

/// Reads what an answer in one of these forms says of each member.
///
/// # Errors
/// It says nothing of the members. An object without any field says that nothing failed, as Lambda has it, if its
/// status `is_good`.
pub(super) fn read(body: &[u8], members: &[TaskId], is_good: bool) -> Result<Verdicts, Unbelievable> {
    let text = text_of(body)?;
    // A list would be taken for the form's fields in their order.
    let own = text.trim_start().starts_with('{').then(|| serde_json::from_str::<Own>(text).ok()).flatten();
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    let own = own.ok_or_else(|| if is_json() { Unbelievable::NotUnderstood } else { not_json(body) })?;
    let known: HashSet<&TaskId> = members.iter().collect();
    let check = |id: String| {
        let id = TaskId::new(id);
        if known.contains(&id) { Ok(id) } else { Err(Unbelievable::NamesUnknownItem) }
    };
    match (own.batch_item_failures, own.results) {
        (Some(failures), None) => {
            let mut verdicts = all_succeeded(members);
            for failure in failures {
                verdicts.said.insert(check(failure.item_identifier)?, Said::again(Reason::new("item_failure")));
            }
            Ok(verdicts)
        }
        (None, Some(results)) => {
            let mut verdicts = Verdicts::default();
            for result in results {
                let reason = Reason::from_downstream(result.reason.as_str().unwrap_or_default());
                let one = match result.status {
                    OwnStatus::Succeeded => Said::Succeeded,
                    OwnStatus::Failed => Said::Failed(reason),
                    OwnStatus::Retry => Said::Retry { reason, asked_ms: result.retry_after.as_f64().and_then(millis) },
                };
                let id = check(result.id)?;
                let output = result.output.filter(|output| one.is_final() && json::check(output.get()).is_ok());
                if let Some(output) = output {
                    verdicts.add_output(id.clone(), output.get());
                }
                verdicts.add(id, one)?;
            }
            Ok(verdicts)
        }
        (None, None)
            if is_good
                && serde_json::from_str::<BTreeMap<String, IgnoredAny>>(text).is_ok_and(|all| all.is_empty()) =>
        {
            Ok(all_succeeded(members))
        }
        (None, None) | (Some(_), Some(_)) => Err(Unbelievable::NotUnderstood),
    }
}
