//! batch-handler: processes a batch that a message hands on, under a session of its own.
//!
//! Waiting is not failing: for a place, for a pause's or an outage's end or for another worker, the message goes round
//! by a delayed copy and no attempt is counted. With a ticket it comes back once, just before its time. So does a batch
//! whose call failed for now, or has begun a job: however often that is, the message's receive count says nothing of
//! it.
//!
//! Every step sends its messages to the usual queue. A batch whose call may be long goes on from there to the queue of
//! a second function, which has the time: one message more for each such batch, and no step beside this one has to know
//! of it. That function handles whatever comes there, so a route that is not long any more loses nothing.

use super::Error;
use super::admit::Wait;
use super::heartbeat::Heartbeat;
use super::process::notify::Announced;
use super::process::{Outcome, Processor};
use crate::domain::SessionId;
use crate::domain::batch::{Assumes, Batch};
use crate::domain::message::Handle;
use crate::domain::retry::{again_delay_ms, gate_delay_ms, turn_delay_ms};
use crate::domain::session::Timing;
use crate::ports::{Destination, Downstream, Env, Inbox, Outbox, Outgoing, Store, Stored, postpone_one, send_all};
use crate::routes::Routes;

/// batch-handler, over its ports.
#[derive(Debug)]
pub struct HandleBatch<'a, S, Q, D, E> {
    /// All tables.
    pub store: &'a S,
    /// Where messages go, and come from.
    pub queue: &'a Q,
    /// The queue that it reads. Its function has time for long calls if that is theirs.
    pub reads: &'a Destination,
    /// Where calls go.
    pub downstream: &'a D,
    /// Time and randomness.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// How its session lives.
    pub timing: Timing,
    /// Who it is, for people.
    pub worker: &'a str,
    /// Notes which notices of outages are refused.
    pub announced: &'a Announced,
}

/// How a message came.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Its receipt handle.
    pub receipt: &'a str,
    /// How often it was received, this time included.
    pub received: u32,
}

/// The longest usual call of a route that is not pulled ends before; routes say how long theirs take.
pub(super) const PATIENCE_MS: u64 = 30_000;

impl<S: Store, Q: Outbox + Inbox, D: Downstream, E: Env> HandleBatch<'_, S, Q, D, E> {
    /// Handles one message.
    ///
    /// # Errors
    /// A port did not answer, the route is unknown, or another delivery is at work. The message comes again.
    pub async fn run(&self, message: Handle, delivery: Delivery<'_>) -> Result<Outcome, Error> {
        let outcome = self.handle(message).await;
        if outcome.as_ref().map_or(true, Outcome::keeps_its_message) {
            // Its session is ended, so sweep will not find the batch by it: come back soon, if no sooner each time.
            let pause_ms = again_delay_ms(delivery.received, self.env.random());
            // If that fails too, the message comes when its visibility timeout ends.
            let _ = postpone_one(self.queue, self.reads, delivery.receipt, pause_ms).await;
        }
        outcome
    }

    async fn handle(&self, message: Handle) -> Result<Outcome, Error> {
        let Some(batch) = self.store.batch(&message.batch).await? else {
            // Handed on only after it was frozen, and kept longer than any message: it settled and expired.
            return Ok(Outcome::Nothing);
        };
        if message.nudge < batch.nudges {
            // Sweep took this message for lost and sent a newer one.
            return Ok(Outcome::Nothing);
        }
        let Self { store, queue, downstream, env, routes, announced, .. } = *self;
        let name = batch.target.route();
        let route = routes.get(&name).ok_or(Error::UnknownRoute(name))?;
        if route.is_pulled() && batch.is_callable() {
            // It waits for a worker, who finds it in the index.
            return Ok(Outcome::Nothing);
        }
        if route.downstream.is_long() && *self.reads != Destination::LongHandle && batch.is_callable() {
            // Here the call would be cut off, and count as lost.
            let on = Outgoing { to: Destination::LongHandle, ..Outgoing::handle(&message, 0) };
            send_all(queue, vec![on]).await?;
            return Ok(Outcome::Nothing);
        }
        let batch = Batch { ticket: message.ticket.or(batch.ticket), ..batch };
        let session = SessionId::of_handler(&env.fresh_id());
        let heartbeat = &Heartbeat::new(store, env, self.timing, session, self.worker);
        let patience_ms = PATIENCE_MS;
        let processor = Processor { store, outbox: queue, downstream, env, routes, patience_ms, announced, heartbeat };
        let stage = heartbeat.keep(Box::pin(processor.process(batch))).await;
        heartbeat.end().await;
        let outcome = processor.settle(stage.unwrap_or_else(|lost| Err(lost.into()))).await?;
        self.come_back_after(message, &outcome).await?;
        Ok(outcome)
    }

    /// Sends a delayed copy of the message if there is something to come back for.
    async fn come_back_after(&self, message: Handle, outcome: &Outcome) -> Result<(), Error> {
        let now = self.env.now();
        match outcome {
            Outcome::CallAgain { until, .. } | Outcome::UnderWay { until } | Outcome::Away(until) => {
                self.come_back(message, until.since(now)).await
            }
            Outcome::Waits(Wait { until, ticket }) => {
                let ahead_ms = until.map_or(0, |until| until.since(now));
                let delay_ms = match ticket {
                    Some(_) => turn_delay_ms(ahead_ms),
                    None => ahead_ms + gate_delay_ms(message.waits, self.env.random()),
                };
                self.come_back(Handle { ticket: ticket.or(message.ticket), ..message }, delay_ms).await
            }
            Outcome::Settled(_) | Outcome::FollowedUp(_) | Outcome::ClaimLost | Outcome::Nothing => Ok(()),
        }
    }

    /// Sends a delayed copy that takes the place of this message. Queues deliver some messages twice, and each delivery
    /// leaves a copy: so now and then a copy supersedes all others.
    async fn come_back(&self, message: Handle, delay_ms: u64) -> Result<(), Error> {
        let (copies, delay_ms) = message.copies.and_one(delay_ms, self.env.now());
        let again = Handle { waits: message.waits.saturating_add(1), copies, ..message };
        if again.waits.is_multiple_of(RENEWED_AFTER) {
            return self.renew(again, delay_ms).await;
        }
        self.send(&again, delay_ms).await
    }

    /// Sends a copy that supersedes all others, unless another one does. The copy goes first: if the process dies after
    /// it, this message comes again and does the same.
    async fn renew(&self, message: Handle, delay_ms: u64) -> Result<(), Error> {
        let batch = self.store.batch(&message.batch).await?;
        let Some(batch) = batch.filter(|batch| batch.nudges <= message.nudge) else { return Ok(()) };
        let again = Handle { nudge: message.nudge + 1, ..message };
        self.send(&again, delay_ms).await?;
        if let Some(renewed) = batch.woken(self.env.now().plus_ms(delay_ms)) {
            // Any other write is that of a delivery or of sweep, and the others live on until the next time.
            let _: Stored = self.store.store(&renewed, Assumes::At(batch.revision)).await?;
        }
        Ok(())
    }

    /// Sends a copy of a message to where it came from.
    async fn send(&self, message: &Handle, delay_ms: u64) -> Result<(), Error> {
        let copy = Outgoing { to: self.reads.clone(), ..Outgoing::handle(message, delay_ms) };
        Ok(send_all(self.queue, vec![copy]).await?)
    }
}

/// After this many waits a message is sent anew.
const RENEWED_AFTER: u32 = 8;
