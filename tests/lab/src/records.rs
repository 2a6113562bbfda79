//! Records of the task queue.

use groupage_core::domain::TraceParent;
use groupage_core::domain::sender::Sender;
use groupage_core::domain::trace::TRACEPARENT;
use groupage_core::memory::Delivery;
use groupage_core::steps::register::Record;

/// A record that came for the first time.
pub fn first(message_id: &str, body: &str) -> Record {
    let (message_id, body) = (message_id.to_owned(), body.to_owned());
    Record { receipt: message_id.clone(), message_id, received: 1, sender: Sender::Stack, body, trace: None }
}

/// One for each body. Message ids follow from the content, so that a repeat is one.
pub fn records(bodies: &[String]) -> Vec<Record> {
    bodies.iter().enumerate().map(|(n, body)| first(&format!("m{n}"), body)).collect()
}

/// The record of a message in hand.
pub(crate) fn received(delivery: &Delivery) -> Record {
    let Delivery { receipt, outgoing, received } = delivery.clone();
    let trace = outgoing.attributes.iter().find(|(name, _)| *name == TRACEPARENT);
    let trace = trace.and_then(|(_, value)| TraceParent::parse(value).ok());
    Record { message_id: receipt.clone(), receipt, received, sender: Sender::Stack, body: outgoing.body, trace }
}
