//! Stage 6: sends notices, of tasks that settled and of outages. A queue that refuses them keeps nobody from its call:
//! the batch, or the circuit breaker, remembers what is unsent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::{self, Either};

use super::Processor;
use crate::domain::batch::{Batch, ByPosition, Member, Positions};
use crate::domain::gate::{Event, OutboxEntry, Scope, Sent};
use crate::domain::notice::{self, Failure, NotificationQueue, of_outage};
use crate::domain::outcome::{Exception, Results};
use crate::domain::trace::Traces;
use crate::domain::{TaskId, Timestamp};
use crate::ports::{Batches, Destination, Downstream, Env, Error, Outbox, Outgoing, Store};
use crate::routes::{Notify, Route};
use crate::steps;
use crate::steps::notices::{About, Notified, Refused, send_notices};

/// Returns the queue for the notice of a member, if it settles and anybody is told.
pub(super) fn queue_of<'n>(notify: &'n Notify, results: &Results, task: &TaskId) -> Option<&'n NotificationQueue> {
    let queue = match results.get(task) {
        None => &notify.success,
        Some(Exception::Failed { .. }) => &notify.failure,
        Some(Exception::Returned { .. }) => return None,
    };
    (*queue != NotificationQueue::None).then_some(queue)
}

/// Reads the outputs of those of these members of whom anybody is told.
pub(super) async fn outputs_of(
    store: &impl Batches,
    notify: &Notify,
    (batch, results): (&Batch, &Results),
    of: &Positions,
) -> Result<ByPosition, Error> {
    let is_told = |position: usize| {
        let member = batch.members.get(position).filter(|_| of.contain(position));
        member.is_some_and(|member| queue_of(notify, results, &member.id).is_some())
    };
    let parts: Vec<_> = batch.outputs.iter().filter(|part| part.of.iter().any(is_told)).cloned().collect();
    if parts.is_empty() { Ok(ByPosition::new()) } else { store.outputs(&batch.id, &parts).await }
}

/// A notice of each of these members that settles, if anybody wants to be told. It belongs to its member's trace, if
/// that is among these.
pub(super) fn of_members(
    notify: &Notify,
    (batch, results, at): (&Batch, &Results, Timestamp),
    outputs: &ByPosition,
    traces: &Traces,
    of: &Positions,
) -> Vec<About> {
    let notice = |position: usize| {
        let Member { id: task, round } = batch.members.get(position)?;
        let queue = queue_of(notify, results, task)?;
        let failure = match results.get(task) {
            Some(Exception::Failed { reason, attempts }) => {
                Some(Failure { reason: reason.clone(), attempts: *attempts })
            }
            Some(Exception::Returned { .. }) | None => None,
        };
        let settled = notice::Settled {
            task,
            target: &batch.target,
            batch: Some(&batch.id),
            round: *round,
            superseded_by: batch.superseded_by(position),
            output: outputs.get(&position),
        };
        let at = batch.omission(position).map_or(at, |omission| omission.at);
        let event = notice::of_task(settled, failure.as_ref(), at);
        let message = Outgoing::json(Destination::Notification(queue.clone()), &event, 0);
        Some((vec![position], message.traced(traces.get(task).copied())))
    };
    of.iter().filter_map(notice).collect()
}

/// Which notices of outages were refused.
#[derive(Debug, Default)]
pub struct Announced(Mutex<Refusals>);

/// The same, counted in notices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Their breakers have them to send still.
    pub unsent: usize,
    /// They went to the rejected queue, since their own has refused them for a day.
    pub undeliverable: usize,
    /// What the first queue said.
    pub refusal: Option<String>,
}

impl Announced {
    /// What was refused until now, once.
    pub fn take(&self) -> Refusals {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Refusals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue may take so long to take notices of outages, in milliseconds: a permit is held meanwhile.
const PATIENCE_MS: u64 = 2_000;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Sends what the breakers of a route have unsent, and writes down that it was: a process that dies in between
    /// costs a repeat under the same id. An error keeps no task from its call: the breaker has it to send still.
    pub(super) async fn announce(&self, route: &Route, scopes: &[Scope]) {
        for scope in scopes {
            let _ = self.try_to_announce(route, scope).await;
        }
    }

    async fn try_to_announce(&self, route: &Route, scope: &Scope) -> Result<(), steps::Error> {
        // First that outages began, and then that they have ended.
        for _ in 0..2 {
            let (gate, now) = (self.store.gate(scope).await?, self.env.now());
            let due: Vec<_> = gate.outbox.entries.iter().filter_map(|entry| Some((entry, entry.due(now)?))).collect();
            if due.is_empty() {
                return Ok(());
            }
            let notices = due.iter().filter_map(|(entry, event)| outage_notice(route, scope, entry, *event)).collect();
            let mut notified = self.notify_soon(notices).await.into_iter();
            let mut sent = Vec::new();
            for (entry, event) in due {
                // The route sent notices when this one began, and may do so no longer.
                let is_sent = outage_notice(route, scope, entry, event).is_none()
                    || self.is_sent(notified.next().unwrap_or_else(late));
                sent.push(Sent { since: entry.since, event, is_sent });
            }
            self.gatekeeper().notified(scope, &sent).await?;
            if sent.iter().any(|sent| !sent.is_sent) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether a notice need not be sent again; counts those that were refused.
    fn is_sent(&self, notified: Notified) -> bool {
        let (is_sent, refusal) = match notified {
            Notified::Yes => return true,
            Notified::Undeliverable(refusal) => (true, refusal),
            Notified::Refused(refusal) => (false, refusal),
        };
        let mut refused = self.announced.lock();
        *(if is_sent { &mut refused.undeliverable } else { &mut refused.unsent }) += 1;
        refused.refusal.get_or_insert_with(|| refusal.to_string());
        is_sent
    }

    /// Sends notices, if that does not take too long.
    async fn notify_soon(&self, notices: Vec<(Timestamp, Outgoing)>) -> Vec<Notified> {
        let sending = Box::pin(send_notices((self.outbox, self.env), notices, Refused::ComesAgain));
        match future::select(sending, Box::pin(self.env.sleep(PATIENCE_MS))).await {
            Either::Left((notified, _)) => notified,
            Either::Right(_) => Vec::new(),
        }
    }
}

fn late() -> Notified {
    let why = "its queue takes too long".to_owned();
    Notified::Refused(Error::Unavailable { what: "sending a notice", why })
}

fn outage_notice(route: &Route, scope: &Scope, entry: &OutboxEntry, event: Event) -> Option<(Timestamp, Outgoing)> {
    let queue = &route.notify.outage;
    let to = Destination::Notification(queue.clone());
    let notice = || (entry.at(event), Outgoing::json(to, &of_outage(scope, entry, event), 0));
    (*queue != NotificationQueue::None).then(notice)
}
