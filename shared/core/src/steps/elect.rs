//! elect-leader: makes one workflow the leader of its Target; the others signal and come back.
//!
//! The winner's message goes on to group-batch with its term; a loser's goes round by a *delayed* copy (hidden messages
//! would count against SQS's limit of 120,000 in flight, delayed ones do not). Either way the message that came is
//! acknowledged only after its next message is durable, so a workflow always has a message until its tasks wait no
//! more. A loser with a task that closes a batch also wakes the leader, whose own message may wait with an open batch
//! for long: by a message of its term, as a repeat of that one would be. A message may carry the elections of several
//! Targets. The step only says what the next messages are: its caller for all messages of an event sends theirs at once
//! and packs them anew, since SQS is paid by the request.

use futures::future::try_join;
use futures::{StreamExt, stream};

use super::drive_on::fall_due;
use super::election_messages::NextMessage;
use super::election_messages::within_reach;
use super::fill::Gathered;
use super::process::put_back;
use super::{Error, lease_ms, still_waiting};
use crate::domain::batch::Pace;
use crate::domain::drain::Drain;
use crate::domain::lock::{self, Bid, Holder, Lock, Term};
use crate::domain::message::{Elect, Election, Lead};
use crate::domain::retry::election_delay_ms;
use crate::domain::task::Candidate;
use crate::domain::{Copies, Fence, Shard, Target, Timestamp, WorkflowId};
use crate::ports::{Acquired, Batches, Env, Freshness, Locks, Signalled, Tasks};
use crate::routes::{Route, Routes};

/// How an election ended for one workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It leads.
    Won,
    /// Another leads; it comes back later.
    Lost,
    /// None of its tasks waits any more.
    NothingWaits,
    /// It was not held, and goes on: there was no time for it, or its message came again with others.
    PutOff,
}

/// How an election ended; of one that failed, the name of its workflow and why.
pub type Held = Result<Outcome, (WorkflowId, Error)>;

/// What is to be done about one message of the elect queue.
#[derive(Debug)]
pub struct Decided {
    /// How each election ended, in any order; those that failed, with the names of their workflows, go on alone.
    pub outcomes: Vec<Held>,
    /// What must be sent before the message is acknowledged.
    pub next_messages: Vec<NextMessage>,
}

/// elect-leader, over its ports.
#[derive(Debug)]
pub struct ElectLeader<'a, S, E> {
    /// Tasks, locks and batches.
    pub store: &'a S,
    /// Time.
    pub env: &'a E,
    /// The routes.
    pub routes: &'a Routes,
    /// A draw in `0.0..1.0` for the pause of those who lose: workflows that share it come back at the same moment, in
    /// as few messages as hold them.
    pub draw: f64,
}

/// How a workflow's bids ended.
enum Bidden {
    /// It leads.
    Won(Term),
    /// Another does, as does the one that it has signalled.
    Lost {
        /// That one's lock, by its shard, and its fence.
        signalled: Option<(Shard, Fence)>,
        /// Its term, if it was signalled just now.
        anew: Option<Term>,
    },
}

impl Decided {
    fn one((outcome, next_messages): (Outcome, Vec<NextMessage>)) -> Self {
        Self { outcomes: vec![Ok(outcome)], next_messages }
    }
}

/// After so long, in milliseconds, none of a message's elections is begun any more: what made one slow makes the next
/// slow, and there must be time left to say what became of them.
const PATIENCE_MS: u64 = 2_000;
/// This many of a message's elections are held at once: the fewer, the longer the last ones wait; the more, the older
/// is what a bid has seen of its lock.
const AT_ONCE: usize = 5;
/// A lock may change hands between a bid and the next; after this many bids the workflow comes back later instead.
const MAX_BIDS: usize = 5;

impl<S: Tasks + Locks + Batches, E: Env> ElectLeader<'_, S, E> {
    /// Handles one message; `redelivered` says that it may have been handled before.
    ///
    /// # Errors
    /// A port did not answer, or the route is unknown: the message comes again. Of several elections none fails the
    /// others.
    pub async fn run(&self, message: Elect, redelivered: bool) -> Result<Decided, Error> {
        match message {
            Elect::Waiting(election) => Ok(Decided::one(self.elect(election, redelivered).await?)),
            Elect::Several(elections) if redelivered => Ok(self.take_apart(elections)),
            Elect::Several(elections) => Ok(self.elect_each(elections).await),
            Elect::Returning(returning) => {
                let election = put_back(self.store, self.env, returning).await?;
                Ok(Decided::one(self.elect(election, false).await?))
            }
            Elect::Due(due) => {
                let election = fall_due(self.store, self.env, due).await?;
                Ok(Decided::one(self.elect(election, false).await?))
            }
        }
    }

    /// Lets elections whose message comes again go on one by one, without holding any: one of them may be what ended
    /// the process, and would end it each time, until all of them are in the dead-letter queue.
    fn take_apart(&self, elections: Vec<Election>) -> Decided {
        let outcomes = elections.iter().map(|_| Ok(Outcome::PutOff)).collect();
        let alone = |election| {
            let (later, delay_ms) = self.put_off(election);
            NextMessage::Alone(later, delay_ms)
        };
        Decided { outcomes, next_messages: elections.into_iter().map(alone).collect() }
    }

    /// Holds elections, a few at a time: the longer it is from the look at a lock to the bid, the more others bid
    /// meanwhile.
    async fn elect_each(&self, elections: Vec<Election>) -> Decided {
        let begun = self.env.now();
        let holding = stream::iter(elections).map(|election| self.elect_by(begun, election)).buffer_unordered(AT_ONCE);
        let (outcomes, next_messages): (Vec<_>, Vec<_>) = holding.unzip().await;
        Decided { outcomes, next_messages: next_messages.into_iter().flatten().collect() }
    }

    /// Holds one of several elections, if it does not begin too long after the first.
    async fn elect_by(&self, begun: Timestamp, election: Election) -> (Held, Vec<NextMessage>) {
        if self.env.now().since(begun) > PATIENCE_MS {
            let (later, delay_ms) = self.put_off(election);
            return (Ok(Outcome::PutOff), vec![NextMessage::Again(later, delay_ms)]);
        }
        match self.elect(election.clone(), false).await {
            Ok((outcome, next_messages)) => (Ok(outcome), next_messages),
            Err(error) => {
                let workflow = election.workflow.clone();
                // It may have won: as a repeat it finds that out.
                let (again, delay_ms) = self.once_more(election);
                (Err((workflow, error)), vec![NextMessage::Alone(again, delay_ms)])
            }
        }
    }

    /// The next attempt of an election that was lost or failed, and the pause before it.
    fn once_more(&self, election: Election) -> (Election, u64) {
        let delay_ms = election_delay_ms(election.attempt, self.draw);
        let (copies, delay_ms) = election.copies.and_one(delay_ms, self.env.now());
        (Election { attempt: election.attempt.saturating_add(1), copies, ..election }, delay_ms)
    }

    /// An election that is not held now, and the shortest pause. An earlier delivery may have held it, so it is a
    /// repeat.
    fn put_off(&self, election: Election) -> (Election, u64) {
        let (copies, delay_ms) = election.copies.and_one(election_delay_ms(0, self.draw), self.env.now());
        (Election { attempt: election.attempt.max(1), copies, ..election }, delay_ms)
    }

    /// Tells the leader of a Target that stands alone that tasks wait for it, if one leads now: what holding their
    /// election would come to. Returns the election that is to be held after a pause in milliseconds, as a loser's.
    /// `None` if it is to be held at once: nobody leads, or more is to be done than to signal.
    ///
    /// # Errors
    /// A port did not answer, or the route is unknown. Whether or not the leader was told, the election may be held.
    pub(super) async fn tell(&self, election: &Election) -> Result<Option<(Election, u64)>, Error> {
        let Election { target, tasks, .. } = election;
        if tasks.iter().any(|task| task.traits.closes) {
            return Ok(None);
        }
        let seen = self.store.lock(target).await?;
        let now = self.env.now();
        let bidder = self.bidder(target, election, now)?;
        let Bid::Held(term) = lock::bid(seen.as_ref(), target, &bidder, now) else { return Ok(None) };
        Ok(match self.store.signal(&term).await? {
            Signalled::Yes => {
                let signalled = Some((target.shard(), term.fence));
                Some(self.once_more(Election { signalled, ..election.clone() }))
            }
            Signalled::No(_) => None,
        })
    }

    async fn elect(&self, mut election: Election, redelivered: bool) -> Result<(Outcome, Vec<NextMessage>), Error> {
        let repeated = redelivered || election.attempt > 0;
        if repeated {
            election.tasks = self.drop_moved_on(election.tasks).await?;
        }
        if election.tasks.is_empty() {
            return self.end(&election).await;
        }
        match self.seek(&election, repeated).await? {
            Bidden::Won(term) => {
                if repeated {
                    // Each task that no longer waits would cost the leader a failed write and a place in the batch.
                    election.tasks = still_waiting(self.store, election.tasks, Freshness::Eventual).await?;
                }
                // The home's leader may have come to a shard's tasks meanwhile.
                let verify = term.target.shard() != Shard::HOME;
                let lead = Lead { verify, ..leads(term, election.tasks, election.copies) };
                Ok((Outcome::Won, vec![NextMessage::Lead(lead)]))
            }
            Bidden::Lost { signalled, anew } => {
                let closes = election.tasks.iter().any(|task| task.traits.closes);
                let wakes = anew
                    .filter(|_| closes)
                    .map(|term| Lead { wakes: true, ..leads(term, election.tasks.clone(), Copies::NONE) });
                let (again, delay_ms) = self.once_more(Election { signalled, ..election });
                let again = NextMessage::Again(again, delay_ms);
                Ok((Outcome::Lost, wakes.map(NextMessage::Lead).into_iter().chain([again]).collect()))
            }
        }
    }

    /// Ends a workflow whose tasks have all moved on, unless it holds a lock: an earlier delivery may have won and
    /// died before its leader's message was sent, and the lock may name a batch that only its leader would finish.
    async fn end(&self, election: &Election) -> Result<(Outcome, Vec<NextMessage>), Error> {
        let Election { workflow, target, copies, .. } = election;
        for target in within_reach(target) {
            if let Some(Lock { holder: Some(holder), fence, .. }) = self.store.lock(&target).await?
                && holder.workflow == *workflow
            {
                let term = Term { target, workflow: workflow.clone(), fence };
                return Ok((Outcome::Won, vec![NextMessage::Lead(leads(term, Vec::new(), *copies))]));
            }
        }
        Ok((Outcome::NothingWaits, Vec::new()))
    }

    /// Bids for the lock that fits: that of the Target's home, unless the tasks lie in another shard which has a leader
    /// of its own, or should have one.
    async fn seek(&self, election: &Election, repeated: bool) -> Result<Bidden, Error> {
        let Election { workflow, target, .. } = election;
        if target.stands_alone(self.route(target)?.shards) {
            // In a burst most lose, and a read costs a fifth of a refused write.
            let seen = self.store.lock(target).await?;
            return self.bid(target, election, seen).await;
        }
        let home = target.whole();
        // The route has shards because its Targets are hot, so the home's lock is probably held.
        let (seen, own) = try_join(self.store.lock(&home), self.store.lock(target)).await?;
        let now = self.env.now();
        // A workflow that won it and died leads it now, however long ago that was: nobody else would let it go.
        let is_mine = |lock: &Lock| lock.holder.as_ref().is_some_and(|holder| holder.workflow == *workflow);
        let is_led = own.as_ref().is_some_and(|own| own.is_led(now) || is_mine(own));
        let needs_help = seen.as_ref().is_some_and(|home| home.needs_help(now));
        if is_led || (needs_help && self.fills_a_batch(election, repeated).await?) {
            self.bid(target, election, own).await
        } else {
            self.bid(&home, election, seen).await
        }
    }

    /// Whether these tasks, with all others of their shard, fill a batch.
    async fn fills_a_batch(&self, election: &Election, repeated: bool) -> Result<bool, Error> {
        let Election { target, tasks, .. } = election;
        let mut drain = Drain::new(tasks.clone(), [target.clone()], repeated);
        let room = self.route(target)?.for_target(target).batch.room();
        Ok(Gathered::gather(self.store, target, &mut drain, &room, self.env.now()).await?.full)
    }

    fn route(&self, target: &Target) -> Result<&Route, Error> {
        let name = target.route();
        self.routes.get(&name).ok_or(Error::UnknownRoute(name))
    }

    /// How an election's workflow would hold a lock.
    fn bidder(&self, target: &Target, election: &Election, now: Timestamp) -> Result<Holder, Error> {
        let lease = lease_ms(self.route(target)?.for_target(target).batch.wait_ms);
        let Election { workflow, since, .. } = election;
        Ok(Holder { workflow: workflow.clone(), waits_since: *since, lease_until: now.plus_ms(lease) })
    }

    /// Bids until the lock is won or its holder has this workflow's signal. Once is enough: a leader that has it looks
    /// at all that waits before it lets the lock go.
    async fn bid(&self, target: &Target, election: &Election, mut seen: Option<Lock>) -> Result<Bidden, Error> {
        let Election { workflow, signalled, .. } = election;
        let term = |fence| Term { target: target.clone(), workflow: workflow.clone(), fence };
        for _ in 0..MAX_BIDS {
            let now = self.env.now();
            let bidder = self.bidder(target, election, now)?;
            seen = match lock::bid(seen.as_ref(), target, &bidder, now) {
                Bid::Leads(fence) => return Ok(Bidden::Won(term(fence))),
                Bid::Acquire(acquisition) => match self.store.acquire(target, &acquisition).await? {
                    Acquired::Yes => return Ok(Bidden::Won(term(acquisition.next.fence))),
                    Acquired::No(lock) => lock,
                },
                Bid::Held(held) if *signalled == Some((target.shard(), held.fence)) => {
                    return Ok(Bidden::Lost { signalled: *signalled, anew: None });
                }
                Bid::Held(held) => match self.store.signal(&held).await? {
                    Signalled::Yes => {
                        let signalled = Some((target.shard(), held.fence));
                        return Ok(Bidden::Lost { signalled, anew: Some(held) });
                    }
                    Signalled::No(lock) => lock,
                },
            };
        }
        Ok(Bidden::Lost { signalled: *signalled, anew: None })
    }

    /// Drops tasks from the front until one that still waits, reading more at a time the longer that takes: while a
    /// leader is at work the first read usually tells, and no task is read again once it was seen to have moved on.
    async fn drop_moved_on(&self, tasks: Vec<Candidate>) -> Result<Vec<Candidate>, Error> {
        let mut rest = tasks.as_slice();
        let mut count = 1;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(count.min(rest.len()));
            let mut waiting = still_waiting(self.store, part.to_vec(), Freshness::Eventual).await?;
            if !waiting.is_empty() {
                waiting.extend_from_slice(behind);
                return Ok(waiting);
            }
            rest = behind;
            count *= 4;
        }
        Ok(Vec::new())
    }
}

/// The message of a leader in this term that knows of these tasks.
const fn leads(term: Term, tasks: Vec<Candidate>, copies: Copies) -> Lead {
    Lead { term, tasks, verify: true, pace: Pace::UNKNOWN, resume: None, wakes: false, copies }
}

#[cfg(test)]
mod tests;
