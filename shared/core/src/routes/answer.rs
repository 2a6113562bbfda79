//! What a downstream's answer says of each member.
//!
//! Three forms need no mapping: nothing (all is well), AWS's own `{"batchItemFailures": [{"itemIdentifier": …}]}`, and
//! `{"results": [{"id", "status": "succeeded|failed|retry", "reason"}]}`. Any other is read by the route's mapping. An
//! answer that cannot be believed (no JSON, unknown members) settles nothing: the same call is made again.
//!
//! An HTTP status says whether the body is read at all. [`Class::of`] is the one table of what each means; the page of
//! outages in the docs shows the same.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem::discriminant;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::expression::{Data, Expression};
use crate::domain::answer::{Answer, NoAnswer};
use crate::domain::id::TaskId;
use crate::domain::outcome::{Failure, Fault, Reason, Reply, Said, TIMEOUT};

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
    /// Seconds for which an entry to retry is left alone at least.
    retry_after: Option<Expression>,
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
    /// The seconds for which it is left alone at least; anything but a number says nothing.
    #[serde(default)]
    retry_after: serde_json::Value,
    /// Why it did not succeed; what is no text says nothing.
    #[serde(default)]
    reason: serde_json::Value,
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

/// Values of an answer that an expression reads, at most.
const MAX_VALUES: usize = 100_000;
const ANSWER_NOT_JSON: Unbelievable = "answer_not_json";
const ANSWER_HTML: Unbelievable = "answer_html";
const ANSWER_CUT: Unbelievable = "answer_cut";

/// What a body is that is no JSON.
fn not_json(body: &[u8]) -> Unbelievable {
    let begins = String::from_utf8_lossy(body.get(..100).unwrap_or(body)).trim_start().to_ascii_lowercase();
    // A byte order mark, or a character of ASCII.
    let is_wide = |pair: &[u8]| matches!(pair, [0xff, 0xfe] | [0xfe, 0xff]) || pair.contains(&0);
    if body.get(..2).is_some_and(is_wide) {
        "answer_utf16"
    } else if begins.starts_with("<!doctype html") || begins.starts_with("<html") {
        ANSWER_HTML
    } else if begins.starts_with('<') {
        "answer_xml"
    } else if serde_json::from_slice::<IgnoredAny>(body).is_err_and(|error| error.is_eof()) {
        ANSWER_CUT
    } else {
        ANSWER_NOT_JSON
    }
}

/// What an HTTP status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The body says what became of each member.
    Answer,
    /// The downstream is away for now, whatever is sent to it.
    Outage,
    /// This call is refused for good.
    Refusal,
    /// This call is refused for good, unless an earlier one under its key may run still, or was carried out.
    Conflict,
}

impl Class {
    /// What a status says, unless the route says otherwise.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Answer,
            // Who may call is a matter of the secret, which may just be replaced; when to call, of the moment.
            401 | 403 | 408 | 425 | 429 | 500..=599 => Self::Outage,
            409 => Self::Conflict,
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
    pub(super) const OWN: Self = Self {
        results: None,
        id: None,
        succeeded: None,
        retryable: None,
        retry_after: None,
        reason: None,
        ignore_body: false,
    };

    /// Whether the HTTP status says everything.
    pub const fn ignores_body(&self) -> bool {
        self.ignore_body
    }

    /// Whether it says nothing.
    pub(super) fn is_own(&self) -> bool {
        let Self { results, id, succeeded, retryable, retry_after, reason, ignore_body } = self;
        let expressions = [results, id, succeeded, retryable, retry_after, reason];
        expressions.iter().all(|one| one.is_none()) && !*ignore_body
    }

    /// Whether entries without an id would be in an order that is none of the answer's.
    pub(super) fn has_no_order(&self) -> bool {
        self.id.is_none() && self.results.as_ref().is_some_and(Expression::lists_an_object)
    }

    /// What a call came to, of whose statuses the route says something `otherwise`; `may_be_done` says whether an
    /// earlier call under its key may run still, or was carried out.
    pub(super) fn read(
        &self,
        answer: Result<Answer, NoAnswer>,
        members: &[TaskId],
        otherwise: &Otherwise,
        may_be_done: bool,
    ) -> Reply {
        let failed = |reason, fault| Reply::Unavailable(Failure { reason, retry_after_ms: None, fault });
        let unavailable = |reason| failed(reason, Fault::Downstream);
        match answer {
            Err(NoAnswer::Connection) => unavailable(Reason::new("connection")),
            Err(NoAnswer::Timeout) => unavailable(Reason::new(TIMEOUT)),
            Err(NoAnswer::TooLarge) => failed(Reason::new("answer_too_large"), Fault::Settings),
            Err(NoAnswer::Unreadable(reason)) => failed(reason, Fault::Settings),
            Err(NoAnswer::Misconfigured(reason)) => failed(reason, Fault::Ours),
            Err(NoAnswer::Failed(reason)) => failed(reason, Fault::Call),
            Err(NoAnswer::Refused(reason) | NoAnswer::Oversized(reason)) => Reply::Refused(reason),
            Err(NoAnswer::Other(reason)) => unavailable(reason),
            Ok(Answer { status, retry_after_ms, body }) => {
                let failed = |fault| Reply::Unavailable(Failure { reason: reason(status), retry_after_ms, fault });
                match otherwise.class(status) {
                    // A page for people comes from a machine in between, such as a login or a balancer; what ends early
                    // was cut off there, or at its source.
                    Class::Answer => match self.read_body(&body, members) {
                        Ok(said) => Reply::PerMember(said),
                        Err(why @ (ANSWER_HTML | ANSWER_CUT)) => unavailable(Reason::new(why)),
                        Err(why) => Reply::Unavailable(Failure {
                            reason: Reason::new(why),
                            retry_after_ms: None,
                            fault: Fault::Settings,
                        }),
                    },
                    Class::Outage => failed(Fault::Downstream),
                    Class::Conflict if may_be_done => failed(Fault::Conflict),
                    Class::Conflict | Class::Refusal => Reply::Refused(reason(status)),
                }
            }
        }
    }

    fn read_body(&self, body: &[u8], members: &[TaskId]) -> Result<BTreeMap<TaskId, Said>, Unbelievable> {
        if self.ignore_body || body.iter().all(u8::is_ascii_whitespace) {
            return Ok(all_succeeded(members));
        }
        let text = std::str::from_utf8(body).map_err(|_| not_json(body))?.trim_start_matches('\u{feff}');
        let said = match &self.results {
            None => read_own(text, members),
            Some(results) => self.read_mapped(results, text, members),
        };
        said.map_err(|why| if why == ANSWER_NOT_JSON { not_json(body) } else { why })
    }

    fn read_mapped(
        &self,
        results: &Expression,
        text: &str,
        members: &[TaskId],
    ) -> Result<BTreeMap<TaskId, Said>, Unbelievable> {
        // An expression may make 2 KB of each: not of as many as a megabyte could hold.
        if text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_VALUES {
            return Err("answer_too_large");
        }
        let data = Data::parse(text).map_err(|_| ANSWER_NOT_JSON)?;
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
            add(&mut said, id, self.entry(entry))?;
        }
        Ok(said)
    }

    fn entry(&self, entry: &Data) -> Said {
        let holds =
            |expression: &Option<Expression>| expression.as_ref().is_some_and(|expression| expression.holds(entry));
        if holds(&self.succeeded) {
            return Said::Succeeded;
        }
        let text = |expression: &Option<Expression>| expression.as_ref()?.value(entry).as_text();
        let reason = Reason::from_downstream(&text(&self.reason).unwrap_or_default());
        if holds(&self.retryable) {
            Said::Retry { reason, asked_ms: text(&self.retry_after).and_then(|seconds| millis(seconds.parse().ok()?)) }
        } else {
            Said::Failed(reason)
        }
    }
}

fn read_own(text: &str, members: &[TaskId]) -> Result<BTreeMap<TaskId, Said>, Unbelievable> {
    // A list would be taken for the form's fields in their order.
    let own = text.trim_start().starts_with('{').then(|| serde_json::from_str::<Own>(text).ok()).flatten();
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    let own = own.ok_or_else(|| if is_json() { "answer_not_understood" } else { ANSWER_NOT_JSON })?;
    let known: HashSet<&TaskId> = members.iter().collect();
    let check = |id: String| {
        let id = TaskId::new(id);
        if known.contains(&id) { Ok(id) } else { Err("answer_names_unknown_item") }
    };
    match (own.batch_item_failures, own.results) {
        (Some(failures), None) => {
            let mut said = all_succeeded(members);
            for failure in failures {
                said.insert(check(failure.item_identifier)?, Said::again(Reason::new("item_failure")));
            }
            Ok(said)
        }
        (None, Some(results)) => {
            let mut said = BTreeMap::new();
            for result in results {
                let reason = Reason::from_downstream(result.reason.as_str().unwrap_or_default());
                let one = match result.status {
                    OwnStatus::Succeeded => Said::Succeeded,
                    OwnStatus::Failed => Said::Failed(reason),
                    OwnStatus::Retry => Said::Retry { reason, asked_ms: result.retry_after.as_f64().and_then(millis) },
                };
                add(&mut said, check(result.id)?, one)?;
            }
            Ok(said)
        }
        (None, None) | (Some(_), Some(_)) => Err("answer_not_understood"),
    }
}

/// Returns whole or broken seconds as milliseconds.
fn millis(seconds: f64) -> Option<u64> {
    u64::try_from(Duration::try_from_secs_f64(seconds).ok()?.as_millis()).ok()
}

/// Notes what is said of a member. Said twice it must be the same.
fn add(said: &mut BTreeMap<TaskId, Said>, id: TaskId, one: Said) -> Result<(), Unbelievable> {
    match said.entry(id) {
        Entry::Occupied(before) if discriminant(before.get()) != discriminant(&one) => Err("answer_contradicts_itself"),
        Entry::Occupied(_) => Ok(()),
        Entry::Vacant(free) => {
            free.insert(one);
            Ok(())
        }
    }
}

fn all_succeeded(members: &[TaskId]) -> BTreeMap<TaskId, Said> {
    members.iter().map(|id| (id.clone(), Said::Succeeded)).collect()
}

#[cfg(test)]
mod tests;
