//! Records of the task queue.

use groupage_core::memory::Delivery;
use groupage_core::steps::register::Record;

/// A record that came for the first time.
pub fn first(message_id: &str, body: &str) -> Record {
    Record { message_id: message_id.to_owned(), receipt: message_id.to_owned(), received: 1, body: body.to_owned() }
}

/// One for each body. Message ids follow from the content, so that a repeat is one.
pub fn records(bodies: &[String]) -> Vec<Record> {
    bodies.iter().enumerate().map(|(n, body)| first(&format!("m{n}"), body)).collect()
}

/// The record of a message in hand.
pub(crate) fn received(delivery: &Delivery) -> Record {
    let Delivery { receipt, outgoing, received } = delivery.clone();
    Record { message_id: receipt.clone(), receipt, received, body: outgoing.body }
}
