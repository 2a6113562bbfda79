//! Records on their way into an event: pure, with the clock as an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use aws_lambda_events::event::sqs::SqsMessage;

/// The most bytes of message bodies in one event: Lambda's payload limit, which it counts more exactly.
const MAX_BYTES: usize = 6 * 1024 * 1024;

/// The records that were received and are in no event yet, oldest first.
#[derive(Debug)]
pub(super) struct Gathered {
    batch_size: usize,
    window: Duration,
    records: VecDeque<(Instant, SqsMessage)>,
    bytes: usize,
}

impl Gathered {
    pub(super) fn new(batch_size: usize, window: Duration) -> Self {
        Self { batch_size, window, records: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, record: SqsMessage, now: Instant) {
        self.bytes += size(&record);
        self.records.push_back((now, record));
    }

    /// How many more records the next event has room for.
    pub(super) fn room(&self) -> usize {
        if self.bytes >= MAX_BYTES { 0 } else { self.batch_size.saturating_sub(self.records.len()) }
    }

    /// From when on the next event may go: at once if it is full, else when its oldest record has waited for the
    /// window. `None` while there is no record.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let (since, _) = self.records.front()?;
        Some(if self.room() == 0 { now } else { *since + self.window })
    }

    /// Takes the next event's records; none if there are none.
    pub(super) fn cut(&mut self) -> Vec<SqsMessage> {
        let mut event = Vec::new();
        let mut bytes = 0;
        while let Some((_, record)) = self.records.front() {
            bytes += size(record);
            // A first record always goes: no message is larger than an event.
            if event.len() == self.batch_size || (bytes > MAX_BYTES && !event.is_empty()) {
                break;
            }
            event.extend(self.records.pop_front().map(|(_, record)| record));
        }
        self.bytes -= event.iter().map(size).sum::<usize>();
        event
    }
}

fn size(record: &SqsMessage) -> usize {
    record.body.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(1);

    fn record(bytes: usize) -> SqsMessage {
        let mut record = SqsMessage::default();
        record.body = Some("x".repeat(bytes));
        record
    }

    #[test]
    fn an_event_is_due_when_its_oldest_record_has_waited_for_the_window() {
        let start = Instant::now();
        let mut gathered = Gathered::new(3, WINDOW);
        assert_eq!(gathered.due(start), None);
        gathered.push(record(1), start);
        gathered.push(record(1), start + WINDOW / 2);
        assert_eq!(gathered.due(start + WINDOW / 2), Some(start + WINDOW));
        assert_eq!(gathered.cut().len(), 2);
        assert_eq!(gathered.due(start), None);
        assert!(gathered.cut().is_empty());
    }

    #[test]
    fn a_full_event_is_due_at_once_and_the_rest_keeps_its_age() {
        let start = Instant::now();
        let mut gathered = Gathered::new(2, WINDOW);
        for age in 0..3 {
            gathered.push(record(1), start + WINDOW * age);
        }
        assert_eq!(gathered.room(), 0);
        assert_eq!(gathered.due(start), Some(start));
        assert_eq!(gathered.cut().len(), 2);
        assert_eq!(gathered.room(), 1);
        assert_eq!(gathered.due(start), Some(start + WINDOW * 3));
    }

    #[test]
    fn an_event_holds_no_more_bytes_than_lambda_takes() {
        let start = Instant::now();
        let mut gathered = Gathered::new(1000, WINDOW);
        let records = MAX_BYTES / 250_000 + 1;
        for _ in 0..records {
            gathered.push(record(250_000), start);
        }
        assert_eq!(gathered.room(), 0);
        assert_eq!(gathered.cut().len(), records - 1);
        assert_eq!(gathered.cut().len(), 1);
        assert_eq!(gathered.room(), 1000);
    }
}
