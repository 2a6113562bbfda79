//! What becomes of the tasks of an event: batches, if they fill such, and what the events of one burst leave over comes
//! together before it is elected.
//!
//! ```text
//! event ──▶ full batches ──▶ express
//!   └─ rest ──▶ its Target's group of the FIFO queue ──▶ rests ──▶ full batches ──▶ express
//!                  ▲   ▲                                   └─ rest ──▶ election, if its oldest has waited long enough
//!                  │   └── hidden for a second, as it is ──────┤ otherwise
//!                  └────── together, if that makes it one ─────┘
//! ```
//!
//! A mapping's processes each take a share of a burst, and each share leaves over up to a batch less one. SQS gives the
//! messages of one group to one reader at a time, and to nobody while one of them is in hand. So an event that hides
//! its rest lets those of the others gather behind it. That takes no lock, and no function that waits. A Target's
//! shards have a group each. Until it is put, its message is all there is of a task: it is sent on before the one that
//! it came in is done. A task that fails goes back to the task queue alone. So no other task of its group waits for it,
//! or goes into the dead-letter queue with it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::future::join;

use super::came::{Came, Opened, Parsed, message_of};
use super::{Record, Register, Report};
use crate::domain::batch::Limits;
use crate::domain::rest::{Rest, Stage};
use crate::domain::retry::again_delay_ms;
use crate::domain::task::Status;
use crate::domain::{BatchId, Target, Timestamp};
use crate::ports::{Destination, Env, Inbox, Outbox, Outgoing, send_all};
use crate::steps::Error;

/// For how long a rest is hidden at a time, in milliseconds: SQS counts whole seconds.
const HOLD_MS: u64 = 1_000;
/// A rest gathers for as long as its route's batches wait, and for so long at most, in milliseconds. Lambda's first
/// five processes need a few seconds for a burst, which so comes together. Its tasks wait for little longer than
/// others.
const LONGEST_MS: u64 = 5_000;
/// A message that was received so often is not hidden again: its queue gives it up after ten times, and some are for
/// failures.
const MOST_RECEIVES: u32 = 6;
/// A FIFO queue's mapping takes this many messages at once and no more: then others may be behind them.
pub const FULL_EVENT: usize = 10;

/// Tasks by what becomes of them.
#[derive(Default)]
pub(super) struct Carved {
    /// Put now: each names its batch, or is elected.
    pub(super) to_put: Vec<(Record, Parsed)>,
    /// Sent on, to those of other events.
    pub(super) to_send: Vec<Gathering>,
    /// They stay in their message, which is hidden for a while.
    pub(super) to_hold: Vec<Held>,
}

/// A message, and the tasks that go on with it.
pub(super) struct Gathering {
    pub(super) tasks: Vec<(Record, Parsed)>,
    pub(super) message: Outgoing,
}

/// What is written on a message with a rest.
pub(super) struct Envelope {
    pub(super) to: Destination,
    pub(super) stage: Stage,
    pub(super) target: Target,
    pub(super) delay_ms: u64,
}

impl Envelope {
    /// To those of the same Target, that their events left since then.
    fn gathering(target: &Target, since: Timestamp) -> Self {
        Self { to: Destination::Gather(target.clone()), stage: Stage::Left(since), target: target.clone(), delay_ms: 0 }
    }
}

/// One Target's tasks, and the messages that they are all of.
pub(super) struct Held {
    tasks: Vec<(Record, Parsed)>,
    /// By message id, with the receipt.
    messages: Vec<(String, String)>,
}

impl Held {
    /// These tasks, which are those of the `messages` with these places among the `rests`.
    fn of(tasks: Vec<(Record, Parsed)>, messages: &BTreeSet<usize>, rests: &[Opened]) -> Self {
        let messages = messages.iter().filter_map(|at| rests.get(*at));
        let messages = messages.map(|rest| (rest.message_id.clone(), rest.receipt.clone())).collect();
        Self { tasks, messages }
    }
}

/// What becomes of tasks that fill no batch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Elected,
    /// They are sent to gather, with this age.
    Sent(Timestamp),
    /// They are just those of these messages, by their places in the event, and go on gathering.
    Gathering(BTreeSet<usize>, Timestamp),
}

/// Decides over those of one Target's tasks that fill no batch, the oldest first; `rests` are those of their event.
fn fate(limits: Limits, now: Timestamp, tasks: &[(Record, Parsed)], rests: &[Opened]) -> Fate {
    let patience_ms = limits.patience_ms().min(LONGEST_MS);
    if patience_ms < HOLD_MS {
        return Fate::Elected;
    }
    match tasks.first().map(|(_, parsed)| parsed.came) {
        Some(Came::Alone) => Fate::Sent(now),
        // As near to its patience as whole seconds come.
        Some(Came::In(Stage::Left(since), ..)) if now.since(since) + HOLD_MS / 2 <= patience_ms => {
            let messages: BTreeSet<usize> = tasks.iter().filter_map(|(_, parsed)| parsed.came.rest()).collect();
            let of_messages = || messages.iter().filter_map(|at| rests.get(*at));
            if of_messages().any(|message| message.received >= MOST_RECEIVES) {
                return Fate::Elected;
            }
            let came_in_rests = tasks.iter().all(|(_, parsed)| parsed.came.rest().is_some());
            let is_whole = of_messages().map(|message| message.tasks.len()).sum::<usize>() == tasks.len();
            if came_in_rests && is_whole { Fate::Gathering(messages, since) } else { Fate::Sent(since) }
        }
        Some(Came::In(..)) | None => Fate::Elected,
    }
}

impl<S: Sync, Q: Outbox + Inbox, E: Env> Register<'_, S, Q, E> {
    /// Lets tasks name a batch of their Target's, as far as they fill such, and says where the others go. `rests` are
    /// those of this event, which has this many `records`.
    pub(super) fn carve(&self, coming: Vec<(Record, Parsed)>, rests: &[Opened], records: usize) -> Carved {
        let now = self.env.now();
        // What failed before goes its own way, so that it does not take those with it that could gather. What waits for
        // its time fills no batch yet.
        let (failed, coming): (Vec<_>, Vec<_>) = coming.into_iter().partition(|(_, parsed)| {
            let is_scheduled = matches!(parsed.task.status, Status::Scheduled { .. });
            is_scheduled || matches!(parsed.came, Came::In(Stage::Failed, ..))
        });
        let mut by_target: BTreeMap<Target, Vec<(Record, Parsed)>> = BTreeMap::new();
        for (record, parsed) in coming {
            by_target.entry(parsed.target.clone()).or_default().push((record, parsed));
        }
        let mut carved = Carved { to_put: failed, ..Carved::default() };
        for (target, mut coming) in by_target {
            let Some(route) = self.routes.get(&target.route()).filter(|route| route.express) else {
                carved.to_put.extend(coming);
                continue;
            };
            // A stable sort: those that came alike keep their order.
            coming.sort_by_key(|(_, parsed)| parsed.came);
            let limits = route.for_target(&target).batch;
            if limits.urgent_first {
                coming.sort_by_key(|(_, parsed)| Reverse(parsed.task.traits.priority));
            }
            let batches = limits.carve(coming.iter().map(|(_, parsed)| parsed.task.candidate()).collect());
            let mut coming = coming.into_iter();
            for batch in &batches {
                let id = BatchId::express(&self.env.fresh_id());
                carved.to_put.extend(coming.by_ref().take(batch.len()).map(|(record, parsed)| {
                    let task = parsed.task.batched_in(id.clone());
                    (record, Parsed { task, ..parsed })
                }));
            }
            // Who came before may have been put before, and be in need of nothing but that.
            let (again, rest): (Vec<_>, Vec<_>) =
                coming.partition(|(record, parsed)| parsed.came == Came::Alone && record.received > 1);
            carved.to_put.extend(again);
            let rest = oldest_first(rest);
            match fate(limits, now, &rest, rests) {
                Fate::Elected => carved.to_put.extend(rest),
                Fate::Sent(since) => {
                    let (messages, too_large) = packed(rest, &Envelope::gathering(&target, since));
                    carved.to_send.extend(messages);
                    carved.to_put.extend(too_large);
                }
                // Others may be behind them, for whom just these would come again.
                Fate::Gathering(messages, since) if records >= FULL_EVENT && messages.len() > 1 => {
                    let (packs, too_large) = packed(rest, &Envelope::gathering(&target, since));
                    carved.to_put.extend(too_large);
                    if packs.len() < messages.len() {
                        carved.to_send.extend(packs);
                        continue;
                    }
                    let rest = packs.into_iter().flat_map(|pack| pack.tasks).collect();
                    if messages.len() < records {
                        carved.to_hold.push(Held::of(rest, &messages, rests));
                    } else {
                        // As large as they are, no ten of them make a batch.
                        carved.to_put.extend::<Vec<_>>(rest);
                    }
                }
                Fate::Gathering(messages, _) => carved.to_hold.push(Held::of(rest, &messages, rests)),
            }
        }
        carved
    }

    /// Sends rests to gather, and lets others go on gathering; returns the tasks for which that failed.
    pub(super) async fn gather(
        &self,
        to_send: Vec<Gathering>,
        to_hold: Vec<Held>,
        report: &mut Report,
    ) -> Vec<(Record, Parsed)> {
        let (sent, held) = join(self.send_on(to_send), self.hold(to_hold)).await;
        let mut missed = Vec::new();
        for (tasks, sent) in sent {
            match sent {
                Ok(()) => report.gathered += tasks.iter().filter(|(_, parsed)| parsed.came == Came::Alone).count(),
                Err(error) => {
                    report.not_gathered.push(error);
                    missed.extend(tasks);
                }
            }
        }
        for (Held { tasks, messages }, held) in held {
            match held {
                Ok(()) => report.held.extend(messages.into_iter().map(|(message_id, _)| message_id)),
                Err(error) => {
                    report.not_gathered.push(error);
                    missed.extend(tasks);
                }
            }
        }
        missed
    }

    async fn send_on(&self, rests: Vec<Gathering>) -> Vec<(Vec<(Record, Parsed)>, Result<(), Error>)> {
        let (tasks, messages): (Vec<_>, Vec<_>) = rests.into_iter().map(|rest| (rest.tasks, rest.message)).unzip();
        let sent = self.queues.send(messages).await.into_iter().map(|sent| sent.map_err(Error::from));
        tasks.into_iter().zip(sent).collect()
    }

    async fn hold(&self, rests: Vec<Held>) -> Vec<(Held, Result<(), Error>)> {
        let receipts = rests.iter().flat_map(|held| &held.messages).map(|(_, receipt)| receipt.clone()).collect();
        // Of whichever Target: they all came from the same queue.
        let Some(target) = rests.first().and_then(|held| held.tasks.first()).map(|(_, parsed)| parsed.target.clone())
        else {
            return Vec::new();
        };
        let mut held = self.queues.postpone(&Destination::Gather(target), receipts, HOLD_MS).await.into_iter();
        let each = rests.into_iter().map(|rest| {
            let answers: Vec<_> = held.by_ref().take(rest.messages.len()).collect();
            (rest, answers.into_iter().collect::<Result<(), _>>().map_err(Error::from))
        });
        each.collect()
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
                Outgoing { to: Destination::Tasks, body, delay_ms, attributes: Vec::new(), tenant: None }
            };
            let back = failed.iter().map(|(rest, task, _)| message(rest, task)).collect();
            // One that is alone already is counted by its queue as it comes again and again.
            let is_alone = failed.iter().any(|(rest, ..)| rest.stage == Stage::Failed && rest.tasks.len() == 1);
            if is_alone || send_all(self.queues, back).await.is_err() {
                report.failed.push((message_id.to_owned(), first.clone()));
            } else {
                report.sent_back.extend(failed.into_iter().map(|(_, task, error)| (task.message_id.clone(), error)));
            }
        }
    }
}

fn oldest_first(mut tasks: Vec<(Record, Parsed)>) -> Vec<(Record, Parsed)> {
    tasks.sort_by_key(|(_, parsed)| parsed.came);
    tasks
}

/// What goes in one message.
#[derive(Default)]
struct Pack {
    tasks: Vec<(Record, Parsed)>,
    bodies: Vec<String>,
    bytes: usize,
}

/// The message that asked for a task, as it came: if it is rejected later, people are to see it so. If it names no id,
/// with that of the message that it came in, which is its task's. If an attribute says its trace, with that.
fn body(record: &Record, parsed: &Parsed) -> String {
    let is_traced = record.trace.is_some();
    if is_traced || parsed.task.id.as_str() == record.message_id {
        return message_of(parsed.task.clone()).body();
    }
    record.body.clone()
}

/// A Target's rest in as few messages as hold it, and what is too large to go in one with any other.
pub(super) fn packed(rest: Vec<(Record, Parsed)>, envelope: &Envelope) -> (Vec<Gathering>, Vec<(Record, Parsed)>) {
    let mut too_large = Vec::new();
    let mut packs: Vec<Pack> = Vec::new();
    for (record, parsed) in rest {
        let body = body(&record, &parsed);
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
        let Envelope { to, stage, target, delay_ms } = envelope;
        let body = Rest::body(&bodies, *stage, target.shard());
        let (to, tenant) = (to.clone(), Some(target.whole().to_string()));
        Gathering { tasks, message: Outgoing { to, body, delay_ms: *delay_ms, attributes: Vec::new(), tenant } }
    };
    (packs.into_iter().map(message).collect(), too_large)
}
