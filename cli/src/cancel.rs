//! `groupage cancel`: tasks that wait are ended before any call.

use anyhow::Result;
use groupage_core::domain::id::{Target, TaskId, TrackerId};
use groupage_core::domain::time::Timestamp;
use groupage_core::routes::Routes;
use groupage_core::steps::cancel::Waits;

use crate::done::Done;
use crate::failed::target;
use crate::output::{Ending, Output, after_step};
use crate::stack::{self, Access};

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage cancel parcel-4711 parcel-4712
  groupage cancel --target parcels:truck-7      all that wait for a batch of this Target
  groupage cancel --tracker catalog-7           all that wait, of those with an item of this tracker";

/// End tasks that wait, before any call: they are settled as cancelled.
///
/// A task waits for a batch, for its turn in its order key or for its time. One that is in a batch is left out of that
/// batch's call, also while the batch is being filled. Once a call has begun, it is refused. A cancelled task fails its
/// item of a tracker, is told of as a failure for the reason `cancelled`, and holds back no other task of its order
/// key. Repeating it is safe.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(required = true, multiple = false)]
pub struct Args {
    /// The tasks' ids.
    #[arg(value_name = "ID", value_parser = |id: &str| TaskId::parse(id))]
    ids: Vec<TaskId>,
    /// All tasks that wait for a batch of this Target, as route:value, or are in one that takes more tasks. Tasks that
    /// wait for their turn are not among them.
    #[arg(long, value_name = "TARGET", value_parser = target)]
    target: Option<Target>,
    /// All tasks that wait, of those with an item of this tracker, whatever they wait for. What waits on a list is not
    /// among them. This reads the task table from end to end.
    #[arg(long, value_name = "ID", value_parser = |id: &str| TrackerId::parse(id))]
    tracker: Option<TrackerId>,
}

/// This many tasks are cancelled at once.
const AT_ONCE: usize = 100;

/// Cancels tasks.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(name).await?;
    let access = Access::to(&connection);
    let routes = stack::remote_steps(&connection)?.routes.current().await?;
    let mut report = Done::default();
    for ids in options.ids.chunks(AT_ONCE) {
        report.add(access.cancelling().cancel(&routes, ids).await, *output);
    }
    if let Some(target) = &options.target {
        cancel_target(&access, &routes, target, &mut report, *output).await?;
    }
    if let Some(tracker) = &options.tracker {
        cancel_tracker(&access, &routes, tracker, &mut report, *output).await?;
    }
    Ok(report.print(["tasks", "cancelled"], *output))
}

async fn cancel_target(
    access: &Access,
    routes: &Routes,
    target: &Target,
    report: &mut Done,
    output: Output,
) -> Result<()> {
    let mut waits = Waits::of(routes, target);
    while let Some(ids) = waits.next(&access.store, AT_ONCE).await? {
        report.add(access.cancelling().cancel(routes, &ids).await, output);
    }
    Ok(())
}

async fn cancel_tracker(
    access: &Access,
    routes: &Routes,
    tracker: &TrackerId,
    report: &mut Done,
    output: Output,
) -> Result<()> {
    let mut after = None;
    loop {
        let until = Timestamp(u64::MAX);
        let came = access.cancelling().cancel_of(routes, tracker, after.as_ref(), until).await;
        let came = came.map_err(|error| after_step(error.into(), ": repeat the command"))??;
        report.add(came.each, output);
        after = came.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
