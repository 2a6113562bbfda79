//! Tells limiters what becomes of calls and what people want, and asks them right before a call.

use super::Gatekeeper;
use crate::domain::batch::Batch;
use crate::domain::gate::{BreakerPolicy, FailureClass, Gate, Now, Scope, Sent};
use crate::domain::id::BatchId;
use crate::domain::notice::NotificationQueue;
use crate::domain::outcome::{Failure, Fault};
use crate::domain::retry::Policy;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates};
use crate::routes::Route;
use crate::steps::Error;

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
    /// Tells the breaker that the route names that a call under this key failed: from here on no worker starts a call
    /// that the breaker holds back. Says what that means to the batch.
    ///
    /// # Errors
    /// A port did not answer, or the limiter changed too often: it may know nothing.
    pub async fn failed(
        &self,
        route: &Route,
        batch: &Batch,
        call: &BatchId,
        failure: &Failure,
    ) -> Result<FailureClass, Error> {
        let (retry, scope) = (&route.retry, route.failure_scope(&batch.target, failure.fault));
        let unobserved = self.unobserved(retry, failure);
        if matches!(failure.fault, Fault::Call | Fault::Conflict) {
            return Ok(FailureClass { is_own_fault: true, ..unobserved });
        }
        if !retry.waits_outages_out() {
            if let Some((until, _)) = unobserved.back {
                self.change(&scope, |gate| (gate.paused(until), ())).await?;
            }
            return Ok(unobserved);
        }
        let notifies = route.notify.outage != NotificationQueue::None;
        let policy = BreakerPolicy { longest_pause_ms: retry.longest_pause_ms, notifies };
        let mut class: FailureClass =
            self.change(&scope, |gate| gate.failed((call, &batch.id), failure, policy, self.env.now())).await?;
        if matches!(scope, Scope::Target(_)) && class.is_alone && failure.fault == Fault::Downstream {
            let suspected = |gate: &Gate| gate.suspected(call, failure, self.env.now());
            // If that breaker does not answer, a failure more is excused. An answer of this Target is told to both.
            class.is_own_fault |= self.change(&Scope::Route(route.name.clone()), suspected).await.unwrap_or(false);
        }
        Ok(class)
    }

    /// Returns what a failure means to its own batch if no breaker observes it: the pause that the downstream asks for.
    pub fn unobserved(&self, policy: &Policy, failure: &Failure) -> FailureClass {
        let now = self.env.now();
        let until = failure.retry_after_ms.map(|asked_ms| now.plus_ms(asked_ms.min(policy.longest_pause_ms)));
        FailureClass { back: until.map(|until| (until, until)), ..FailureClass::unobserved(now) }
    }

    /// Returns when a person resumed the batch's route last, or 0. `None` while a person pauses the route or the
    /// Target, or if the route's limiter does not answer.
    pub async fn resumed(&self, route: &Route, batch: &Batch) -> Option<Timestamp> {
        let pauses = self.store.gate(&Scope::Route(route.name.clone())).await.ok()?.pauses;
        let is_paused = pauses.all.is_some() || pauses.targets.contains_key(&batch.target.whole());
        (!is_paused).then(|| pauses.resumed.unwrap_or_default())
    }

    /// Tells these breakers that a call under this key was answered, after others had failed. If one does not answer,
    /// the next call tells it. Returns those with unsent notices.
    pub async fn answered(&self, in_trouble: &[Scope], call: &BatchId) -> Vec<Scope> {
        let mut have_unsent = Vec::new();
        for scope in in_trouble {
            let answered = |gate: &Gate| {
                let next = gate.answered(call, self.env.now());
                let has_unsent = next.as_ref().is_some_and(|gate| gate.outbox.is_due(self.env.now()));
                (next, has_unsent)
            };
            let has_unsent = self.change(scope, answered).await.unwrap_or(false);
            have_unsent.extend(has_unsent.then(|| scope.clone()));
        }
        have_unsent
    }

    /// Tells these breakers that a batch ended without a call. If one does not answer, its probe costs its lease.
    pub async fn ended_uncalled(&self, in_trouble: &[Scope], batch: &BatchId) {
        for scope in in_trouble {
            let _ = self.change(scope, |gate| (gate.ended_uncalled(batch, self.env.now()), ())).await;
        }
    }

    /// Writes down which notices of outages were sent.
    ///
    /// # Errors
    /// As [`failed`](Self::failed): they are sent again.
    pub(in crate::steps) async fn notified(&self, scope: &Scope, sent: &[Sent]) -> Result<(), Error> {
        self.change(scope, |gate| (gate.notified(sent, self.env.now()), ())).await
    }

    /// Changes what a person has a say in; returns what the limiter is then.
    ///
    /// # Errors
    /// As [`failed`](Self::failed).
    pub(in crate::steps) async fn turn(
        &self,
        scope: &Scope,
        turned: impl Fn(&Gate, Timestamp) -> Option<Gate> + Send + Sync,
    ) -> Result<Gate, Error> {
        let turn = |gate: &Gate| {
            let next = turned(gate, self.env.now());
            (next.clone(), next.unwrap_or_else(|| gate.clone()))
        };
        self.change(scope, turn).await
    }

    /// Returns what the limiter that the route names for pauses says right before the call. If the batch has waited in
    /// place for its time, the route's limiter is asked, too: a person may have paused calls there meanwhile.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn says_now(&self, route: &Route, batch: &Batch, has_waited: bool) -> Result<Now, Error> {
        let (scope, of_route) = (route.pause_scope(&batch.target), Scope::Route(route.name.clone()));
        let said_by_route = async {
            if !has_waited || scope == of_route {
                return Ok::<_, Error>(Now::Go);
            }
            let (gate, now) = (self.store.gate(&of_route).await?, self.env.now());
            let is_paused = gate.pauses.targets.contains_key(&batch.target.whole());
            Ok(if is_paused { Now::Closed(None) } else { gate.says_now(&batch.id, now) })
        };
        let (gate, by_route) = futures::join!(self.store.gate(&scope), said_by_route);
        let said = gate?.says_now(&batch.id, self.env.now());
        if said == Now::Go { by_route } else { Ok(said) }
    }
}
