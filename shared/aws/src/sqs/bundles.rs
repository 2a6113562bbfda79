//! Messages packed into requests.

use groupage_core::ports::Outgoing;

use super::STRING;

/// `SendMessageBatch` takes this many messages.
pub(super) const MAX_ENTRIES: usize = 10;
/// And this many bytes, bodies and attributes together: a little less than the 256 KiB that every queue takes.
const MAX_BYTES: usize = 256_000;

/// Messages for one queue that go in one request, each with its place among all.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    pub(super) messages: Vec<(usize, Outgoing)>,
    pub(super) bytes: usize,
}

/// The requests that messages for one queue go out in, each with its bytes.
pub fn requests(messages: Vec<Outgoing>) -> Vec<(Vec<Outgoing>, u64)> {
    let bundles = bundles(messages.into_iter().enumerate().collect());
    let request = |bundle: Bundle| {
        let messages = bundle.messages.into_iter().map(|(_, message)| message).collect();
        (messages, bundle.bytes as u64)
    };
    bundles.into_iter().map(request).collect()
}

/// Packs messages for one queue into as few requests as their order allows.
pub(super) fn bundles(messages: Vec<(usize, Outgoing)>) -> Vec<Bundle> {
    let mut bundles: Vec<Bundle> = Vec::new();
    for (at, message) in messages {
        let bytes = message_bytes(&message);
        match bundles.last_mut() {
            Some(last) if last.messages.len() < MAX_ENTRIES && last.bytes + bytes <= MAX_BYTES => {
                last.messages.push((at, message));
                last.bytes += bytes;
            }
            // One that is too large by itself goes alone, and SQS refuses it alone.
            Some(_) | None => bundles.push(Bundle { messages: vec![(at, message)], bytes }),
        }
    }
    bundles
}

/// A message's size as SQS counts it: the body, and each attribute's name, type and value.
fn message_bytes(message: &Outgoing) -> usize {
    let attributes = message.attributes.iter().map(|(name, value)| name.len() + STRING.len() + value.len());
    message.body.len() + attributes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqs::tests::message;

    fn packed(sizes: &[usize]) -> Vec<usize> {
        let messages = sizes.iter().map(|size| message(*size)).enumerate().collect();
        bundles(messages).iter().map(|bundle| bundle.messages.len()).collect()
    }

    #[test]
    fn a_request_takes_ten_messages_or_256_000_bytes() {
        assert_eq!(packed(&[1; 23]), [10, 10, 3]);
        assert_eq!(packed(&[100_000, 100_000, 56_000, 1]), [3, 1]);
        assert_eq!(packed(&[300_000, 1, 1]), [1, 2]);
        assert_eq!(packed(&[]), Vec::<usize>::new());
    }

    #[test]
    fn attributes_count_with_name_type_and_value() {
        let attributes = vec![("Reason", "not_json".to_owned())];
        assert_eq!(message_bytes(&Outgoing { attributes, ..message(3) }), 3 + 6 + 6 + 8);
    }
}
