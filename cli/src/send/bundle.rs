//! Messages in tens: what one `SendMessageBatch` takes.

use groupage_core::domain::{ItemId, TaskMessage};

/// SQS takes this many messages in one request.
pub const MAX_MESSAGES: usize = 10;

/// And this many bytes: a little less than the 256 KiB that every queue takes.
const MAX_BYTES: usize = 256_000;

/// One message of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The line it came from.
    pub line: u64,
    /// What is sent.
    pub body: String,
    /// Whether the task table did not know its task.
    pub new: bool,
    /// The item that its task is for.
    pub item: Option<ItemId>,
}

/// Makes bundles that SQS takes, in order. Each message is one that SQS takes alone.
pub fn bundles(tasks: Vec<(u64, TaskMessage, bool)>) -> Vec<Vec<Message>> {
    let mut bundles: Vec<Vec<Message>> = Vec::new();
    let mut bytes = 0;
    for (line, message, new) in tasks {
        let body = message.fitting_body().unwrap_or_else(|| message.body());
        let message = Message { line, body, new, item: message.item };
        let size = message.body.len();
        match bundles.last_mut() {
            Some(bundle) if bundle.len() < MAX_MESSAGES && bytes + size <= MAX_BYTES => {
                bytes += size;
                bundle.push(message);
            }
            Some(_) | None => {
                bytes = size;
                bundles.push(vec![message]);
            }
        }
    }
    bundles
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::task_message::parse;

    use super::*;

    fn task(line: u64, bytes: usize) -> (u64, TaskMessage, bool) {
        let payload = format!(r#"{{"payload":{{"x":"{}"}}}}"#, "x".repeat(bytes));
        (line, parse(&payload, &line.to_string()).unwrap(), true)
    }

    fn lines(bundles: &[Vec<Message>]) -> Vec<Vec<u64>> {
        bundles.iter().map(|bundle| bundle.iter().map(|message| message.line).collect()).collect()
    }

    #[test]
    fn a_bundle_holds_ten_messages() {
        let bundles = bundles((1..=25).map(|line| task(line, 1)).collect());
        assert_eq!(bundles.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    }

    #[test]
    fn a_bundle_holds_no_more_bytes_than_a_request_takes() {
        let bundles = bundles(vec![task(1, 100_000), task(2, 100_000), task(3, 100_000), task(4, 255_000), task(5, 1)]);
        assert_eq!(lines(&bundles), [vec![1, 2], vec![3], vec![4, 5]]);
        for bundle in bundles {
            assert!(bundle.iter().map(|message| message.body.len()).sum::<usize>() <= MAX_BYTES);
        }
    }

    #[test]
    fn nothing_makes_no_bundle() {
        assert!(bundles(Vec::new()).is_empty());
    }
}
