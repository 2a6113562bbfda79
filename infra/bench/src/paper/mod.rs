//! The algorithm as its paper has it: Hongke Sun and Xin Shan, *Group-batching Algorithm for High-throughput Network
//! Requests*, for comparison, over the same queues, mappings and prices.
//!
//! Every task is a workflow of its own, with an election message of its own. Who loses looks each second whether its
//! task is in a batch by now, and bids again. The winner writes an empty batch, collects the waiting tasks of its
//! Target from the index, moves them, writes them into the batch and gives the lock up. Every status is written to the
//! task (created, batched, in-progress, succeeded), and the index by Target and status holds them all, so a change of
//! status is a write of the task and two of the index. It assumes that nobody dies between two writes; so does this.

mod tables;

use aws_lambda_events::event::sqs::SqsEvent;
use futures::future::{BoxFuture, join_all, try_join_all};
use groupage_aws::entry::{Counts, Handled, Metric, keeping};
use groupage_core::ports::{Call, Destination, Downstream, Env, Outbox, Outgoing, Result};
use groupage_core::routes::Routes;
use serde::{Deserialize, Serialize};

use simulator::clock::TestEnv;
use simulator::queues::{Step, Wired};
use simulator::{Accepting, Function, Steps, Store};
use tables::PaperTables;

/// How long a loser waits.
const POLL_MS: u64 = 1_000;
/// Writes under way at once.
const AT_ONCE: usize = 32;

/// A message between the paper's steps.
#[derive(Serialize, Deserialize)]
enum Message {
    /// One task's workflow wants the lock.
    Elect { task: String, target: String, again: bool },
    /// The winner's batch.
    Group { batch: String, target: String, task: String },
    /// A batch to be called.
    Handle { batch: String, target: String },
}

/// The paper's steps, and their tables.
#[derive(Debug, Default)]
pub struct Paper(PaperTables);

impl Steps for Paper {
    fn handle<'a>(
        &'a self,
        function: &'a Function,
        downstream: &'a Accepting,
        step: Step,
        event: SqsEvent,
    ) -> BoxFuture<'a, Handled> {
        Box::pin(async move {
            let Function { store, queues, env, routes, .. } = function;
            // A simulation's routes are fixed: they are always there.
            let Ok(routes) = routes.current().await else { return Handled::default() };
            let invocation = Invocation { store, tables: &self.0, queues, env, routes: &routes, downstream };
            let (kept, settled) = invocation.handle(step, event).await;
            let mut counts = Counts::default();
            counts.add(Metric::TasksSucceeded, settled);
            Handled { response: keeping(kept), counts }
        })
    }
}

/// One invocation of the paper's steps.
struct Invocation<'a> {
    store: &'a Store,
    tables: &'a PaperTables,
    queues: &'a Wired,
    env: &'a TestEnv,
    routes: &'a Routes,
    downstream: &'a Accepting,
}

impl Invocation<'_> {
    /// Handles an event, record by record: messages that stay, and how many tasks were settled.
    async fn handle(&self, step: Step, event: SqsEvent) -> (Vec<String>, usize) {
        let records: Vec<(String, String)> = event
            .records
            .into_iter()
            .map(|record| (record.message_id.unwrap_or_default(), record.body.unwrap_or_default()))
            .collect();
        let mut failed = Vec::new();
        let mut settled = 0;
        if step == Step::RegisterTask {
            let mut next = Vec::new();
            for some in records.chunks(AT_ONCE) {
                let registered = join_all(some.iter().map(|(_, body)| self.register(body))).await;
                for ((id, _), outcome) in some.iter().zip(registered) {
                    match outcome {
                        Ok(message) => next.extend(message),
                        Err(_) => failed.push(id.clone()),
                    }
                }
            }
            // The queues answer always.
            let _ = self.queues.send(next).await;
            return (failed, settled);
        }
        let done = join_all(records.iter().map(|(_, body)| self.one(body))).await;
        for ((id, _), outcome) in records.iter().zip(done) {
            match outcome {
                Ok(count) => settled += count,
                Err(_) => failed.push(id.clone()),
            }
        }
        (failed, settled)
    }

    async fn one(&self, body: &str) -> Result<usize> {
        match serde_json::from_str(body) {
            Ok(Message::Elect { task, target, again }) => self.elect(task, target, again).await.map(|()| 0),
            Ok(Message::Group { batch, target, task }) => self.group(batch, target, &task).await.map(|()| 0),
            Ok(Message::Handle { batch, target }) => self.call(&batch, &target).await,
            // Nothing else is sent here.
            Err(_) => Ok(0),
        }
    }

    async fn send(&self, to: Destination, message: &Message, delay_ms: u64) {
        let body = serde_json::to_string(message).unwrap_or_default();
        let _ = self.queues.send(vec![Outgoing { to, body, delay_ms, attributes: Vec::new(), tenant: None }]).await;
    }

    /// Writes a task down; returns its election message.
    async fn register(&self, body: &str) -> Result<Option<Outgoing>> {
        let Ok(message) = groupage_core::domain::task_message::parse(body, "") else { return Ok(None) };
        let Ok(assigned) = self.routes.assign(&message.payload) else { return Ok(None) };
        let (task, target) = (message.id.as_str().to_owned(), assigned.target.as_str().to_owned());
        self.tables.register(self.store, &task, &target, &message.payload).await?;
        let body = serde_json::to_string(&Message::Elect { task, target, again: false }).unwrap_or_default();
        Ok(Some(Outgoing { to: Destination::Elect, body, delay_ms: 0, attributes: Vec::new(), tenant: None }))
    }

    async fn elect(&self, task: String, target: String, again: bool) -> Result<()> {
        if again && !self.tables.waits(self.store, &task).await? {
            return Ok(());
        }
        if self.tables.acquire(self.store, &target, &task).await? {
            let batch = self.env.fresh_id();
            self.tables.write_batch(self.store, &batch, &target, "created", &[]).await?;
            self.send(Destination::Group, &Message::Group { batch, target, task }, 0).await;
        } else {
            self.send(Destination::Elect, &Message::Elect { task, target, again: true }, POLL_MS).await;
        }
        Ok(())
    }

    async fn group(&self, batch: String, target: String, task: &str) -> Result<()> {
        let most = self.routes.iter().next().map_or(100, |route| route.usual().batch.max_items);
        let mut members = self.tables.waiting(self.store, &target, most).await?;
        // The index may not show the winner's own task yet.
        if !members.iter().any(|member| member == task) && members.len() < most {
            members.push(task.to_owned());
        }
        let mut joined = Vec::new();
        for some in members.chunks(AT_ONCE) {
            let moved =
                some.iter().map(|member| self.tables.set(self.store, member, "created", "batched", Some(&batch)));
            let moved = try_join_all(moved).await?;
            joined.extend(some.iter().zip(moved).filter(|(_, moved)| *moved).map(|(member, _)| member.clone()));
        }
        self.tables.write_batch(self.store, &batch, &target, "batched", &joined).await?;
        self.tables.release(self.store, &target).await?;
        if !joined.is_empty() {
            self.send(Destination::Handle, &Message::Handle { batch, target }, 0).await;
        }
        Ok(())
    }

    async fn call(&self, batch: &str, target: &str) -> Result<usize> {
        let members = self.tables.members(self.store, batch).await?;
        let payloads = self.tables.payloads(self.store, &members).await?;
        self.set_all(&members, "batched", "in-progress").await?;
        let items: Vec<_> = members
            .iter()
            .zip(payloads)
            .map(|(id, payload)| serde_json::json!({ "id": id, "payload": payload }))
            .collect();
        let body = serde_json::json!({ "target": target, "items": items }).to_string();
        if let Some(route) = self.routes.iter().next() {
            let (id, fence) = (groupage_core::domain::id::BatchId::new(batch), groupage_core::domain::id::Fence(0));
            let target = &groupage_core::domain::id::Target::of(&route.name, target);
            let downstream = &route.downstream;
            let (attempt, secrets, trace, look) = (1, Vec::new(), None, None);
            let call = Call { downstream, batch: &id, target, fence, attempt, body, secrets, trace, look };
            // It accepts everything.
            let _ = self.downstream.call(&call).await;
        }
        self.set_all(&members, "in-progress", "succeeded").await?;
        self.tables.write_batch(self.store, batch, target, "succeeded", &members).await?;
        Ok(members.len())
    }

    async fn set_all(&self, members: &[String], from: &'static str, to: &'static str) -> Result<()> {
        for some in members.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|member| self.tables.set(self.store, member, from, to, None))).await?;
        }
        Ok(())
    }
}
