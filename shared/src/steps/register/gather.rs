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
//! before the one that it came in is done.

use std::collections::BTreeMap;

use super::sort::{Came, Parsed};
use super::{Record, Register, message_of};
use crate::domain::batch::Limits;
use crate::domain::id::{BatchId, Target};
use crate::domain::rest::Rest;
use crate::domain::task::Candidate;
use crate::ports::{Destination, Env, Outgoing};

/// For how long a rest waits for others, in milliseconds: what a mapping's processes took of one burst comes within so long,
/// for their windows began together.
const PAUSE_MS: u64 = 500;
/// A route whose batches wait for less, in milliseconds, does not have its rests wait either.
const LEAST_WAIT_MS: u64 = 2 * PAUSE_MS;
/// A burst of one batch comes in so many events or fewer: a mapping begins with five processes that each gather one (Lambda
/// developer guide, *Configuring scaling behavior for SQS event source mappings*), and what a process gets may be half of its
/// share.
const PARTS: usize = 10;
/// A FIFO queue's mapping takes no more messages at once. Others are behind them, so there is nothing to wait for.
const FULL_EVENT: usize = 10;

/// Tasks by what becomes of them.
#[derive(Default)]
pub(super) struct Carved {
    /// Put now: each names its batch, or is elected.
    pub(super) to_put: Vec<(Record, Parsed)>,
    /// Sent on at once.
    pub(super) left: Vec<Gathering>,
    /// Sent on after a pause.
    pub(super) to_wait: Vec<Gathering>,
}

/// The records of a rest, and the message that goes on with their tasks.
pub(super) type Gathering = (Vec<String>, Outgoing);

/// What becomes of tasks that fill no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Elected,
    Left,
    Waits,
}

/// Decides over those of one Target's tasks, `coming` together, that fill no batch and `came` so.
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

impl<S, Q, E: Env> Register<'_, S, Q, E> {
    /// Lets tasks name a batch of their Target's, as far as they fill such, and says where the others go.
    pub(super) fn carve(&self, coming: Vec<(Record, Parsed)>) -> Carved {
        let mut by_target: BTreeMap<Target, Vec<(Record, Parsed)>> = BTreeMap::new();
        for (record, parsed) in coming {
            by_target.entry(parsed.target.clone()).or_default().push((record, parsed));
        }
        let mut carved = Carved::default();
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

    /// Pauses, unless this is one of many events.
    pub(super) async fn wait_for_others(&self, rests: usize) {
        if rests < FULL_EVENT {
            self.env.sleep(PAUSE_MS).await;
        }
    }
}

/// A Target's rest in as few messages as hold it, and what is too large to go in one with any other.
fn packed(rest: Vec<(Record, Parsed)>, target: &Target, waited: bool) -> (Vec<Gathering>, Vec<(Record, Parsed)>) {
    let mut too_large = Vec::new();
    let mut parts: Vec<(Vec<String>, Vec<String>, usize)> = Vec::new();
    for (record, parsed) in rest {
        let body = message_of(parsed.task.clone()).body();
        if !Rest::holds(1, body.len()) {
            too_large.push((record, parsed));
            continue;
        }
        match parts.last_mut() {
            Some((records, bodies, bytes)) if Rest::holds(bodies.len() + 1, *bytes + body.len()) => {
                *bytes += body.len();
                records.push(record.message_id);
                bodies.push(body);
            }
            Some(_) | None => {
                let bytes = body.len();
                parts.push((vec![record.message_id], vec![body], bytes));
            }
        }
    }
    let message = |(records, bodies, _): (Vec<String>, Vec<String>, usize)| {
        let (to, body) = (Destination::Gather(target.clone()), Rest::body(&bodies, waited));
        (records, Outgoing { to, body, delay_ms: 0, attributes: Vec::new() })
    };
    (parts.into_iter().map(message).collect(), too_large)
}
