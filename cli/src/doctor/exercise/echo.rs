//! The downstream of the canaries: it does what each of them asks for, and remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use groupage_aws::System;
use groupage_core::domain::{BatchId, Reason, TaskId, Timestamp};
use groupage_core::ports::{Answer, Call, Downstream, Env, NoAnswer};
use serde::Deserialize;
use serde_json::json;

use super::canary::{Does, Payload};

/// What was heard of one canary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// In how many batches it came, each batch counted once however often it was called.
    pub batches: BTreeSet<BatchId>,
    /// The batches in which it was answered for good.
    pub settled: BTreeSet<BatchId>,
    /// When that was first.
    pub settled_at: Option<Timestamp>,
}

/// Answers, and remembers whom.
#[derive(Debug, Default)]
pub struct Echo(Mutex<BTreeMap<TaskId, Heard>>);

#[derive(Deserialize)]
struct Body {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    id: TaskId,
    payload: Payload,
}

impl Echo {
    fn memory(&self) -> MutexGuard<'_, BTreeMap<TaskId, Heard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that was heard.
    pub fn heard(&self) -> BTreeMap<TaskId, Heard> {
        self.memory().clone()
    }

    /// Whether a canary was answered for good.
    pub fn has_settled(&self, id: &TaskId) -> bool {
        self.memory().get(id).is_some_and(|heard| !heard.settled.is_empty())
    }

    fn answer(&self, body: &Body, batch: &BatchId, now: Timestamp) -> serde_json::Value {
        let mut memory = self.memory();
        let results = body.items.iter().map(|item| {
            let heard = memory.entry(item.id.clone()).or_default();
            heard.batches.insert(batch.clone());
            let status = match item.payload.canary.does {
                Does::Succeed => "succeeded",
                Does::Fail => "failed",
                // A batch that is called again gets the answer that it got before.
                Does::RetryOnce if heard.batches.len() == 1 => "retry",
                Does::RetryOnce => "succeeded",
            };
            if status != "retry" {
                heard.settled.insert(batch.clone());
                heard.settled_at.get_or_insert(now);
            }
            json!({ "id": item.id, "status": status, "reason": "canary" })
        });
        json!({ "results": results.collect::<Vec<_>>() })
    }
}

impl Downstream for Echo {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        let body = serde_json::from_str::<Body>(&call.body);
        // Not one of ours: somebody sent it to the canary route by hand.
        let body = body.map_err(|_| NoAnswer::Failed(Reason::new("no_canary")))?;
        let answer = self.answer(&body, call.batch, System.now());
        Ok(Answer { status: 200, body: answer.to_string().into_bytes(), ..Answer::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(items: &[(&str, &str)]) -> Body {
        let items = items
            .iter()
            .map(|(id, does)| json!({ "id": id, "payload": { "canary": { "target": "x", "does": does } } }));
        serde_json::from_value(json!({ "items": items.collect::<Vec<_>>() })).unwrap()
    }

    fn statuses(answer: &serde_json::Value) -> Vec<&str> {
        answer["results"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect()
    }

    #[test]
    fn each_canary_gets_what_it_asks_for_and_a_call_that_is_repeated_the_same_again() {
        let echo = Echo::default();
        let all = body(&[("a", "succeed"), ("b", "fail"), ("c", "retry_once")]);
        let answer = |batch: &str| echo.answer(&all, &BatchId::new(batch), Timestamp(7));
        assert_eq!(statuses(&answer("1")), ["succeeded", "failed", "retry"]);
        assert_eq!(statuses(&answer("1")), ["succeeded", "failed", "retry"]);
        assert!(echo.has_settled(&TaskId::new("b")) && !echo.has_settled(&TaskId::new("c")));
        assert_eq!(statuses(&answer("2")), ["succeeded", "failed", "succeeded"]);
        let heard = echo.heard();
        assert_eq!(heard[&TaskId::new("a")].settled.len(), 2, "it came in two batches, and that is told of");
        assert_eq!(heard[&TaskId::new("c")].settled.len(), 1);
    }
}
