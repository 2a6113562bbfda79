//! The calls that a tracker's users make, in any order, and what may befall them.

use groupage_core::domain::tracker::{GROUP_SIZE, ItemRange, Place};
use groupage_core::steps::Error;
use groupage_core::steps::track::{Lifetimes, Refused, Tracking};
use groupage_lab::cases::{self, Step};
use groupage_lab::prelude::*;
use proptest::prelude::*;

use super::model::{Expected, Model, options};

/// The steps as a process has them.
pub type Steps<'a> = Tracking<'a, Faulty<'a, Lagging<MemoryStore, TestEnv>>, Faulty<'a, MemoryQueues>, TestEnv>;

/// `Ack` has ranges by their first item and their length, and whether they failed; `AckTheRest` everything that is
/// missing, so that trackers complete. Sweep comes after this many hours.
#[derive(Clone, Debug)]
pub enum Call {
    Open { hurried: bool },
    Add { key: u8, count: u64 },
    Seal,
    Ack(Vec<(u64, u64, bool)>),
    AckTheRest { failed: bool },
    Settle(Vec<(u64, bool)>),
    Abandon,
    Sweep { hours: u64 },
}

/// Calls in any order; mostly the last ones complete the tracker, if it can be.
pub fn steps() -> impl Strategy<Value = Vec<Step<Call>>> {
    let rest = step(any::<bool>().prop_map(|failed| Call::AckTheRest { failed }));
    let last = (rest, step(Just(Call::Seal))).prop_map(|(rest, seal)| vec![rest, seal]).prop_shuffle();
    let steps = (prop::collection::vec(step(call()), 4..20), prop::option::weighted(0.7, last));
    steps.prop_map(|(first, last)| [first, last.unwrap_or_default()].concat())
}

fn step(call: impl Strategy<Value = Call>) -> impl Strategy<Value = Step<Call>> {
    cases::step(call, prop_oneof![0..4_usize, 0..10_usize])
}

fn call() -> impl Strategy<Value = Call> {
    let count = prop_oneof![1..20_u64, 7_160..7_176_u64, 1..20_000_u64];
    let range = (0..20_000_u64, prop_oneof![1..4_u64, 1..3_000_u64], any::<bool>());
    let low = (0..30_u64, 1..20_u64, any::<bool>());
    prop_oneof![
        3 => prop::bool::weighted(0.5).prop_map(|hurried| Call::Open { hurried }),
        5 => (0..4_u8, count).prop_map(|(key, count)| Call::Add { key, count }),
        3 => Just(Call::Seal),
        4 => prop::collection::vec(prop_oneof![range, low], 1..4).prop_map(Call::Ack),
        4 => any::<bool>().prop_map(|failed| Call::AckTheRest { failed }),
        2 => prop::collection::vec((prop_oneof![0..30_u64, 0..20_000_u64], any::<bool>()), 1..9).prop_map(Call::Settle),
        1 => Just(Call::Abandon),
        2 => (1..4_u64).prop_map(|hours| Call::Sweep { hours }),
    ]
}

pub fn id() -> TrackerId {
    TrackerId::new("t")
}

const fn outcome(failed: bool) -> Outcome {
    if failed { Outcome::Failed } else { Outcome::Succeeded }
}

/// The ranges of a call, those of a made-up number within the tracker.
fn numbers(call: &Call, model: &Model) -> Vec<(u64, u64, Outcome)> {
    match call {
        Call::Ack(ranges) => {
            ranges.iter().map(|(first, count, failed)| (*first, first + count - 1, outcome(*failed))).collect()
        }
        Call::AckTheRest { failed } => {
            let mut ranges: Vec<(u64, u64, Outcome)> = Vec::new();
            for number in (0_u64..).zip(&model.items).filter(|(_, item)| item.is_none()).map(|(number, _)| number) {
                match ranges.last_mut() {
                    Some((_, last, _)) if *last + 1 == number => *last = number,
                    Some(_) | None => ranges.push((number, number, outcome(*failed))),
                }
            }
            ranges
        }
        Call::Open { .. } | Call::Add { .. } | Call::Seal | Call::Settle(_) | Call::Abandon | Call::Sweep { .. } => {
            Vec::new()
        }
    }
}

/// A range of items, as the ranges of its groups.
fn ranges(numbers: &[(u64, u64, Outcome)]) -> Vec<(ItemRange, Outcome)> {
    let mut ranges = Vec::new();
    for (first, last, outcome) in numbers {
        let mut next = *first;
        while next <= *last {
            let Place { group, index } = Place::of(next).unwrap();
            let end = (next + u64::from(GROUP_SIZE - index) - 1).min(*last);
            let last = Place::of(end).unwrap().index;
            ranges.push((ItemRange { tracker: id(), group, first: index, last }, *outcome));
            next = end + 1;
        }
    }
    ranges
}

/// What a call must do to the model.
pub fn expect(call: &Call, model: &mut Model, deadline: Timestamp) -> Option<Expected> {
    match call {
        Call::Open { hurried } => Some(model.open(hurried.then_some(deadline))),
        Call::Add { key, count } => Some(model.add(&format!("k{key}"), *count)),
        Call::Seal => Some(model.seal()),
        Call::Ack(_) | Call::AckTheRest { .. } => {
            let ranges = numbers(call, model);
            Some(model.ack(&ranges))
        }
        Call::Settle(items) => {
            let items: Vec<_> = items.iter().map(|(number, failed)| (*number, outcome(*failed))).collect();
            Some(model.settle(&items))
        }
        Call::Abandon => Some(model.abandon()),
        Call::Sweep { .. } => None,
    }
}

/// Makes a call; `None` is sweep's answer.
pub async fn make(
    call: &Call,
    model: &Model,
    deadline: Timestamp,
    steps: Steps<'_>,
) -> Result<Option<Expected>, Error> {
    let new = |new| if new { Expected::New } else { Expected::Before };
    Ok(Some(match call {
        Call::Open { hurried } => {
            answered(steps.open(id(), options(hurried.then_some(deadline))).await?, |(_, fresh)| new(fresh))
        }
        Call::Add { key, count } => {
            answered(steps.add(&id(), &format!("k{key}"), *count).await?, |(_, fresh)| new(fresh))
        }
        Call::Seal => answered(steps.seal(&id()).await?, |_| Expected::New),
        Call::Ack(_) | Call::AckTheRest { .. } => {
            let ranges = ranges(&numbers(call, model));
            answered(steps.ack(&id(), &ranges).await?, |acked| Expected::Fresh(acked.fresh))
        }
        Call::Settle(items) => {
            let item = |(number, failed): &(u64, bool)| {
                (ItemId { tracker: id(), at: Place::of(*number).unwrap() }, outcome(*failed))
            };
            Expected::Strange(steps.settle(items.iter().map(item).collect()).await.all()? as u64)
        }
        Call::Abandon => answered(steps.abandon(&id()).await?, |_| Expected::New),
        Call::Sweep { .. } => {
            steps.look_after(&id(), Lifetimes::default()).await?;
            return Ok(None);
        }
    }))
}

fn answered<T>(answer: Result<T, Refused>, expected: impl Fn(T) -> Expected) -> Expected {
    match answer {
        Ok(answer) => expected(answer),
        Err(Refused::Unknown(_)) => Expected::Unknown,
        Err(Refused::Over(how)) => Expected::Over(how),
        Err(Refused::Sealed) => Expected::Sealed,
        Err(Refused::OpenedOtherwise) => Expected::OpenedOtherwise,
        Err(Refused::KeyUsed) => Expected::KeyUsed,
        Err(Refused::NotAnItem { .. }) => Expected::NotAnItem,
        Err(refused @ (Refused::BadKey | Refused::BadCount | Refused::TooMany)) => panic!("{refused}"),
    }
}

/// Time passes between two calls, and more of it before sweep comes. What is opened twice in one millisecond is opened
/// once, and a repeat is told so.
pub async fn wait(call: &Call, env: &TestEnv) {
    let hours = if let Call::Sweep { hours } = call { *hours } else { 0 };
    env.sleep(hours * 3_600_000 + 60_000).await;
}
