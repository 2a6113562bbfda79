//! A transactional outbox (C. Richardson, *Microservices Patterns*) of notices of outages: that one began, and ended.
//!
//! The write that opens or closes a breaker adds what is to be sent. A worker sends it, and then writes that it is
//! sent. If that worker dies in between, the next call behind the limiter sends it: twice perhaps, under one id.

use serde::{Deserialize, Serialize};

use crate::domain::outcome::Reason;
use crate::domain::time::Timestamp;

/// Outages of which notices are unsent, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OutageOutbox {
    /// One for each outage.
    pub entries: Vec<OutboxEntry>,
}

/// An outage, and how much of it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct OutboxEntry {
    /// The time of the first failure. With the scope of its limiter it names the outage.
    pub since: Timestamp,
    /// The time when the breaker opened.
    pub began: Timestamp,
    /// The reason of the first failure.
    pub reason: Reason,
    /// Set if people are notified that it began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_notified: bool,
    /// The time when a call was answered, or a person let calls go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The queue has refused it: not before this time again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

/// The event that a notice tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A downstream counts as away.
    Began,
    /// It answers again.
    Ended,
}

/// The result of sending one notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The [first failure](OutboxEntry::since) of its outage.
    pub since: Timestamp,
    /// The event that it tells of.
    pub event: Event,
    /// Set if its queue took it.
    pub is_sent: bool,
}

/// The most outages that have room; if there are more, the oldest is left out.
const MOST: usize = 16;
/// A notice that its queue has refused is sent again after so long at the earliest, in milliseconds.
const RETRY_MS: u64 = 60_000;

impl OutboxEntry {
    /// Returns when that happened.
    #[must_use]
    pub fn at(&self, event: Event) -> Timestamp {
        match event {
            Event::Began => self.began,
            Event::Ended => self.ended.unwrap_or(self.began),
        }
    }

    /// Returns what is to be sent next: first that it began, and then that it has ended.
    #[must_use]
    pub fn unsent(&self) -> Option<Event> {
        if self.is_notified { self.ended.map(|_| Event::Ended) } else { Some(Event::Began) }
    }

    /// Returns what is to be sent now.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Option<Event> {
        self.unsent().filter(|_| self.retry_at.is_none_or(|retry_at| retry_at <= now))
    }
}

impl OutageOutbox {
    /// Returns whether something is to be sent now.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.entries.iter().any(|entry| entry.due(now).is_some())
    }

    /// Adds that an outage began.
    pub(super) fn began(&mut self, since: Timestamp, reason: Reason, now: Timestamp) {
        let entry = OutboxEntry { since, began: now, reason, is_notified: false, ended: None, retry_at: None };
        self.entries.push(entry);
        self.entries.drain(..self.entries.len().saturating_sub(MOST));
    }

    /// Adds that the outage has ended which lasted.
    pub(super) fn ended(&mut self, now: Timestamp) {
        for entry in &mut self.entries {
            entry.ended.get_or_insert(now);
        }
    }

    /// Takes out what was sent.
    pub(super) fn sent(&mut self, sent: &[Sent], now: Timestamp) {
        self.entries.retain_mut(|entry| {
            let of = |sent: &&Sent| sent.since == entry.since && Some(sent.event) == entry.unsent();
            match sent.iter().find(of) {
                None => {}
                Some(Sent { is_sent: false, .. }) => entry.retry_at = Some(now.plus_ms(RETRY_MS)),
                Some(Sent { event: Event::Began, .. }) => (entry.is_notified, entry.retry_at) = (true, None),
                Some(Sent { event: Event::Ended, .. }) => return false,
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An outbox with an outage that began then.
    fn began(since: u64) -> OutageOutbox {
        let mut outbox = OutageOutbox::default();
        outbox.began(Timestamp(since), Reason::new("http_503"), Timestamp(since + 5));
        outbox
    }

    fn due(outbox: &OutageOutbox, now: u64) -> Vec<(u64, Event)> {
        outbox.entries.iter().filter_map(|entry| Some((entry.since.0, entry.due(Timestamp(now))?))).collect()
    }

    fn send(outbox: &mut OutageOutbox, since: u64, event: Event, is_sent: bool) {
        outbox.sent(&[Sent { since: Timestamp(since), event, is_sent }], Timestamp(10));
    }

    #[test]
    fn outages_are_notified_in_their_order_and_of_each_that_it_began_before_that_it_ended() {
        let mut outbox = began(1);
        outbox.ended(Timestamp(20));
        outbox.ended(Timestamp(30));
        assert_eq!(outbox.entries[0].at(Event::Ended), Timestamp(20), "it has ended once");
        outbox.began(Timestamp(30), Reason::new("http_503"), Timestamp(35));
        assert_eq!(due(&outbox, 40), [(1, Event::Began), (30, Event::Began)]);
        send(&mut outbox, 1, Event::Began, true);
        send(&mut outbox, 1, Event::Began, true);
        assert_eq!(due(&outbox, 40), [(1, Event::Ended), (30, Event::Began)], "a repeat says nothing of its end");
        send(&mut outbox, 1, Event::Ended, true);
        send(&mut outbox, 30, Event::Began, true);
        assert_eq!((due(&outbox, 40), outbox.entries.len()), (vec![], 1), "it lasts");
    }

    #[test]
    fn a_notice_that_its_queue_refuses_is_sent_again_later() {
        let mut outbox = began(1);
        send(&mut outbox, 1, Event::Began, false);
        assert_eq!((due(&outbox, 10 + RETRY_MS - 1), due(&outbox, 10 + RETRY_MS)), (vec![], vec![(1, Event::Began)]));
    }

    #[test]
    fn an_outbox_has_room_for_some_outages() {
        let mut outbox = began(0);
        (1..MOST as u64 + 3).for_each(|n| outbox.began(Timestamp(n), Reason::new("http_503"), Timestamp(n)));
        assert_eq!((outbox.entries.len(), outbox.entries[0].since), (MOST, Timestamp(3)));
    }
}
