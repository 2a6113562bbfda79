//! What a plan holds, sent and acked.

use futures::{StreamExt, stream};

use super::plan::{self, Asking, Plan};
use super::{Register, Report};
use crate::domain::message::{Election, MAX_TASKS};
use crate::domain::task::Candidate;
use crate::ports::{Batches, Env, Inbox, Lanes, Lists, Locks, Outbox, Outgoing, Streams, Tasks, Trackers};
use crate::steps::ballot::{elections, keyed_election_messages};
use crate::steps::elect::{ElectLeader, Successor, outgoing};
use crate::steps::{CONCURRENCY, lease_ms};

impl<S: Tasks + Locks + Batches + Lanes + Trackers + Lists + Streams, Q: Outbox + Inbox, E: Env> Register<'_, S, Q, E> {
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
        messages.extend(self.ask(asked.collect(), report).await);
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

    /// The messages of elections, each with the records of its tasks. Where a leader is likely to lead, it is told here
    /// of the tasks: then the election's message, whose reader would do just that, need not be sent.
    async fn ask(&self, asked: Vec<(Vec<String>, Election)>, report: &mut Report) -> Vec<(Vec<String>, Outgoing)> {
        // One draw, as elect-leader has one for all messages of an event: those that lose come back together.
        let elect = &ElectLeader { store: self.store, env: self.env, routes: self.routes, draw: self.env.random() };
        let asking = stream::iter(asked).map(|(records, election)| async move {
            let told = match self.may_be_led(&election) && !self.is_late() {
                true => elect.tell(&election).await,
                false => None,
            };
            (records, election, told)
        });
        let asked: Vec<_> = asking.buffered(CONCURRENCY).collect().await;
        let (mut held, mut told) = (Vec::new(), Vec::new());
        for (records, election, later) in asked {
            match later {
                Some((again, delay_ms)) => told.push((records, Successor::Again(again, delay_ms))),
                None => held.push((records, election)),
            }
        }
        report.told += told.len();
        let messages = keyed_election_messages(held, 0).into_iter().chain(outgoing(told));
        messages.map(|(records, message)| (records.concat(), message)).collect()
    }

    /// Whether a leader may lead that was asked for before this election.
    fn may_be_led(&self, election: &Election) -> bool {
        let Election { target, .. } = election;
        let now = self.env.now();
        self.routes.get(&target.route()).is_some_and(|route| {
            let lease = lease_ms(route.for_target(target).batch.wait_ms);
            self.asked.may_be_led(&target.whole(), now.plus_ms(lease), now)
        })
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
