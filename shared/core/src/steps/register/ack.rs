//! What registering comes to for those who count: trackers and streams.

use std::collections::BTreeSet;

use super::Register;
use super::plan::Lost;
use crate::domain::list::Addition;
use crate::domain::task::{Task, Ties};
use crate::domain::{Outcome, TaskId};
use crate::ports::{Env, Freshness, Lists, Outbox, Streams, Tasks, Trackers};
use crate::steps::{Error, observers};

impl<S: Tasks + Trackers + Lists + Streams, Q: Outbox, E: Env> Register<'_, S, Q, E> {
    /// Tells who must hear of settled tasks, and of rejected messages as if they had failed: nobody must wait for a
    /// task that will never be. But a task of the same id may be there for the same item or event, from an earlier copy
    /// of the message; then its own outcome counts. Returns the records of which it may not have been heard.
    pub(super) async fn ack(&self, mut acks: Vec<(String, Ties, Outcome)>, lost: Vec<Lost>) -> Vec<(String, Error)> {
        let lost_records: Vec<String> = lost.iter().map(|lost| lost.record.clone()).collect();
        let lost = match self.without_task(lost).await {
            Ok(lost) => lost,
            Err(error) => {
                let unacked = acks.into_iter().map(|(record, ..)| record).chain(lost_records);
                return unacked.map(|record| (record, error.clone())).collect();
            }
        };
        acks.extend(lost.into_iter().map(|lost| (lost.record, lost.ties, Outcome::Failed)));
        let Self { store, queues: outbox, env, .. } = *self;
        let settled = acks.iter().map(|(_, ties, outcome)| (ties.clone(), *outcome)).collect();
        let heard = observers::observe(store, outbox, env, settled).await;
        acks.into_iter().filter_map(|(record, ties, _)| Some((record, heard.error(&ties)?.clone()))).collect()
    }

    /// Those of the rejected messages for whose item or event no task is there, and none waits on a list.
    async fn without_task(&self, lost: Vec<Lost>) -> Result<Vec<Lost>, Error> {
        let messages = || lost.iter().filter_map(|lost| lost.message.as_deref());
        let ids: BTreeSet<TaskId> = messages().map(|message| message.id.clone()).collect();
        let tasks = self.store.read(&Vec::from_iter(ids), Freshness::Latest).await?;
        let mut waiting: Vec<(TaskId, Addition)> = Vec::new();
        for message in messages() {
            let Some(list) = &message.list else { continue };
            let Some(list) = self.store.list(list).await? else { continue };
            let put = self.store.additions(&list.tail.life, &[message.id.as_str().to_owned()]).await?;
            // Whatever else it says: what waits under this id is acked by its own outcome.
            waiting.extend(put.into_iter().map(|put| (message.id.clone(), put)));
        }
        let has_task = |lost: &Lost| {
            lost.message.as_ref().is_some_and(|message| {
                let is_its =
                    |task: &Task| task.id == message.id && task.item == lost.ties.item && task.event == lost.ties.event;
                let waits_for_it = |(id, put): &(TaskId, Addition)| {
                    let is_item = put.item.is_some() && put.item == lost.ties.item;
                    *id == message.id && (is_item || put.digest == message.digest())
                };
                waiting.iter().any(waits_for_it) || tasks.iter().any(is_its)
            })
        };
        let (kept, _): (Vec<Lost>, Vec<Lost>) = lost.into_iter().partition(|lost| !has_task(lost));
        Ok(kept)
    }
}
