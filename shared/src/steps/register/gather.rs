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
//! behind it, without a lock. A task pauses once at most. Until it is put, its message is all there is of it: it is sent on
//! before the one that it came in is done. A task that fails goes back to the task queue alone, so that it keeps nobody of
//! its group waiting and takes nobody with it into the dead-letter queue.

use std::collections::BTreeMap;

use super::sort::{Came, Parsed};
use super::{Record, Register, Report, message_of};
use crate::domain::batch::Limits;
use crate::domain::id::{BatchId, Target};
use crate::domain::rest::Rest;
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
/// A FIFO queue's mapping takes no more messages at once. Others are behind them, so there is nothing to wait for.
pub(super) const FULL_EVENT: usize = 10;

/// Tasks by what becomes of them.
#[derive(Default)]
pub(super) struct Carved {
    /// Put now: each names its batch, or is elected.
    pub(super) to_put: Vec<(Record, Parsed)>,
    /// Sent on at once.
    pub(super) left: Vec<Gathering>,
    /// Sent on after a pause.
    pub(super) to_wait: Vec<Gathering>,
    /// Whether all of them are of one Target.
    pub(super) alone: bool,
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
    waited: bool,
}

impl Opened {
    /// The rest in a message.
    pub(super) fn new(message_id: String, rest: &Rest) -> Self {
        let record =
            |(n, body): (usize, &str)| Record { message_id: format!("{message_id}/{n}"), body: body.to_owned() };
        Self { tasks: rest.tasks().enumerate().map(record).collect(), waited: rest.waited(), message_id }
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
        Some(Came::Left) => Fate::Waits,
        Some(Came::Alone) if is_part(limits, coming) => Fate::Left,
        Some(Came::Alone | Came::Waited) | None => Fate::Elected,
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
        let mut by_target: BTreeMap<Target, Vec<(Record, Parsed)>> = BTreeMap::new();
        for (record, parsed) in coming {
            by_target.entry(parsed.target.clone()).or_default().push((record, parsed));
        }
        let mut carved = Carved { alone: by_target.len() == 1, ..Carved::default() };
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
            let (gathering, waited) = match fate(route.batch, &candidates, came) {
                Fate::Elected => {
                    carved.to_put.extend(rest);
                    continue;
                }
                Fate::Left => (&mut carved.left, false),
                Fate::Waits => (&mut carved.to_wait, true),
            };
            let (messages, too_large) = packed(rest, &target.whole(), waited);
            gathering.extend(messages);
            carved.to_put.extend(too_large);
        }
        carved
    }

    /// Pauses, unless more are `behind` what came.
    pub(super) async fn wait_for_others(&self, behind: bool) {
        if !behind {
            self.env.sleep(PAUSE_MS).await;
        }
    }

    /// Sends rests on; returns the tasks that could not be sent, with the error.
    pub(super) async fn send_on(
        &self,
        rests: Vec<Gathering>,
        report: &mut Report,
    ) -> Vec<(Vec<(Record, Parsed)>, Error)> {
        let (tasks, messages): (Vec<_>, Vec<_>) = rests.into_iter().map(|rest| (rest.tasks, rest.message)).unzip();
        let mut unsent = Vec::new();
        for (tasks, sent) in tasks.into_iter().zip(self.outbox.send(messages).await) {
            match sent {
                Ok(()) => report.gathered += tasks.len(),
                Err(error) => unsent.push((tasks, error.into())),
            }
        }
        unsent
    }

    /// Sends the tasks of these rests that failed back to the task queue, each alone. If that fails, the rest comes again.
    pub(super) async fn send_back(&self, rests: &[Opened], report: &mut Report) {
        for Opened { message_id, tasks, waited } in rests {
            let of_rest = |id: &str| tasks.iter().find(|task| task.message_id == id);
            let (failed, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut report.failed).into_iter().partition(|(id, _)| of_rest(id).is_some());
            report.failed = others;
            let Some((_, first)) = failed.first().cloned() else { continue };
            let delay_ms = again_delay_ms(1, self.env.random());
            let message = |task: &Record| {
                let body = Rest::body(std::slice::from_ref(&task.body), true);
                Outgoing { to: Destination::Tasks, body, delay_ms, attributes: Vec::new() }
            };
            let back = failed.iter().filter_map(|(id, _)| of_rest(id)).map(message).collect();
            // One that is alone already is counted by its queue as it comes again and again.
            let is_alone = *waited && tasks.len() == 1;
            if is_alone || send_all(self.outbox, back).await.is_err() {
                report.failed.push((message_id.clone(), first));
            } else {
                report.sent_back.extend(failed);
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
fn packed(rest: Vec<(Record, Parsed)>, target: &Target, waited: bool) -> (Vec<Gathering>, Vec<(Record, Parsed)>) {
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
        let (to, body) = (Destination::Gather(target.clone()), Rest::body(&bodies, waited));
        Gathering { tasks, message: Outgoing { to, body, delay_ms: 0, attributes: Vec::new() } }
    };
    (packs.into_iter().map(message).collect(), too_large)
}
