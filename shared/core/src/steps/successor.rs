//! What follows an election's message, and how it is sent: those of all messages of an event together, since SQS is paid
//! by the request.

use std::collections::BTreeMap;

use super::ballot::keyed_election_messages;
use crate::domain::message::{Election, Group, Lead};
use crate::ports::{self, Outbox, Outgoing};

/// What an election's message is followed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Successor {
    /// The leader's own message, or one that wakes it.
    Lead(Lead),
    /// The election again, after this many milliseconds.
    Again(Election, u64),
    /// The same in a message of its own: it may have failed, and should it fail on, it takes no others into the
    /// dead-letter queue.
    Alone(Election, u64),
}

/// Sends the successors of the messages with these keys, those of all together since SQS is paid by the request.
/// Returns the keys of those with one that was not sent: they must come again. Leaders' messages go first: a message
/// that comes again because its leader's was refused has sent no election, and only a message whose elections went in
/// several packs can send some twice. That costs requests, and changes nothing.
pub async fn send_successors<K: Copy + PartialEq>(
    outbox: &impl Outbox,
    successors: Vec<(K, Successor)>,
) -> Vec<(K, ports::Error)> {
    let is_leader = |(_, successor): &(K, Successor)| matches!(successor, Successor::Lead(_));
    let (leaders, elections): (Vec<_>, Vec<_>) = successors.into_iter().partition(is_leader);
    let mut failed: Vec<(K, ports::Error)> = Vec::new();
    for mut successors in [leaders, elections] {
        successors.retain(|(key, _)| failed.iter().all(|(other, _)| other != key));
        if successors.is_empty() {
            continue;
        }
        let (keys, messages): (Vec<Vec<K>>, Vec<Outgoing>) = outgoing(successors).into_iter().unzip();
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

/// The messages of successors, each with the keys of those in it. Those that come back at the same moment share some.
pub(super) fn outgoing<K>(successors: Vec<(K, Successor)>) -> Vec<(Vec<K>, Outgoing)> {
    let mut messages = Vec::new();
    let mut again: BTreeMap<u64, Vec<(K, Election)>> = BTreeMap::new();
    for (key, successor) in successors {
        match successor {
            Successor::Lead(lead) => messages.push((vec![key], Outgoing::group(&Group::Lead(lead), 0))),
            Successor::Again(election, delay_ms) => again.entry(delay_ms).or_default().push((key, election)),
            Successor::Alone(election, delay_ms) => {
                messages.extend(keyed_election_messages([(key, election)], delay_ms))
            }
        }
    }
    messages.extend(again.into_iter().flat_map(|(delay_ms, elections)| keyed_election_messages(elections, delay_ms)));
    messages
}
