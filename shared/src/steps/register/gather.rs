//! What becomes of the tasks of an event: batches, if they fill such, and what the events of one burst leave over comes
//! together before it is elected.
//!
//! ```text
//! event ──▶ full batches ──▶ express
//!   └─ rest ──▶ its Target's group of the FIFO queue ──▶ rests ──▶ full batches ──▶ express
//!                        ▲                                 └─ rest ──▶ election, if part of it has waited
//!                        └── after a pause, as one that has waited ──┘ otherwise
//! ```
//!
//! A mapping's processes each take a share of a burst, and each share leaves over up to a batch less one. SQS gives the
//! messages of one group to one reader at a time: whoever has a rest in hand and pauses lets those of the others gather
//! behind it, without a lock. A Target's shards have a group each. A task pauses once at most. Until it is put, its message
//! is all there is of it: it is sent on before the one that it came in is done. A task that fails goes back to the task queue
//! alone, so that it keeps nobody of its group waiting and takes nobody with it into the dead-letter queue.

use std::collections::{BTreeMap, HashMap};

use super::sort::{Came, Parsed};
use super::{Record, Register, Report, message_of};
use crate::domain::batch::Limits;
use crate::domain::id::{BatchId, Shard, Target};
use crate::domain::rest::{Rest, Stage};
use crate::domain::retry::again_delay_ms;
use crate::domain::task::Candidate;
use crate::ports::{Destination, Env, Outbox, Outgoing, send_all};
use crate::steps::Error;

/// For how long a rest waits for others, in milliseconds: what a mapping's processes took of one burst comes within so long,
/// for their windows began together.
const PAUSE_MS: u64 = 500;
/// A route whose batches wait for less, in milliseconds, does not have its rests wait either.
const LEAST_WAIT_MS: u64 = 2 * PAUSE_MS;
/// As many as this part of a batch may gather: a mapping begins with five processes that each gather an event (Lambda
/// developer guide, *Configuring scaling behavior for SQS event source mappings*), 100 tasks each of 100 Targets make ten events
/// of a thousand, and of any one Target an event may have half of its share.
const PARTS: usize = 20;
/// A FIFO queue's mapping takes so many messages at once and no more. Then others are behind them, and there is nothing to
/// wait for.
pub const FULL_EVENT: usize = 10;

/// Tasks by what becomes of them.
#[derive(Default)]
pub(super) struct Carved {
    /// Put now: each names its batch, or is elected.
    pub(super) to_put: Vec<(Record, Parsed)>,
    /// Sent on at once.
    pub(super) left: Vec<Gathering>,
    /// Sent on as such that have waited.
    pub(super) to_wait: Vec<Gathering>,
    /// Whether all of them are of one shard of one Target, so that their rests are of one message group.
    pub(super) one_group: bool,
}

/// Whether an event waits before its rests go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Yes,
    No,
}

impl Pause {
    /// Decides for so many `records` with so many `rests` among them. If as many of one group came as come at once, more are
    /// behind them. What keeps an order has a group of its own, and waits for nobody's rest: those behind it would, too.
    pub(super) const fn of(records: usize, rests: usize, one_group: bool) -> Self {
        if rests < records || (one_group && rests >= FULL_EVENT) { Self::No } else { Self::Yes }
    }
}

/// A message, and the tasks that go on with it.
pub(super) struct Gathering {
    tasks: Vec<(Record, Parsed)>,
    message: Outgoing,
}

/// A rest that came.
pub(super) struct Opened {
    message_id: String,
    /// What stands for its tasks.
    pub(super) tasks: Vec<Record>,
    pub(super) stage: Stage,
    pub(super) shard: Shard,
}

impl Opened {
    /// The rest in a message.
    pub(super) fn new(message_id: String, rest: &Rest) -> Self {
        let record =
            |(n, body): (usize, &str)| Record { message_id: format!("{message_id}/{n}"), body: body.to_owned() };
        let tasks = rest.tasks().enumerate().map(record).collect();
        Self { tasks, stage: rest.stage(), shard: rest.shard(), message_id }
    }
}

/// What becomes of tasks that fill no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Elected,
    Left,
    Waits,
}

/// Decides over those of one Target's tasks that fill no batch and `came` so; `coming` are all that came together.
fn fate(limits: Limits, coming: &[Candidate], came: Option<Came>) -> Fate {
    match came {
        _ if limits.wait_ms < LEAST_WAIT_MS => Fate::Elected,
        Some(Came::In(Stage::Left, _)) => Fate::Waits,
        Some(Came::Alone) if is_part(limits, coming) => Fate::Left,
        Some(Came::Alone | Came::In(Stage::Waited | Stage::Failed, _)) | None => Fate::Elected,
    }
}

/// Whether these may be their event's part of a batch.
fn is_part(limits: Limits, coming: &[Candidate]) -> bool {
    let bytes: u64 = coming.iter().map(|candidate| u64::from(candidate.bytes)).sum();
    coming.len() > 1 && (coming.len() * PARTS >= limits.max_items || bytes * PARTS as u64 >= limits.max_bytes)
}

impl<S: Sync, Q: Outbox, E: Env> Register<'_, S, Q, E> {
    /// Lets tasks name a batch of their Target's, as far as they fill such, and says where the others go.
    pub(super) fn carve(&self, coming: Vec<(Record, Parsed)>) -> Carved {
        // What failed before goes its own way, lest it takes those with it that could gather.
        let (failed, coming): (Vec<_>, Vec<_>) =
            coming.into_iter().partition(|(_, parsed)| matches!(parsed.came, Came::In(Stage::Failed, _)));
        let mut by_target: BTreeMap<Target, Vec<(Record, Parsed)>> = BTreeMap::new();
        for (record, parsed) in coming {
            by_target.entry(parsed.target.clone()).or_default().push((record, parsed));
        }
        let mut carved = Carved { to_put: failed, one_group: by_target.len() == 1, ..Carved::default() };
        for (target, mut coming) in by_target {
            let Some(route) = self.routes.get(&target.route()).filter(|route| route.express) else {
                carved.to_put.extend(coming);
                continue;
            };
            // A stable sort: those that came alike keep their order.
            coming.sort_by_key(|(_, parsed)| parsed.came);
            let candidates: Vec<Candidate> = coming.iter().map(|(_, parsed)| parsed.task.candidate()).collect();
            let batches = route.batch.carve(candidates.clone());
            let mut coming = coming.into_iter();
            for batch in &batches {
                let id = BatchId::express(&self.env.fresh_id());
                carved.to_put.extend(coming.by_ref().take(batch.len()).map(|(record, parsed)| {
                    let task = parsed.task.batched_in(id.clone());
                    (record, Parsed { task, ..parsed })
                }));
            }
            let rest: Vec<(Record, Parsed)> = coming.collect();
            let came = rest.iter().map(|(_, parsed)| parsed.came).min();
            let (gathering, stage) = match fate(route.batch, &candidates, came) {
                Fate::Elected => {
                    carved.to_put.extend(rest);
                    continue;
                }
                Fate::Left => (&mut carved.left, Stage::Left),
                Fate::Waits => (&mut carved.to_wait, Stage::Waited),
            };
            let (messages, too_large) = packed(rest, &target, stage);
            gathering.extend(messages);
            carved.to_put.extend(too_large);
        }
        carved
    }

    /// Sends rests of this event on; returns the tasks that could not be sent.
    pub(super) async fn leave(&self, rests: Vec<Gathering>, report: &mut Report) -> Vec<(Record, Parsed)> {
        report.gathered = rests.iter().map(|rest| rest.tasks.len()).sum();
        let mut unsent = Vec::new();
        for (tasks, error) in self.send_on(rests).await {
            report.gathered -= tasks.len();
            report.not_gathered.push(error);
            unsent.extend(tasks);
        }
        unsent
    }

    /// Lets rests that came go on, as such that have waited.
    pub(super) async fn go_on(&self, rests: Vec<Gathering>, pause: Pause, report: &mut Report) {
        if !rests.is_empty() && pause == Pause::Yes {
            self.env.sleep(PAUSE_MS).await;
        }
        for (tasks, error) in self.send_on(rests).await {
            report.failed.extend(tasks.into_iter().map(|(record, _)| (record.message_id, error.clone())));
        }
    }

    /// Sends rests on; returns the tasks that could not be sent, with the error.
    async fn send_on(&self, rests: Vec<Gathering>) -> Vec<(Vec<(Record, Parsed)>, Error)> {
        let (tasks, messages): (Vec<_>, Vec<_>) = rests.into_iter().map(|rest| (rest.tasks, rest.message)).unzip();
        let sent = tasks.into_iter().zip(self.outbox.send(messages).await);
        sent.filter_map(|(tasks, sent)| Some((tasks, sent.err()?.into()))).collect()
    }

    /// Sends the tasks of rests that failed back to the task queue, each alone. If that fails, their rest comes again.
    pub(super) async fn send_back(&self, rests: &[Opened], report: &mut Report) {
        let of_rests: HashMap<&str, (&Opened, &Record)> = rests
            .iter()
            .flat_map(|rest| rest.tasks.iter().map(move |task| (task.message_id.as_str(), (rest, task))))
            .collect();
        let mut by_rest: BTreeMap<&str, Vec<(&Opened, &Record, Error)>> = BTreeMap::new();
        for (id, error) in std::mem::take(&mut report.failed) {
            match of_rests.get(id.as_str()) {
                Some((rest, task)) => by_rest.entry(&rest.message_id).or_default().push((rest, task, error)),
                None => report.failed.push((id, error)),
            }
        }
        for (message_id, failed) in by_rest {
            let Some((_, _, first)) = failed.first() else { continue };
            let delay_ms = again_delay_ms(1, self.env.random());
            let message = |rest: &Opened, task: &Record| {
                let body = Rest::body(std::slice::from_ref(&task.body), Stage::Failed, rest.shard);
                Outgoing { to: Destination::Tasks, body, delay_ms, attributes: Vec::new() }
            };
            let back = failed.iter().map(|(rest, task, _)| message(rest, task)).collect();
            // One that is alone already is counted by its queue as it comes again and again.
            let is_alone = failed.iter().any(|(rest, ..)| rest.stage == Stage::Failed && rest.tasks.len() == 1);
            if is_alone || send_all(self.outbox, back).await.is_err() {
                report.failed.push((message_id.to_owned(), first.clone()));
            } else {
                report.sent_back.extend(failed.into_iter().map(|(_, task, error)| (task.message_id.clone(), error)));
            }
        }
    }
}

/// What goes in one message.
#[derive(Default)]
struct Pack {
    tasks: Vec<(Record, Parsed)>,
    bodies: Vec<String>,
    bytes: usize,
}

/// A Target's rest in as few messages as hold it, and what is too large to go in one with any other.
fn packed(rest: Vec<(Record, Parsed)>, target: &Target, stage: Stage) -> (Vec<Gathering>, Vec<(Record, Parsed)>) {
    let mut too_large = Vec::new();
    let mut packs: Vec<Pack> = Vec::new();
    for (record, parsed) in rest {
        let body = message_of(parsed.task.clone()).body();
        if !Rest::holds(1, body.len()) {
            too_large.push((record, parsed));
            continue;
        }
        let mut pack = packs.pop().unwrap_or_default();
        if !Rest::holds(pack.bodies.len() + 1, pack.bytes + body.len()) {
            packs.push(std::mem::take(&mut pack));
        }
        pack.bytes += body.len();
        pack.tasks.push((record, parsed));
        pack.bodies.push(body);
        packs.push(pack);
    }
    let message = |Pack { tasks, bodies, .. }: Pack| {
        let (to, body) = (Destination::Gather(target.clone()), Rest::body(&bodies, stage, target.shard()));
        Gathering { tasks, message: Outgoing { to, body, delay_ms: 0, attributes: Vec::new() } }
    };
    (packs.into_iter().map(message).collect(), too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_wait_unless_more_are_behind_them_or_somebody_else_would_wait_with_them() {
        assert_eq!(Pause::of(1, 1, true), Pause::Yes);
        assert_eq!(Pause::of(FULL_EVENT, FULL_EVENT, false), Pause::Yes);
        assert_eq!(Pause::of(FULL_EVENT, FULL_EVENT, true), Pause::No, "a full event of one group");
        assert_eq!(Pause::of(2, 1, true), Pause::No, "a task that keeps an order came with it");
    }
}
