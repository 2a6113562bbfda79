//! What gates hear of calls and of people, and what they say right before a call.

use super::Gatekeeper;
use crate::domain::batch::Batch;
use crate::domain::gate::{Gate, Heeds, Now, Scope, Setback, Tried};
use crate::domain::id::BatchId;
use crate::domain::notice::NotificationQueue;
use crate::domain::outcome::{Failure, Fault};
use crate::domain::retry::Policy;
use crate::domain::time::Timestamp;
use crate::ports::{Env, Gates};
use crate::routes::Route;
use crate::steps::Error;

impl<S: Gates, E: Env> Gatekeeper<'_, S, E> {
    /// Tells the gate that the route names for it that a call under this key failed, for every worker: from here on
    /// none starts a call that the gate holds back. Says what that means to the batch.
    ///
    /// # Errors
    /// A port did not answer, or the gate changed too often: it may know nothing.
    pub async fn failed(
        &self,
        route: &Route,
        batch: &Batch,
        call: &BatchId,
        failure: &Failure,
    ) -> Result<Setback, Error> {
        let (policy, scope) = (&route.retry, route.failure_scope(&batch.target, failure.fault));
        let unheard = self.unheard(policy, failure);
        if matches!(failure.fault, Fault::Call | Fault::Conflict) {
            return Ok(Setback { counted: 1, ..unheard });
        }
        if policy.waits_outages_out() {
            let heeds = Heeds {
                longest_pause_ms: policy.longest_pause_ms,
                tells: route.notify.outage != NotificationQueue::None,
            };
            let failed = |gate: &Gate| gate.failed((call, &batch.id), failure, heeds, self.env.now());
            let setback: Setback = self.change(&scope, failed).await?;
            return Ok(match scope {
                Scope::Target(_) if setback.is_alone && failure.fault == Fault::Downstream => {
                    let suspected = |gate: &Gate| gate.suspected(call, failure, self.env.now());
                    // If that gate does not hear of it, one failure more is excused.
                    let counted = self.change(&Scope::Route(route.name.clone()), suspected).await.unwrap_or(0);
                    // An answer of this Target is told to both.
                    Setback { counted: setback.counted.max(counted), ..setback }
                }
                Scope::Target(_) | Scope::Route(_) => setback,
            });
        }
        if let Some((until, _)) = unheard.back {
            self.change(&scope, |gate| (gate.paused(until), ())).await?;
        }
        Ok(unheard)
    }

    /// Returns what a failure means to its own batch if no limiter hears of it: the pause that the downstream asks for.
    pub fn unheard(&self, policy: &Policy, failure: &Failure) -> Setback {
        let now = self.env.now();
        let until = failure.retry_after_ms.map(|asked_ms| now.plus_ms(asked_ms.min(policy.longest_pause_ms)));
        Setback { back: until.map(|until| (until, until)), ..Setback::unheard(now) }
    }

    /// Returns when a person resumed the batch's route last, or 0. `None` while a person pauses the route or the
    /// Target, or if the route's gate does not answer.
    pub async fn resumed(&self, route: &Route, batch: &Batch) -> Option<Timestamp> {
        let gate = self.store.gate(&Scope::Route(route.name.clone())).await.ok()?;
        let is_paused = gate.health.held.is_some() || gate.holds_back(&batch.target.whole(), self.env.now()).is_some();
        (!is_paused).then(|| gate.health.resumed.unwrap_or_default())
    }

    /// Tells these gates that a call under this key was answered, after others had failed. If one does not hear of it,
    /// the next answer tells. Says which of them have something to tell people.
    pub async fn answered(&self, in_trouble: &[Scope], call: &BatchId) -> Vec<Scope> {
        let mut have_news = Vec::new();
        for scope in in_trouble {
            let answered = |gate: &Gate| {
                let next = gate.answered(call, self.env.now());
                let has_news = next.as_ref().is_some_and(|gate| gate.health.has_news(self.env.now()));
                (next, has_news)
            };
            let has_news = self.change(scope, answered).await.unwrap_or(false);
            have_news.extend(has_news.then(|| scope.clone()));
        }
        have_news
    }

    /// Writes down what came of telling people what a gate had to tell.
    ///
    /// # Errors
    /// As [`failed`](Self::failed): it is told again.
    pub(in crate::steps) async fn announced(&self, scope: &Scope, tried: &[Tried]) -> Result<(), Error> {
        self.change(scope, |gate| (gate.announced(tried, self.env.now()), ())).await
    }

    /// Changes what a person has a say in; says what the gate is then.
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

    /// What the gate that the route names for it says right before the call. If the batch has waited in place for its
    /// time, the route's gate is asked, too: a person may have held calls back there since it let the batch through.
    ///
    /// # Errors
    /// A port did not answer.
    pub async fn says_now(&self, route: &Route, batch: &Batch, has_waited: bool) -> Result<Now, Error> {
        let (scope, of_all) = (route.pause_scope(&batch.target), Scope::Route(route.name.clone()));
        let is_held = async {
            if !has_waited || scope == of_all {
                return Ok(None);
            }
            let (gate, now) = (self.store.gate(&of_all).await?, self.env.now());
            Ok::<_, Error>(gate.holds_back(&batch.target.whole(), now).map_or_else(
                || Some(gate.says_now(&batch.id, now)).filter(|said| *said != Now::Go),
                |_| Some(Now::Closed(None)),
            ))
        };
        let (gate, held) = futures::join!(self.store.gate(&scope), is_held);
        let said = gate?.says_now(&batch.id, self.env.now());
        Ok(if said == Now::Go { held?.unwrap_or(Now::Go) } else { said })
    }
}
