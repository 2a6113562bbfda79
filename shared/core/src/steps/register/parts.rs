//! An event that is more than one invocation gets through.
//!
//! A function that runs out of time deletes nothing, and its whole event comes again. So no put begins after the
//! deadline. What is left goes back: waiting tasks in few messages (module `yielding`), any other record as it came.
//! Records that come again were too much once, or one of them ended the function. The step works through them in parts,
//! each to its end before the next one begins, and each time another part comes first. So each invocation leaves fewer
//! records, and a record that ends the function delays only the records beside it.

use super::{Record, Register, Report};
use crate::ports::Env;

/// Records of one part, of those that come again.
const PART: usize = 100;

/// The parts of an event. Records that came for the first time are one part, so that many full batches may be among
/// them. A small event keeps its order: a FIFO queue's events are small.
pub(super) fn parts(records: Vec<Record>) -> Vec<Vec<Record>> {
    if records.len() <= PART {
        return vec![records];
    }
    let (first, mut again): (Vec<Record>, Vec<Record>) = records.into_iter().partition(|record| record.received <= 1);
    let times = again.iter().map(|record| record.received).max().unwrap_or_default() as usize;
    let mut parts = Vec::new();
    while !again.is_empty() {
        let rest = again.split_off(PART.min(again.len()));
        parts.push(std::mem::replace(&mut again, rest));
    }
    if !parts.is_empty() {
        let begins = times % parts.len();
        parts.rotate_left(begins);
    }
    if !first.is_empty() {
        parts.insert(0, first);
    }
    parts
}

impl<S, Q, E: Env> Register<'_, S, Q, E> {
    /// Whether nothing more is to be begun.
    pub(super) fn is_late(&self) -> bool {
        self.env.now() >= self.deadline
    }
}

impl Report {
    /// Adds what came of another part.
    pub(super) fn add(&mut self, other: Self) {
        let Self { failed, sent_back, registered, repeated, listed, rejected, held, .. } = other;
        let Self { gathered, not_gathered, yielded, late, overloads, .. } = other;
        let Self { told, not_told, batches, members, traces, .. } = other;
        self.failed.extend(failed);
        self.sent_back.extend(sent_back);
        self.registered += registered;
        self.repeated += repeated;
        self.listed += listed;
        self.rejected += rejected;
        self.held.extend(held);
        self.gathered += gathered;
        self.not_gathered.extend(not_gathered);
        self.yielded += yielded;
        self.told += told;
        self.not_told.extend(not_told);
        self.late += late;
        self.overloads.extend(overloads);
        self.traces.extend(traces);
        self.batches += batches;
        self.members += members;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sender::Sender;

    fn record(n: usize, received: u32) -> Record {
        let (message_id, receipt, body) = (n.to_string(), String::new(), String::new());
        Record { message_id, receipt, received, sender: Sender::Stack, body, trace: None }
    }

    #[test]
    fn what_comes_again_is_worked_through_in_parts_behind_what_is_new() {
        let records = (0..450).map(|n| record(n, if n % 2 == 0 { 1 } else { 2 })).collect();
        let parts = parts(records);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [225, 25, 100, 100]);
        assert!(parts[0].iter().all(|record| record.received == 1));
    }

    #[test]
    fn another_part_comes_first_each_time() {
        let first = |times| parts((0..1_000).map(|n| record(n, times)).collect())[0][0].message_id.clone();
        let firsts: std::collections::BTreeSet<String> = (2..12).map(first).collect();
        assert_eq!(firsts.len(), 10);
    }

    #[test]
    fn a_small_event_stays_in_its_order() {
        let records: Vec<Record> = (0..10).map(|n| record(n, 1 + u32::from(n < 5))).collect();
        let ids: Vec<String> = parts(records).concat().into_iter().map(|record| record.message_id).collect();
        assert_eq!(ids, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    }
}
