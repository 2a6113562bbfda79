//! The messages that are in the queues' memory, as the journal knows them.
//!
//! A message that was put back after a restart has a new id in the queues' memory. Its receivers see what they would
//! have seen without the restart: the id under which it was sent, when that was, and how often it was received.

use std::collections::HashMap;

use rustack_sqs_model::types::Message;

use crate::journal::Number;

/// What a message was before this process put it back.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) id: String,
    /// Elsewhere it was moved to by this process, and counts anew.
    pub(super) queue: String,
    pub(super) receives: u32,
    pub(super) sent_ms: i64,
    pub(super) first_ms: Option<i64>,
    pub(super) deduplication: Option<String>,
    /// The ARN of the queue from which it was dead-lettered.
    pub(super) source: Option<String>,
}

#[derive(Debug)]
struct InMemory {
    number: Number,
    /// Of its last receive: an older one deletes nothing.
    receipt: Option<String>,
    before: Option<Box<Before>>,
}

/// Messages by their ids in the queues' memory. What a purge took stays until the end of the process.
#[derive(Debug, Default)]
pub(super) struct Live {
    next: i64,
    messages: HashMap<String, InMemory>,
    by_receipt: HashMap<String, String>,
}

impl Live {
    /// Notes a message that was just sent; `None` if it is there already, as a FIFO queue recognised it.
    pub(super) fn sent(&mut self, id: &str) -> Option<Number> {
        if self.messages.contains_key(id) {
            return None;
        }
        let number = Number(self.next);
        self.put(id.to_owned(), number, None);
        Some(number)
    }

    /// Notes a message that was put back.
    pub(super) fn put_back(&mut self, id: String, number: Number, before: Before) {
        self.put(id, number, Some(Box::new(before)));
    }

    /// Numbers go on behind this one.
    pub(super) fn skip(&mut self, number: Number) {
        self.next = self.next.max(number.0 + 1);
    }

    fn put(&mut self, id: String, number: Number, before: Option<Box<Before>>) {
        self.skip(number);
        self.messages.insert(id, InMemory { number, receipt: None, before });
    }

    /// Notes messages that a queue hands out, and makes them what they were. `shows_source` says whether their receiver
    /// asked for the queue that they were dead-lettered from.
    pub(super) fn received(&mut self, queue: &str, shows_source: bool, messages: &mut [Message]) -> Vec<Number> {
        messages.iter_mut().filter_map(|message| self.hand_out(queue, shows_source, message)).collect()
    }

    fn hand_out(&mut self, queue: &str, shows_source: bool, message: &mut Message) -> Option<Number> {
        let id = message.message_id.clone()?;
        let known = self.messages.get_mut(&id)?;
        if let Some(before) = &known.before {
            before.restore(queue, shows_source, message);
        }
        let receipt = message.receipt_handle.clone()?;
        if let Some(old) = known.receipt.replace(receipt.clone()) {
            self.by_receipt.remove(&old);
        }
        self.by_receipt.insert(receipt, id);
        Some(known.number)
    }

    /// Forgets the message that was last received with this receipt.
    pub(super) fn consumed(&mut self, receipt: &str) -> Option<Number> {
        let id = self.by_receipt.remove(receipt)?;
        self.messages.remove(&id).map(|message| message.number)
    }
}

impl Before {
    fn restore(&self, queue: &str, shows_source: bool, message: &mut Message) {
        message.message_id = Some(self.id.clone());
        let attributes = &mut message.attributes;
        let mut show = |name: &str, value: Option<String>| {
            if let (Some(shown), Some(value)) = (attributes.get_mut(name), value) {
                *shown = value;
            }
        };
        show("SentTimestamp", Some(self.sent_ms.to_string()));
        show("MessageDeduplicationId", self.deduplication.clone());
        if queue != self.queue {
            return;
        }
        show("ApproximateFirstReceiveTimestamp", self.first_ms.map(|at| at.to_string()));
        if let Some(count) = attributes.get_mut("ApproximateReceiveCount") {
            *count = count.parse::<u32>().unwrap_or_default().saturating_add(self.receives).to_string();
        }
        if let (true, Some(source)) = (shows_source, &self.source) {
            attributes.insert("DeadLetterQueueSourceArn".to_owned(), source.clone());
        }
    }
}
