//! What registering comes to, record by record.

use std::collections::HashSet;

use crate::domain::Target;
use crate::domain::trace::Traces;
use crate::steps::Error;

/// What registering a set of records came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Records that have failed and must come again, by message id, with the error.
    pub failed: Vec<(String, Error)>,
    /// Tasks of rests that are not done and come again by a message of their own, by what stands for their message id.
    pub sent_back: Vec<(String, Error)>,
    /// Tasks written by this call.
    pub registered: usize,
    /// Records whose task was there already.
    pub repeated: usize,
    /// Records whose task was put on its list by this call.
    pub listed: usize,
    /// Records sent to the rejected queue.
    pub rejected: usize,
    /// Rests that go on gathering: these records are not done either, and nothing is wrong with them.
    pub held: Vec<String>,
    /// Tasks that their event has left, sent on to those of others.
    pub gathered: usize,
    /// Why rests could not gather; their tasks were put, to be elected.
    pub not_gathered: Vec<Error>,
    /// Tasks that go back to the queue: no time was left for them, or the index of their Target bears no more.
    pub yielded: usize,
    /// Of these, those for which no time was left.
    pub late: usize,
    /// Why the index bears no more, once for each Target.
    pub overloads: Vec<(Target, Error)>,
    /// Elections whose leader was told here: they wait, as a loser's.
    pub told: usize,
    /// Why a leader could not be told; these elections are held.
    pub not_told: Vec<Error>,
    /// Batches that were full at once, frozen without a leader.
    pub batches: usize,
    /// Their members.
    pub members: usize,
    /// Those of the tasks written by this call whose senders gave a trace.
    pub traces: Traces,
}

impl Report {
    /// The message ids of all records that must come again.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.failed.iter().map(|(message_id, _)| message_id).chain(&self.held).map(String::as_str)
    }

    /// Fails the records that equal one that failed, and names each record once.
    pub(super) fn fail_twins(&mut self, twins: Vec<(String, String)>) {
        let mut failed: HashSet<String> = self.failed.iter().map(|(record, _)| record.clone()).collect();
        for (twin, first) in twins {
            if failed.contains(&first) {
                failed.insert(twin.clone());
                self.failed.push((twin, Error::Conflict("an equal record before it failed")));
            }
        }
        self.failed.retain(|(record, _)| failed.remove(record));
    }
}
