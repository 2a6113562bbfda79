//! `groupage erase`: what tasks said goes, and that their ids were used stays. `groupage export`: what is held of a
//! task.

use anyhow::{Result, anyhow};
use groupage_core::domain::{Target, TaskId, TrackerId};
use groupage_core::routes::Routes;
use groupage_core::steps::erase::{self, Whose};

use crate::done::Done;
use crate::failed::target;
use crate::output::{Ending, Output, after_step};
use crate::stack::{self, Access};

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage export parcel-4711                               what the tables hold of it
  groupage erase --task parcel-4711 parcel-4712
  groupage erase --target parcels:truck-7 --dry-run         what would be erased

The guide is docs/guides/data.md: it says where else a payload may be.";

/// Erase what tasks said: payload, Target and the downstream's answer. This cannot be undone.
///
/// Their ids stay used, so that nothing is done twice: whatever is sent under such an id is taken for a repeat and
/// dropped, until the task's record expires. A task that waits is cancelled first. One in a batch is refused, since its
/// call may be under way; repeat the command when the batch is settled. Repeating it is safe.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Only list the tasks.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// Tasks, by their ids.
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = |id: &str| TaskId::parse(id))]
    task: Vec<TaskId>,
    /// All tasks of this Target, as route:value, whatever they wait for. What waits on a list is not among them. This
    /// reads the task table from end to end.
    #[arg(long, value_name = "TARGET", value_parser = target)]
    target: Option<Target>,
    /// All tasks that ack an item of this tracker. This reads the task table from end to end.
    #[arg(long, value_name = "ID", value_parser = |id: &str| TrackerId::parse(id))]
    tracker: Option<TrackerId>,
}

/// Print what the tables hold about a task, payload included, as JSON.
///
/// Messages on their way, logs and backups are not looked at.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// Its id.
    #[arg(value_parser = |id: &str| TaskId::parse(id))]
    id: TaskId,
}

/// This many tasks are erased at once.
const AT_ONCE: usize = 100;

/// Erases tasks.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(name).await?;
    let access = Access::to(&connection);
    let routes = stack::remote_steps(&connection)?.routes.current().await?;
    let ids = found(&options.which, &access, &routes).await?;
    if options.dry_run {
        output.result(&ids, || ids.iter().map(|id| format!("{id}\n")).collect::<String>());
        return Ok(Ending::Well);
    }
    let mut report = Done::default();
    for ids in ids.chunks(AT_ONCE) {
        let each = access.erasing().erase(&routes, ids).await;
        report.add(each.map_err(|error| after_step(error.into(), ": repeat the command"))?, *output);
    }
    Ok(report.print(["tasks", "erased"], *output))
}

/// The tasks that are meant.
async fn found(which: &Which, access: &Access, routes: &Routes) -> Result<Vec<TaskId>> {
    let whose = match (&which.target, &which.tracker) {
        (Some(target), _) => Whose::Target(target.clone()),
        (None, Some(tracker)) => Whose::Tracker(tracker.clone()),
        (None, None) => return Ok(which.task.clone()),
    };
    let found = erase::find(&access.store, routes, &whose).await;
    found.map_err(|error| after_step(error.into(), ": repeat the command"))
}

/// Prints what is held about a task.
pub async fn export(options: &Export, name: Option<&str>, output: &Output) -> Result<Ending> {
    let access = Access::open(name).await?;
    let found = api::export(&access.store, &options.id).await?;
    let held = found.ok_or_else(|| anyhow!("no task {} is known", options.id))?;
    // It is for programs: there is no shorter form of all that is held.
    output.as_json().result(&held, String::new);
    Ok(Ending::Well)
}
