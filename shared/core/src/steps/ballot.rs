//! New elections and their messages, for all steps that send for a leader.

use crate::domain::message::{Elect, Election, MAX_TASKS};
use crate::domain::{Candidate, Copies, Target, Timestamp, WorkflowId};
use crate::ports::{Env, Outgoing};

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
