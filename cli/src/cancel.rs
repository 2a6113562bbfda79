//! `groupage cancel`: tasks that wait are ended before any call.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Result;
use groupage_core::domain::id::{Target, TaskId};
use groupage_core::routes::Routes;
use groupage_core::steps::cancel::Waits;
use serde::Serialize;

use crate::failed::target;
use crate::output::{Ending, Output, grouped, summary};
use crate::stack::{self, Access};

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage cancel parcel-4711 parcel-4712
  groupage cancel --target parcels:truck-7      all that wait for a batch of this Target";

/// End tasks that wait, before any call: they are settled as cancelled.
///
/// A task waits for a batch, for its turn in its order key or for its time. One that is in a batch is left out of that
/// batch's call. Once a call has begun, it is refused. So it is while its batch is being filled: cancel it again then.
/// A cancelled task fails its item of a tracker, is told of as a failure for the reason `cancelled`, and holds back no
/// other task of its order key. Repeating it is safe.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tasks' ids.
    #[arg(value_name = "ID", value_parser = |id: &str| TaskId::parse(id), required_unless_present = "target", conflicts_with = "target")]
    ids: Vec<TaskId>,
    /// All tasks that wait for a batch of this Target, as route:value. Tasks that wait for their turn are not among
    /// them.
    #[arg(long, value_name = "TARGET", value_parser = target)]
    target: Option<Target>,
}

/// What became of the tasks.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Tasks that were named or found.
    tasks: u64,
    /// Those that are cancelled, by this call or before.
    cancelled: u64,
    /// Those that are not, and why.
    refused: Vec<NotDone>,
}

/// A task that is not cancelled.
#[derive(Debug, Serialize)]
struct NotDone {
    id: TaskId,
    why: String,
}

/// This many tasks are cancelled at once.
const AT_ONCE: usize = 100;

/// Cancels tasks.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let connection = stack::open(name).await?;
    let access = Access::to(&connection);
    let routes = stack::remote_steps(&connection)?.routes.current().await?;
    let mut report = Report::default();
    match &options.target {
        None => {
            for ids in options.ids.chunks(AT_ONCE) {
                cancel(&access, &routes, ids, &mut report, *output).await;
            }
        }
        Some(target) => {
            let mut waits = Waits::of(&routes, target);
            while let Some(ids) = waits.next(&access.store, AT_ONCE).await? {
                cancel(&access, &routes, &ids, &mut report, *output).await;
            }
        }
    }
    output.result(&report, || {
        summary([
            ("tasks", grouped(report.tasks)),
            ("cancelled", grouped(report.cancelled)),
            ("not", grouped(report.refused.len() as u64)),
        ])
    });
    Ok(if report.refused.is_empty() { Ending::Well } else { Ending::Badly })
}

async fn cancel(access: &Access, routes: &Arc<Routes>, ids: &[TaskId], report: &mut Report, output: Output) {
    for (id, outcome) in access.cancelling().cancel(routes, ids).await {
        report.tasks += 1;
        let why = match outcome {
            Ok(Ok(())) => {
                report.cancelled += 1;
                continue;
            }
            Ok(Err(refused)) => refused.to_string(),
            Err(error) => error.to_string(),
        };
        if !output.is_json() {
            let _ = writeln!(io::stderr(), "{id}: {why}");
        }
        report.refused.push(NotDone { id, why });
    }
}
