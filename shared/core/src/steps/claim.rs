//! Claiming a frozen batch under a session: the last write before its call.
//!
//! Whatever can fail comes before the claim: passing the gates, naming the batch in the session, reading the members,
//! waiting for the call's time, looking whether a pause has begun. So a claim is a call, and an error of ours, for
//! however long, uses up no attempt. A claim whose worker is lost is a call that may have been made: it counts, and the
//! worker that takes it over asks [`Batch::lost`] what the batch comes to.
//!
//! The session names the batch, then one conditional write claims it. Taking over a claim whose session is over is the
//! same conditional write as a first claim, so a late worker's outcome is refused; losing a claim is an outcome, not an
//! error. One write does what a transaction over session and batch would, for half the price: the batch's revision is
//! all that has to hold.

use std::collections::BTreeMap;

use super::admit::{Away, Gatekeeper, Held, Passed, Wait};
use super::call::{Members, attempted, members};
use super::keeper::{Keeper, lives_until};
use super::processor::Processor;
use super::{Error, follow_up, let_others_go_first};
use crate::domain::batch::{Assumes, Batch, Claim, Duty, Lost};
use crate::domain::ended::Ended;
use crate::domain::gate::{Now, Scope};
use crate::domain::outcome::{self, Reason, Results, Said, results};
use crate::domain::task::traces;
use crate::domain::trace::Traces;
use crate::domain::{Retryable, Revision, Task, TaskId, Timestamp};
use crate::ports::{Downstream, Env, Outbox, Store, Stored};
use crate::routes::{OnReject, Route};

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processed {
    /// Its outcome is recorded, by this worker. What follows from it is still to be done, and belongs to these traces
    /// of its members.
    Recorded(Box<Batch>, Traces),
    /// The call failed for now; the batch is paused.
    CallAgain {
        /// Why.
        reason: Reason,
        /// When the pause is over.
        until: Timestamp,
        /// Whether the gate was closed by it to all but one call at a time.
        begins_outage: bool,
    },
    /// Another worker has taken the claim over, or this one's session is over: the call's result is dropped.
    ClaimLost,
    /// Another worker recorded the outcome; what follows from it was derived once more.
    FollowedUp(follow_up::Counts),
    /// It waits for a place, a pause's end or another worker; no call was made.
    Waits(Wait),
    /// Its downstream is away, or a person holds calls back; it comes back then.
    Away(Timestamp),
    /// There was nothing to do.
    Nothing,
}

/// A batch that this worker has claimed. Its call comes next.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// As its claim left it.
    pub batch: Batch,
    /// Its members' tasks.
    pub(super) tasks: Members,
    pub(super) held: Vec<Held>,
    /// Its calls end before, and so before the leases of its places.
    pub(super) deadline: Timestamp,
    /// The gates that want to hear of an answer, since calls before it failed.
    pub(super) in_trouble: Vec<Scope>,
}

impl Claimed {
    /// The tasks of its members, in their order, except those that the batch is called without. One that somebody
    /// deleted is left out.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        let members = self.batch.members.iter().enumerate();
        let called = members.filter(|(position, _)| self.batch.omission(*position).is_none());
        called.filter_map(|(_, member)| self.tasks.get(&member.id))
    }
}

/// Where these places are.
pub(super) fn scopes(held: &[Held]) -> Vec<Scope> {
    held.iter().map(|place| place.scope.clone()).collect()
}

/// What came of trying to claim a batch.
#[derive(Debug)]
pub enum Tried {
    /// It is claimed.
    Claimed(Box<Claimed>),
    /// It is not, and this is why.
    Not(Processed),
}

/// What came of everything between the gates and the claim.
enum Prepared {
    /// The members' tasks: the batch can be claimed.
    Ready(Members),
    /// There is no claim to be made.
    Not(Processed),
}

/// What a claim's last write came to.
enum Wrote {
    /// The batch is claimed.
    Claim(Batch),
    /// Nobody is left to be called, so its outcome is recorded.
    Outcome(Batch),
}

/// Added to a call's timeout for everything around it, in milliseconds: waiting for its time, recording the outcome.
const MARGIN_MS: u64 = 10_000;
/// A batch is taken apart for so long at most, in milliseconds: as long as the longest calls of other routes may take.
const BISECTION_MS: u64 = 70_000;
/// How soon a batch asks its gate again that has closed while the batch was on its way to its call, in milliseconds.
const ASK_AGAIN_MS: u64 = 1_000;
/// A gate that was open so long ago is not looked at once more before a call, in milliseconds: the claim and the way to
/// the downstream take about as long.
const JUST_NOW_MS: u64 = 50;
/// So often a write of a claimed batch is tried again that got no answer.
const TRIES: u32 = 6;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Claims a batch that is to be called, if its gates let it through. The call may be made at once.
    ///
    /// # Errors
    /// A port did not answer, the route is unknown, or another worker is at work.
    pub async fn try_claim(&self, batch: Batch, keeper: &Keeper<'_, S, E>) -> Result<Tried, Error> {
        match batch.duty(self.env.now()) {
            Duty::Nothing => {
                if batch.ticket.is_some() {
                    // While it waited at its route's gate with a place at its Target's, another delivery had it called.
                    self.gatekeeper().clear(self.route(&batch)?, &batch).await?;
                }
                Ok(Tried::Not(Processed::Nothing))
            }
            Duty::LookAgain { at } => Ok(Tried::Not(Processed::Waits(Wait::until(at)))),
            Duty::FollowUp => {
                let route = self.route(&batch)?;
                // The worker that recorded the outcome may have died before it gave its places back.
                self.gatekeeper().clear(route, &batch).await?;
                let counts = follow_up::follow_up(self.store, self.outbox, self.env, route, &batch, None).await?;
                Ok(Tried::Not(Processed::FollowedUp(counts)))
            }
            // Our own claim, which an error left behind, is as good as none; one that is in hand is not.
            Duty::AskFor { session } if session == *keeper.id() => {
                if keeper.names(&batch.id).await {
                    return Ok(Tried::Not(Processed::Waits(Wait::default())));
                }
                self.claim(batch, keeper).await
            }
            Duty::AskFor { session } => match lives_until(self.store, self.env, &session).await? {
                Some(until) => Ok(Tried::Not(Processed::Waits(Wait::until(until)))),
                None => self.take_over(batch, keeper).await,
            },
            Duty::Call => self.claim(batch, keeper).await,
        }
    }

    /// Takes over a claim whose worker is lost.
    async fn take_over(&self, batch: Batch, keeper: &Keeper<'_, S, E>) -> Result<Tried, Error> {
        let route = self.route(&batch)?;
        match batch.lost(route.retry.attempts, route.on_reject == OnReject::Bisect) {
            Lost::CallAgain => self.claim(batch, keeper).await,
            Lost::TakeApart(apart) => self.claim(Batch { apart: Some(Box::new(apart)), ..batch }, keeper).await,
            Lost::Settle(said) => {
                let tasks = members(self.store, &batch).await?;
                let recorded = self.record(&batch, &tasks, self.results(route, &batch, &tasks, said)).await?;
                if matches!(recorded, Processed::Recorded(..)) {
                    // The lost worker's places; if this fails, they are free when their lease is over.
                    let _ = self.gatekeeper().clear(route, &batch).await;
                }
                Ok(Tried::Not(recorded))
            }
        }
    }

    /// Claims a batch whose gates let it through.
    async fn claim(&self, batch: Batch, keeper: &Keeper<'_, S, E>) -> Result<Tried, Error> {
        let route = self.route(&batch)?;
        // The process that left them out may have died before all had heard.
        let batch = follow_up::tell_of_omitted(self.store, self.outbox, self.env, route, batch).await?;
        let lease_until = self.env.now().plus_ms(self.lease_ms(route));
        let (held, start, seen_open, in_trouble, have_news) =
            match Box::pin(self.gatekeeper().admit(route, &batch, keeper.id(), lease_until)).await? {
                Passed::No(wait) => {
                    self.remember(&batch, wait).await?;
                    return Ok(Tried::Not(Processed::Waits(wait)));
                }
                Passed::Away(away) => return self.stay_away(route, batch, away).await.map(Tried::Not),
                Passed::Yes { held, start, seen_open, in_trouble, have_news } => {
                    (held, start, seen_open, in_trouble, have_news)
                }
            };
        // The worker that was to tell may have died, or its queue refused.
        self.announce(route, &have_news).await;
        let tried = match self.prepare(route, &batch, (start, seen_open), keeper).await {
            Ok(Prepared::Ready(tasks)) => match self.write(route, &batch, &tasks, keeper).await {
                Ok(Some(Wrote::Claim(batch))) => {
                    // Its places are leased for longer if it waited for one, but its function's time is not.
                    let deadline = lease_until;
                    return Ok(Tried::Claimed(Box::new(Claimed { batch, tasks, held, deadline, in_trouble })));
                }
                Ok(Some(Wrote::Outcome(settled))) => Ok(Processed::Recorded(Box::new(settled), traces(tasks.values()))),
                Ok(None) => Err(Error::Conflict("claiming a batch")),
                Err(error) => Err(error),
            },
            Ok(Prepared::Not(why)) => Ok(why),
            Err(error) => Err(error),
        };
        // Not in hand, even if only the answer was lost: then the claim is there, and made again.
        keeper.forget(&batch.id).await;
        let left = match tried {
            Ok(Processed::Recorded(..)) => self.leave_settled(&scopes(&held), &batch).await,
            _ => self.leave_unclaimed(held, &batch).await,
        };
        // The first error counts; the places' lease is over soon.
        let tried = tried?;
        left.map(|()| Tried::Not(tried))
    }

    /// Claims a batch, without those that nobody wants any more; if nobody is left, records that instead. `None` says
    /// that somebody else has written it.
    async fn write(
        &self,
        route: &Route,
        batch: &Batch,
        tasks: &Members,
        keeper: &Keeper<'_, S, E>,
    ) -> Result<Option<Wrote>, Error> {
        let now = self.env.now();
        let called = batch.clone().without_expired(tasks, now);
        let wrote = if called.omits_all() {
            Wrote::Outcome(called.settled(Results::new(), now))
        } else if called.has_expired(tasks, now) {
            let said = called.given_up(&Ended::Expired.reason());
            Wrote::Outcome(called.settled(self.results(route, &called, tasks, said), now))
        } else {
            Wrote::Claim(called.claimed(Claim { session: keeper.id().clone() }))
        };
        let (Wrote::Claim(next) | Wrote::Outcome(next)) = &wrote;
        Ok(match self.put(next, batch.revision).await? {
            Stored::Yes => Some(wrote),
            Stored::Conflict => None,
        })
    }

    /// What is recorded of a batch's members of which this is said.
    fn results(&self, route: &Route, batch: &Batch, tasks: &Members, said: BTreeMap<TaskId, Said>) -> Results {
        let delay_ms = |attempts, asked_ms| route.retry.backoff_ms(attempts, asked_ms, self.env.random());
        results(said, &attempted(batch, tasks), route.retry.attempts, delay_ms)
    }

    /// All that can fail or take time between the gates and the claim.
    async fn prepare(
        &self,
        route: &Route,
        batch: &Batch,
        (start, seen_open): (Timestamp, Timestamp),
        keeper: &Keeper<'_, S, E>,
    ) -> Result<Prepared, Error> {
        let (named, tasks) = futures::join!(keeper.name(&batch.id), members(self.store, batch));
        if named?.is_err() {
            return Ok(Prepared::Not(Processed::ClaimLost));
        }
        let tasks = tasks?;
        let ahead_ms = start.since(self.env.now());
        self.env.sleep(ahead_ms).await;
        if self.env.now().since(seen_open) <= JUST_NOW_MS {
            return Ok(if keeper.is_trusted() { Prepared::Ready(tasks) } else { Prepared::Not(Processed::ClaimLost) });
        }
        // A pause may have begun since the batch was let through.
        match self.gatekeeper().says_now(route, batch, ahead_ms > 0).await? {
            Now::Go => {}
            Now::Closed(Some(until)) => return Ok(Prepared::Not(Processed::Waits(Wait::until(until)))),
            // The gate says for how long when it is asked again.
            Now::Closed(None) => return Ok(Prepared::Not(Processed::Away(self.env.now().plus_ms(ASK_AGAIN_MS)))),
        }
        Ok(if keeper.is_trusted() { Prepared::Ready(tasks) } else { Prepared::Not(Processed::ClaimLost) })
    }

    /// A batch that must stay away comes back later, unless its outage has lasted for as long as its route waits.
    async fn stay_away(&self, route: &Route, batch: Batch, away: Away) -> Result<Processed, Error> {
        if let Some((since, last)) = &away.outage
            && batch.gives_up(&route.retry, *since, self.env.now())
        {
            let tasks = members(self.store, &batch).await?;
            let processed = self.give_up_on(&batch, &tasks, last).await?;
            if matches!(processed, Processed::Recorded(..)) {
                // It may have kept a place at its Target's while it waited; if this fails, its lease is over soon.
                let _ = self.gatekeeper().clear(route, &batch).await;
            }
            return Ok(processed);
        }
        if batch.pulled || away.until >= batch.due {
            // As a ticket is: if another delivery was faster, it has claimed the batch, or stays away as well.
            let paused = batch.paused(away.until);
            let paused = if batch.pulled { paused.pulled_from(away.until) } else { paused };
            let _: Stored = self.store.store(&paused, Assumes::At(batch.revision)).await?;
        }
        Ok(Processed::Away(away.until))
    }

    /// Records that all members fail of which nothing is known, since their downstream was away for too long.
    pub(super) async fn give_up_on(&self, batch: &Batch, tasks: &Members, last: &Reason) -> Result<Processed, Error> {
        let route = self.route(batch)?;
        let batch = &batch.clone().without_expired(tasks, self.env.now());
        let said = batch.given_up(&outcome::outage(last));
        self.record(batch, tasks, self.results(route, batch, tasks, said)).await
    }

    /// Writes a ticket into its batch if the wait is so long that others would look at the batch meanwhile: sweep,
    /// which would take the batch's message for lost, or a worker that pulls, which has no message.
    async fn remember(&self, batch: &Batch, wait: Wait) -> Result<(), Error> {
        let Some((until, ticket)) = wait.until.zip(wait.ticket) else { return Ok(()) };
        if !batch.pulled && until < batch.due {
            return Ok(());
        }
        let waiting = batch.waiting(ticket, until);
        if self.store.store(&waiting, Assumes::At(batch.revision)).await? == Stored::Yes {
            return Ok(());
        }
        // If another delivery was faster, it has claimed the batch, or its ticket is as good. One that gave up has only
        // written the batch once more.
        if let Some(batch) = self.store.batch(&batch.id).await?
            && batch.ticket.is_none()
            && batch.duty(self.env.now()) == Duty::Call
        {
            let _: Stored = self.store.store(&batch.waiting(ticket, until), Assumes::At(batch.revision)).await?;
        }
        Ok(())
    }

    /// Records the outcome of a claimed batch: the acknowledgement.
    pub(super) async fn record(&self, batch: &Batch, tasks: &Members, results: Results) -> Result<Processed, Error> {
        let settled = batch.settled(results, self.env.now());
        Ok(match self.put(&settled, batch.revision).await? {
            Stored::Yes => Processed::Recorded(Box::new(settled), traces(tasks.values())),
            Stored::Conflict => Processed::ClaimLost,
        })
    }

    /// Writes a claimed batch. Tries again for a moment if there is no answer: a claim without its call, or a call
    /// without its outcome, costs an attempt.
    pub(super) async fn put(&self, batch: &Batch, revision: Revision) -> Result<Stored, Error> {
        let mut tries = 0;
        loop {
            match self.store.store(batch, Assumes::At(revision)).await {
                Err(error) if tries < TRIES && error.retryable() == Retryable::Yes => {
                    let_others_go_first(self.env, tries).await;
                    tries += 1;
                }
                stored => return Ok(stored?),
            }
        }
    }

    /// Gives back the places of a batch that this delivery does not call. Those that it took are its own. One that the
    /// batch had before may have been kept while it waited, or it is that of a delivery that calls it, or is about to.
    /// So the batch is written once more: nobody calls it then without asking its gates again.
    async fn leave_unclaimed(&self, held: Vec<Held>, batch: &Batch) -> Result<(), Error> {
        let (taken, renewed): (Vec<Held>, Vec<Held>) = held.into_iter().partition(|place| place.is_taken);
        self.gatekeeper().leave(&taken, &batch.id).await?;
        if renewed.is_empty() {
            return Ok(());
        }
        let is_called = match self.store.batch(&batch.id).await? {
            Some(batch) => match batch.duty(self.env.now()) {
                Duty::Call => self.put(&batch.clone().noted(), batch.revision).await? == Stored::Conflict,
                Duty::AskFor { .. } => true,
                Duty::LookAgain { .. } | Duty::FollowUp | Duty::Nothing => false,
            },
            None => false,
        };
        if is_called { Ok(()) } else { self.gatekeeper().leave(&renewed, &batch.id).await }
    }

    /// Gives back the places that a batch has at these gates once its outcome is recorded, by whichever lease: nobody
    /// calls it any more.
    pub(super) async fn leave_settled(&self, scopes: &[Scope], batch: &Batch) -> Result<(), Error> {
        self.gatekeeper().leave_until(scopes, &batch.id, Timestamp(u64::MAX)).await
    }

    /// Gives back the places that a batch has at these gates, if its claim stood until then: a lease from before is
    /// that of a delivery that could not claim it.
    ///
    /// # Errors
    /// A port did not answer; the places are free when their lease is over.
    pub(super) async fn leave_claimed(&self, scopes: &[Scope], batch: &Batch, until: Timestamp) -> Result<(), Error> {
        let last = Timestamp(until.plus_ms(self.lease_ms(self.route(batch)?)).0 - 1);
        self.gatekeeper().leave_until(scopes, &batch.id, last).await
    }

    /// Gives a claim's permits back, once its call has `ended` if it made exactly one.
    ///
    /// # Errors
    /// As [`leave_claimed`](Self::leave_claimed).
    pub(super) async fn leave_after(&self, claimed: &Claimed, ended: Option<Timestamp>) -> Result<Vec<Scope>, Error> {
        self.gatekeeper().leave_after(&claimed.held, &claimed.batch.id, ended).await
    }

    pub(super) const fn gatekeeper(&self) -> Gatekeeper<'_, S, E> {
        Gatekeeper { store: self.store, env: self.env }
    }

    /// How long all calls of a claim may take, and so how long its places last if its worker dies: twice the timeout,
    /// since a call whose secret was refused is made again with a newer one; and time to take a batch apart, where the
    /// route says so.
    pub(super) fn lease_ms(&self, route: &Route) -> u64 {
        let calls_ms = 2 * self.timeout_ms(route) + MARGIN_MS;
        match route.on_reject {
            OnReject::Fail => calls_ms,
            OnReject::Bisect => calls_ms.max(BISECTION_MS),
        }
    }

    pub(super) fn timeout_ms(&self, route: &Route) -> u64 {
        route.downstream.timeout_ms().unwrap_or(self.patience_ms)
    }

    pub(super) fn route(&self, batch: &Batch) -> Result<&Route, Error> {
        let name = batch.target.route();
        self.routes.get(&name).ok_or(Error::UnknownRoute(name))
    }
}
