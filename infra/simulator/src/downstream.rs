//! A downstream that accepts everything, unless it is away, takes its time, and remembers what came when.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use groupage_core::ports::{Answer, Call, Downstream, NoAnswer};
use serde_json::Value;
use tokio::time::Instant;

/// A call as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it came.
    pub at: Instant,
    /// `Idempotency-Key`.
    pub key: String,
    /// The body's `target`.
    pub target: String,
    /// The items' ids.
    pub items: Vec<String>,
    /// Whether it was turned away with 503.
    pub turned_away: bool,
}

/// The downstream.
#[derive(Debug)]
pub struct Accepting {
    takes: Duration,
    away: Option<Range<Instant>>,
    seen: Mutex<Vec<Seen>>,
}

impl Accepting {
    /// Answers each call after so long.
    pub const fn after(takes: Duration) -> Self {
        Self { takes, away: None, seen: Mutex::new(Vec::new()) }
    }

    /// Answers each call with 503 meanwhile.
    #[must_use]
    pub fn away(self, away: Option<Range<Instant>>) -> Self {
        Self { away, ..self }
    }

    /// Every call so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Downstream for Accepting {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        let body: Value = serde_json::from_str(&call.body).map_err(|_| NoAnswer::Connection)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = body["items"].as_array().into_iter().flatten().map(|item| text(&item["id"])).collect();
        let turned_away = self.away.as_ref().is_some_and(|away| away.contains(&Instant::now()));
        let (key, target) = (call.batch.to_string(), text(&body["target"]));
        let seen = Seen { at: Instant::now(), key, target, items, turned_away };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        tokio::time::sleep(self.takes).await;
        Ok(Answer { status: if turned_away { 503 } else { 200 }, ..Answer::default() })
    }
}
