//! What a downstream's answer says of each member.
//!
//! Three forms need no mapping: nothing (all is well), AWS's own `{"batchItemFailures": [{"itemIdentifier": …}]}`, and
//! `{"results": [{"id", "status": "succeeded|failed|retry", "reason"}]}`. Any other is read by the route's mapping. An
//! answer that cannot be believed (no JSON, unknown members) settles nothing: the same call is made again.
//!
//! An HTTP status says whether the body is read at all. [`Class::of`] is the one table of what each means; the page of
//! outages in the docs shows the same.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::expression::{Data, Expression};
use crate::domain::answer::{Answer, NoAnswer};
use crate::domain::id::TaskId;
use crate::domain::outcome::{Failure, Fault, Reason, Reply, Said};

/// How to read an answer that is not in one of Groupage's own forms: JMESPath over the answer's JSON.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResponseMapping {
    /// The list with one entry for each member. Absent: the answer is in one of Groupage's own forms.
    results: Option<Expression>,
    /// In an entry: the member's id. Absent: entries are in the order of the call's items.
    id: Option<Expression>,
    /// In an entry: whether the member succeeded. Required with `results`.
    succeeded: Option<Expression>,
    /// In an entry that did not succeed: whether another attempt may help. Absent: it may not.
    retryable: Option<Expression>,
    /// In an entry that did not succeed: a short token that says why (letters, digits, `_`, `-`, `.`, `:`).
    reason: Option<Expression>,
    /// Do not read the body at all: the HTTP status says everything.
    ignore_body: bool,
}

#[derive(Deserialize)]
struct Own {
    #[serde(rename = "batchItemFailures")]
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
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OwnStatus {
    Succeeded,
    Failed,
    Retry,
}

/// Why an answer cannot be believed; becomes the reason of the retry.
type Unbelievable = &'static str;

/// What an HTTP status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The body says what became of each member.
    Answer,
    /// The downstream is away for now, whatever is sent to it.
    Outage,
    /// This call is refused for good.
    Refusal,
}

impl Class {
    /// What a status says, unless the route says otherwise.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Answer,
            // Who may call is a matter of the secret, which may just be replaced; when to call, of the moment.
            401 | 403 | 408 | 425 | 429 | 500..=599 => Self::Outage,
            // A redirect would carry payloads and secrets to an address that no route names: it is never followed.
            _ => Self::Refusal,
        }
    }
}

/// What a route says otherwise of statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Otherwise {
    /// These are outages.
    pub(super) outages: BTreeSet<u16>,
    /// These are refusals.
    pub(super) refusals: BTreeSet<u16>,
}

impl Otherwise {
    fn class(&self, status: u16) -> Class {
        if self.outages.contains(&status) {
            Class::Outage
        } else if self.refusals.contains(&status) {
            Class::Refusal
        } else {
            Class::of(status)
        }
    }
}

/// A status as a reason.
fn reason(status: u16) -> Reason {
    let word = if (300..=399).contains(&status) { "redirect" } else { "http" };
    Reason::new(format!("{word}_{status}"))
}

impl ResponseMapping {
    /// Answers in Groupage's own forms.
    pub(super) const OWN: Self =
        Self { results: None, id: None, succeeded: None, retryable: None, reason: None, ignore_body: false };

    /// Whether it says nothing.
    pub(super) const fn is_own(&self) -> bool {
        let Self { results, id, succeeded, retryable, reason, ignore_body } = self;
        let has_none = results.is_none() && id.is_none() && succeeded.is_none();
        has_none && retryable.is_none() && reason.is_none() && !*ignore_body
    }

    /// What a call came to, of whose statuses the route says something `otherwise`.
    #[must_use]
    pub(super) fn read(&self, answer: Result<Answer, NoAnswer>, members: &[TaskId], otherwise: &Otherwise) -> Reply {
        let failed = |reason, fault| Reply::Unavailable(Failure { reason, retry_after_ms: None, fault });
        let unavailable =
            |reason, retry_after_ms| Reply::Unavailable(Failure { reason, retry_after_ms, fault: Fault::Downstream });
        match answer {
            Err(NoAnswer::Connection) => unavailable(Reason::new("connection"), None),
            Err(NoAnswer::Timeout) => unavailable(Reason::new("timeout"), None),
            Err(NoAnswer::TooLarge) => unavailable(Reason::new("answer_too_large"), None),
            Err(NoAnswer::Misconfigured(reason)) => failed(reason, Fault::Ours),
            Err(NoAnswer::Failed(reason)) => failed(reason, Fault::Call),
            Err(NoAnswer::Refused(reason) | NoAnswer::Oversized(reason)) => Reply::Refused(reason),
            Err(NoAnswer::Other(reason)) => unavailable(reason, None),
            Ok(answer) => match otherwise.class(answer.status) {
                Class::Answer => self
                    .read_body(&answer.body, members)
                    .map_or_else(|why| unavailable(Reason::new(why), None), Reply::PerMember),
                Class::Outage => unavailable(reason(answer.status), answer.retry_after_ms),
                Class::Refusal => Reply::Refused(reason(answer.status)),
            },
        }
    }

    fn read_body(&self, body: &[u8], members: &[TaskId]) -> Result<BTreeMap<TaskId, Said>, Unbelievable> {
        if self.ignore_body || body.iter().all(u8::is_ascii_whitespace) {
            return Ok(all_succeeded(members));
        }
        let text = std::str::from_utf8(body).map_err(|_| "answer_not_json")?;
        match &self.results {
            None => read_own(text, members),
            Some(results) => self.read_mapped(results, text, members),
        }
    }

    fn read_mapped(
        &self,
        results: &Expression,
        text: &str,
        members: &[TaskId],
    ) -> Result<BTreeMap<TaskId, Said>, Unbelievable> {
        let data = Data::parse(text).map_err(|_| "answer_not_json")?;
        let list = results.value(&data);
        let entries: Vec<Data> = list.as_list().ok_or("answer_without_results")?.collect();
        if self.id.is_none() && entries.len() != members.len() {
            return Err("answer_of_wrong_length");
        }
        let known: HashSet<&TaskId> = members.iter().collect();
        let mut said = BTreeMap::new();
        for (position, entry) in entries.iter().enumerate() {
            let id = match &self.id {
                Some(id) => TaskId::new(id.value(entry).as_text().ok_or("answer_without_id")?),
                None => members.get(position).cloned().ok_or("answer_of_wrong_length")?,
            };
            if !known.contains(&id) {
                return Err("answer_names_unknown_item");
            }
            said.insert(id, self.entry(entry));
        }
        Ok(said)
    }

    fn entry(&self, entry: &Data) -> Said {
        let holds = |expression: &Option<Expression>| expression.as_ref().is_some_and(|e| e.holds(entry));
        if holds(&self.succeeded) {
            return Said::Succeeded;
        }
        let said = self.reason.as_ref().and_then(|reason| reason.value(entry).as_text()).unwrap_or_default();
        let reason = Reason::from_downstream(&said);
        if holds(&self.retryable) { Said::Retry(reason) } else { Said::Failed(reason) }
    }
}

fn read_own(text: &str, members: &[TaskId]) -> Result<BTreeMap<TaskId, Said>, Unbelievable> {
    // A list would be taken for the form's fields in their order.
    let own = text.trim_start().starts_with('{').then(|| serde_json::from_str::<Own>(text).ok()).flatten();
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    let own = own.ok_or_else(|| if is_json() { "answer_not_understood" } else { "answer_not_json" })?;
    let known: HashSet<&TaskId> = members.iter().collect();
    let check = |id: String| {
        let id = TaskId::new(id);
        if known.contains(&id) { Ok(id) } else { Err("answer_names_unknown_item") }
    };
    match (own.batch_item_failures, own.results) {
        (Some(failures), None) => {
            let mut said = all_succeeded(members);
            for failure in failures {
                said.insert(check(failure.item_identifier)?, Said::Retry(Reason::new("item_failure")));
            }
            Ok(said)
        }
        (None, Some(results)) => results
            .into_iter()
            .map(|result| {
                let reason = Reason::from_downstream(&result.reason);
                let said = match result.status {
                    OwnStatus::Succeeded => Said::Succeeded,
                    OwnStatus::Failed => Said::Failed(reason),
                    OwnStatus::Retry => Said::Retry(reason),
                };
                Ok((check(result.id)?, said))
            })
            .collect(),
        (None, None) | (Some(_), Some(_)) => Err("answer_not_understood"),
    }
}

fn all_succeeded(members: &[TaskId]) -> BTreeMap<TaskId, Said> {
    members.iter().map(|id| (id.clone(), Said::Succeeded)).collect()
}
