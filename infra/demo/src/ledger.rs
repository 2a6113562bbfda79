//! What the trucks were loaded with, and under which calls: the downstream's own account of a run.
//!
//! It trusts nobody. Whatever a caller must never do is written down as a [`Violation`], and the demo ends well only
//! if there is none.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// A parcel as a call brings it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The task's id.
    pub id: String,
    /// The truck that its payload names.
    pub truck: String,
    /// Its weight.
    pub kg: u64,
}

/// What became of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is on its truck.
    Loaded,
    /// No truck will ever take it.
    TooHeavy,
}

/// Something that a caller promised never to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The same `Idempotency-Key` came with other parcels.
    #[error("batch {batch} came again with other parcels")]
    MembersChanged {
        /// The key.
        batch: String,
    },
    /// A parcel was brought under a second key after it had its answer under the first.
    #[error("parcel {parcel} came in batch {second} after its answer in batch {first}")]
    BroughtTwice {
        parcel: String,
        /// The key under which it was answered.
        first: String,
        /// The key under which it came again.
        second: String,
    },
    /// A call for one truck held a parcel for another.
    #[error("parcel {parcel} came in batch {batch} of another truck")]
    WrongTruck {
        parcel: String,
        /// The key.
        batch: String,
    },
}

/// One `Idempotency-Key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub truck: String,
    /// Its parcels' ids, in the order of the first call.
    pub members: Vec<String>,
    /// Calls made with it, those that got no answer included.
    pub calls: u32,
    /// When the first of them arrived.
    pub first_called: Instant,
}

/// The answer that settled a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The key of the call.
    pub batch: String,
    /// What it was told.
    pub outcome: Outcome,
}

/// How the calls ended, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All that arrived.
    pub all: u64,
    /// Turned away: too many at once (HTTP 429).
    pub throttled: u64,
    /// Failed for now (HTTP 503).
    pub unavailable: u64,
    /// Answered for every parcel (HTTP 200).
    pub answered: u64,
    /// Not understood (HTTP 400).
    pub malformed: u64,
}

/// The account. One call at a time may write in it.
#[derive(Debug, Default)]
pub struct Ledger {
    batches: BTreeMap<String, Batch>,
    answers: HashMap<String, Answer>,
    calls: Calls,
    violations: Vec<Violation>,
}

impl Ledger {
    /// How the calls ended so far.
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// What callers did against their promise.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Every key that came through to the trucks, with its batch.
    pub fn batches(&self) -> impl Iterator<Item = (&str, &Batch)> {
        self.batches.iter().map(|(key, batch)| (key.as_str(), batch))
    }

    /// What became of a parcel and under which key, if it was answered.
    pub fn answer(&self, parcel: &str) -> Option<&Answer> {
        self.answers.get(parcel)
    }

    pub(super) fn throttle(&mut self) {
        self.calls.all += 1;
        self.calls.throttled += 1;
    }

    pub(super) fn not_understood(&mut self) {
        self.calls.all += 1;
        self.calls.malformed += 1;
    }

    /// Notes a call that came through. Returns its number under its key, from 1.
    pub(super) fn call(&mut self, key: &str, truck: &str, parcels: &[Parcel], now: Instant) -> u32 {
        self.calls.all += 1;
        let members: Vec<String> = parcels.iter().map(|parcel| parcel.id.clone()).collect();
        let batch = self.batches.entry(key.to_owned()).or_insert_with(|| Batch {
            truck: truck.to_owned(),
            members: members.clone(),
            calls: 0,
            first_called: now,
        });
        batch.calls += 1;
        let number = batch.calls;
        if batch.members != members || batch.truck != truck {
            self.violations.push(Violation::MembersChanged { batch: key.to_owned() });
        }
        for parcel in parcels.iter().filter(|parcel| parcel.truck != truck) {
            self.violations.push(Violation::WrongTruck { parcel: parcel.id.clone(), batch: key.to_owned() });
        }
        number
    }

    pub(super) fn fail(&mut self) {
        self.calls.unavailable += 1;
    }

    /// Loads what is not too heavy, once: a repeated call gets the first one's answer.
    pub(super) fn load(&mut self, key: &str, parcels: &[Parcel], max_kg: u64) -> Vec<Outcome> {
        self.calls.answered += 1;
        parcels.iter().map(|parcel| self.load_one(key, parcel, max_kg)).collect()
    }

    fn load_one(&mut self, key: &str, parcel: &Parcel, max_kg: u64) -> Outcome {
        if let Some(answer) = self.answers.get(&parcel.id) {
            if answer.batch != key {
                self.violations.push(Violation::BroughtTwice {
                    parcel: parcel.id.clone(),
                    first: answer.batch.clone(),
                    second: key.to_owned(),
                });
            }
            return answer.outcome;
        }
        let outcome = if parcel.kg > max_kg { Outcome::TooHeavy } else { Outcome::Loaded };
        self.answers.insert(parcel.id.clone(), Answer { batch: key.to_owned(), outcome });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_KG: u64 = 100;

    fn parcels(ids: &[&str]) -> Vec<Parcel> {
        ids.iter().map(|id| Parcel { id: (*id).to_owned(), truck: "t1".to_owned(), kg: 5 }).collect()
    }

    #[test]
    fn a_repeated_call_loads_nothing_again_and_is_no_violation() {
        let mut ledger = Ledger::default();
        let parcels = parcels(&["a", "b"]);
        for number in [1, 2] {
            assert_eq!(ledger.call("k1", "t1", &parcels, Instant::now()), number);
            assert_eq!(ledger.load("k1", &parcels, MAX_KG), [Outcome::Loaded, Outcome::Loaded]);
        }
        assert_eq!(ledger.violations(), []);
        assert_eq!(ledger.answers.len(), 2);
        assert_eq!(ledger.calls(), Calls { all: 2, answered: 2, ..Calls::default() });
    }

    #[test]
    fn the_same_key_with_other_parcels_is_a_violation() {
        let mut ledger = Ledger::default();
        ledger.call("k1", "t1", &parcels(&["a", "b"]), Instant::now());
        ledger.call("k1", "t1", &parcels(&["a"]), Instant::now());
        assert_eq!(ledger.violations(), [Violation::MembersChanged { batch: "k1".to_owned() }]);
    }

    #[test]
    fn a_parcel_under_two_keys_is_a_violation_only_once_it_was_answered() {
        let mut ledger = Ledger::default();
        let parcels = parcels(&["a"]);
        // The first call failed for now, and the task went into another batch: that is allowed.
        ledger.call("k1", "t1", &parcels, Instant::now());
        ledger.fail();
        ledger.call("k2", "t1", &parcels, Instant::now());
        ledger.load("k2", &parcels, MAX_KG);
        assert_eq!(ledger.violations(), []);
        ledger.load("k1", &parcels, MAX_KG);
        let twice = Violation::BroughtTwice { parcel: "a".to_owned(), first: "k2".to_owned(), second: "k1".to_owned() };
        assert_eq!(ledger.violations(), [twice]);
    }

    #[test]
    fn a_parcel_for_another_truck_is_a_violation() {
        let mut ledger = Ledger::default();
        ledger.call("k1", "t2", &parcels(&["a"]), Instant::now());
        assert!(matches!(ledger.violations(), [Violation::WrongTruck { .. }]));
    }

    #[test]
    fn a_heavy_parcel_is_refused_and_its_neighbour_is_loaded() {
        let mut ledger = Ledger::default();
        let mut parcels = parcels(&["a", "b"]);
        parcels[0].kg = MAX_KG + 1;
        assert_eq!(ledger.load("k1", &parcels, MAX_KG), [Outcome::TooHeavy, Outcome::Loaded]);
        let answer = Answer { batch: "k1".to_owned(), outcome: Outcome::TooHeavy };
        assert_eq!((ledger.answer("a"), ledger.answer("c")), (Some(&answer), None));
    }
}
