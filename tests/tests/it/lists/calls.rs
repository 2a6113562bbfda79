//! The calls that a list's users make, in any order, and what may befall them.

use groupage_core::domain::list::Options;
use groupage_core::steps::Error;
use groupage_core::steps::list::{Listing, Placed, Refused, Taken};
use groupage_lab::cases::{self, Step};
use groupage_lab::prelude::*;
use proptest::prelude::*;

use super::model::{Expected, Model};

/// The steps as a process has them.
pub type Steps<'a> = Listing<'a, Faulty<'a, Lagging<MemoryStore, TestEnv>>, Faulty<'a, MemoryQueues>, TestEnv>;

/// An empty list is removed after so long, in milliseconds.
pub const IDLE_MS: u64 = 10 * HOUR_MS;
pub const HOUR_MS: u64 = 3_600_000;

/// Tasks of `PutEach` are named by the messages that brought them, each its own key; sweep comes after this many hours.
#[derive(Clone, Debug)]
pub enum Call {
    Open { hours: Option<u64> },
    Put { key: u8, count: usize },
    PutEach(Vec<u8>),
    Release { key: u8, count: u64 },
    Discard { key: u8 },
    Close,
    Peek { limit: usize },
    Sweep { hours: u64 },
}

/// Calls in any order; some lists are opened with a time to live, and some are left alone in the end.
pub fn steps() -> impl Strategy<Value = Vec<Step<Call>>> {
    let opened = prop::option::weighted(0.3, step(Just(Call::Open { hours: Some(5) })));
    let idle = prop::option::weighted(0.3, prop::collection::vec(step(Just(Call::Sweep { hours: 3 })), 4));
    let steps = (opened, prop::collection::vec(step(call()), 6..30), idle);
    steps.prop_map(|(opened, calls, idle)| opened.into_iter().chain(calls).chain(idle.unwrap_or_default()).collect())
}

fn step(call: impl Strategy<Value = Call>) -> impl Strategy<Value = Step<Call>> {
    cases::step(call, prop_oneof![0..6_usize, 0..14_usize])
}

fn call() -> impl Strategy<Value = Call> {
    let hours = prop::option::weighted(0.3, Just(5));
    prop_oneof![
        2 => hours.prop_map(|hours| Call::Open { hours }),
        8 => (0..12_u8, prop_oneof![1..6_usize, 1..98_usize]).prop_map(|(key, count)| Call::Put { key, count }),
        3 => prop::collection::btree_set(0..120_u8, 1..60).prop_map(|ids| Call::PutEach(ids.into_iter().collect())),
        10 => (0..30_u8, prop_oneof![1..10_u64, 1..250_u64]).prop_map(|(key, count)| Call::Release { key, count }),
        1 => (0..30_u8).prop_map(|key| Call::Discard { key }),
        1 => Just(Call::Close),
        2 => (1..20_usize).prop_map(|limit| Call::Peek { limit }),
        3 => (1..4_u64).prop_map(|hours| Call::Sweep { hours }),
    ]
}

pub fn id() -> ListId {
    ListId::new("l")
}

const fn options(hours: Option<u64>) -> Options {
    match hours {
        Some(hours) => Options { ttl_ms: Some(hours * HOUR_MS) },
        None => Options { ttl_ms: None },
    }
}

fn ids(key: u8, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{key}-{n}")).collect()
}

fn each(message: u8) -> String {
    format!("each-{message}")
}

fn message(id: &str) -> String {
    format!("{{ \"payload\": {{\"of\":\"{id}\"}}, \"id\": \"{id}\" }}")
}

/// What a call must do to the model; `None` of sweep, and of what has an answer for each of many.
pub fn expect(call: &Call, model: &mut Model, now: Timestamp) -> Option<Expected> {
    Some(match call {
        Call::Open { hours } => model.open(options(*hours).ttl_ms, now),
        Call::Put { key, count } => model.put(&format!("k{key}"), &ids(*key, *count), now),
        Call::PutEach(messages) => {
            // By one transaction after the other, each with those that were not put before.
            for message in messages {
                model.put(&each(*message), &[each(*message)], now);
            }
            return None;
        }
        Call::Release { key, count } => model.take(&format!("r{key}"), Some(*count), now),
        Call::Discard { key } => model.take(&format!("r{key}"), None, now),
        Call::Close => model.close(now),
        Call::Peek { limit } => model.peek(*limit),
        Call::Sweep { .. } => return None,
    })
}

/// Makes a call.
pub async fn make(call: &Call, steps: Steps<'_>) -> Result<Option<Expected>, Error> {
    let id = id();
    let range = |taken: Taken| {
        assert_eq!(taken.left, 0, "a call does all of it here");
        Expected::Range(taken.start.0, taken.count)
    };
    Ok(Some(match call {
        Call::Open { hours } => answered(steps.open(&id, options(*hours)).await?, |_| Expected::Done),
        Call::Put { key, count } => {
            let messages: Vec<String> = ids(*key, *count).iter().map(|id| message(id)).collect();
            let put = steps.put(&id, &format!("k{key}"), &messages).await?;
            answered(put, |(addition, _)| Expected::Range(addition.start.0, addition.count))
        }
        Call::PutEach(messages) => {
            let tasks: Vec<_> =
                messages.iter().map(|id| task_message::parse(&message(&each(*id)), "").unwrap()).collect();
            let placed = steps.put_each(&id, &tasks).await?;
            assert_eq!(placed.len(), tasks.len(), "everybody gets an answer");
            assert!(placed.iter().all(|(_, placed)| *placed != Placed::KeyUsed));
            return Ok(None);
        }
        Call::Release { key, count } => answered(steps.release(&id, &format!("r{key}"), *count).await?, range),
        Call::Discard { key } => answered(steps.discard(&id, &format!("r{key}")).await?, range),
        Call::Close => answered(steps.close(&id).await?, |_| Expected::Done),
        Call::Peek { limit } => answered(steps.peek(&id, None, *limit).await?, |peeked| {
            Expected::Next(peeked.slots.iter().map(|slot| id_in(&slot.body)).collect())
        }),
        Call::Sweep { .. } => {
            steps.look_after(&id, IDLE_MS).await?;
            return Ok(None);
        }
    }))
}

/// The id of the task that a message is for.
pub fn id_in(body: &str) -> String {
    task_message::parse(body, "").unwrap().id.as_str().to_owned()
}

fn answered<T>(answer: Result<T, Refused>, expected: impl Fn(T) -> Expected) -> Expected {
    match answer {
        Ok(answer) => expected(answer),
        Err(Refused::Unknown(_)) => Expected::Unknown,
        Err(Refused::Closed) => Expected::Closed,
        Err(Refused::OpenedOtherwise) => Expected::OpenedOtherwise,
        Err(Refused::KeyUsed) => Expected::KeyUsed,
        Err(refused) => panic!("{refused}"),
    }
}
