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

/// From when on the downstream bears how many calls a second; the earliest comes first.
pub type Bears = Vec<(Instant, f64)>;

/// A call that would have to wait longer for its turn is turned away.
const PATIENCE: Duration = Duration::from_secs(1);

/// The downstream.
#[derive(Debug)]
pub struct Accepting {
    takes: Duration,
    away: Option<Range<Instant>>,
    bears: Bears,
    /// When its turn comes for the next call.
    free_at: Mutex<Option<Instant>>,
    seen: Mutex<Vec<Seen>>,
}

impl Accepting {
    /// Answers each call after so long.
    pub const fn after(takes: Duration) -> Self {
        Self { takes, away: None, bears: Vec::new(), free_at: Mutex::new(None), seen: Mutex::new(Vec::new()) }
    }

    /// Answers each call with 503 meanwhile.
    #[must_use]
    pub fn away(self, away: Option<Range<Instant>>) -> Self {
        Self { away, ..self }
    }

    /// Bears no more than that: calls take turns, so they take longer the more of them there are. Nothing said: it
    /// bears all.
    #[must_use]
    pub fn bearing(self, bears: Bears) -> Self {
        Self { bears, ..self }
    }

    /// How long a call that comes now waits for its turn; `None`: it would be too long.
    fn turn(&self) -> Option<Duration> {
        let now = Instant::now();
        let Some((_, a_second)) = self.bears.iter().rev().find(|(from, _)| *from <= now) else {
            return Some(Duration::ZERO);
        };
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = free_at.map_or(now, |free_at| free_at.max(now));
        let wait = turn - now;
        (wait <= PATIENCE).then(|| {
            *free_at = Some(turn + Duration::from_secs_f64(1.0 / a_second));
            wait
        })
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
        let is_away = self.away.as_ref().is_some_and(|away| away.contains(&Instant::now()));
        let (key, target, turn) = (call.batch.to_string(), text(&body["target"]), self.turn());
        let turned_away = is_away || turn.is_none();
        let seen = Seen { at: Instant::now(), key, target, items, turned_away };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        if let Some(turn) = turn {
            tokio::time::sleep(turn + self.takes).await;
        }
        Ok(Answer { status: if turned_away { 503 } else { 200 }, ..Answer::default() })
    }
}
