//! How far a list is, and what waits next.

use std::time::Duration;

use anyhow::Result;
use groupage_core::domain::id::{ListId, Token};
use groupage_core::domain::list::Purpose;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Shelf;
use crate::output::{Ending, grouped, summary, time};

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
    opened_at: String,
    active_at: String,
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
        opened_at: time(progress.list.tail.life.opened_at),
        active_at: time(progress.list.active_at()),
        ttl: ttl.map(|ttl_ms| humantime::format_duration(Duration::from_millis(ttl_ms)).to_string()),
        under_way: under_way.collect(),
        next: next.collect(),
    };
    shelf.output.result(&shown, || shown.text());
    Ok(Ending::Well)
}

impl Shown {
    fn text(&self) -> String {
        let mut rows = vec![
            ("list", self.list.to_string()),
            ("state", self.state.to_owned()),
            ("tasks put", grouped(self.put)),
            ("waiting", grouped(self.waiting)),
            ("released", grouped(self.released)),
            ("discarded", grouped(self.discarded)),
            ("opened", self.opened_at.clone()),
            ("last used", self.active_at.clone()),
        ];
        if self.releasing > 0 {
            rows.insert(5, ("being released", grouped(self.releasing)));
        }
        rows.extend(self.ttl.clone().map(|ttl| ("removed when idle for", ttl)));
        let mut text = summary(rows);
        for UnderWay { key, what, tasks } in &self.under_way {
            text.push_str(&format!("\nunder way: {what} of {} tasks, key {key}", grouped(*tasks)));
        }
        for Next { token, task } in &self.next {
            text.push_str(&format!("\n{token}  {task}"));
        }
        text
    }
}
