//! group-batch: the leader fills batches while tasks wait, freezes each and hands it on, and gives the lock up when
//! nobody has signalled since it last looked.
//!
//! For each batch, in this order: the candidates are written into it (intent first). Each is moved by a write of its
//! own. The batch is frozen with those that moved. Its message is sent. Only then does the lock name the next one.
//! A crash anywhere leaves the lock naming a batch from which the next delivery, or the next leader, can go on.
//!
//! The leader by the lock of a Target's home gathers from all its shards, except those that have a leader of their own.
//! A leader by the lock of another shard makes full batches of that shard's tasks only; what does not fill one it
//! leaves to the home's leader, so that shards cost no fill. A shard that its route has no more is led as a home is.
//!
//! A delivery that meets another one of its message gives its own message back for some seconds. The other one may die
//! with the lock in its hands, and only this message knows the way on.

mod onward;

use super::election_messages::{elections, following_messages};
use super::fill::{Filled, Filling, Gathered};
use super::finish::{finish, hand_on, stored};
use super::handle::Delivery;
use super::{Error, still_waiting};
use crate::domain::batch::{Assumes, Batch, Limits, Pace, Status};
use crate::domain::drain::Drain;
use crate::domain::message::{Finish, Group, Lead, Resume};
use crate::domain::retry::{Retryable, again_delay_ms};
use crate::domain::{Candidate, Copies, Lock, Shard, Target, Term, Timestamp};
use crate::ports::{
    self, Batches, Destination, Env, Freshness, Inbox, Locks, Outbox, Outgoing, Tasks, postpone_one, send_all,
};
use crate::routes::Routes;

/// What one invocation came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Batches frozen and handed on.
    pub batches: usize,
    /// Their members.
    pub members: usize,
    /// Why the leader stopped in the middle; another message of its comes soon.
    pub interrupted: Option<ports::Error>,
}

/// group-batch, over its ports.
#[derive(Debug)]
pub struct GroupBatch<'a, S, Q, E> {
    /// Tasks, locks and batches.
    pub store: &'a S,
    /// Where messages go, and come from.
    pub queue: &'a Q,
    /// Time and randomness.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// When this invocation should stop and go on by another message.
    pub deadline: Timestamp,
}

/// A leader at work: what it knows of its lock and of the tasks.
struct Leading<'r, C> {
    term: Term,
    lock: Lock,
    limits: Limits,
    /// When the window of the first batch that the term makes begins.
    first_window: Option<Timestamp>,
    /// Whether it makes batches that are not full.
    takes_few: bool,
    drain: Drain<C>,
    /// How fast the latest batch filled.
    pace: Pace,
    /// How often its message was copied since its latest batch.
    copies: Copies,
    /// Whether the message of this delivery only wakes the leader, which has another one that waits.
    wakes: bool,
    report: &'r mut Report,
}

impl<C> Leading<'_, C> {
    /// Whether a batch is to be begun with what was gathered.
    fn begins_with(&self, gathered: &Gathered) -> bool {
        if self.takes_few { !gathered.candidates.is_empty() } else { gathered.full }
    }
}

/// Why a leader stops in the middle.
#[derive(derive_more::From)]
enum Stop {
    /// Its term is over.
    TermOver,
    /// A step's error.
    #[from(Error, ports::Error)]
    Error(Error),
}

/// SQS counts a delay in whole seconds; what is shorter is slept.
const SHORTEST_DELAY_MS: u64 = 1_000;
/// How long a leader waits for a port that did not answer, in milliseconds.
const UNAVAILABLE_MS: u64 = 2_000;

impl<S: Tasks + Locks + Batches, Q: Outbox + Inbox, E: Env> GroupBatch<'_, S, Q, E> {
    /// Handles one message.
    ///
    /// # Errors
    /// A port did not answer, the route is unknown, or another delivery is at work. The message comes again: soon, if
    /// nobody's help is needed for that.
    pub async fn run(&self, message: Group, delivery: Delivery<'_>) -> Result<Report, Error> {
        let led = match message {
            Group::Lead(lead) => self.lead(lead).await,
            Group::Finish(message) => self.finish(message).await.map(|()| Report::default()),
        };
        if led.as_ref().is_err_and(|error| error.retryable() == Retryable::Yes) {
            // Its visibility timeout is made for the longest invocation, and the faster process may be dead by now.
            let pause_ms = again_delay_ms(delivery.received, self.env.random());
            // If that fails too, the message comes when its visibility timeout ends.
            let _ = postpone_one(self.queue, &Destination::Group, delivery.receipt, pause_ms).await;
        }
        led
    }

    /// A live leader finishes its own batch; this message looks again when its lease is over.
    async fn finish(&self, message: Finish) -> Result<(), Error> {
        let now = self.env.now();
        if let Some(lock) = self.store.lock(&message.target).await? {
            let lease_until = lock.holder.map_or(Timestamp(0), |holder| holder.lease_until);
            if lock.open.as_ref() == Some(&message.batch) && lease_until > now {
                let (copies, delay_ms) = message.copies.and_one(lease_until.since(now), now);
                let again = Outgoing::group(&Group::Finish(Finish { copies, ..message }), delay_ms);
                return Ok(send_all(self.queue, vec![again]).await?);
            }
        }
        finish(self.store, self.queue, self.routes, &message.batch, &message.target, now).await
    }

    async fn lead(&self, lead: Lead) -> Result<Report, Error> {
        let mut report = Report::default();
        let again = Lead { verify: true, ..lead.clone() };
        match self.try_to_lead(lead, &mut report).await {
            Ok(()) => Ok(report),
            // Throttled, most likely, by the very tasks that wait: this message itself would stay hidden for minutes,
            // and nobody else makes room.
            Err(Error::Port(error)) if error.retryable() == Retryable::Yes => {
                let (copies, delay_ms) = again.copies.and_one(UNAVAILABLE_MS, self.env.now());
                let again = Lead { copies, ..again };
                send_all(self.queue, vec![Outgoing::group(&Group::Lead(again), delay_ms)]).await?;
                Ok(Report { interrupted: Some(error), ..report })
            }
            Err(error) => Err(error),
        }
    }

    async fn try_to_lead(&self, lead: Lead, report: &mut Report) -> Result<(), Error> {
        let Lead { term, tasks, verify, pace, resume, wakes, copies } = lead;
        // The election that woke the leader goes on by itself.
        let answers_for = if wakes { Vec::new() } else { tasks.clone() };
        let name = term.target.route();
        let route = self.routes.get(&name).ok_or(Error::UnknownRoute(name))?;
        let lock = match self.store.lock(&term.target).await? {
            Some(lock) if lock.is_led_by(&term) => lock,
            _ => return self.hand_over(&term, answers_for, copies).await,
        };
        let shards: Vec<Target> = match term.target.shard() {
            Shard::HOME => term.target.shards(route.shards).collect(),
            _ => vec![term.target.clone()],
        };
        let mut leading = Leading {
            first_window: lock.first_window(),
            lock,
            limits: route.for_target(&term.target).batch,
            takes_few: term.target.stands_alone(route.shards),
            term,
            drain: Drain::new(tasks, shards, verify),
            pace,
            copies,
            wakes,
            report,
        };
        match self.work(&mut leading, resume).await {
            Ok(()) => Ok(()),
            Err(Stop::TermOver) => match self.store.lock(&leading.term.target).await? {
                // Another delivery of this message is ahead, and may die: the message stays for it.
                Some(lock) if lock.is_led_by(&leading.term) => Err(Error::Conflict("leading ahead of this delivery")),
                Some(_) | None => self.hand_over(&leading.term, answers_for, leading.copies).await,
            },
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// The term is over, and its batches are driven on by others. Tasks that this message answers for and that still
    /// wait need a new election, under a new name: the old one's messages must not take the new term for theirs.
    async fn hand_over(&self, term: &Term, tasks: Vec<Candidate>, copies: Copies) -> Result<(), Error> {
        let tasks = still_waiting(self.store, tasks, Freshness::Latest).await?;
        let now = self.env.now();
        let elections = elections(self.env, &term.target, &tasks, now, 1);
        Ok(send_all(self.queue, following_messages(elections, copies, now)).await?)
    }

    async fn work(&self, leading: &mut Leading<'_, S::Cursor>, mut resume: Option<Resume>) -> Result<(), Stop> {
        if let Some(open) = leading.lock.open.clone()
            && open != leading.term.batch_id(leading.lock.seq)
        {
            // A predecessor's. The lock goes on naming it until it is finished.
            finish(self.store, self.queue, self.routes, &open, &leading.term.target, self.env.now()).await?;
            self.advance(leading).await?;
        }
        let id = leading.term.batch_id(leading.lock.seq);
        let mut batch = self.store.batch(&id).await?;
        let mut gathered = None;
        if batch.is_none() {
            let mut found = self.gather(leading, Vec::new()).await?;
            if !leading.begins_with(&found) {
                // Those that it was won for are elsewhere.
                leading.first_window = None;
                // The lock names the batch, so another delivery of this message may be about to write it.
                let void = Batch::void(id, leading.term.target.clone(), self.env.now());
                stored(self.store.store(&void, Assumes::Absent).await?)?;
                let Some(more) = self.find_more_or_release(leading, found.candidates).await? else { return Ok(()) };
                self.advance(leading).await?;
                found = more;
            }
            gathered = Some(found);
        }
        loop {
            if !self.make(leading, batch.take(), resume.take(), gathered.take()).await? {
                return Ok(());
            }
            gathered = self.find_more_or_release(leading, Vec::new()).await?;
            if gathered.is_none() {
                return Ok(());
            }
            self.advance(leading).await?;
            if self.env.now() >= self.deadline {
                return self.come_back(leading, gathered, None, 0).await;
            }
        }
    }

    /// Makes the open batch and hands it on. `false` means that a message will come back to it.
    async fn make(
        &self,
        leading: &mut Leading<'_, S::Cursor>,
        batch: Option<Batch>,
        resume: Option<Resume>,
        gathered: Option<Gathered>,
    ) -> Result<bool, Stop> {
        let Leading { term, lock, limits, first_window, drain, pace, copies, report, .. } = leading;
        let (id, since) = (term.batch_id(lock.seq), first_window.take());
        let mut filling = match batch {
            None => {
                let now = self.env.now();
                let open = Batch::open(id, term.target.clone(), term.fence, &[], now, limits.wait_ms);
                Filling::new(open.waited_for_since(since.unwrap_or(now), limits.wait_ms))
            }
            Some(batch) if matches!(batch.status, Status::Open { .. }) => {
                drain.skip(batch.members.iter().map(|member| (member.id.clone(), member.round)));
                Filling::resume(self.store, batch, resume, self.env.now()).await?
            }
            Some(batch) => {
                // An earlier delivery froze it, or somebody closed it: its message may not have been sent.
                finish(self.store, self.queue, self.routes, &batch.id, &batch.target, self.env.now()).await?;
                return Ok(true);
            }
        };
        let mut gathered = gathered;
        while let Filled::Waits { until } =
            filling.fill(self.store, drain, *limits, self.env.now(), gathered.take()).await?
        {
            let now = self.env.now();
            let look_in_ms = filling.look_again_ms(*limits, until, *pace, now);
            if look_in_ms >= SHORTEST_DELAY_MS && leading.wakes {
                return Ok(false);
            }
            if look_in_ms >= SHORTEST_DELAY_MS || now >= self.deadline {
                let resume = filling.knowledge(*limits);
                let delay_ms = if look_in_ms >= SHORTEST_DELAY_MS { look_in_ms } else { 0 };
                self.come_back(leading, None, Some(resume), delay_ms).await?;
                return Ok(false);
            }
            self.env.sleep(look_in_ms).await;
            drain.start_over();
        }
        let filled = filling.pace(*limits, self.env.now());
        let members = self.freeze(filling).await?;
        if members > 0 {
            *pace = filled;
            *copies = Copies::NONE;
            report.batches += 1;
            report.members += members;
        }
        Ok(true)
    }

    /// Fixes a batch's members and hands it on; returns how many there are.
    async fn freeze(&self, filling: Filling) -> Result<usize, Error> {
        let (batch, assumes) = filling.frozen(self.routes, self.env.now());
        stored(self.store.store(&batch, assumes).await?)?;
        hand_on(self.queue, self.routes, &batch).await?;
        Ok(batch.members.len())
    }
}
