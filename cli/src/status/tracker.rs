//! One tracker: where it stands, and how many of its items are settled.

use anyhow::Result;
use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{End, ItemRange, State};
use groupage_core::steps::track::Progress;
use serde::Serialize;

use crate::output::{Output, time, unknown};
use crate::stack::Access;

#[derive(Serialize)]
struct TrackerStatus {
    tracker: TrackerId,
    /// open, sealed, completed, overdue or abandoned.
    state: &'static str,
    items: u64,
    succeeded: u64,
    failed: u64,
    missing: u64,
    opened_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    notify: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Whether its notice is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<bool>,
    /// The first that were missing at its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_items: Vec<ItemRange>,
}

/// Prints a tracker.
pub async fn show(access: &Access, id: &TrackerId, output: &Output) -> Result<()> {
    let found = access.tracking().progress(id).await?;
    let Progress { tracker, succeeded, failed, missing } = found.map_err(|_| unknown("tracker", id.as_str()))?;
    let (ended_at, told, missing_items) = match &tracker.state {
        State::Open | State::Sealed => (None, None, Vec::new()),
        State::Ended(End { at, told, missing_items, .. }) => (Some(time(*at)), Some(*told), missing_items.clone()),
    };
    output.object(&TrackerStatus {
        tracker: tracker.id.clone(),
        state: tracker.state.word(),
        items: tracker.items,
        succeeded,
        failed,
        missing,
        opened_at: time(tracker.opened_at),
        deadline: tracker.deadline.map(time),
        notify: tracker.notify.to_string(),
        ended_at,
        told,
        missing_items,
    });
    Ok(())
}
