//! What a follow-up has to do with traces: those of the members that notices say, and what there is to tell of it.

use super::notify::queue_of;
use super::settle::{Settling, outcome};
use crate::domain::batch::Left;
use crate::domain::task::traces;
use crate::domain::trace::{CallOf, Followed, Traces};
use crate::domain::{TaskId, Timestamp, tracker};
use crate::ports::{Batches, Env, Freshness, Lanes, Outbox, Streams, Tasks, Trackers};

impl<S: Tasks + Batches + Lanes + Trackers + Streams, Q: Outbox, E: Env> Settling<'_, S, Q, E> {
    /// The same with the traces of its members, or of those that somebody is told of. A notice does not wait for a
    /// table that does not answer: it goes without its trace.
    pub(super) async fn knowing(self, known: Option<Traces>, todo: &Left) -> Self {
        let traces = match known {
            Some(known) => known,
            None => {
                let members = todo.untold.iter().filter_map(|position| self.batch.members.get(position));
                let told = members.filter(|member| queue_of(&self.route.notify, self.results, &member.id).is_some());
                let ids: Vec<TaskId> = told.map(|member| member.id.clone()).collect();
                match ids.is_empty() {
                    true => Traces::new(),
                    false => {
                        self.store.read(&ids, Freshness::Eventual).await.as_deref().map(traces).unwrap_or_default()
                    }
                }
            }
        };
        Self { traces, ..self }
    }

    /// What there is to tell of it: it was to do `todo`, and has left what it could not do.
    pub(super) fn followed(&self, began: Timestamp, todo: &Left, left: &Left) -> Followed {
        let call = CallOf { batch: &self.batch.id, key: &self.batch.id, attempt: self.batch.attempts };
        let is_sampled = self.traces.is_empty() || self.traces.values().any(|trace| trace.is_sampled());
        let members = self.batch.members.iter().enumerate();
        let is_done = |position: usize| todo.unsettled.contain(position) && !left.unsettled.contain(position);
        let settled = members.filter(|(position, _)| is_done(*position));
        let settled = settled.filter_map(|(position, member)| {
            let trace = *self.traces.get(&member.id)?;
            let settlement = self.settlement(position, member)?;
            Some((member.id.clone(), trace, outcome(&settlement) == tracker::Outcome::Succeeded))
        });
        Followed { call: call.context(is_sampled), took: (began, self.env.now()), settled: settled.collect() }
    }
}
