//! Tasks whose turn never comes, since one before them failed.

use futures::{StreamExt, TryStreamExt, stream};

use super::{Ordering, PAGE, predecessor_failed};
use crate::domain::failed::{self, KEEP_DAYS};
use crate::domain::lane::{Lane, Queued};
use crate::domain::notice::{self, Failure};
use crate::domain::task::Candidate;
use crate::domain::time::{DAY_MS, Timestamp};
use crate::domain::tracker::Outcome;
use crate::domain::{NotificationQueue, Turn};
use crate::ports::{self, Destination, Env, Lanes, Outbox, Outgoing, PassedOver, Streams, Tasks, Trackers};
use crate::routes::Notify;
use crate::steps::notices::{Notified, Refused, send_notices};
use crate::steps::{CONCURRENCY, Error, observers};

/// What passing tasks over came to.
#[derive(Debug, Default)]
pub(super) struct PassedBy {
    /// Tasks that failed.
    pub(super) failed: usize,
    /// Those whose notice was refused: they are passed over once more.
    pub(super) untold: usize,
    /// What the first queue that refused one said.
    pub(super) refusal: Option<ports::Error>,
}

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Ordering<'_, S, Q, E> {
    /// Fails all whose turn is over before they had it. Who waits below the head and is not queued any more had its
    /// turn: only that it waited was not forgotten yet.
    pub(super) async fn pass_over(&self, lane: &Lane, notify: &Notify, refused: Refused) -> Result<PassedBy, Error> {
        let (store, outbox, env) = (self.store, self.outbox, self.env);
        let (mut came, mut from) = (PassedBy::default(), Turn(0));
        loop {
            let mut page = store.queued(&lane.id, from, lane.head, PAGE).await?;
            let Some(last) = page.last() else { return Ok(came) };
            from = last.turn.next();
            let passing: Vec<_> = page.iter().map(|queued| self.pass_one_over(queued)).collect();
            let passed: Vec<_> = stream::iter(passing).buffer_unordered(CONCURRENCY).try_collect().await?;
            let passed: Vec<(&Queued, PassedOver)> = passed.into_iter().flatten().collect();
            came.failed += passed.len();
            let failed_ties = passed.iter().map(|(_, passed)| (passed.ties.clone(), Outcome::Failed)).collect();
            observers::observe(store, outbox, env, failed_ties).await.all()?;
            let (turns, notices): (Vec<Turn>, Vec<_>) =
                passed.iter().filter_map(|(queued, passed)| notice(queued, notify, passed)).unzip();
            let notified = send_notices((outbox, env), notices, refused).await;
            let refusals: Vec<Option<ports::Error>> = notified.into_iter().map(Notified::refusal).collect();
            if refused == Refused::IsRejected
                && let Some(error) = refusals.iter().flatten().next()
            {
                // The rejected queue refuses them, too, and no process would send them again.
                return Err(error.clone().into());
            }
            let untold: Vec<Turn> =
                turns.into_iter().zip(&refusals).filter_map(|(turn, why)| why.as_ref().map(|_| turn)).collect();
            came.untold += untold.len();
            came.refusal = came.refusal.or_else(|| refusals.into_iter().flatten().next());
            // Only now: a repeat finds what is left to do by those who wait.
            page.retain(|queued| !untold.contains(&queued.turn));
            store.leave(&lane.id, &page).await?;
        }
    }

    async fn pass_one_over<'q>(&self, queued: &'q Queued) -> Result<Option<(&'q Queued, PassedOver)>, Error> {
        let failure = failed::Failure {
            target: queued.target.whole(),
            reason: predecessor_failed(),
            attempts: 0,
            answer: None,
            // Nobody retries it, as its lane has gone on: it is listed for as long as most are.
            keep_ms: KEEP_DAYS * DAY_MS,
        };
        let passed = self.store.pass_over(&queued.candidate.id, &failure, self.env.now()).await?;
        Ok(passed.map(|passed| (queued, passed)))
    }
}

fn notice(queued: &Queued, notify: &Notify, passed: &PassedOver) -> Option<(Turn, (Timestamp, Outgoing))> {
    let failure = Failure { reason: predecessor_failed(), attempts: 0 };
    let Candidate { id: task, round, .. } = &queued.candidate;
    let settled =
        notice::Settled { task, target: &queued.target, batch: None, round: *round, superseded_by: None, output: None };
    let event = notice::of_task(settled, Some(&failure), passed.at);
    let to = || Destination::Notification(notify.failure.clone());
    (notify.failure != NotificationQueue::None)
        .then(|| (queued.turn, (passed.at, Outgoing::json(to(), &event, 0).traced(passed.trace))))
}
