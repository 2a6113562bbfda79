//! What a plan holds, sent and acked.

use super::plan::{self, Asking, Plan};
use super::{Register, Report};
use crate::domain::message::MAX_TASKS;
use crate::domain::task::Candidate;
use crate::ports::{Batches, Env, Inbox, Lanes, Lists, Outbox, Outgoing, Streams, Tasks, Trackers};
use crate::steps::ballot::{elections, keyed_election_messages};

impl<S: Tasks + Batches + Lanes + Trackers + Lists + Streams, Q: Outbox + Inbox, E: Env> Register<'_, S, Q, E> {
    /// Acks and sends everything the plan holds; what could not be acked or sent fails the records that need it. What
    /// drives tasks on goes first: no tracker keeps it waiting.
    pub(super) async fn carry_out(&self, plan: Plan, report: &mut Report) {
        let Plan { waiting, mut due, mut messages, mut rejected, acks, lost, .. } = plan;
        // What waits for its window falls due together, by sweep: with messages, the latest of it would go ahead alone.
        due.retain(|(_, target), _| self.routes.closing(target).is_none());
        messages.extend(plan::due_messages(due, self.env.now()));
        let asked = waiting.into_iter().flat_map(|(target, Asking { since, tasks })| {
            let (records, candidates): (Vec<String>, Vec<Candidate>) = tasks.into_iter().unzip();
            let records: Vec<Vec<String>> = records.chunks(MAX_TASKS).map(<[_]>::to_vec).collect();
            records.into_iter().zip(elections(self.env, &target, &candidates, since, 0))
        });
        messages.extend(
            keyed_election_messages(asked, 0).into_iter().map(|(records, message)| (records.concat(), message)),
        );
        self.send(messages, report).await;
        if !(acks.is_empty() && lost.is_empty()) {
            let unacked = self.ack(acks, lost).await;
            // The record comes again, and its message is rejected then.
            rejected.retain(|(rejected, _)| !unacked.iter().any(|(record, _)| record == rejected));
            report.failed.extend(unacked);
        }
        report.rejected = rejected.len();
        self.send(rejected.into_iter().map(|(record, message)| (vec![record], message)).collect(), report).await;
    }

    async fn send(&self, messages: Vec<(Vec<String>, Outgoing)>, report: &mut Report) {
        let (records, outgoing): (Vec<Vec<String>>, Vec<Outgoing>) = messages.into_iter().unzip();
        for (records, sent) in records.into_iter().zip(self.queues.send(outgoing).await) {
            if let Err(error) = sent {
                report.failed.extend(records.into_iter().map(|record| (record, error.clone().into())));
            }
        }
    }
}
