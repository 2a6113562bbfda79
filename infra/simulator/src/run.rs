//! Runs a setting to its end, in virtual time.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use groupage_aws::Meter;
use groupage_core::memory::MemoryStore;
use groupage_core::routes::Routes;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::clock::{BEGINNING, TestEnv, in_virtual_time};
use crate::downstream::Accepting;
use crate::lag::{Lag, Lagging};
use crate::lambda::Running;
use crate::limits::Capacity;
use crate::mapping;
use crate::queues::{Queues, Step};
use crate::report::{Outcome, Report};
use crate::store::Tables;
use crate::world::{Real, Setting, Steps, World};

/// A run could not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The route is none.
    #[error("the scenario's route is none: {0}")]
    Routes(groupage_core::routes::Error),
    /// Tasks are left that nothing moves.
    #[error("only {settled} of {tasks} tasks are settled, and none in the last hour")]
    Stuck {
        /// How many are settled.
        settled: u64,
        /// Of how many.
        tasks: usize,
    },
}

/// The world's clock is so far ahead of the beginning of virtual time that its numbers are as long as real ones.
const AHEAD_MS: i64 = 1_800_000_000_000;
/// A run begins so long before a full hour.
pub const UNTIL_THE_HOUR: Duration = Duration::from_millis(HOUR_MS - (BEGINNING + AHEAD_MS.unsigned_abs()) % HOUR_MS);
const HOUR_MS: u64 = 3_600_000;
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Runs what is simulated to its end, in virtual time, on a runtime of its own; `progress` hears of settled tasks.
///
/// # Panics
/// The runtime does not start.
pub fn run(setting: &Setting, progress: &(dyn Fn(u64) + Sync)) -> Result<Outcome, Error> {
    run_steps(Box::new(Real), setting, progress)
}

/// As [`run`], with other steps than the real ones.
///
/// # Panics
/// The runtime does not start.
pub fn run_steps(steps: Box<dyn Steps>, setting: &Setting, progress: &(dyn Fn(u64) + Sync)) -> Result<Outcome, Error> {
    in_virtual_time(simulate(steps, setting, progress))
}

async fn simulate(steps: Box<dyn Steps>, setting: &Setting, progress: &(dyn Fn(u64) + Sync)) -> Result<Outcome, Error> {
    let routes = Arc::new(Routes::parse(&setting.routes()).map_err(Error::Routes)?);
    let env = TestEnv::new(setting.seed).ahead_by(AHEAD_MS);
    let meter = Arc::new(Meter::new());
    let lag = Lag { index_ms: setting.lag_ms, ..Lag::default() };
    let capacity = setting.limits.map(|limits| Arc::new(Capacity::new(limits, setting.seed)));
    let inner = Lagging::new(MemoryStore::new(), env.clone(), lag, setting.seed);
    let world = Arc::new(World {
        queues: Arc::new(Queues::new(Arc::clone(&meter))),
        tables: Tables::new(inner, env.clone(), Arc::clone(&meter), capacity.clone()),
        env,
        report: Report::default(),
        routes,
        downstream: Accepting::after(Duration::from_millis(setting.call_ms)).away(setting.away_s.map(span)),
        lambda: Running::new(setting.lambda),
        steps,
    });
    let (begun, senders) = (Instant::now(), setting.load.senders(&world.env));
    let tasks = senders.iter().flatten().map(|sending| sending.targets.len()).sum();
    // Dropping the set ends everything.
    let mut running = JoinSet::new();
    for step in Step::ALL {
        running.spawn(mapping::run(Arc::clone(&world), step));
    }
    running.spawn(Arc::clone(&world).sweep());
    let mut first = 0;
    for sender in senders {
        let numbers = first;
        first += sender.iter().map(|sending| sending.targets.len()).sum::<usize>();
        running.spawn(Arc::clone(&world).send(sender, numbers, begun));
    }
    let stop_after = setting.stop_after_s.map(Duration::from_secs);
    let away = setting.away_s.map_or(Duration::ZERO, |(_, seconds)| Duration::from_secs(seconds));
    let patience = PATIENCE + away + stop_after.unwrap_or_default();
    let took = until_done(&world, tasks, patience, stop_after, progress).await?;
    let notes = std::mem::take(&mut *world.report.notes());
    Ok(Outcome {
        tasks,
        took,
        usage: meter.snapshot(),
        fifo_requests: world.queues.fifo_requests(),
        functions: notes.functions,
        sweeps: notes.sweeps,
        calls: world.downstream.seen(),
        tasks_at: notes.tasks_at,
        handed_on: notes.handed_on,
        gates: world.tables.gate_requests(),
        counts: notes.counts,
        throttled: capacity.map_or(0, |capacity| capacity.throttled()),
        refused: world.lambda.refused(),
        dead: world.queues.dead(),
    })
}

/// From now on in seconds: when something begins, and for how long it lasts.
fn span((from_s, for_s): (u64, u64)) -> Range<Instant> {
    let from = Instant::now() + Duration::from_secs(from_s);
    from..from + Duration::from_secs(for_s)
}

/// Waits until it is time to stop; if there is no such time, until every task is settled and no message is under way.
/// Says when the last task was settled, or when it stopped before that.
async fn until_done(
    world: &World,
    tasks: usize,
    patience: Duration,
    stop_after: Option<Duration>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Duration, Error> {
    const LOOK: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    let (mut took, mut known, mut moved) = (None, 0, begun);
    while took.is_none() || stop_after.is_some() || !world.queues.are_empty() {
        if moved.elapsed() > patience {
            return Err(Error::Stuck { settled: world.report.settled(), tasks });
        }
        if let Some(stopped) = stop_after.filter(|stop_after| begun.elapsed() >= *stop_after) {
            return Ok(took.unwrap_or(stopped));
        }
        sleep(LOOK).await;
        let settled = world.report.settled();
        progress(settled);
        if settled > known {
            (known, moved) = (settled, Instant::now());
        }
        if took.is_none() && settled >= tasks as u64 {
            took = Some(begun.elapsed());
        }
    }
    Ok(took.unwrap_or_default())
}
