//! The contract with senders: a task as it arrives on the task queue.
//!
//! One bad message must not harm its neighbours, so each is parsed alone and each refusal is a code with a detail.
//! Details name fields and limits, never values: they reach logs and the rejected queue's attributes.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde_json::value::RawValue;

use super::id::{self, ListId, TaskId};
use super::json::{self, Flaw, compact};
use super::stream::EventId;
use super::trace::{TRACEPARENT, TraceParent};
use super::tracker::ItemId;
use super::when::{When, Written};

/// The largest task message, in bytes. A rejected message travels on with its reason in attributes, and both together
/// must fit the 262,144 bytes that every SQS queue and emulator takes.
pub const MAX_MESSAGE_BYTES: usize = 256_000;

/// A task to be grouped with others of its kind: one JSON object per SQS message.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "TaskMessage", deny_unknown_fields)]
#[expect(dead_code, reason = "the published contract; `parse` reads messages field by field for errors without values")]
pub struct Contract {
    /// Version of this contract. Absent means 1.
    #[schemars(range(min = 1, max = 1))]
    version: Option<u8>,
    /// The task's id, unique among all tasks; sending the same id with the same payload again is safe. Without one,
    /// the id is derived from the SQS message id.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[!-~]+$"))]
    id: Option<String>,
    /// The work itself. Routes look into it for what to do; the downstream receives it as it is.
    payload: serde_json::Map<String, serde_json::Value>,
    /// The item of a tracker, `tracker:group:index`, that is acked when the task settles.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,64}:[0-9]{1,10}:[0-9]{1,4}$"))]
    item: Option<String>,
    /// The list that the task waits on until it is released. Without it, the task goes on at once.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,64}$"))]
    list: Option<String>,
    /// The event of a stream, `stream:opened:number`, that is settled with the task. The feeder of the stream gives it.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,40}:[0-9]{1,15}:[0-9]{1,15}$"))]
    event: Option<String>,
    /// When the task is called at the earliest. It is registered at once, and waits until then. A time, or a delay in
    /// seconds. No ordered route takes it, and no stream.
    not_before: Option<Written>,
    /// Until when the task is wanted. Later no call with it begins: it ends as expired. A time, or a delay in seconds.
    expires_at: Option<Written>,
    /// The trace context of its sender, as W3C's `traceparent` has it. A message attribute of that name says the same,
    /// and counts more. One that is malformed is ignored.
    traceparent: Option<String>,
}

/// The JSON Schema of a task message.
pub fn schema() -> Schema {
    schema_for!(Contract)
}

/// A parsed task message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMessage {
    /// The sender's id, or the one derived from the message.
    pub id: TaskId,
    /// The payload as the sender wrote it, [`compact`].
    pub payload: String,
    /// The tracker's item that it is for.
    pub item: Option<ItemId>,
    /// The list that it waits on.
    pub list: Option<ListId>,
    /// The stream's event that it is.
    pub event: Option<EventId>,
    /// When it is called at the earliest.
    pub not_before: Option<When>,
    /// Until when it is wanted.
    pub expires_at: Option<When>,
    /// What its sender says that it belongs to.
    pub trace: Option<TraceParent>,
}

impl TaskMessage {
    /// The message as it is sent. Its id is in it, so that the same task is sent when it is sent again.
    pub fn body(&self) -> String {
        let id = serde_json::Value::from(self.id.as_str());
        // Quoted as they are: ids of items and lists hold nothing that JSON would write otherwise.
        let field =
            |name, value: Option<String>| value.map_or_else(String::new, |value| format!(r#","{name}":"{value}""#));
        let item = field("item", self.item.as_ref().map(ToString::to_string));
        let list = field("list", self.list.as_ref().map(ToString::to_string));
        let event = field("event", self.event.as_ref().map(ToString::to_string));
        let date = |name, when: Option<When>| when.map_or_else(String::new, |when| format!(r#","{name}":{when}"#));
        let [not_before, expires_at] = [date("not_before", self.not_before), date("expires_at", self.expires_at)];
        let trace = field(TRACEPARENT, self.trace.as_ref().map(ToString::to_string));
        format!(r#"{{"id":{id},"payload":{}{item}{list}{event}{not_before}{expires_at}{trace}}}"#, self.payload)
    }

    /// The same if a message takes it, if need be without its trace: that must keep no task from being sent.
    pub fn fitting_body(&self) -> Option<String> {
        let body = self.body();
        let body = match body.len() > MAX_MESSAGE_BYTES && self.trace.is_some() {
            true => Self { trace: None, ..self.clone() }.body(),
            false => body,
        };
        (body.len() <= MAX_MESSAGE_BYTES).then_some(body)
    }

    /// Tells a repeat from another task under the same id. Whether it waits on a list first makes it no other, nor do
    /// its times: a delay would be another moment each time. Nor does its trace: a repeat may be sent by another.
    pub fn digest(&self) -> String {
        // With another item or event it is another task, else somebody would wait for one that nobody acks.
        match (&self.item, &self.event) {
            (None, None) => id::digest(&[&self.payload]),
            (Some(item), None) => id::digest(&[&self.payload, &item.to_string()]),
            (item, Some(event)) => {
                let item = item.as_ref().map(ToString::to_string).unwrap_or_default();
                id::digest(&[&self.payload, &item, &event.to_string()])
            }
        }
    }
}

/// Why a message can never be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, derive_more::Display)]
#[serde(rename_all = "snake_case")]
#[display(rename_all = "snake_case")]
pub enum Code {
    /// The body is not JSON.
    NotJson,
    /// The body, or its payload, is not an object.
    NotAnObject,
    /// A field that the contract does not know.
    UnknownField,
    /// A required field is absent.
    MissingField,
    /// A field has the wrong type or an impossible value.
    BadField,
    /// An object has two fields of one name.
    DuplicateField,
    /// A string holds NUL or half of a surrogate pair.
    BadText,
    /// A number is out of range.
    BadNumber,
    /// Arrays and objects lie too deep within each other.
    TooDeep,
    /// The id breaks the rules for ids.
    BadId,
    /// The item is none of any tracker's.
    BadItem,
    /// The list's name is none, or not the one that was meant.
    BadList,
    /// The event is none of any stream's, or not its sender's to give.
    BadEvent,
    /// A time is none, or is out of range.
    BadTime,
    /// Its sender may not say this.
    BadSender,
    /// Its list is closed.
    ListClosed,
    /// No route wants the payload.
    NoRoute,
    /// The route's `target` expression gave no string for it.
    BadTarget,
    /// The route's `ordered_by` gave no string for it, or its `sequence` no number.
    BadOrder,
    /// The route's `batch.weight` gave no whole number for it, or one that is over `max_weight`.
    BadWeight,
    /// The route's `priority` gave no whole number from 0 to 9 for it, and not null.
    BadPriority,
    /// The route's `collapse` gave neither a string for it nor null.
    BadCollapse,
    /// Its number in its lane is used, or the lane is numbered otherwise.
    BadSequence,
    /// Larger than a message, or than its route's batches, may be.
    TooLarge,
    /// Its id belongs to a task with other content.
    IdConflict,
    /// Handling it panicked: a bug.
    Panicked,
}

/// A refusal: the code, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Rejection {
    /// For programs.
    pub code: Code,
    /// For people.
    pub detail: String,
    /// The item that the message was for, if it says so: it fails with the message.
    pub item: Option<ItemId>,
    /// The event that it was, if it says so: it fails with the message.
    pub event: Option<Box<EventId>>,
}

impl Rejection {
    /// A refusal with its detail.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), item: None, event: None }
    }

    /// The same refusal, of a message that was for an item, or was an event.
    pub fn of(self, item: Option<ItemId>, event: Option<EventId>) -> Self {
        Self { item, event: event.map(Box::new), ..self }
    }
}

/// Parses a message body; `message_id` gives the id of a task that brought none.
///
/// # Errors
/// A [`Rejection`] that names the field and never its value.
pub fn parse(body: &str, message_id: &str) -> Result<TaskMessage, Rejection> {
    if body.len() > MAX_MESSAGE_BYTES {
        return Err(Rejection::new(Code::TooLarge, format!("the message is over {MAX_MESSAGE_BYTES} bytes")));
    }
    // Some editors and tools put a byte order mark before any text.
    let body = body.strip_prefix('\u{feff}').unwrap_or(body);
    sound(syntax(body)?)?;
    parse_stored(body, message_id)
}

/// As [`parse`], of a message of any size: one that we have stored already.
///
/// # Errors
/// As [`parse`].
pub fn parse_stored(body: &str, message_id: &str) -> Result<TaskMessage, Rejection> {
    let fields = object(body)?;
    let item =
        present(&fields, "item").map(|raw| serde_json::from_str::<String>(raw.get()).map(|text| ItemId::parse(&text)));
    let (item, bad_item) = match item {
        None => (None, None),
        Some(Ok(Ok(item))) => (Some(item), None),
        Some(Ok(Err(why))) => (None, Some(why.0)),
        Some(Err(_)) => (None, Some("must be a string")),
    };
    if let Some(why) = bad_item {
        return Err(Rejection::new(Code::BadItem, format!("`item`: {why}")));
    }
    let event = event(&fields).map_err(|rejection| rejection.of(item.clone(), None))?;
    message(&fields, message_id, item.clone(), event.clone()).map_err(|rejection| rejection.of(item, event))
}

fn message(
    fields: &BTreeMap<String, Box<RawValue>>,
    message_id: &str,
    item: Option<ItemId>,
    event: Option<EventId>,
) -> Result<TaskMessage, Rejection> {
    for name in fields.keys() {
        if !matches!(
            name.as_str(),
            "version" | "id" | "payload" | "item" | "list" | "event" | "not_before" | "expires_at" | TRACEPARENT
        ) {
            // Short: the detail travels beside the message, whose size leaves little room.
            let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
            let detail = format!(
                "the field `{shown}` is not one of `version`, `id`, `payload`, `item`, `list`, `event`, `not_before`, \
                 `expires_at`, `traceparent`"
            );
            return Err(Rejection::new(Code::UnknownField, detail));
        }
    }
    if let Some(version) = present(fields, "version")
        && version.get() != "1"
    {
        return Err(Rejection::new(Code::BadField, "`version` must be 1"));
    }
    let id = match present(fields, "id") {
        None => message_id.to_owned(),
        Some(raw) => serde_json::from_str::<String>(raw.get())
            .map_err(|_| Rejection::new(Code::BadId, "`id` must be a string"))?,
    };
    let id = TaskId::parse(&id).map_err(|detail| Rejection::new(Code::BadId, detail))?;
    let payload = fields
        .get("payload")
        .ok_or_else(|| Rejection::new(Code::MissingField, "the field `payload` is required"))?
        .get();
    if !payload.starts_with('{') {
        return Err(Rejection::new(Code::NotAnObject, "`payload` must be an object"));
    }
    let list = list(fields)?;
    if list.is_some() && event.is_some() {
        return Err(Rejection::new(Code::BadEvent, "a stream's event goes on at once: it waits on no list"));
    }
    let (not_before, expires_at) = (when(fields, "not_before")?, when(fields, "expires_at")?);
    if not_before.is_some() && event.is_some() {
        return Err(Rejection::new(Code::BadEvent, "a stream's event goes on at once: it waits for no time"));
    }
    let trace = present(fields, TRACEPARENT).and_then(|raw| serde_json::from_str(raw.get()).ok());
    Ok(TaskMessage { id, payload: compact(payload), item, list, event, not_before, expires_at, trace })
}

fn when(fields: &BTreeMap<String, Box<RawValue>>, name: &str) -> Result<Option<When>, Rejection> {
    let when = present(fields, name).map(When::parse).transpose();
    when.map_err(|why| Rejection::new(Code::BadTime, format!("`{name}`: {why}")))
}

fn event(fields: &BTreeMap<String, Box<RawValue>>) -> Result<Option<EventId>, Rejection> {
    let Some(raw) = present(fields, "event") else { return Ok(None) };
    let event = serde_json::from_str::<String>(raw.get())
        .map_err(|_| Rejection::new(Code::BadEvent, "`event` must be a string"))?;
    EventId::parse(&event).map(Some).map_err(|why| Rejection::new(Code::BadEvent, format!("`event`: {}", why.0)))
}

fn list(fields: &BTreeMap<String, Box<RawValue>>) -> Result<Option<ListId>, Rejection> {
    let Some(raw) = present(fields, "list") else { return Ok(None) };
    let name = serde_json::from_str::<String>(raw.get())
        .map_err(|_| Rejection::new(Code::BadList, "`list` must be a string"))?;
    ListId::parse(&name).map(Some).map_err(|why| Rejection::new(Code::BadList, format!("`list`: {why}")))
}

fn object(body: &str) -> Result<BTreeMap<String, Box<RawValue>>, Rejection> {
    // Whether it is JSON at all is asked first: serde's own message for a wrong type would quote the value.
    let not_an_object = |_| Rejection::new(Code::NotAnObject, "the body must be a JSON object");
    serde_json::from_str(syntax(body)?.get()).map_err(not_an_object)
}

fn syntax(body: &str) -> Result<&RawValue, Rejection> {
    serde_json::from_str(body).map_err(|error| {
        let place = format!("the body is not JSON (line {}, column {})", error.line(), error.column());
        Rejection::new(Code::NotJson, place)
    })
}

/// Refuses what no part of a message from outside may hold.
fn sound(whole: &RawValue) -> Result<(), Rejection> {
    json::check(whole.get()).map_err(|(flaw, place)| Rejection::new(code(flaw), format!("`{place}` {flaw}")))
}

const fn code(flaw: Flaw) -> Code {
    match flaw {
        Flaw::DuplicateField => Code::DuplicateField,
        Flaw::Nul | Flaw::UnpairedSurrogate => Code::BadText,
        Flaw::NumberOutOfRange => Code::BadNumber,
        Flaw::TooDeep => Code::TooDeep,
    }
}

fn present<'a>(fields: &'a BTreeMap<String, Box<RawValue>>, name: &str) -> Option<&'a RawValue> {
    fields.get(name).map(AsRef::as_ref).filter(|raw| raw.get() != "null")
}

#[cfg(test)]
mod tests;
