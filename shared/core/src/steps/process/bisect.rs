//! Taking a batch apart: the search for the members that a downstream refuses.
//!
//! That search is one claim, unless there is no time for all of it, or the downstream goes away meanwhile; then the
//! next claim goes on from there. From the second claim on there is a write before and after each part's call, so that
//! the worker that takes the batch over knows which part it was. So it is with a batch that lost its workers, or that
//! failed too often while others were answered.

use super::Processor;
use super::stage::{Called, Claimed, Outcome, Stage};
use crate::domain::batch::bisection::{self, Bisection};
use crate::domain::gate::{FailureClass, Scope};
use crate::domain::outcome::{JOB_NOT_FOLLOWED, Reason, Reply};
use crate::domain::{Batch, Timestamp};
use crate::ports::{Downstream, Env, Outbox, Store, Stored};
use crate::steps::Error;
use crate::steps::admit::{Passed, Wait};

/// How soon a full limit is looked at again within a batch that is being taken apart, in milliseconds.
const LOOK_AGAIN_MS: u64 = 1_000;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Calls halves, and halves of halves, until only single members are refused, each after passing the limits anew. A
    /// part whose call fails for a reason that says nothing about its members counts as refused if it did so before,
    /// and others were answered meanwhile; else it is called again after the others, whose answers tell.
    pub(super) async fn take_apart(
        &self,
        claimed: &Claimed,
        mut apart: Bisection,
        mut in_trouble: Vec<Scope>,
    ) -> Stage<Called> {
        let route = self.route(&claimed.batch)?;
        let (mut batch, mut failed) = (claimed.batch.clone(), None);
        while failed.is_none() && !apart.is_over() {
            if apart.calling().is_none() {
                let Some(passed) = self.pass_again(claimed).await else { break };
                in_trouble = passed;
                apart.begin();
                batch = self.note(claimed, batch, &apart).await?;
            }
            let part = apart.calling().cloned().unwrap_or_default();
            let key = bisection::key(&batch.id, &part);
            let members = batch.members.get(part).unwrap_or_default();
            let answered = self.call_part(claimed, &key, members, &in_trouble, apart.may_be_done()).await?;
            batch = self.keep(batch.answered(answered.excerpt), answered.outputs).await?;
            // The route's breaker may hear of a failure on another Target.
            let failed_before = in_trouble.contains(&route.pause_scope(&batch.target));
            let waits = route.retry.waits_outages_out().then_some(failed_before);
            if answered.may_be_done {
                apart.unanswered();
            }
            failed = note_answer(&mut apart, &batch, answered.reply, answered.class, answered.is_halved, waits);
            // The last answer is recorded with the outcome.
            if !apart.is_over() {
                batch = self.note(claimed, batch, &apart).await?;
            }
        }
        if apart.is_over() {
            let said = Reply::PerMember(apart.finished(&batch.members));
            let reply = Some((said, FailureClass::unobserved(self.env.now())));
            return Ok(Called { batch: Batch { apart: Some(Box::new(apart)), ..batch }, reply });
        }
        Ok(Called { batch: Batch { apart: Some(Box::new(apart)), ..batch }, reply: failed })
    }

    /// Notes how far a batch is taken apart, from its second claim on.
    async fn note(&self, claimed: &Claimed, batch: Batch, apart: &Bisection) -> Stage<Batch> {
        if claimed.batch.apart.is_none() {
            return Ok(batch);
        }
        let noted = batch.taken_apart(apart.clone());
        match self.put(&noted, batch.revision).await? {
            Stored::Yes => Ok(noted),
            Stored::Conflict => Err(Outcome::ClaimLost.into()),
        }
    }

    /// Passes the limits for one call more, waiting for them while there is time for it; says which of them want to
    /// hear of an answer. `None` if there is no time, or if they do not answer: what is known by then counts for more
    /// than an error of theirs.
    async fn pass_again(&self, claimed: &Claimed) -> Option<Vec<Scope>> {
        loop {
            match self.pass_now(claimed).await {
                Ok(Passed::Yes { start, in_trouble, .. }) => {
                    self.env.sleep(start.since(self.env.now())).await;
                    return Some(in_trouble);
                }
                Ok(Passed::No(wait)) => {
                    let until = wait.until.unwrap_or_else(|| self.env.now().plus_ms(LOOK_AGAIN_MS));
                    if !self.has_time_from(claimed, until).ok()? {
                        return None;
                    }
                    self.env.sleep(until.since(self.env.now())).await;
                }
                Ok(Passed::Away(_)) | Err(_) => return None,
            }
        }
    }

    async fn pass_now(&self, claimed: &Claimed) -> Result<Passed, Error> {
        let Claimed { batch, deadline, .. } = claimed;
        if !self.has_time_from(claimed, self.env.now())? {
            return Ok(Passed::No(Wait::until(*deadline)));
        }
        // The same lease: permits are given back by it.
        Box::pin(self.gatekeeper().admit_again(self.route(batch)?, batch, *deadline)).await
    }

    /// Returns whether a call that starts then may take all of its time.
    fn has_time_from(&self, claimed: &Claimed, start: Timestamp) -> Result<bool, Error> {
        Ok(start.plus_ms(self.timeout_ms(self.route(&claimed.batch)?)) <= claimed.deadline)
    }
}

/// Notes what the call of a part came to. Returns the failure that ends this claim's calls, if one does: of a route
/// that waits outages out, one that says that its downstream is away, since the breaker knew of `failures_before` or no
/// other part is left whose answer could tell.
fn note_answer(
    apart: &mut Bisection,
    batch: &Batch,
    reply: Reply,
    class: FailureClass,
    is_halved: bool,
    failures_before: Option<bool>,
) -> Option<(Reply, FailureClass)> {
    match reply {
        Reply::PerMember(said) => apart.answered(&batch.members, said),
        Reply::Refused(reason) if is_halved => apart.refused(&reason),
        Reply::Refused(reason) => apart.failed(&reason),
        // The routes file has `job` since the batch was taken apart.
        Reply::Begun(_) => apart.failed(&Reason::new(JOB_NOT_FOLLOWED)),
        Reply::Unavailable(failure) if class.is_own_fault => apart.refused(&failure.reason),
        Reply::Unavailable(failure) => {
            let ends = match failures_before {
                Some(had_failures) => {
                    apart.put_back();
                    had_failures || !apart.has_others()
                }
                None => {
                    apart.failed_for_now(&failure.reason);
                    true
                }
            };
            return ends.then_some((Reply::Unavailable(failure), class));
        }
    }
    None
}
