//! One tracker and its model, call by call.

use std::collections::{BTreeMap, BTreeSet};

use groupage_core::domain::tracker::{End, Ending, Place, State, Which};
use groupage_lab::cases::{Checked, Made, Step, in_process};
use groupage_lab::prelude::*;
use proptest::prelude::*;

use super::calls::{Call, expect, id, make, wait};
use super::model::{Expected, Model};

pub struct Case {
    /// Some eventual reads are so old that they lack the call before.
    store: Lagging<MemoryStore, TestEnv>,
    queues: MemoryQueues,
    env: TestEnv,
    deadline: Timestamp,
    pub model: Model,
    /// A call crashed and nobody has made up for it.
    pending: bool,
    /// Sweep found it unfinished and completed it.
    pub healed: bool,
    /// The way and the time of its end.
    ended: Option<(Ending, Timestamp)>,
    pub faults: u32,
}

/// Everything that the store has of the tracker.
type Held = (Option<Tracker>, Vec<Node>);

impl Case {
    pub fn new(seed: u64) -> Self {
        let env = TestEnv::new(seed);
        let deadline = env.now().plus_ms(5 * 3_600_000);
        let lag = Lag { read_ms: 90_000, ..Lag::default() };
        let store = Lagging::new(MemoryStore::new(), env.clone(), lag, seed);
        let (queues, model, ended) = (MemoryQueues::new(), Model::default(), None);
        Self { store, queues, env, deadline, model, pending: false, healed: false, ended, faults: 0 }
    }

    async fn held(&self) -> Held {
        let truth = self.store.inner();
        let tracker = truth.look(&id(), &[], Freshness::Latest).await.unwrap().tracker;
        (tracker, truth.nodes(&id(), NodeId::group(0), usize::MAX, Freshness::Latest).await.unwrap())
    }

    /// The number of notices sent, and each different one of them.
    fn notices(&self) -> (usize, BTreeSet<String>) {
        let sent = self.queues.messages(&Destination::Notification(NotificationQueue::Default));
        (sent.len(), sent.into_iter().map(|notice| notice.body).collect())
    }

    pub async fn step(&mut self, step: &Step<Call>) -> Checked {
        let before = self.held().await;
        let (model, deadline, call) = (self.model.clone(), self.deadline, &step.call);
        let mut after = self.model.clone();
        let expected = expect(call, &mut after, deadline);
        let made = step.make(async |plan| {
            wait(call, &self.env).await;
            in_process(&self.env, plan, async |process| {
                let (store, outbox) = (Faulty::new(&self.store, process), Faulty::new(&self.queues, process));
                let steps = Tracking { store: &store, outbox: &outbox, env: process.env() };
                make(call, &model, deadline, steps).await
            })
            .await
        });
        let Made { answer, faulted } = made.await;
        self.faults += u32::from(faulted);
        let is_made = answer.is_some();
        let mut told = None;
        match answer {
            None => {
                self.pending = true;
                self.model = self.either(after).await?;
            }
            Some(answer) => {
                self.compare(answer, expected, faulted)?;
                (told, self.model) = (answer, after);
            }
        }
        // What an old view lets pass may set bits, and send the notice of the end; so may a first try that crashed,
        // though its repeat is refused.
        let is_late_ack = matches!(expected, Some(Expected::Over(_))) && (told != expected || faulted);
        if told.or(expected).is_some_and(Expected::is_refused) && !is_late_ack {
            prop_assert_eq!(before, self.held().await, "a refused call changed something: {:?}", call);
        }
        if matches!(call, Call::Sweep { .. }) {
            self.swept(is_made).await?;
        }
        self.check().await
    }

    /// Whether an answer is the model's. One to a repeat may say that some was done before.
    fn compare(&self, answer: Option<Expected>, expected: Option<Expected>, repeated: bool) -> Checked {
        let is_so = match (answer, expected) {
            (Some(Expected::Before), Some(Expected::New)) => repeated,
            (Some(Expected::Fresh(fresh)), Some(Expected::Fresh(most))) if repeated => fresh <= most,
            // An old view does not show that the tracker is over: too late an ack is not always refused.
            (Some(Expected::Fresh(_)), Some(Expected::Over(_))) => true,
            (Some(Expected::Strange(few)), Some(Expected::Strange(many))) if self.is_given_up() => few <= many,
            (answer, expected) => answer == expected,
        };
        prop_assert!(is_so, "answered with {answer:?}, not {expected:?}");
        Ok(())
    }

    fn is_given_up(&self) -> bool {
        matches!(self.model.over, Some(Ending::Abandoned | Ending::Overdue))
    }

    /// After a call that crashed: the model with it or without, as the store shows; a group has all of it or nothing.
    async fn either(&self, after: Model) -> Checked<Model> {
        let (tracker, groups) = self.held().await;
        let Some(tracker) = tracker else { return Ok(self.model.clone()) };
        let abandoned = matches!(tracker.state, State::Ended(End { how: Ending::Abandoned, .. }));
        let mut either = after.clone();
        if tracker.items < after.items.len() as u64 || self.model.opened.is_none() && after.opened.is_none() {
            return Ok(self.model.clone());
        }
        either.sealed = after.sealed && (self.model.sealed || tracker.state != State::Open);
        either.over = if abandoned { after.over } else { self.model.over };
        let done: BTreeMap<u32, &Node> = groups.iter().map(|node| (node.id.index, node)).collect();
        let mut seen: BTreeMap<u32, BTreeSet<bool>> = BTreeMap::new();
        for (number, before) in self.model.items.iter().enumerate().filter(|(n, before)| after.items[*n] != **before) {
            let Place { group, index } = Place::of(number as u64).unwrap();
            let is_done = done.get(&group).is_some_and(|node| node.is_done(index));
            seen.entry(group).or_default().insert(is_done);
            if !is_done {
                either.items[number] = *before;
            }
        }
        prop_assert!(seen.values().all(|seen| seen.len() == 1), "half of a group's acks were written");
        Ok(either)
    }

    /// After a sweep: what is over by time is, and nobody else has to make up for anything.
    async fn swept(&mut self, whole: bool) -> Checked {
        let Some(tracker) = self.held().await.0 else { return Ok(()) };
        let late = tracker.deadline.is_some_and(|deadline| deadline <= self.env.now());
        if matches!(tracker.state, State::Ended(End { how: Ending::Overdue, .. })) && self.model.over.is_none() {
            prop_assert!(late && !self.model.is_complete(), "it was ended too early");
            self.model.over = Some(Ending::Overdue);
        }
        if whole {
            let ended = matches!(tracker.state, State::Ended(_));
            prop_assert!(ended || !late, "its deadline has passed");
            self.healed |= self.pending && self.model.over.is_none() && self.model.is_complete();
            // A full group that nobody reported is looked for only once the tracker is complete: that may come later.
            self.pending &= self.model.over.is_none() && !self.model.is_complete();
        }
        Ok(())
    }

    /// Whether the store shows what the model has.
    async fn check(&mut self) -> Checked {
        let (tracker, groups) = self.held().await;
        prop_assert_eq!(tracker.is_some(), self.model.opened.is_some());
        let (sent, notices) = self.notices();
        prop_assert_eq!(notices.len(), usize::from(sent > 0), "every notice is the same one");
        let Some(tracker) = tracker else { return Ok(()) };
        prop_assert_eq!(tracker.items, self.model.items.len() as u64);
        match &tracker.state {
            State::Ended(end) => {
                let is_as_before = *self.ended.get_or_insert((end.how, end.at)) == (end.how, end.at);
                prop_assert!(is_as_before, "it ended twice");
                if end.how == Ending::Completed && self.model.over.is_none() {
                    prop_assert!(self.model.is_complete(), "it was completed too early");
                    self.model.over = Some(Ending::Completed);
                }
                prop_assert_eq!(Some(end.how), self.model.over);
                prop_assert_eq!(end.missing, tracker.items - self.model.done());
                prop_assert_eq!(end.failed, self.model.failed().len() as u64);
                prop_assert!(self.pending || (end.told && sent > 0), "nobody was told");
            }
            State::Open | State::Sealed => {
                prop_assert_eq!((self.model.over, self.ended), (None, None));
                prop_assert_eq!(tracker.state == State::Sealed, self.model.sealed);
                prop_assert!(self.pending || !self.model.is_complete(), "it was left incomplete");
                prop_assert_eq!(sent, 0, "somebody was told before its end");
            }
        }
        if !self.is_given_up() {
            self.check_bits(&groups)?;
        }
        Ok(())
    }

    fn check_bits(&self, groups: &[Node]) -> Checked {
        for (group, items) in (0_u32..).zip(self.model.items.chunks(7_168)) {
            let node = groups.iter().find(|node| node.id.index == group);
            for (index, item) in (0_u16..).zip(items) {
                let is = node.filter(|node| node.is_done(index)).map(|node| node.has_failed(index));
                prop_assert_eq!(is, item.map(|outcome| outcome == Outcome::Failed), "item {}:{}", group, index);
            }
        }
        let done: u64 = groups.iter().map(|node| u64::from(node.count())).sum();
        prop_assert_eq!(done, self.model.done(), "there are bits of no items");
        Ok(())
    }

    /// Sweep comes; then everything is as it should be, and every item is listed as what it is.
    pub async fn finish(&mut self) -> Checked {
        self.step(&Step::unharmed(Call::Sweep { hours: 3 })).await?;
        let (Some(tracker), _) = self.held().await else { return Ok(()) };
        if self.is_given_up() {
            return Ok(());
        }
        let tracking = Tracking { store: self.store.inner(), outbox: &self.queues, env: &self.env };
        let progress = tracking.progress(&id()).await.unwrap().unwrap();
        let failed = self.model.failed();
        prop_assert_eq!(progress.failed, failed.len() as u64);
        prop_assert_eq!(progress.succeeded + progress.failed, self.model.done());
        prop_assert_eq!(progress.missing, tracker.items - self.model.done());
        let listed = tracking.items(&tracker, Which::Failed, None, usize::MAX).await.unwrap();
        prop_assert_eq!(listed.next, None);
        prop_assert!(listed.items.iter().map(|item| item.at.number()).eq(failed), "other items failed");
        Ok(())
    }
}
