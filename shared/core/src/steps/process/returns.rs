//! Members that failed for now, and go back to waiting: their messages, and what those do.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use crate::domain::batch::{Assumes, Batch, FollowUp, Member, Positions, Status};
use crate::domain::id::digest;
use crate::domain::message::{Elect, Election, MAX_TASKS, Return, Returning};
use crate::domain::outcome::{Exception, Results};
use crate::domain::task::{self, Candidate};
use crate::domain::{Copies, TaskId, WorkflowId};
use crate::ports::{Batches, Env, Freshness, Outgoing, PutBack, Tasks, WayBack};
use crate::steps::drive_on::MAX_DELAY_MS;
use crate::steps::notices::About;
use crate::steps::{CONCURRENCY, Error};

/// The way back to waiting: one message for each set of these members with the same pause.
pub(super) fn messages(batch: &Batch, results: &Results, of: &Positions) -> Vec<About> {
    let mut by_delay: BTreeMap<u64, Vec<(usize, Returning)>> = BTreeMap::new();
    for (position, member) in batch.members.iter().enumerate().filter(|(position, _)| of.contain(*position)) {
        if let Some(Exception::Returned { attempts, is_unsure, delay_ms, bytes, traits }) = results.get(&member.id) {
            let (id, round, bytes, traits) = (member.id.clone(), member.round, *bytes, *traits);
            let task = Candidate { id, round, bytes, traits };
            let returning = (position, Returning { task, attempts: *attempts, is_unsure: *is_unsure });
            // Whole seconds, as SQS counts them: members that come back together can share a batch again.
            by_delay.entry(delay_ms.div_ceil(1_000)).or_default().push(returning);
        }
    }
    let message = |seconds: u64, returning: &[(usize, Returning)]| {
        let (positions, tasks) = returning.iter().cloned().unzip();
        let message = Return { batch: batch.id.clone(), target: batch.target.clone(), tasks };
        (positions, Outgoing::elect(&Elect::Returning(message), seconds * 1_000))
    };
    let chunks = by_delay.iter().flat_map(|(seconds, all)| all.chunks(MAX_TASKS).map(|chunk| (*seconds, chunk)));
    chunks.map(|(seconds, chunk)| message(seconds, chunk)).collect()
}

/// Marks a batch that waits for members to return as done if all of them have; says whether it is.
pub(super) async fn returned(store: &(impl Tasks + Batches), batch: &Batch) -> Result<bool, Error> {
    let Status::Settled { results, follow_up: FollowUp::Returning, .. } = &batch.status else { return Ok(false) };
    let is_returning = |member: &&Member| matches!(results.get(&member.id), Some(Exception::Returned { .. }));
    let returning: Vec<&Member> = batch.members.iter().filter(is_returning).collect();
    let ids: Vec<TaskId> = returning.iter().map(|member| member.id.clone()).collect();
    let tasks = store.read(&ids, Freshness::Latest).await?;
    let named = task::Status::Batched { batch: batch.id.clone() };
    let still_there = returning.iter().any(|member| {
        tasks.iter().any(|task| task.id == member.id && task.round == member.round && task.status == named)
    });
    if !still_there {
        store.store(&batch.followed_up(), Assumes::At(batch.revision)).await?;
    }
    Ok(!still_there)
}

/// When the last member returns, in milliseconds from the outcome; SQS delays for a quarter of an hour at most.
pub(super) fn last_return_ms(results: &Results) -> Option<u64> {
    let delays = results.values().filter_map(|exception| match exception {
        Exception::Returned { delay_ms, .. } => Some((*delay_ms).min(MAX_DELAY_MS)),
        Exception::Failed { .. } => None,
    });
    delays.max()
}

/// Puts a settled batch's returning members back to waiting. A repeat finds them there and elects again.
pub(in crate::steps) async fn put_back(
    store: &(impl Tasks + Batches),
    env: &impl Env,
    returning: Return,
) -> Result<Election, Error> {
    let Return { batch, target, tasks } = returning;
    // A repeat must be the same workflow: it may lead already.
    let first = tasks.first().map_or("", |returning| returning.task.id.as_str());
    let workflow = WorkflowId::new(digest(&["return", batch.as_str(), first]));
    let (batch, target_ref, now) = (&batch, &target, env.now());
    let seen = store.batch(batch).await?;
    // Tables that were restored since it was sent may have the batch without this outcome: it is to be called yet.
    let comes_back = |of: &Returning| seen.as_ref().is_none_or(|seen| seen.sends_back(&of.task));
    let waiting: Vec<Option<Candidate>> = stream::iter(tasks.into_iter().filter(comes_back))
        .map(|returning| async move {
            let Returning { task: member, attempts, is_unsure } = &returning;
            let (attempts, is_unsure) = (*attempts, *is_unsure);
            let back = WayBack { member, batch, target: target_ref, attempts, is_unsure, at: now };
            Ok::<_, Error>(match store.put_back(back).await? {
                PutBack::Waits => Some(Candidate { round: member.round.next(), ..member.clone() }),
                PutBack::MovedOn | PutBack::Ended => None,
            })
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    // The last members to return leave nothing for sweep to look after. Its follow-up may have been under way.
    let settled = match seen {
        Some(seen) if !seen.is_returning() => store.batch(batch).await?,
        seen => seen,
    };
    if let Some(settled) = settled {
        returned(store, &settled).await?;
    }
    let tasks = waiting.into_iter().flatten().collect();
    Ok(Election { workflow, target, tasks, since: now, attempt: 0, signalled: None, copies: Copies::NONE })
}
