//! What is left of an event when its full batches are carved, on its way to what is left of other events.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::task_message::MAX_MESSAGE_BYTES;

/// To register-task, in its FIFO queue's group of one Target: task messages of that Target that fill no batch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    rest: Vec<Box<RawValue>>,
    waited: bool,
}

/// How every such message begins, and no task message does.
const BEGINNING: &str = r#"{"rest":["#;
/// More than surrounds the task messages, in bytes.
const FRAME_BYTES: usize = 64;

impl Rest {
    /// Whether one message takes so many task messages of so many bytes together.
    #[must_use]
    pub const fn holds(tasks: usize, bytes: usize) -> bool {
        // A comma for each.
        bytes + tasks + FRAME_BYTES <= MAX_MESSAGE_BYTES
    }

    /// The message with these task messages; `waited` says that they have waited for those of other events.
    #[must_use]
    pub fn body(tasks: &[String], waited: bool) -> String {
        format!(r#"{BEGINNING}{}],"waited":{waited}}}"#, tasks.join(","))
    }

    /// Reads a message, unless it is a task's own. What is malformed is left to be refused as a task.
    #[must_use]
    pub fn parse(body: &str) -> Option<Self> {
        body.starts_with(BEGINNING).then(|| serde_json::from_str(body).ok()).flatten()
    }

    /// Whether its tasks have waited for those of other events.
    #[must_use]
    pub const fn waited(&self) -> bool {
        self.waited
    }

    /// Its task messages.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        self.rest.iter().map(|task| task.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_messages_come_out_as_they_went_in() {
        let tasks = [r#"{"id":"a","payload":{"n":1.00}}"#, r#"{"id":"b","payload":{"s":"\u0000é"}}"#];
        let rest = Rest::parse(&Rest::body(&tasks.map(str::to_owned), true)).unwrap();
        assert!(rest.waited());
        assert_eq!(rest.tasks().collect::<Vec<_>>(), tasks);
    }

    #[test]
    fn a_message_holds_what_it_says_it_holds() {
        let task = format!(r#"{{"id":"a","payload":{{"x":"{}"}}}}"#, "x".repeat(995));
        let count = (1..).take_while(|count| Rest::holds(*count, count * task.len())).count();
        assert!(count > 200);
        assert!(Rest::body(&vec![task; count], false).len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn a_task_or_nonsense_is_no_rest() {
        for body in [r#"{"id":"a","payload":{}}"#, r#"{"rest":[{}]}"#, r#"{"rest":[nonsense],"waited":true}"#, ""] {
            assert!(Rest::parse(body).is_none(), "{body}");
        }
    }
}
