//! Telling people of outages.
//!
//! The gate says what is to be told. It is sent, and then written down as told: a process that dies in between, or a
//! queue that refuses, costs a repeat under the same id by a later call behind the gate. What a queue has refused for a
//! day goes to the rejected queue. A queue that hangs keeps no batch from its call: it is given two seconds.

use futures::future::{self, Either};

use super::Error;
use super::notices::undeliverable;
use super::processor::Processor;
pub use super::processor::{Announced, Refused};
use crate::domain::Timestamp;
use crate::domain::gate::{Event, News, Scope, Tried};
use crate::domain::notice::{NotificationQueue, is_undeliverable, of_outage};
use crate::ports::{self, Destination, Downstream, Env, Outbox, Outgoing, Store};
use crate::routes::Route;

/// A queue may take so long to take notices, in milliseconds: a place at a gate is held meanwhile.
const PATIENCE_MS: u64 = 2_000;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Tells what these gates of a route have to tell. An error keeps no task from its call: the gate has it to tell
    /// still.
    pub(super) async fn announce(&self, route: &Route, scopes: &[Scope]) {
        for scope in scopes {
            let _ = self.try_to_announce(route, scope).await;
        }
    }

    async fn try_to_announce(&self, route: &Route, scope: &Scope) -> Result<(), Error> {
        // First that outages began, and then that they have ended.
        for _ in 0..2 {
            let (gate, now) = (self.store.gate(scope).await?, self.env.now());
            let due: Vec<_> = gate.health.news.iter().filter_map(|news| Some((news, news.due(now)?))).collect();
            if due.is_empty() {
                return Ok(());
            }
            let notices = due.iter().map(|(news, event)| self.notice(route, scope, news, *event)).collect();
            let answers = self.send_soon(notices).await;
            let mut tried = Vec::new();
            for ((news, event), answer) in due.into_iter().zip(answers) {
                let is_told = match answer {
                    Ok(()) => true,
                    Err(error) => {
                        let notice = self.notice(route, scope, news, event);
                        self.give_up_telling((news.at(event), notice), &error).await
                    }
                };
                tried.push(Tried { since: news.since, event, is_told });
            }
            self.gatekeeper().announced(scope, &tried).await?;
            if tried.iter().any(|tried| !tried.is_told) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// `None`: the route told of outages when this one began, and does no longer.
    fn notice(&self, route: &Route, scope: &Scope, news: &News, event: Event) -> Option<Outgoing> {
        let queue = &route.notify.outage;
        let to = Destination::Notification(queue.clone());
        (*queue != NotificationQueue::None).then(|| Outgoing::json(to, &of_outage(scope, news, event), 0))
    }

    /// Whether a refused notice is in the rejected queue instead.
    async fn give_up_telling(&self, (since, notice): (Timestamp, Option<Outgoing>), error: &ports::Error) -> bool {
        let is_over = is_undeliverable(since, self.env.now());
        let given_up = is_over && self.send_soon(vec![notice.map(undeliverable)]).await.iter().all(Result::is_ok);
        let mut refused = self.announced.lock();
        *(if given_up { &mut refused.undeliverable } else { &mut refused.untold }) += 1;
        refused.refusal.get_or_insert_with(|| error.to_string());
        given_up
    }

    /// Sends what there is to send, if that does not take too long.
    async fn send_soon(&self, notices: Vec<Option<Outgoing>>) -> Vec<ports::Result<()>> {
        let places: Vec<bool> = notices.iter().map(Option::is_some).collect();
        let sending = Box::pin(self.outbox.send(notices.into_iter().flatten().collect()));
        let mut answers = match future::select(sending, Box::pin(self.env.sleep(PATIENCE_MS))).await {
            Either::Left((answers, _)) => answers.into_iter(),
            Either::Right(_) => Vec::new().into_iter(),
        };
        let late =
            || Err(ports::Error::Unavailable { what: "sending a notice", why: "its queue takes too long".to_owned() });
        places.into_iter().map(|is_sent| if is_sent { answers.next().unwrap_or_else(late) } else { Ok(()) }).collect()
    }
}
