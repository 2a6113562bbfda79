//! What a plan holds, sent and acked.

use futures::future::join;
use futures::{StreamExt, stream};

use super::plan::{self, Asking, Plan};
use super::{Register, Report};
use crate::domain::message::{Election, MAX_TASKS};
use crate::domain::task::Candidate;
use crate::ports::{Batches, Env, Inbox, Lanes, Lists, Locks, Outbox, Outgoing, Streams, Tasks, Trackers};
use crate::steps::elect::ElectLeader;
use crate::steps::election_messages::{NextMessage, outgoing};
use crate::steps::election_messages::{elections, keyed_election_messages};
use crate::steps::{CONCURRENCY, Error, lease_ms};

/// After so long, in milliseconds, no leader is told any more: what makes one lock slow makes the next one slow.
const PATIENCE_MS: u64 = 2_000;

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
        // Nothing that is ready waits for a lock of which it knows nothing.
        let (refused, asked) = join(self.send(messages), self.ask(asked.collect(), report)).await;
        report.failed.extend(refused);
        report.failed.extend(self.send(asked).await);
        if !(acks.is_empty() && lost.is_empty()) {
            let unacked = self.ack(acks, lost).await;
            // The record comes again, and its message is rejected then.
            rejected.retain(|(rejected, _)| !unacked.iter().any(|(record, _)| record == rejected));
            report.failed.extend(unacked);
        }
        report.rejected = rejected.len();
        let rejected = rejected.into_iter().map(|(record, message)| (vec![record], message)).collect();
        report.failed.extend(self.send(rejected).await);
    }

    /// The messages of elections, each with the records of its tasks. Where a leader is likely to lead, it is told here
    /// of the tasks: then the election's message, whose reader would do just that, need not be sent.
    async fn ask(&self, asked: Vec<(Vec<String>, Election)>, report: &mut Report) -> Vec<(Vec<String>, Outgoing)> {
        // One draw, as elect-leader has one for all messages of an event: those that lose come back together.
        let elect = &ElectLeader { store: self.store, env: self.env, routes: self.routes, draw: self.env.random() };
        let begun = self.env.now();
        let asking = stream::iter(asked).map(|(records, election)| async move {
            let has_time = self.env.now().since(begun) <= PATIENCE_MS && !self.is_late();
            let told = match has_time && self.may_be_led(&election) {
                true => elect.tell(&election).await,
                false => Ok(None),
            };
            (records, election, told)
        });
        let asked: Vec<_> = asking.buffered(CONCURRENCY).collect().await;
        let (mut held, mut told) = (Vec::new(), Vec::new());
        for (records, election, later) in asked {
            match later {
                Ok(Some((again, delay_ms))) => told.push((records, NextMessage::Again(again, delay_ms))),
                Ok(None) => held.push((records, election)),
                Err(error) => {
                    report.not_told.push(error);
                    held.push((records, election));
                }
            }
        }
        report.told += told.len();
        let messages = keyed_election_messages(held, 0).into_iter().chain(outgoing(told));
        messages.map(|(records, message)| (records.concat(), message)).collect()
    }

    /// Whether a leader may lead that was asked for before this election, by a lock that is the only one.
    fn may_be_led(&self, election: &Election) -> bool {
        let Election { target, .. } = election;
        let now = self.env.now();
        self.routes.get(&target.route()).filter(|route| target.stands_alone(route.shards)).is_some_and(|route| {
            let lease = lease_ms(route.for_target(target).batch.wait_ms);
            self.asked.may_be_led(target, now.plus_ms(lease), now)
        })
    }

    /// Sends messages; returns the records of those that were refused.
    async fn send(&self, messages: Vec<(Vec<String>, Outgoing)>) -> Vec<(String, Error)> {
        let (records, outgoing): (Vec<Vec<String>>, Vec<Outgoing>) = messages.into_iter().unzip();
        let sent = records.into_iter().zip(self.queues.send(outgoing).await);
        let refused = sent.filter_map(|(records, sent)| Some((records, sent.err()?)));
        refused
            .flat_map(|(records, error)| records.into_iter().map(move |record| (record, error.clone().into())))
            .collect()
    }
}
