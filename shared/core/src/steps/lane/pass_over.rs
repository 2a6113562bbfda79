//! Tasks whose turn never comes, since one before them failed.

use futures::{StreamExt, TryStreamExt, stream};

use super::{Ordering, PAGE, predecessor_failed};
use crate::domain::failed::{self, KEEP_DAYS};
use crate::domain::lane::{Lane, Queued};
use crate::domain::notice::{self, Failure};
use crate::domain::task::Candidate;
use crate::domain::time::DAY_MS;
use crate::domain::tracker::Outcome;
use crate::domain::{NotificationQueue, Turn};
use crate::ports::{Destination, Env, Lanes, Outbox, Outgoing, PassedOver, Streams, Tasks, Trackers, send_all};
use crate::routes::Notify;
use crate::steps::{CONCURRENCY, Error, ties};

impl<S: Tasks + Lanes + Trackers + Streams, Q: Outbox, E: Env> Ordering<'_, S, Q, E> {
    /// Fails all whose turn is over before they had it; says how many. Who waits below the head and is not queued any
    /// more had its turn: only that it waited was not forgotten yet.
    pub(super) async fn pass_over(&self, lane: &Lane, notify: &Notify) -> Result<usize, Error> {
        let (store, outbox, env) = (self.store, self.outbox, self.env);
        let mut failed = 0;
        loop {
            let page = store.queued(&lane.id, Turn(0), lane.head, PAGE).await?;
            if page.is_empty() {
                return Ok(failed);
            }
            let passing: Vec<_> = page.iter().map(|queued| self.pass_one_over(queued)).collect();
            let passed: Vec<_> = stream::iter(passing).buffer_unordered(CONCURRENCY).try_collect().await?;
            let passed: Vec<(&Queued, PassedOver)> = passed.into_iter().flatten().collect();
            failed += passed.len();
            send_all(outbox, passed.iter().filter_map(|(queued, passed)| notice(queued, notify, passed)).collect())
                .await?;
            let failed_ties = passed.into_iter().map(|(_, passed)| (passed.ties, Outcome::Failed)).collect();
            ties::tell(store, outbox, env, failed_ties).await.all()?;
            // Only now: a repeat finds what is left to do by those who wait.
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

fn notice(queued: &Queued, notify: &Notify, passed: &PassedOver) -> Option<Outgoing> {
    let failure = Failure { reason: predecessor_failed(), attempts: 0 };
    let Candidate { id: task, round, .. } = &queued.candidate;
    let settled = notice::Settled { task, target: &queued.target, batch: None, round: *round, superseded_by: None };
    let event = notice::of_task(settled, Some(&failure), passed.at);
    (notify.failure != NotificationQueue::None)
        .then(|| Outgoing::json(Destination::Notification(notify.failure.clone()), &event, 0).traced(passed.trace))
}
