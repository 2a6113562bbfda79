//! One list and its model, call by call.

use std::collections::BTreeSet;

use groupage_core::steps::Error;
use groupage_lab::cases::{Checked, Made, Step, in_process};
use groupage_lab::prelude::*;
use proptest::prelude::*;

use super::calls::{Call, HOUR_MS, IDLE_MS, expect, id, id_in, make};
use super::model::{Expected, Model};

pub struct Case {
    store: Lagging<MemoryStore, TestEnv>,
    queues: MemoryQueues,
    env: TestEnv,
    pub model: Model,
    /// A call crashed and nobody has made up for it.
    pending: bool,
    /// Sweep fed on what a crash had left.
    pub healed: bool,
    pub removed: u32,
    pub expired: u32,
    pub faults: u32,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let env = TestEnv::new(seed);
        let lag = Lag { slots_ms: 20, ..Lag::default() };
        let store = Lagging::new(MemoryStore::new(), env.clone(), lag, seed);
        let (queues, model) = (MemoryQueues::new(), Model::default());
        Self { store, queues, env, model, pending: false, healed: false, removed: 0, expired: 0, faults: 0 }
    }

    /// Makes a call as a process to which happens what the plan says; its answer if it lived, and whether something
    /// befell it.
    async fn call(&self, call: &Call, plan: Plan) -> (Option<Result<Option<Expected>, Error>>, bool) {
        in_process(&self.env, plan, async |process| {
            let (store, outbox) = (Faulty::new(&self.store, process), Faulty::new(&self.queues, process));
            make(call, Listing { store: &store, outbox: &outbox, env: process.env() }).await
        })
        .await
    }

    async fn ends(&self) -> Option<List> {
        self.store.inner().list(&id()).await.unwrap()
    }

    fn sent(&self) -> Vec<String> {
        self.queues.messages(&Destination::Tasks).iter().map(|message| id_in(&message.body)).collect()
    }

    pub async fn step(&mut self, step: &Step<Call>) -> Checked {
        let call = &step.call;
        if self.is_being_removed().await && !matches!(call, Call::Sweep { .. }) {
            // Only sweep has to do with it now; what others are told is told apart.
            return Ok(());
        }
        let hours = if let Call::Sweep { hours } = call { *hours } else { 0 };
        self.env.sleep(hours * HOUR_MS + 60_000).await;
        let ends_before = self.ends().await;
        let sent_before = self.sent().len();
        let was_over = self.model.is_over(IDLE_MS, self.env.now());
        let mut after = self.model.clone();
        let expected = expect(call, &mut after, self.env.now());
        let Made { answer, faulted } = step.make(async |plan| self.call(call, plan).await).await;
        self.faults += u32::from(faulted);
        let is_made = answer.is_some();
        match answer {
            None => {
                self.pending = true;
                if !matches!(call, Call::Sweep { .. }) {
                    self.model = self.either(call, after).await?;
                }
            }
            Some(answer) => {
                prop_assert_eq!(&answer, &expected, "{:?}", call);
                if expected.as_ref().is_some_and(Expected::is_refused) {
                    prop_assert_eq!(&ends_before, &self.ends().await, "a refused call changed something: {:?}", call);
                    prop_assert_eq!(sent_before, self.sent().len());
                }
                self.model = after;
            }
        }
        self.seen_activity().await;
        if matches!(call, Call::Sweep { .. }) {
            self.swept(is_made, was_over, sent_before).await?;
        }
        self.check().await
    }

    /// After a call that crashed: the model with it or without, as the ends show.
    async fn either(&self, call: &Call, after: Model) -> Checked<Model> {
        let ends = self.ends().await;
        let shown = ends.as_ref().map(|list| (list.tail.given.0, list.head.taken.0, list.head.is_closed));
        let of = |model: &Model| model.list.as_ref().map(|queue| (queue.given, queue.taken, queue.is_closed));
        if shown == of(&after) {
            return Ok(after);
        }
        if let Call::PutEach(messages) = call {
            // One transaction after the other: some of them, in their order.
            for count in 0..messages.len() {
                let mut some = self.model.clone();
                expect(&Call::PutEach(messages[..count].to_vec()), &mut some, self.env.now());
                if shown == of(&some) {
                    return Ok(some);
                }
            }
        }
        prop_assert_eq!(shown, of(&self.model), "half of a call was made");
        Ok(self.model.clone())
    }

    /// When exactly a call was made is the clock's affair; by how much it may differ is some seconds.
    async fn seen_activity(&mut self) {
        if let (Some(list), Some(queue)) = (self.ends().await, &mut self.model.list) {
            let shown = list.active_at();
            if queue.active_at.0.abs_diff(shown.0) < 10_000 {
                queue.active_at = shown;
            }
        }
    }

    /// After a sweep: what is over is gone, and nothing else is.
    async fn swept(&mut self, whole: bool, was_over: bool, sent_before: usize) -> Checked {
        let is_gone = self.ends().await.is_none() && self.model.list.is_some();
        if is_gone {
            prop_assert!(was_over, "it was removed too early");
            let left = self.model.list.take().map_or(0, |queue| queue.waiting.len());
            self.removed += 1;
            self.expired += u32::from(left > 0);
        }
        if whole {
            prop_assert!(is_gone || !was_over || self.pending, "its time is over");
            self.healed |= self.pending && self.sent().len() > sent_before;
            // What is being removed is gone with the next sweep at the latest.
            self.pending = self.is_being_removed().await;
        }
        Ok(())
    }

    async fn is_being_removed(&self) -> bool {
        self.ends().await.is_some_and(|list| list.tail.state == groupage_core::domain::list::State::Removing)
    }

    /// Whether the store and the queue show what the model has.
    async fn check(&self) -> Checked {
        let sent = self.sent();
        let (once, wanted): (BTreeSet<&String>, BTreeSet<&String>) =
            (sent.iter().collect(), self.model.released().collect());
        prop_assert!(once.is_subset(&wanted), "a task was sent that nobody released");
        if self.is_being_removed().await {
            return Ok(());
        }
        let slots = self.store.inner().all_slots();
        let waiting = self.model.list.as_ref().map(|queue| queue.waiting.clone()).unwrap_or_default();
        if !self.pending {
            prop_assert_eq!(&once, &wanted, "a released task was not sent");
            let bodies: Vec<String> = slots.iter().map(|(_, slot)| id_in(&slot.body)).collect();
            prop_assert_eq!(&bodies, &Vec::from(waiting), "something else waits");
        }
        let Some(list) = self.ends().await else { return Ok(()) };
        let Some(queue) = &self.model.list else { return Err(TestCaseError::fail("there is a list")) };
        prop_assert_eq!((list.tail.given.0, list.head.taken.0), (queue.given, queue.taken));
        prop_assert_eq!(list.head.discarded, queue.discarded);
        prop_assert_eq!(list.waiting(), queue.waiting.len() as u64, "there is a hole");
        prop_assert!(self.pending || list.head.reservations.is_empty(), "something was left under way");
        Ok(())
    }

    /// Sweep comes; then everything is as it should be, and no task was overtaken by one of the same release.
    pub async fn finish(&mut self) -> Checked {
        for _ in 0..2 {
            self.step(&Step::unharmed(Call::Sweep { hours: 1 })).await?;
        }
        prop_assert!(!self.pending);
        // Of messages that go together one may be sent while an earlier one is not; then all of them are sent again.
        let sent = if self.faults == 0 { self.sent() } else { Vec::new() };
        for release in &self.model.releases {
            // A task may have been on a list of this name before, and been sent then.
            let is_once = |task: &&String| self.model.released().filter(|other| other == task).count() == 1;
            let first_sent: Vec<_> =
                release.iter().filter(is_once).map(|task| sent.iter().position(|sent| sent == task)).collect();
            prop_assert!(first_sent.is_sorted(), "a task was overtaken by one that came later");
        }
        Ok(())
    }
}
