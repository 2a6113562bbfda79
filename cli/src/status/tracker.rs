//! One tracker: where it stands, and how many of its items are settled.

use anyhow::Result;
use groupage_console::states;
use groupage_console::words::{grouped, span};
use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{End, ItemRange, State};
use groupage_core::domain::{NotificationQueue, Timestamp};
use groupage_core::ports::Env;
use groupage_core::steps::track::Progress;
use serde::Serialize;

use crate::output::{Output, unknown};
use crate::sheet::{Cell, Moment, Sheet, Tone};
use crate::stack::Access;

#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct TrackerStatus {
    tracker: TrackerId,
    /// open, sealed, completed, overdue or abandoned.
    state: &'static str,
    items: u64,
    succeeded: u64,
    failed: u64,
    missing: u64,
    opened_at: Moment,
    deadline: Option<Moment>,
    notify: String,
    ended_at: Option<Moment>,
    /// Whether its notice is sent.
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
        State::Ended(End { at, told, missing_items, .. }) => (Some(Moment(*at)), Some(*told), missing_items.clone()),
    };
    let now = access.env().now();
    let pace = states::pace(&tracker, succeeded + failed, missing, now);
    let shown = TrackerStatus {
        tracker: tracker.id.clone(),
        state: tracker.state.word(),
        items: tracker.items,
        succeeded,
        failed,
        missing,
        opened_at: Moment(tracker.opened_at),
        deadline: tracker.deadline.map(Moment),
        notify: tracker.notify.to_string(),
        ended_at,
        told,
        missing_items,
    };
    output.sheet(&shown, || shown.sheet(pace, now));
    Ok(())
}

impl TrackerStatus {
    /// `pace`: items a second, and how long the missing ones take at that.
    fn sheet(&self, pace: Option<(f64, u64)>, now: Timestamp) -> Sheet {
        let tone = match self.state {
            "completed" if self.failed == 0 => Tone::Good,
            "open" | "sealed" => Tone::Wary,
            _ => Tone::Bad,
        };
        let mut rows = vec![
            ("tracker", self.tracker.as_str().into()),
            ("state", Cell::new(self.state, tone)),
            ("items", grouped(self.items).into()),
            ("succeeded", grouped(self.succeeded).into()),
            ("failed", Cell::new(grouped(self.failed), if self.failed > 0 { Tone::Bad } else { Tone::Plain })),
            ("missing", grouped(self.missing).into()),
        ];
        if let Some((a_second, left_ms)) = pace {
            rows.push(("items a second, so far", format!("{a_second:.1}").into()));
            rows.push(("time left at that", span(left_ms).into()));
        }
        rows.push(("opened", self.opened_at.told(now).into()));
        rows.extend(self.deadline.map(|at| ("deadline", at.told(now).into())));
        rows.extend(self.ended_at.map(|at| ("ended", at.told(now).into())));
        rows.push(("notice goes to", self.notify.as_str().into()));
        // What nobody is to be told of counts as told.
        if let Some(told) = self.told.filter(|_| self.notify != NotificationQueue::None.to_string()) {
            rows.push(("its notice", if told { "is sent" } else { "is not sent yet" }.into()));
        }
        if !self.missing_items.is_empty() {
            let items: Vec<String> = self.missing_items.iter().cloned().map(String::from).collect();
            rows.push(("missing at its end", items.join(" ").into()));
        }
        Sheet::facts(rows)
    }
}
