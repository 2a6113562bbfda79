//! Filling the queues with what the journal holds.

use rustack_sqs_core::provider::SqsSnapshot;
use rustack_sqs_model::error::SqsError;
use rustack_sqs_model::input::{DeleteMessageInput, ReceiveMessageInput, SendMessageInput};

use super::ACCOUNT;
use super::kept::{Queues, digest};
use super::live::Before;
use crate::journal::{DEDUPLICATED_MS, Found, Kept, Number};
use crate::place::arn;

/// Makes the queues and puts their messages back, in the order in which they were sent.
///
/// # Errors
/// What the journal says makes no sense, as text.
pub(super) async fn restore(queues: &Queues, found: Found, now_ms: i64) -> Result<(), String> {
    let delays = delays(&found);
    let refused = |error: SqsError| format!("what it says of the queues is refused: {}", error.message);
    queues.provider.import_snapshot(SqsSnapshot { queues: found.queues }).await.map_err(refused)?;
    let (waiting, consumed): (Vec<_>, Vec<_>) = found.messages.into_iter().partition(|message| message.body.is_some());
    // Their queues must be empty: else another message would be deleted in their place.
    for message in consumed {
        queues.live().skip(Number(message.number));
        recognise(queues, &message).await.map_err(refused)?;
    }
    for message in waiting {
        let delay_ms =
            message.delay_ms.or_else(|| delays.iter().find(|(queue, _)| *queue == message.queue).map(|(_, ms)| *ms));
        let delay_s = remaining_s(message.sent_ms, delay_ms.unwrap_or(0), now_ms);
        put_back(queues, message, delay_s, now_ms).await?;
    }
    Ok(())
}

/// The delays that queues give to messages without one.
fn delays(found: &Found) -> Vec<(String, i64)> {
    let delay = |attribute: &String| attribute.parse::<i64>().map(|seconds| seconds * 1_000).ok();
    let of = |queue: &rustack_sqs_core::provider::SqsQueueSnapshot| {
        Some((queue.name.clone(), queue.attributes.get("DelaySeconds").and_then(delay)?))
    };
    found.queues.iter().filter_map(of).collect()
}

/// How long a message is still to wait, in whole seconds. A clock that was turned back makes no wait longer.
fn remaining_s(sent_ms: i64, delay_ms: i64, now_ms: i64) -> i32 {
    let remaining_ms = (sent_ms.saturating_add(delay_ms) - now_ms).clamp(0, delay_ms.max(0));
    i32::try_from(remaining_ms.unsigned_abs().div_ceil(1_000)).unwrap_or(i32::MAX)
}

/// Lets a FIFO queue know the deduplication id of a message that is consumed.
async fn recognise(queues: &Queues, message: &Kept) -> Result<(), SqsError> {
    let queue_url = url(&message.queue);
    let sent = SendMessageInput {
        queue_url: queue_url.clone(),
        message_body: "consumed".to_owned(),
        message_deduplication_id: message.deduplication.clone(),
        message_group_id: message.group.clone(),
        ..SendMessageInput::default()
    };
    queues.provider.send_message(sent).await?;
    let received = ReceiveMessageInput { queue_url: queue_url.clone(), ..ReceiveMessageInput::default() };
    for message in queues.provider.receive_message(received).await?.messages {
        let receipt_handle = message.receipt_handle.unwrap_or_default();
        queues.provider.delete_message(DeleteMessageInput { queue_url: queue_url.clone(), receipt_handle }).await?;
    }
    Ok(())
}

async fn put_back(queues: &Queues, message: Kept, delay_s: i32, now_ms: i64) -> Result<(), String> {
    let damaged = |why: &str| format!("message {} of queue {} {why}", message.id, message.queue);
    let is_fifo = message.deduplication.is_some();
    // An id that the queue no longer recognised may have been used again: two of them must not become one.
    let is_recognised = message.sent_ms.saturating_add(DEDUPLICATED_MS) > now_ms;
    let deduplication = message.deduplication.clone().filter(|_| is_recognised);
    let sent = SendMessageInput {
        queue_url: url(&message.queue),
        message_body: message.body.clone().unwrap_or_default(),
        delay_seconds: (!is_fifo).then_some(delay_s),
        message_deduplication_id: deduplication.or_else(|| is_fifo.then(|| message.id.clone())),
        message_group_id: message.group.clone(),
        message_attributes: message.attributes.clone(),
        ..SendMessageInput::default()
    };
    let sent =
        queues.provider.send_message(sent).await.map_err(|error| damaged(&format!("is refused: {}", error.message)))?;
    if digest(sent.md5_of_message_body.as_deref(), sent.md5_of_message_attributes.as_deref()) != message.digest {
        return Err(damaged("is not what its sender sent"));
    }
    let before = Before {
        id: message.id,
        receives: message.receives,
        sent_ms: message.sent_ms,
        first_ms: message.first_ms,
        deduplication: message.deduplication,
        source: message.source.as_deref().map(|source| arn(&url(source))),
        queue: message.queue,
    };
    queues.live().put_back(sent.message_id.unwrap_or_default(), Number(message.number), before);
    Ok(())
}

/// A URL that leads to a queue inside this process.
fn url(queue: &str) -> String {
    format!("http://127.0.0.1/{ACCOUNT}/{queue}")
}

#[cfg(test)]
mod tests {
    use super::remaining_s;

    #[test]
    fn what_is_left_of_a_delay_counts_from_the_sending() {
        assert_eq!(remaining_s(1_000, 60_000, 1_000), 60);
        assert_eq!(remaining_s(1_000, 60_000, 41_000), 20);
        assert_eq!(remaining_s(1_000, 60_000, 60_001), 1, "never early");
        assert_eq!(remaining_s(1_000, 60_000, 61_000), 0);
        assert_eq!(remaining_s(1_000, 60_000, 9_000_000), 0);
        assert_eq!(remaining_s(1_000, 60_000, 0), 60, "the clock was turned back");
        assert_eq!(remaining_s(1_000, 0, 0), 0);
    }
}
