//! How far a list is, and what waits next.

use std::time::Duration;

use anyhow::Result;
use groupage_core::domain::Timestamp;
use groupage_core::domain::id::{ListId, Token};
use groupage_core::domain::list::Purpose;
use groupage_core::ports::Env;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Shelf;
use crate::output::{Ending, grouped};
use crate::sheet::{Cell, Moment, Sheet};

#[derive(Serialize)]
struct Shown {
    list: ListId,
    /// open or closed.
    state: &'static str,
    put: u64,
    waiting: u64,
    released: u64,
    /// Tasks of releases that are under way.
    releasing: u64,
    discarded: u64,
    opened_at: Moment,
    active_at: Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    under_way: Vec<UnderWay>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<Next>,
}

/// A release or discard that is not done.
#[derive(Serialize)]
struct UnderWay {
    key: String,
    what: &'static str,
    tasks: u64,
}

/// A task that waits.
#[derive(Serialize)]
struct Next {
    token: Token,
    task: Box<RawValue>,
}

/// Prints a list.
pub async fn run(shelf: &Shelf, peek: Option<u64>) -> Result<Ending> {
    let progress = shelf.given(shelf.steps().progress(&shelf.id).await?)?;
    let slots = match peek {
        Some(limit) => {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            shelf.given(shelf.steps().peek(&shelf.id, None, limit).await?)?.slots
        }
        None => Vec::new(),
    };
    let under_way = progress.under_way().map(|(key, purpose, tasks)| {
        let what = match purpose {
            Purpose::Release { .. } => "release",
            Purpose::Discard => "discard",
        };
        UnderWay { key: key.to_owned(), what, tasks }
    });
    let next = slots.into_iter().filter_map(|slot| {
        let task = RawValue::from_string(slot.body).ok()?;
        Some(Next { token: slot.token, task })
    });
    let ttl = progress.list.tail.options.ttl_ms;
    let shown = Shown {
        list: shelf.id.clone(),
        state: progress.list.tail.state.word(),
        put: progress.put,
        waiting: progress.waiting,
        released: progress.released,
        releasing: progress.releasing,
        discarded: progress.discarded,
        opened_at: Moment(progress.list.tail.life.opened_at),
        active_at: Moment(progress.list.active_at()),
        ttl: ttl.map(|ttl_ms| humantime::format_duration(Duration::from_millis(ttl_ms)).to_string()),
        under_way: under_way.collect(),
        next: next.collect(),
    };
    shelf.output.sheet(&shown, || shown.sheet(shelf.access.env().now()));
    Ok(Ending::Well)
}

impl Shown {
    fn sheet(&self, now: Timestamp) -> Sheet {
        let mut rows = vec![
            ("list", self.list.as_str().into()),
            ("state", self.state.into()),
            ("tasks put", grouped(self.put).into()),
            ("waiting", grouped(self.waiting).into()),
            ("released", grouped(self.released).into()),
            ("discarded", grouped(self.discarded).into()),
            ("opened", self.opened_at.told(now).into()),
            ("last used", self.active_at.told(now).into()),
        ];
        if self.releasing > 0 {
            rows.insert(5, ("being released", grouped(self.releasing).into()));
        }
        rows.extend(self.ttl.as_ref().map(|ttl| ("removed when idle for", ttl.into())));
        let under_way = self
            .under_way
            .iter()
            .map(|UnderWay { key, what, tasks }| vec![(*what).into(), Cell::number(*tasks), key.into()]);
        let next = self.next.iter().map(|Next { token, task }| vec![token.to_string().into(), task.get().into()]);
        Sheet::facts(rows).with_table("Under way", &["what", "tasks", "key"], under_way.collect()).with_table(
            "Next",
            &["token", "task"],
            next.collect(),
        )
    }
}
