//! The calls that a stream's users make, in any order, and what may befall them.

use std::collections::BTreeMap;

use groupage_core::domain::stream::{Ending, Life, Options};
use groupage_core::steps::Error;
use groupage_core::steps::stream::{Event, Fed, Refused, Streaming};
use groupage_lab::cases::{self, Step};
use groupage_lab::prelude::*;
use proptest::prelude::*;

use super::model::{Expected, Model, is_poison};

pub type Steps<'a> = Streaming<'a, Faulty<'a, MemoryStore>, Faulty<'a, MemoryQueues>, TestEnv>;

/// How long what is over stays.
pub const RETENTION_MS: u64 = 400 * 24 * 3_600_000;

/// `Feed` begins so far behind the next number (or ahead of it), with one event that was changed; `FeedFar` feeds this
/// many pages of the largest size. `SettleAllBut` settles all events of a range but one. Sweep comes after this many
/// minutes.
#[derive(Clone, Debug)]
pub enum Call {
    Open { window: u64 },
    Feed { behind: i64, count: u64, changed: Option<u64> },
    FeedFar { pages: u64 },
    Settle(BTreeMap<u64, bool>),
    SettleAllBut { from: u64, count: u64, but: u64 },
    SettleRest,
    Commit,
    End(Ending),
    Sweep { minutes: u64 },
}

/// Calls in any order on a stream of either window; most end it, and settle what is left.
pub fn steps() -> impl Strategy<Value = Vec<Step<Call>>> {
    let window = prop_oneof![Just(700_u64), Just(1_000_000)];
    let rest = (step(Just(Call::SettleRest)), step(Just(Call::End(Ending::Ended))));
    let last = rest.prop_map(|(rest, end)| vec![rest, end]).prop_shuffle();
    let open = step(window.prop_map(|window| Call::Open { window }));
    (open, prop::collection::vec(step(call()), 4..24), prop::option::weighted(0.6, last))
        .prop_map(|(open, calls, last)| [vec![open], calls, last.unwrap_or_default()].concat())
}

fn step(call: impl Strategy<Value = Call>) -> impl Strategy<Value = Step<Call>> {
    cases::step(call, prop_oneof![0..4_usize, 0..16_usize, 0..80_usize])
}

fn call() -> impl Strategy<Value = Call> {
    let count = prop_oneof![1..20_u64, 1..501_u64];
    let behind = prop_oneof![6 => Just(0_i64), 3 => 0..600_i64, 1 => -2..9_000_i64];
    let changed = prop::option::weighted(0.1, 0..10_u64);
    let number = || prop_oneof![3 => 0..40_u64, 2 => 0..1_000_u64, 1 => 0..16_000_u64];
    let events = prop::collection::btree_map(number(), prop::bool::weighted(0.2), 1..40);
    prop_oneof![
        1 => Just(Call::Open { window: 700 }),
        6 => (behind, count, changed).prop_map(|(behind, count, changed)| Call::Feed { behind, count, changed }),
        2 => (2..33_u64).prop_map(|pages| Call::FeedFar { pages }),
        4 => events.prop_map(Call::Settle),
        4 => (number(), 1..9_000_u64, 0..9_000_u64)
            .prop_map(|(from, count, but)| Call::SettleAllBut { from, count, but: from + but }),
        2 => Just(Call::SettleRest),
        2 => Just(Call::Commit),
        1 => prop_oneof![Just(Ending::Ended), Just(Ending::Failed)].prop_map(Call::End),
        3 => (1..6_u64).prop_map(|minutes| Call::Sweep { minutes }),
    ]
}

pub fn id() -> StreamId {
    StreamId::new("s")
}

pub fn options(window: u64) -> Options {
    Options { window, commit_events: Some(500), notify: NotificationQueue::Default, ..Options::default() }
}

pub fn offset(number: u64) -> Offset {
    Offset::parse(&format!("at {}", number * 7)).unwrap()
}

pub fn event(number: u64, is_changed: bool) -> Event {
    let body = if is_poison(number) {
        format!("poison {number} {is_changed}")
    } else {
        format!(r#"{{"payload":{{"n":{number},"changed":{is_changed}}}}}"#)
    };
    Event { offset: offset(number), body }
}

fn events(from: u64, count: u64, changed: Option<u64>) -> Vec<Event> {
    (from..from + count).map(|number| event(number, changed == Some(number))).collect()
}

/// The events that a call settles, as things are.
pub fn settled_by(call: &Call, model: &Model) -> BTreeMap<u64, bool> {
    match call {
        Call::Settle(events) => events.clone(),
        Call::SettleAllBut { from, count, but } => (*from..from + count)
            .filter(|number| number != but && *number < model.next)
            .map(|n| (n, n % 5 == 0))
            .collect(),
        Call::SettleRest => {
            (0..model.next).filter(|number| !model.settled.contains_key(number)).map(|n| (n, n % 7 == 0)).collect()
        }
        Call::Open { .. }
        | Call::Feed { .. }
        | Call::FeedFar { .. }
        | Call::Commit
        | Call::End(_)
        | Call::Sweep { .. } => BTreeMap::new(),
    }
}

fn first(behind: i64, model: &Model) -> u64 {
    model.next.saturating_add_signed(-behind)
}

/// Which event is another than the source had there before, if it had one.
fn fed_before(from: u64, changed: Option<u64>, model: &Model) -> Option<u64> {
    changed.map(|changed| from + changed).filter(|changed| *changed < model.next)
}

/// What the call must be answered with, and does to the model.
pub fn expect(call: &Call, model: &mut Model) -> Option<Expected> {
    Some(match call {
        Call::Open { window } => model.open(&options(*window)),
        Call::Feed { behind, count, changed } => {
            let from = first(*behind, model);
            model.feed(from, *count, fed_before(from, *changed, model))
        }
        Call::FeedFar { pages } => {
            let mut last = Expected::Done;
            for _ in 0..*pages {
                last = model.feed(model.next, 500, None);
                if last.is_refused() {
                    break;
                }
            }
            last
        }
        Call::Settle(_) | Call::SettleAllBut { .. } | Call::SettleRest => {
            let events = settled_by(call, model);
            model.settle(&events)
        }
        Call::Commit if model.opened.is_none() => Expected::Unknown,
        Call::Commit => Expected::Done,
        Call::End(how) => model.end(*how),
        Call::Sweep { .. } => return None,
    })
}

fn of_refused(refused: Refused) -> Expected {
    match refused {
        Refused::Unknown(_) => Expected::Unknown,
        Refused::OpenedOtherwise => Expected::OpenedOtherwise,
        Refused::Over(state) => Expected::Over(state),
        Refused::Gap { .. } => Expected::Gap,
        Refused::Behind { .. } => Expected::Behind,
        Refused::Changed(number) => Expected::Changed(number),
        Refused::WindowFull { unsettled, .. } => Expected::WindowFull { unsettled },
        Refused::BadOption(_) | Refused::BadCount | Refused::TooMany | Refused::SameOffset(_) => {
            panic!("nobody asked for that: {refused}")
        }
    }
}

fn of_fed(fed: Result<Fed, Refused>) -> Expected {
    match fed {
        Ok(Fed { stream: _, new, settled, again, rejected }) => Expected::Fed { new, settled, again, rejected },
        Err(refused) => of_refused(refused),
    }
}

/// Makes a call. `model` is as it was before.
pub async fn make(call: &Call, model: &Model, life: Option<Life>, steps: Steps<'_>) -> Result<Option<Expected>, Error> {
    Ok(Some(match call {
        Call::Open { window } => steps.open(id(), options(*window)).await?.map_or_else(of_refused, |_| Expected::Done),
        Call::Feed { behind, count, changed } => {
            let from = first(*behind, model);
            let events = events(from, *count, fed_before(from, *changed, model));
            of_fed(steps.feed(None, &id(), from, &events).await?)
        }
        Call::FeedFar { pages } => {
            let (mut last, mut from) = (Expected::Done, model.next);
            for _ in 0..*pages {
                last = of_fed(steps.feed(None, &id(), from, &events(from, 500, None)).await?);
                if last.is_refused() {
                    break;
                }
                from += 500;
            }
            last
        }
        Call::Settle(_) | Call::SettleAllBut { .. } | Call::SettleRest => {
            let life = life.unwrap_or(Life { id: id(), opened_at: groupage_core::domain::time::Timestamp(7) });
            let outcome = |failed| if failed { Outcome::Failed } else { Outcome::Succeeded };
            let events = settled_by(call, model).into_iter();
            let events = events.map(|(number, failed)| (EventId { life: life.clone(), number }, outcome(failed)));
            let settled = steps.settle(events.collect()).await;
            match settled.unanswered.into_iter().next() {
                Some((_, error)) => return Err(error),
                None => Expected::Strange(settled.unknown),
            }
        }
        Call::Commit => steps.commit_now(&id()).await?.map_or_else(of_refused, |_| Expected::Done),
        Call::End(how) => steps.end(&id(), *how).await?.map_or_else(of_refused, |_| Expected::Done),
        Call::Sweep { .. } => {
            steps.look_after(&id(), RETENTION_MS).await?;
            return Ok(None);
        }
    }))
}
