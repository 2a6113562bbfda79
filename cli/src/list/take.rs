//! Releasing and discarding, in calls that are not too large, with a bar.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Result, bail};
use groupage_core::domain::id::ListId;
use groupage_core::domain::list::MAX_RELEASED;
use groupage_core::ports::Env;
use groupage_core::steps::list::{Refused, Taken};
use indicatif::ProgressBar;
use serde::Serialize;

use super::Shelf;
use crate::output::{Ending, grouped, style, summary};

/// What was taken.
#[derive(Debug, Serialize)]
struct Report {
    list: ListId,
    /// For a repeat.
    key: String,
    /// Tasks released or discarded by this call, or before under the same key.
    tasks: u64,
    /// Tasks that still wait.
    waiting: u64,
}

/// The pause before a release is tried again while too many are under way.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Releases the next tasks, or all that wait now.
pub async fn release(shelf: &Shelf, count: Option<u64>, key: Option<&str>) -> Result<Ending> {
    let waiting = shelf.given(shelf.steps().progress(&shelf.id).await?)?.waiting;
    let wanted = count.unwrap_or(waiting);
    let key = key.map_or_else(|| groupage_aws::System.fresh_id(), str::to_owned);
    let bar = bar(wanted);
    let mut done = 0;
    for call in 0.. {
        let now = (wanted - done).min(MAX_RELEASED);
        if now == 0 {
            break;
        }
        // One call's key must not be another's, and a repeat must make the same ones.
        let of_call = if wanted <= MAX_RELEASED { key.clone() } else { format!("{key}.{call}") };
        let taken = release_once(shelf, &of_call, now).await?;
        done += taken.count;
        bar.set_position(done);
        if taken.count < now {
            break;
        }
    }
    bar.finish_and_clear();
    report(shelf, key, done, "released").await
}

async fn release_once(shelf: &Shelf, key: &str, count: u64) -> Result<Taken> {
    loop {
        match shelf.steps().release(&shelf.id, key, count).await? {
            // Those under way are done soon, or sweep works them off.
            Err(Refused::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
            answer => return shelf.given(answer),
        }
    }
}

/// Discards what waits now.
pub async fn discard(shelf: &Shelf, confirmed: bool) -> Result<Ending> {
    let waiting = shelf.given(shelf.steps().progress(&shelf.id).await?)?.waiting;
    if !confirmed && waiting > 0 {
        bail!("this removes {waiting} tasks for ever: say --yes");
    }
    let key = groupage_aws::System.fresh_id();
    let bar = bar(waiting);
    let tasks = loop {
        // Each repeat goes on where the one before stopped.
        let taken = shelf.given(shelf.steps().discard(&shelf.id, &key).await?)?;
        bar.set_position(taken.count - taken.left);
        if taken.left == 0 {
            break taken.count;
        }
    };
    bar.finish_and_clear();
    report(shelf, key, tasks, "discarded").await
}

async fn report(shelf: &Shelf, key: String, tasks: u64, what: &'static str) -> Result<Ending> {
    let waiting = shelf.given(shelf.steps().progress(&shelf.id).await?)?.waiting;
    let report = Report { list: shelf.id.clone(), key, tasks, waiting };
    shelf.output.result(&report, || summary([(what, grouped(tasks)), ("waiting", grouped(waiting))]));
    Ok(Ending::Well)
}

/// On standard error, and only if that is a terminal.
fn bar(tasks: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::new(tasks).with_style(style("{bar:40} {pos} of {len} tasks  {eta}"))
}
