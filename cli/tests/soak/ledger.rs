//! The downstream's own account: what came under which key, and what it answered.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::dice::roll;

/// What became of an item under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Succeeded,
    /// For good.
    Refused,
    /// To come again, under another key.
    Again,
}

/// The answers of one `Idempotency-Key`: given once, and the same whenever it comes again.
#[derive(Debug)]
struct Key {
    members: Vec<String>,
    calls: u32,
    answered: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    keys: HashMap<String, Key>,
    /// The key under which an item was settled, and how.
    settled: HashMap<String, (String, Fate)>,
    /// What callers promised never to do.
    pub violations: Vec<String>,
    /// How calls ended, by name.
    pub calls: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// Notes a call; returns its number under its key, from 1.
    pub fn call(&mut self, key: &str, members: &[String]) -> u32 {
        let known = self.keys.entry(key.to_owned()).or_insert_with(|| Key {
            members: members.to_vec(),
            calls: 0,
            answered: false,
        });
        known.calls += 1;
        if known.members != members {
            self.violations.push(format!("{key} came again with other members"));
        }
        known.calls
    }

    pub fn count(&mut self, ending: &'static str) {
        *self.calls.entry(ending).or_default() += 1;
    }

    /// Does what is asked under a key, once, and says what became of each member.
    pub fn answer(&mut self, seed: &str, key: &str) -> Value {
        let known = self.keys.get_mut(key).unwrap();
        let fates: Vec<(String, Fate)> = known.members.iter().map(|id| (id.clone(), fate(seed, key, id))).collect();
        if !std::mem::replace(&mut known.answered, true) {
            for (id, fate) in fates.iter().filter(|(_, fate)| *fate != Fate::Again) {
                if let Some((first, _)) = self.settled.insert(id.clone(), (key.to_owned(), *fate)) {
                    self.violations.push(format!("{id} came under {key} after it was settled under {first}"));
                }
            }
        }
        let result = |(id, fate): &(String, Fate)| match fate {
            Fate::Succeeded => json!({ "id": id, "status": "succeeded" }),
            Fate::Refused => json!({ "id": id, "status": "failed", "reason": "refused" }),
            Fate::Again => json!({ "id": id, "status": "retry", "reason": "not_now" }),
        };
        json!({ "results": fates.iter().map(result).collect::<Vec<_>>() })
    }

    pub fn settled(&self, id: &str) -> Option<&(String, Fate)> {
        self.settled.get(id)
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }
}

fn fate(seed: &str, key: &str, id: &str) -> Fate {
    if id.ends_with("-refused") {
        Fate::Refused
    } else if roll(&["item", seed, key, id]).is_multiple_of(25) {
        Fate::Again
    } else {
        Fate::Succeeded
    }
}
