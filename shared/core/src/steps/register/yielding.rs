//! Tasks that are not put now: they wait on the task queue. Either the invocation has no time left (module `parts`), or
//! their Target's partition of the index is throttled.
//!
//! A waiting task costs its partition one write unit to come and one to go. Registrations are many at once, so they
//! would take the whole partition and leave the leader none to move tasks out. So the first throttled put ends the puts
//! of its Target for a moment, and from then on its process puts them at a pace (module `rations`): the leader has what
//! is left of the partition. The tasks that are not put go back to the task queue in few messages, with a delay that
//! grows each time. Nothing is counted against them.

use std::collections::BTreeMap;

use super::came::{Came, Parsed};
use super::gather::{Envelope, Gathering, packed};
use super::{Plan, Record, Report};
use crate::domain::id::Target;
use crate::domain::rest::Stage;
use crate::domain::retry::again_delay_ms;
use crate::ports::{self, Destination};
use crate::steps::Error;

/// Why a task is not put.
pub(super) enum Yields {
    /// No time is left.
    Late,
    /// Its Target's partition of the index bears no more. The first of its Target has what the store said.
    Overload(Option<Error>),
}

/// Plans the way back to the queue; `random` draws numbers in `0.0..1.0`.
pub(super) fn put_off(
    yielded: Vec<(Record, Parsed, Yields)>,
    mut random: impl FnMut() -> f64,
    plan: &mut Plan,
    report: &mut Report,
) {
    let mut by_target: BTreeMap<Target, (Vec<(Record, Parsed)>, bool)> = BTreeMap::new();
    for (record, parsed, why) in yielded {
        let target = parsed.target.clone();
        let (tasks, is_overloaded) = by_target.entry(target.clone()).or_default();
        tasks.push((record, parsed));
        match why {
            Yields::Late => report.late += 1,
            Yields::Overload(said) => {
                *is_overloaded = true;
                report.overloads.extend(said.map(|said| (target, said)));
            }
        }
    }
    for (target, (tasks, is_overloaded)) in by_target {
        let times = tasks.iter().map(|(_, parsed)| times(parsed.came)).max().unwrap_or_default();
        // That no time was left says nothing of the index.
        let times = times.saturating_add(is_overloaded.into());
        let envelope = Envelope {
            to: Destination::Tasks,
            stage: Stage::Yielded(times),
            target,
            delay_ms: again_delay_ms(times.into(), random()),
        };
        let (packs, too_large) = packed(tasks, &envelope);
        for Gathering { tasks, message } in packs {
            report.yielded += tasks.len();
            plan.send(tasks.into_iter().map(|(record, _)| record.message_id).collect(), message);
        }
        // A message of its own is as large as the queue takes: its record comes again instead.
        let throttled = || ports::Error::Throttled { what: "putting a task", why: "others were throttled".to_owned() };
        report.failed.extend(too_large.into_iter().map(|(record, _)| (record.message_id, throttled().into())));
    }
}

/// The Targets whose index bore no more when some of these tasks came before, and how often in a row.
pub(super) fn overloaded(tasks: &[(Record, Parsed)]) -> BTreeMap<&Target, u8> {
    let mut all: BTreeMap<&Target, u8> = BTreeMap::new();
    for (_, parsed) in tasks {
        if let times @ 1.. = times(parsed.came) {
            let most = all.entry(&parsed.target).or_default();
            *most = times.max(*most);
        }
    }
    all
}

/// How often in a row a task has yielded to its Target's leader.
const fn times(came: Came) -> u8 {
    match came {
        Came::In(Stage::Yielded(times), ..) => times,
        Came::In(Stage::Failed | Stage::Left(_), ..) | Came::Alone => 0,
    }
}
