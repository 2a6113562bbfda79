//! What records ask for, sorted by the way that each task comes in.

use std::collections::{BTreeMap, HashMap};

use super::came::{Came, Opened, Parsed};
use super::refused::{Refused, only_the_stack, ties_of_a_stranger};
use super::{Plan, Record, Register, Report};
use crate::domain::lane::{Numbering, Order};
use crate::domain::rest::{Rest, Stage};
use crate::domain::sender::Sender;
use crate::domain::task_message::{self, Code, Rejection, TaskMessage};
use crate::domain::times::Times;
use crate::domain::{LaneId, ListId, Shard, Task, TaskId};
use crate::ports::Env;
use crate::routes::Assigned;

/// Tasks by the way that they come in.
#[derive(Default)]
pub(super) struct Coming {
    /// By themselves.
    pub(super) to_put: Vec<(Record, Parsed)>,
    /// On a list.
    pub(super) to_list: BTreeMap<ListId, Vec<(Record, TaskMessage)>>,
    /// Behind those of their order key.
    pub(super) to_lane: BTreeMap<LaneId, (Numbering, Vec<(Record, Parsed)>)>,
    /// The rests that some of them came in.
    pub(super) rests: Vec<Opened>,
}

impl<S, Q, E: Env> Register<'_, S, Q, E> {
    /// Parses records. What is refused or equals an earlier record goes into the plan.
    pub(super) fn sort(&self, records: Vec<Record>, plan: &mut Plan, report: &mut Report) -> Coming {
        let mut first_of_id: HashMap<(TaskId, Option<ListId>), (String, String)> = HashMap::new();
        let mut coming = Coming::default();
        // One draw for all that come alone: into one shard of each Target, so that one election is enough.
        let draw = self.env.random();
        let mut opened = Vec::with_capacity(records.len());
        for record in records {
            match Rest::parse(&record.body) {
                None => opened.push((record, Came::Alone)),
                Some(_) if record.sender != Sender::Stack => plan.reject(&record, only_the_stack()),
                Some(rest) => {
                    let rest = Opened::new(record, &rest);
                    let came = Came::In(rest.stage, rest.shard, coming.rests.len());
                    opened.extend(rest.tasks.iter().map(|task| (task.clone(), came)));
                    coming.rests.push(rest);
                }
            }
        }
        // Of a task that came twice, the copy that has come furthest counts; those that came alone keep their order.
        opened.sort_by_key(|(_, came)| *came);
        for (nth, (record, came)) in opened.into_iter().enumerate() {
            match self.parse(&record, draw, (came, nth)) {
                Err(refused) => plan.reject(&record, refused),
                Ok(parsed) => {
                    let traced = parsed.task.trace.map(|trace| (parsed.task.id.clone(), trace));
                    plan.traced.extend(traced.map(|traced| (record.message_id.clone(), traced)));
                    // With a list it is another record: that its task waits does not mean that it goes on.
                    let id = (parsed.task.id.clone(), parsed.list.as_ref().map(|(list, _)| list.clone()));
                    match first_of_id.get(&id) {
                        // A second record of the same task shares the first one's fate.
                        Some((first, digest)) if *digest == parsed.task.digest => {
                            plan.twins.push((record.message_id, first.clone()));
                            report.repeated += 1;
                            continue;
                        }
                        // The put decides which of two tasks with one id was there first; it may have been in another
                        // event.
                        Some(_) => {}
                        None => drop(first_of_id.insert(id, (record.message_id.clone(), parsed.task.digest.clone()))),
                    }
                    match (&parsed.list, &parsed.order) {
                        (Some((list, message)), _) => {
                            coming.to_list.entry(list.clone()).or_default().push((record, message.clone()));
                        }
                        (None, Some(Order { lane, numbering, .. })) => {
                            let lane = coming.to_lane.entry(lane.clone()).or_insert_with(|| (*numbering, Vec::new()));
                            lane.1.push((record, parsed));
                        }
                        (None, None) => coming.to_put.push((record, parsed)),
                    }
                }
            }
        }
        coming
    }

    fn parse(&self, record: &Record, draw: f64, (came, nth): (Came, usize)) -> Result<Parsed, Refused> {
        let message = caught(|| task_message::parse(&record.body, &record.message_id))
            .map_err(|rejection| Refused { rejection: heard(rejection, record.sender), message: None })?;
        // A sender's instrumentation writes the attribute, and knows which span sends this message.
        let message = TaskMessage { trace: record.trace.or(message.trace), ..message };
        if record.sender == Sender::Stranger && (message.item.is_some() || message.event.is_some()) {
            return Err(ties_of_a_stranger());
        }
        if matches!(came, Came::In(..)) && message.id.as_str() == record.message_id {
            // By the next message it would be another task.
            let rejection = Rejection::new(Code::MissingField, "the field `id` is required of a task in a rest");
            return Err(Refused::of(rejection, message));
        }
        let assigned = caught(|| self.routes.assign(&message.payload));
        let Assigned { route, target, order, traits } =
            assigned.map_err(|rejection| Refused::of(rejection, message.clone()))?;
        let now = self.env.now();
        let shard = match came {
            // It gathers with others of its shard.
            Came::In(Stage::Left(_), shard, _) if shard.0 < route.shards => shard,
            Came::In(..) | Came::Alone => Shard::drawn(route.shards, draw),
        };
        let target = target.in_shard(shard);
        let digest = message.digest();
        let list = message.list.clone().map(|list| (list, message.clone()));
        let waits_since = match came {
            // Of several shards, each one's rests gather for themselves: those of all are still to meet at their
            // leader's.
            Came::In(Stage::Left(since), ..) if route.shards == 1 => since.min(now),
            Came::In(..) | Came::Alone => now,
        };
        let times = Times::of(&message, now);
        if let Err(rejection) = times.check(order.is_some(), now) {
            return Err(Refused::of(rejection, message));
        }
        let task = Task::new(message.id, target.clone(), message.payload, digest, now).expiring(times.expires_at);
        let task = task.with_item(message.item).with_event(message.event).traced(message.trace);
        let task = Task { waits_since, ..task }.with_traits(traits.came(now, nth));
        // On a list it waits for its release first.
        let due = route.for_target(&target).due(times.not_before, now).filter(|_| list.is_none());
        let task = due.into_iter().fold(task, Task::scheduled);
        Ok(Parsed { task, target, order, list, came })
    }
}

/// A refusal as far as its message's sender counts: nothing fails by the word of a sender that may not ack it either.
fn heard(rejection: Rejection, sender: Sender) -> Rejection {
    match sender {
        Sender::Stack | Sender::Trusted => rejection,
        Sender::Stranger => rejection.of(None, None),
    }
}

/// A panic while a record is looked into is that record's alone: its content is what made the difference.
fn caught<T>(look: impl FnOnce() -> Result<T, Rejection>) -> Result<T, Rejection> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(look))
        .unwrap_or_else(|_| Err(Rejection::new(Code::Panicked, "looking into the message panicked; this is a bug")))
}
