//! Telling people of outages.
//!
//! The gate says what is to be told. It is sent, and then written down as told: a process that dies in between, or a
//! queue that refuses, costs a repeat under the same id by a later call behind the gate. What a queue has refused for a
//! day goes to the rejected queue.

use super::Error;
use super::follow_up::undeliverable;
use super::processor::Processor;
use crate::domain::id::Target;
use crate::domain::notice::{NotificationQueue, is_undeliverable, of_outage};
use crate::ports::{Destination, Downstream, Env, Outbox, Outgoing, Store, send_all};
use crate::routes::Route;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Tells what the gate with the breaker of this Target has to tell. An error keeps no task from its call: the gate
    /// still has it to tell.
    pub(super) async fn announce(&self, route: &Route, of: &Target) {
        let _ = self.try_to_announce(route, of).await;
    }

    async fn try_to_announce(&self, route: &Route, of: &Target) -> Result<(), Error> {
        let scope = route.pause_scope(of);
        let (queue, now) = (&route.notify.outage, self.env.now());
        let gate = self.store.gate(&scope).await?;
        let mut told = Vec::new();
        for news in &gate.health.news {
            for event in news.due(now) {
                let to = Destination::Notification(queue.clone());
                let notice = Outgoing::json(to, &of_outage(&scope, news, event), 0);
                let is_told = match queue {
                    // The route told of outages when this one began, and does no longer.
                    NotificationQueue::None => true,
                    NotificationQueue::Default | NotificationQueue::Url(_) => {
                        send_all(self.outbox, vec![notice.clone()]).await.is_ok()
                    }
                };
                let is_over = is_told
                    || is_undeliverable(news.at(event), now)
                        && send_all(self.outbox, vec![undeliverable(notice)]).await.is_ok();
                if is_over {
                    told.push((news.since, event));
                }
            }
        }
        self.gatekeeper().announced(&scope, &told).await
    }
}
