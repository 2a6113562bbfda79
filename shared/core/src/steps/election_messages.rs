//! New elections, the messages of elections, and what follows one: what follows all messages of an event goes together,
//! since SQS is paid by the request.

use std::collections::BTreeMap;

use crate::domain::message::{Elect, Election, Group, Lead, MAX_TASKS};
use crate::domain::{Candidate, Copies, Target, Timestamp, WorkflowId};
use crate::ports::{self, Env, Outbox, Outgoing};

/// The locks whose leaders gather from this shard, the home's first: a workflow with tasks in it may hold either.
pub(super) fn within_reach(target: &Target) -> impl Iterator<Item = Target> {
    let home = target.whole();
    let shard = (*target != home).then(|| target.clone());
    std::iter::once(home).chain(shard)
}

/// Elections for tasks of one Target, whose wait counts from `since`: one, or as many as their number needs.
pub(super) fn elections(
    env: &impl Env,
    target: &Target,
    tasks: &[Candidate],
    since: Timestamp,
    attempt: u32,
) -> Vec<Election> {
    tasks
        .chunks(MAX_TASKS)
        .map(|tasks| {
            let workflow = WorkflowId::new(env.fresh_id());
            let (target, tasks) = (target.clone(), tasks.to_vec());
            Election { workflow, target, tasks, since, attempt, signalled: None, copies: Copies::NONE }
        })
        .collect()
}

/// The messages of elections that follow a leader's message which got on no further.
pub(super) fn following_messages(elections: Vec<Election>, copies: Copies, now: Timestamp) -> Vec<Outgoing> {
    let (copies, delay_ms) = copies.and_one(0, now);
    let keyed = elections.into_iter().map(|election| ((), Election { copies, ..election }));
    keyed_election_messages(keyed, delay_ms).into_iter().map(|(_, message)| message).collect()
}

/// The messages of new elections.
pub(super) fn election_messages(elections: impl IntoIterator<Item = Election>) -> Vec<Outgoing> {
    let keyed = elections.into_iter().map(|election| ((), election));
    keyed_election_messages(keyed, 0).into_iter().map(|(_, message)| message).collect()
}

/// The messages of elections, each with the keys of those in it.
pub(super) fn keyed_election_messages<K>(
    elections: impl IntoIterator<Item = (K, Election)>,
    delay_ms: u64,
) -> Vec<(Vec<K>, Outgoing)> {
    let packs = Elect::packed(elections).into_iter();
    packs.map(|(keys, elect)| (keys, Outgoing::elect(&elect, delay_ms))).collect()
}

/// What an election's message is followed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextMessage {
    /// The leader's own message, or one that wakes it.
    Lead(Lead),
    /// The election again, after this many milliseconds.
    Again(Election, u64),
    /// The same in a message of its own: it may have failed, and should it fail on, it takes no others into the
    /// dead-letter queue.
    Alone(Election, u64),
}

/// Sends what follows the messages with these keys, that of all together since SQS is paid by the request.
/// Returns the keys of those with one that was not sent: they must come again. Leaders' messages go first: a message
/// that comes again because its leader's was refused has sent no election, and only a message whose elections went in
/// several packs can send some twice. That costs requests, and changes nothing.
pub async fn send_next<K: Copy + PartialEq>(
    outbox: &impl Outbox,
    next_messages: Vec<(K, NextMessage)>,
) -> Vec<(K, ports::Error)> {
    let is_leader = |(_, next_message): &(K, NextMessage)| matches!(next_message, NextMessage::Lead(_));
    let (leaders, elections): (Vec<_>, Vec<_>) = next_messages.into_iter().partition(is_leader);
    let mut failed: Vec<(K, ports::Error)> = Vec::new();
    for mut next_messages in [leaders, elections] {
        next_messages.retain(|(key, _)| failed.iter().all(|(other, _)| other != key));
        if next_messages.is_empty() {
            continue;
        }
        let (keys, messages): (Vec<Vec<K>>, Vec<Outgoing>) = outgoing(next_messages).into_iter().unzip();
        for (keys, sent) in keys.into_iter().zip(outbox.send(messages).await) {
            let Err(error) = sent else { continue };
            for key in keys {
                if failed.iter().all(|(other, _)| *other != key) {
                    failed.push((key, error.clone()));
                }
            }
        }
    }
    failed
}

/// Packs next messages into few, each with the keys of those in it. Those that come back at the same moment share some.
pub(super) fn outgoing<K>(next_messages: Vec<(K, NextMessage)>) -> Vec<(Vec<K>, Outgoing)> {
    let mut messages = Vec::new();
    let mut again: BTreeMap<u64, Vec<(K, Election)>> = BTreeMap::new();
    for (key, next_message) in next_messages {
        match next_message {
            NextMessage::Lead(lead) => messages.push((vec![key], Outgoing::group(&Group::Lead(lead), 0))),
            NextMessage::Again(election, delay_ms) => again.entry(delay_ms).or_default().push((key, election)),
            NextMessage::Alone(election, delay_ms) => {
                messages.extend(keyed_election_messages([(key, election)], delay_ms))
            }
        }
    }
    messages.extend(again.into_iter().flat_map(|(delay_ms, elections)| keyed_election_messages(elections, delay_ms)));
    messages
}
