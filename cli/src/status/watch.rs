//! `--watch`: looking again and again.

use std::time::Duration;

use anyhow::Result;

use crate::output::{self, Output};
use crate::stop::Stop;

/// Looks until somebody stops it, or nobody reads what is printed. What the first look says of a mistake ends it. A
/// later look that fails is told of, and the next may succeed.
pub async fn run(every: Duration, output: Output, look: impl AsyncFn(Output) -> Result<()>) -> Result<()> {
    let stop = Stop::listen(None);
    let mut has_seen = false;
    while output::is_read() {
        tokio::select! {
            seen = look(output.watched()) => match seen {
                Ok(()) => has_seen = true,
                Err(error) if !has_seen => return Err(error),
                Err(error) => output.error(&*error),
            },
            () = stop.requested() => return Ok(()),
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stop.requested() => return Ok(()),
        }
    }
    Ok(())
}
