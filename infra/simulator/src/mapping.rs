//! Event source mappings: processes that each gather an event, invoke the function and delete what succeeded.
//!
//! Lambda begins with five such processes for a queue and adds 300 a minute while messages are left, up to 1,250
//! (Lambda developer guide, *Configuring scaling behavior for SQS event source mappings*), or up to its cap. Each
//! process gathers by receives of ten. Environments are warm. A process whose invocation is throttled ends, or waits
//! longer each time, if it is one of the first five.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use groupage_aws::entry::event;
use groupage_aws::entry::mapping::Settings;
use tokio::time::{Instant, sleep};

use crate::lambda::Refusal;
use crate::latency::Hop;
use crate::machine::Machine;
use crate::message::{Chain, Message, Step};
use crate::world::World;

const AT_START: usize = 5;
const ADDED_PER_SECOND: usize = 5;
const MOST: usize = 1_250;
const LONG_POLL: Duration = Duration::from_secs(20);
/// How long a process waits after it was throttled, the first time and at most.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Runs a step's mapping for ever.
pub(crate) async fn run(world: Arc<World>, step: Step) {
    let processes = Arc::new(AtomicUsize::new(0));
    let cap = world.lambda.cap(step);
    let at_start = AT_START.min(cap);
    loop {
        let running = processes.load(Ordering::Relaxed);
        let wanted = if running < at_start {
            at_start
        } else if world.queues.has_backlog(step) {
            (running + ADDED_PER_SECOND).min(MOST).min(cap)
        } else {
            running
        };
        for _ in running..wanted {
            processes.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(process(Arc::clone(&world), step, Arc::clone(&processes)));
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// One process's life: those beyond the first five end when a long poll stays empty.
async fn process(world: Arc<World>, step: Step, processes: Arc<AtomicUsize>) {
    // As many environments as processes, each of which serves one invocation after the other.
    let mut machine = world.machine(step.settings().memory_mb);
    let mut pause = PAUSE;
    loop {
        let messages = gather(&world, step).await;
        let ended = if messages.is_empty() { Ended::Idle } else { invoke(&world, &machine, step, messages).await };
        match ended {
            Ended::InTime => pause = PAUSE,
            // An environment that ran out of time is thrown away.
            Ended::OutOfTime => machine = world.machine(step.settings().memory_mb),
            // Other messages are of other chains.
            Ended::Refused(Refusal::Cut) => {}
            Ended::Refused(Refusal::Throttled) | Ended::Idle if processes.load(Ordering::Relaxed) > AT_START => {
                processes.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            Ended::Refused(Refusal::Throttled) => {
                sleep(pause).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            Ended::Idle => {}
        }
    }
}

/// How a process's round ended.
enum Ended {
    /// Nothing was there.
    Idle,
    InTime,
    OutOfTime,
    Refused(Refusal),
}

/// The next event's messages; none if a long poll stays empty.
async fn gather(world: &World, step: Step) -> Vec<Message> {
    let Settings { batch_size, window_s, visibility_s, .. } = step.settings();
    let visibility = Duration::from_secs(visibility_s);
    let mut gathered = world.queues.receive(step, batch_size, Instant::now() + LONG_POLL, visibility).await;
    if gathered.is_empty() {
        return gathered;
    }
    let end = Instant::now() + Duration::from_secs(window_s);
    sleep(Hop::Delivery.draw(&world.env)).await;
    while gathered.len() < batch_size && window_s > 0 && Instant::now() < end {
        let more = world.queues.receive(step, batch_size - gathered.len(), end, visibility).await;
        // What arrives takes its way; that the window is over is known at once.
        if more.is_empty() {
            world.queues.ended_empty(step);
        } else {
            sleep(Hop::Delivery.draw(&world.env)).await;
        }
        gathered.extend(more);
    }
    gathered
}

/// One invocation on this environment.
async fn invoke(world: &World, machine: &Machine, step: Step, messages: Vec<Message>) -> Ended {
    let chain = Chain::of_event(step, &messages);
    // What is not invoked comes again when it is no longer hidden.
    let _place = match world.lambda.begin(step, chain) {
        Ok(place) => place,
        Err(refusal) => return Ended::Refused(refusal),
    };
    let cut = Instant::now();
    world.report.cut(step, &messages, cut);
    sleep(Hop::Invocation.draw(&world.env)).await;
    let begun = Instant::now();
    let receipts: Vec<u64> = messages.iter().map(|message| message.receipt).collect();
    let timeout = Duration::from_secs(step.settings().timeout_s);
    let records = messages.into_iter().map(|message| (message.receipt.to_string(), message.body, message.received));
    let kept = tokio::time::timeout(timeout, Box::pin(world.handle(machine, step, chain, event(records)))).await;
    world.report.invoked(step, receipts.len(), begun.elapsed());
    // An invocation that runs out of time deletes nothing.
    let Ok(kept) = kept else { return Ended::OutOfTime };
    let done: Vec<u64> = receipts.into_iter().filter(|receipt| !kept.contains(&receipt.to_string())).collect();
    sleep(Hop::Request.draw(&world.env)).await;
    world.queues.delete(step, &done);
    Ended::InTime
}
