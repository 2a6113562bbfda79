//! The functions' own code, in one thread, on tables and queues in plain memory.

use anyhow::{Result, bail};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use groupage_aws::entry::mapping::{IN_ORDER, TASKS};
use groupage_aws::entry::{self, Counts, Handled, Metric, RouteSource};
use groupage_core::memory::{Delivery, MemoryQueues, MemoryStore};

use super::run::{Accepting, Path, Run, Watch, body, routes};
use crate::prelude::*;
use crate::process;

type Stack = entry::Stack<MemoryStore, MemoryQueues, System>;

/// How long a batch that is not full waits, in real time, in milliseconds.
const WAIT_MS: u64 = 2_000;
/// How long a message in hand is hidden, in milliseconds.
const VISIBILITY_MS: u64 = 60_000;

/// Registers `tasks` tasks for `targets` Targets on a path and works until all are settled.
pub async fn run(path: Path, tasks: u64, targets: u64) -> Result<Run> {
    let routes = RouteSource::Fixed(routes(path, WAIT_MS, None)?);
    let stack = Stack::new(MemoryStore::new(), MemoryQueues::new(), System, routes);
    let watch = Watch::start();
    let (mut counts, mut running) = (Counts::default(), FuturesUnordered::new());
    let start = |running: &mut FuturesUnordered<_>| {
        stack.queues.set_now(System.now());
        // The rests of a Target come together, as the FIFO queue gives them.
        let most = |to: &Destination| if matches!(to, Destination::Gather(_)) { IN_ORDER.batch_size } else { 1 };
        loop {
            let event = stack.queues.receive_together(most, VISIBILITY_MS);
            let Some(to) = event.first().map(|first| first.outgoing.to.clone()) else { break };
            running.push(deliver(&stack, to, event));
        }
    };
    for first in (0..tasks).step_by(TASKS.batch_size) {
        let records =
            (first..(first + TASKS.batch_size as u64).min(tasks)).map(|n| (format!("m{n}"), body(n, targets), 1));
        counts.merge(&entry::register_task(&stack, entry::event(records)).await.counts);
        loop {
            start(&mut running);
            // A leader that sleeps until its batch should be full keeps nobody waiting.
            let Some(Some(done)) = running.next().now_or_never() else { break };
            counts.merge(&done);
        }
    }
    while counts.get(Metric::TasksSucceeded) < tasks {
        start(&mut running);
        let next = stack.queues.next_visible_at();
        if running.is_empty() && next.is_none() {
            bail!("of {tasks} tasks only {} were settled", counts.get(Metric::TasksSucceeded));
        }
        let pause_ms = next.map_or(VISIBILITY_MS, |next| next.since(System.now()));
        tokio::select! {
            Some(done) = running.next() => counts.merge(&done),
            () = System.sleep(pause_ms.max(1)) => {}
        }
    }
    drop(running);
    let run = watch.stop("memory", path, tasks, targets, counts.get(Metric::CallsSettled));
    drop(stack);
    Ok(Run { resident_bytes_after: process::resident(), ..run })
}

/// Hands messages to their function, and deletes those that are done.
async fn deliver(stack: &Stack, to: Destination, messages: Vec<Delivery>) -> Counts {
    let receipts: Vec<String> = messages.iter().map(|message| message.receipt.clone()).collect();
    let records = messages.into_iter().map(|message| (message.receipt, message.outgoing.body, message.received));
    let event = entry::event(records);
    let Handled { response, counts } = match to {
        Destination::Tasks | Destination::InOrder(_) | Destination::Gather(_) => {
            entry::register_task(stack, event).await
        }
        Destination::Elect => entry::elect_leader(stack, event).await,
        Destination::Group => entry::group_batch(stack, event).await,
        Destination::Handle | Destination::LongHandle => {
            entry::batch_handler(stack, &to, &Accepting::default(), event).await
        }
        // The queues hand out none of these.
        Destination::Rejected | Destination::Notification(_) => Handled::default(),
    };
    for receipt in receipts {
        if response.batch_item_failures.iter().all(|kept| kept.item_identifier != receipt) {
            stack.queues.delete(&receipt);
        }
    }
    counts
}
