//! New elections and their messages, for all steps that send for a leader.

use crate::domain::message::{Elect, Election, MAX_TASKS};
use crate::domain::{Candidate, Target, Timestamp, WorkflowId};
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
            Election { workflow, target: target.clone(), tasks: tasks.to_vec(), since, attempt, signalled: None }
        })
        .collect()
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
