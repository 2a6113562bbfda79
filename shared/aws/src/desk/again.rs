//! What is sent again for a message that ended: the same task, the tasks of a rest one by one, or nothing.

use std::collections::BTreeMap;

use groupage_core::domain::Rest;
use serde_json::value::RawValue;

/// Why a message cannot be sent again as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// Its queue would refuse it for its size.
    #[error("too_large: it is {bytes} bytes, and its queue takes {most}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// What the queue takes.
        most: usize,
    },
    /// It needs an id for that, which makes it too large.
    #[error(
        "too_large: with its id `{id}`, which it must bring along now, it is {bytes} bytes, and its queue takes {most}"
    )]
    TooLargeWithId {
        /// The id that it is known by.
        id: String,
        /// Its size with that.
        bytes: usize,
        /// What the queue takes.
        most: usize,
    },
}

/// The bodies to send again. A rest counts only when the stack itself says it, so its tasks go each for itself; they
/// all bring their ids.
///
/// # Errors
/// [`Unsendable`]: the message stays where it is.
pub(super) fn bodies_again(body: String, original: Option<String>, most: usize) -> Result<Vec<String>, Unsendable> {
    match Rest::parse(&body) {
        Some(rest) => rest.tasks().map(|task| body_again(task.to_owned(), None, most)).collect(),
        None => Ok(vec![body_again(body, original, most)?]),
    }
}

/// The body to send again to a queue that takes `most` bytes. A task that brought no id is known by its message's,
/// `original`, which sending it again would change: so it gets that id.
///
/// # Errors
/// [`Unsendable`]: the message stays where it is.
fn body_again(body: String, original: Option<String>, most: usize) -> Result<String, Unsendable> {
    let Some((at, id)) = place_of_id(&body).zip(original) else {
        let bytes = body.len();
        return if bytes > most { Err(Unsendable::TooLarge { bytes, most }) } else { Ok(body) };
    };
    let json = serde_json::Value::from(id.as_str());
    let with_id = match at {
        Place::First(at) => format!(r#"{}"id":{json},{}"#, &body[..at], &body[at..]),
        Place::Null(at) => format!("{}{json}{}", &body[..at], &body[at + NULL.len()..]),
    };
    let bytes = with_id.len();
    if bytes > most { Err(Unsendable::TooLargeWithId { id, bytes, most }) } else { Ok(with_id) }
}

/// Where a body's id belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// There is none: right behind the brace.
    First(usize),
    /// There is a `null`, which says no more: in its place.
    Null(usize),
}

const NULL: &str = "null";

/// Where the id of a task that brought none belongs; `None` if it brought one, or is no task.
fn place_of_id(body: &str) -> Option<Place> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(body).ok()?;
    if !fields.contains_key("payload") {
        return None;
    }
    match fields.get("id").map(|id| id.get()) {
        None => body.find('{').map(|brace| Place::First(brace + 1)),
        // The value is a part of the body itself.
        Some(id) if id == NULL => Some(Place::Null(id.as_ptr().addr() - body.as_ptr().addr())),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::rest::Stage;
    use groupage_core::domain::{Shard, task_message};

    use super::*;

    const MOST: usize = 1_000;

    fn again(body: &str) -> String {
        body_again(body.to_owned(), Some("m-1".to_owned()), MOST).unwrap()
    }

    #[test]
    fn a_task_without_an_id_keeps_the_one_of_its_message() {
        assert_eq!(again(r#"{ "payload": {"a": 1.0} }"#), r#"{"id":"m-1", "payload": {"a": 1.0} }"#);
    }

    #[test]
    fn an_id_that_is_null_is_none() {
        for (body, sent) in [
            (r#"{"id": null, "payload": {"id": null}}"#, r#"{"id": "m-1", "payload": {"id": null}}"#),
            (r#"{"payload":{"id":null},"\u0069d":null}"#, r#"{"payload":{"id":null},"\u0069d":"m-1"}"#),
            (r#"{"id":"x","payload":{},"id":null}"#, r#"{"id":"x","payload":{},"id":"m-1"}"#),
        ] {
            assert_eq!(again(body), sent);
        }
    }

    #[test]
    fn whatever_is_sent_again_is_the_task_that_it_was() {
        for body in [
            r#"{"payload":{"a":1}}"#,
            r#"{"id":null,"payload":{"a":1}}"#,
            r#"{"payload":{"a":1},"id":null,"item":"t:0:1"}"#,
            r#"{"id":"own","payload":{"a":1}}"#,
        ] {
            let first = task_message::parse(body, "m-1").unwrap();
            assert_eq!(task_message::parse(&again(body), "m-2").unwrap(), first, "{body}");
            assert_eq!(again(&again(body)), again(body), "{body}");
        }
    }

    #[test]
    fn the_tasks_of_a_rest_go_each_for_itself() {
        let tasks = [r#"{"id":"a","payload":{"n":1.0}}"#, r#"{"id":"b","payload":{}}"#].map(str::to_owned);
        let rest = Rest::body(&tasks, Stage::Failed, Shard::HOME);
        assert_eq!(bodies_again(rest, Some("m-1".to_owned()), MOST).unwrap(), tasks);
        let [task, _] = tasks;
        assert_eq!(bodies_again(task.clone(), Some("m-1".to_owned()), MOST).unwrap(), [task]);
    }

    #[test]
    fn whatever_else_ended_here_is_sent_as_it_is() {
        for body in [r#"{"id":"a","payload":{}}"#, r#"{"lead":{}}"#, "no json", "", "[1]", r#"{"id":null}"#] {
            assert_eq!(again(body), body);
        }
    }

    #[test]
    fn what_its_queue_would_refuse_for_its_size_stays() {
        let body = format!(r#"{{"payload":{{"a":"{}"}}}}"#, "x".repeat(MOST - r#"{"payload":{"a":""}}"#.len()));
        let refused = body_again(body.clone(), Some("m-1".to_owned()), MOST);
        let bytes = MOST + r#""id":"m-1","#.len();
        assert_eq!(refused, Err(Unsendable::TooLargeWithId { id: "m-1".to_owned(), bytes, most: MOST }));
        assert_eq!(body_again(body.clone(), None, MOST), Ok(body));
        let larger = "x".repeat(MOST + 1);
        assert_eq!(body_again(larger, None, MOST), Err(Unsendable::TooLarge { bytes: MOST + 1, most: MOST }));
    }
}
