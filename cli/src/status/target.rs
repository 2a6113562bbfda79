//! One Target: who waits and why, who leads, and what holds its calls back.

use anyhow::Result;
use groupage_aws::System;
use groupage_console::states;
use groupage_console::words::{counted, moment, why};
use groupage_core::domain::gate::Scope;
use groupage_core::domain::{BatchId, Lock, Shard, Target, Timestamp};
use groupage_core::ports::{Env, Locks, Tasks};
use groupage_core::routes::Routes;
use groupage_core::steps::look::{OneShard, OneTarget};
use serde::Serialize;

use super::gates::tone;
use crate::output::{Output, unknown};
use crate::sheet::{Cell, Sheet, Tone};
use crate::stack::Access;

#[derive(Serialize)]
struct TargetStatus {
    target: Target,
    /// Tasks that the index shows waiting, of all shards.
    waiting: usize,
    more_wait: bool,
    #[serde(flatten)]
    lock: LockStatus,
    /// Its shards, if it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shards: Vec<ShardStatus>,
}

#[derive(Serialize)]
struct ShardStatus {
    shard: Shard,
    /// Tasks that the index shows waiting; up to a page, and the index lags.
    waiting: usize,
    more_wait: bool,
    #[serde(flatten)]
    lock: LockStatus,
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Default, Serialize)]
struct LockStatus {
    leader: Option<String>,
    lease_until_ms: Option<u64>,
    open_batch: Option<BatchId>,
}

/// How many waiting tasks of a shard are counted.
const PAGE: usize = 1_000;

/// Prints a Target: for programs all its shards, for people the first of them, with what they wait for.
pub async fn show(access: &Access, routes: Option<&Routes>, target: &Target, output: &Output) -> Result<()> {
    let target = target.whole();
    if output.is_json() {
        return for_programs(access, routes, target, output).await;
    }
    let found = access.looking(routes).target(&target).await?;
    // Of a route's Target nothing need be known: that nothing is there is a mistyped name more often than an answer.
    let one = found.filter(OneTarget::is_known).ok_or_else(|| unknown("Target", target.as_str()))?;
    output.sheet(&(), || sheet(&one, System.now()));
    Ok(())
}

async fn for_programs(access: &Access, routes: Option<&Routes>, target: Target, output: &Output) -> Result<()> {
    let count = access.looking(routes).shards(&target);
    let (mut shards, mut is_known) = (Vec::new(), false);
    for shard in target.shards(count) {
        let (lock, page) = (access.store.lock(&shard).await?, access.store.waiting(&shard, None, PAGE).await?);
        is_known |= lock.is_some() || !page.candidates.is_empty();
        shards.push(ShardStatus {
            shard: shard.shard(),
            waiting: page.candidates.len(),
            more_wait: page.next.is_some(),
            lock: lock.map(LockStatus::from).unwrap_or_default(),
        });
    }
    if !is_known {
        return Err(unknown("Target", target.as_str()));
    }
    let status = TargetStatus {
        target,
        waiting: shards.iter().map(|shard| shard.waiting).sum(),
        more_wait: shards.iter().any(|shard| shard.more_wait),
        lock: shards.first().map(|home| home.lock.clone()).unwrap_or_default(),
        shards: if count > 1 { shards } else { Vec::new() },
    };
    output.sheet(&status, Sheet::default);
    Ok(())
}

impl From<Lock> for LockStatus {
    fn from(Lock { holder, open, .. }: Lock) -> Self {
        Self {
            lease_until_ms: holder.as_ref().map(|holder| holder.lease_until.0),
            leader: holder.map(|holder| holder.workflow.to_string()),
            open_batch: open,
        }
    }
}

fn sheet(one: &OneTarget, now: Timestamp) -> Sheet {
    let (count, more) = one.waiting();
    let mut rows = vec![
        ("target", one.target.as_str().into()),
        ("waiting for a batch", counted(count, !more).into()),
        ("in batches", counted(one.in_batches(), one.is_all).into()),
    ];
    if let (scheduled, Some(next)) = &one.scheduled {
        rows.push(("scheduled", counted(*scheduled, one.is_all).into()));
        rows.push(("the next waits for", Cell::new(why(next, now), Tone::Wary)));
    }
    if let Some(reason) = one.shards.iter().find_map(|shard| shard.why.as_ref()) {
        rows.push(("waits for", Cell::new(why(reason, now), Tone::Wary)));
    }
    if let [home] = one.shards.as_slice() {
        rows.extend(leader(home, now).map(|leader| ("leader", leader)));
        rows.extend(home.open.as_ref().map(|open| {
            ("open batch", format!("{}, {} tasks: {}", open.id, open.members.len(), states::batch(open, None)).into())
        }));
    }
    let shards = one.shards.iter().map(|shard| {
        let reason = shard.why.as_ref().map(|reason| why(reason, now)).unwrap_or_default();
        vec![
            shard.shard.to_string().into(),
            counted(shard.waiting.len(), !shard.more).into(),
            Cell::new(reason, Tone::Wary),
            leader(shard, now).unwrap_or_else(|| "".into()),
        ]
    });
    let shards = if one.shards.len() > 1 { shards.collect() } else { Vec::new() };
    let batches = one.batches.iter().map(|one| {
        let reason = one.why.as_ref().map(|reason| why(reason, now)).unwrap_or_default();
        vec![
            one.batch.id.as_str().into(),
            Cell::number(one.batch.members.len() as u64),
            states::batch(&one.batch, one.why.as_ref()).into(),
            Cell::new(reason, Tone::Wary),
        ]
    });
    let gates = one.gates.iter().map(|seen| {
        let standing = seen.gate.call_state(now);
        let whose = match &seen.of {
            Scope::Route(_) => "its route".to_owned(),
            Scope::Target(_) => "this Target".to_owned(),
            Scope::Limit(limit) => format!("the limit {limit}"),
        };
        vec![whose.into(), Cell::new(states::standing(&standing, now), tone(&standing))]
    });
    Sheet::facts(rows)
        .with_table("Shards", &["shard", "waiting", "waits for", "leader"], shards)
        .with_table("Batches", &["batch", "tasks", "status", "waits for"], batches.collect())
        .with_table("Gates before its calls", &["calls of", "standing"], gates.collect())
}

fn leader(shard: &OneShard, now: Timestamp) -> Option<Cell> {
    let holder = shard.lock.as_ref()?.holder.as_ref()?;
    Some(format!("{}, trusted until {}", holder.workflow, moment(holder.lease_until, now)).into())
}
