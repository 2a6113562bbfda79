//! One stream and its model, call by call.

use std::collections::BTreeSet;

use groupage_core::domain::stream::{State, path};
use groupage_core::steps::Error;
use groupage_core::steps::stream::Streaming;
use groupage_lab::cases::{Checked, Made, Step, in_process};
use groupage_lab::prelude::*;
use proptest::prelude::*;

use super::calls::{Call, expect, id, make, offset, settled_by};
use super::model::{Expected, Model, is_poison};

pub struct Case {
    store: MemoryStore,
    queues: MemoryQueues,
    env: TestEnv,
    pub model: Model,
    /// A call crashed and nobody has made up for it.
    pending: bool,
    /// Events of calls that crashed: they may not have been sent.
    unsent: BTreeSet<u64>,
    /// Sweep committed what nobody had.
    pub healed: bool,
    pub full: u32,
    pub faults: u32,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        Self {
            store: MemoryStore::new(),
            queues: MemoryQueues::new(),
            env: TestEnv::new(seed),
            model: Model::default(),
            pending: false,
            unsent: BTreeSet::new(),
            healed: false,
            full: 0,
            faults: 0,
        }
    }

    async fn stream(&self) -> Option<Stream> {
        self.store.stream(&id()).await.unwrap()
    }

    /// Makes a call as a process to which happens what the plan says; its answer if it lived, and whether something
    /// befell it.
    async fn call(&self, call: &Call, plan: Plan) -> (Option<Result<Option<Expected>, Error>>, bool) {
        let life = self.stream().await.map(|stream| stream.life);
        in_process(&self.env, plan, async |process| {
            let (store, outbox) = (Faulty::new(&self.store, process), Faulty::new(&self.queues, process));
            let steps = Streaming { store: &store, outbox: &outbox, env: process.env() };
            make(call, &self.model, life, steps).await
        })
        .await
    }

    pub async fn step(&mut self, step: &Step<Call>) -> Checked {
        let call = &step.call;
        let minutes = if let Call::Sweep { minutes } = call { *minutes } else { 0 };
        self.env.sleep(minutes * 60_000 + 40).await;
        let before = self.stream().await;
        let mut after = self.model.clone();
        let expected = expect(call, &mut after);
        let Made { answer, faulted } = step.make(async |plan| self.call(call, plan).await).await;
        self.faults += u32::from(faulted);
        let is_made = answer.is_some();
        match answer {
            None => {
                self.pending = true;
                self.model = self.either(call, after).await?;
            }
            Some(answer) => {
                self.compare(call, answer.as_ref(), expected.as_ref(), faulted)?;
                let is_other = answer.is_some() && answer != expected;
                // A repeat may be told that the first try did it; the store says which.
                self.model = if faulted && is_other { self.either(call, after).await? } else { after };
                let is_one_call = !matches!(call, Call::FeedFar { .. });
                if expected.as_ref().is_some_and(Expected::is_refused) && !faulted && is_one_call {
                    self.same_but_for_the_watermark(before.as_ref(), call).await?;
                }
            }
        }
        self.full += u32::from(matches!(expected, Some(Expected::WindowFull { .. })));
        if matches!(call, Call::Sweep { .. }) && is_made {
            self.swept(before.as_ref(), faulted).await?;
        }
        self.check(before.as_ref()).await
    }

    fn compare(&self, call: &Call, answer: Option<&Expected>, expected: Option<&Expected>, repeated: bool) -> Checked {
        let is_so = match (answer, expected) {
            // What the first try fed, the second finds.
            (
                Some(Expected::Fed { new, settled, again, .. }),
                Some(Expected::Fed { new: n, settled: s, again: a, .. }),
            ) => {
                if repeated {
                    new + settled + again == n + s + a && new <= n
                } else {
                    answer == expected
                }
            }
            // The first try moved the watermark on, past where the repeat begins.
            (Some(Expected::Behind | Expected::WindowFull { .. }), Some(Expected::Fed { .. })) => repeated,
            (answer, expected) if repeated && matches!(call, Call::FeedFar { .. }) => {
                answer.is_some() && expected.is_some()
            }
            (answer, expected) => answer == expected,
        };
        prop_assert!(is_so, "{call:?} was answered with {answer:?}, not {expected:?}");
        Ok(())
    }

    async fn same_but_for_the_watermark(&self, before: Option<&Stream>, call: &Call) -> Checked {
        let now = self.stream().await;
        let of = |stream: Option<&Stream>| stream.map(|stream| (stream.next, stream.last.clone(), stream.state));
        prop_assert_eq!(of(before), of(now.as_ref()), "a refused call changed something: {:?}", call);
        Ok(())
    }

    /// After a call that crashed: the model with as much of it as the store shows.
    async fn either(&mut self, call: &Call, after: Model) -> Checked<Model> {
        let mut either = self.model.clone();
        let Some(stream) = self.stream().await else { return Ok(either) };
        either.opened = Some(stream.options.clone());
        either.state = Some(stream.state);
        prop_assert!(stream.next <= after.next.max(self.model.next));
        either.next = stream.next;
        let mut touched = settled_by(call, &self.model);
        if is_feeding(call) {
            touched.extend((0..stream.next).filter(|number| is_poison(*number)).map(|number| (number, true)));
        }
        for (number, failed) in touched {
            if number < stream.next && !either.settled.contains_key(&number) && self.is_settled(&stream, number).await {
                either.settled.insert(number, failed);
            }
        }
        if is_feeding(call) {
            self.unsent.extend(self.model.next..stream.next);
        }
        Ok(either)
    }

    async fn is_settled(&self, stream: &Stream, number: u64) -> bool {
        let bits = self.store.see(&stream.life, &path(number).unwrap()).await.unwrap().bits;
        number < stream.watermark.number || bits.is_settled(number)
    }

    /// After a sweep that nothing befell: all that is settled is committed, counted and told.
    async fn swept(&mut self, before: Option<&Stream>, faulted: bool) -> Checked {
        let Some(stream) = self.stream().await else { return Ok(()) };
        let was_due = before.and_then(|before| before.due).is_some_and(|due| due < self.env.now());
        if was_due {
            prop_assert_eq!(stream.watermark.number, self.model.run());
            prop_assert_eq!(stream.watermark.settled, self.model.settled.len() as u64);
            prop_assert_eq!(stream.watermark.failed, self.model.failed());
            // One that could not tell is due again in a moment only.
            prop_assert!(stream.is_told || faulted);
            self.healed |= before.is_some_and(|before| before.watermark.number < stream.watermark.number);
            self.pending = false;
        } else {
            prop_assert!(self.pending || stream.watermark.number == self.model.run() || stream.due.is_some());
        }
        Ok(())
    }

    /// Whether the store shows what the model has.
    async fn check(&mut self, before: Option<&Stream>) -> Checked {
        let stream = self.stream().await;
        prop_assert_eq!(stream.is_some(), self.model.opened.is_some());
        let Some(stream) = stream else { return Ok(()) };
        let watermark = &stream.watermark;
        prop_assert_eq!(stream.next, self.model.next);
        prop_assert!(before.is_none_or(|before| before.watermark.number <= watermark.number), "the watermark fell");
        prop_assert!(watermark.number <= self.model.run(), "the watermark passed an event that is not settled");
        prop_assert!(watermark.settled <= self.model.settled.len() as u64 && watermark.failed <= self.model.failed());
        prop_assert_eq!(&watermark.offset, &watermark.number.checked_sub(1).map(offset));
        self.model.watermark = watermark.number;
        if stream.state == State::Completed {
            prop_assert_eq!(self.model.run(), stream.next, "it was completed too early");
            prop_assert!(matches!(self.model.state, Some(State::Ended | State::Completed)));
            self.model.state = Some(State::Completed);
        }
        prop_assert_eq!(self.model.state, Some(stream.state));
        // Around the ends of groups, where nodes come and go, and here and there.
        let steps = (watermark.number..stream.next).step_by(97);
        let ends = (watermark.number..stream.next).filter(|number| number % 7_168 < 2 || number % 7_168 > 7_165);
        for number in steps.chain(ends) {
            let is = self.is_settled(&stream, number).await;
            prop_assert_eq!(is, self.model.settled.contains_key(&number), "event {}", number);
        }
        Ok(())
    }

    /// Sweep comes, twice, and the source once more; then everything is as it should be, and every event was sent.
    pub async fn finish(&mut self) -> Checked {
        if self.model.state == Some(State::Open) {
            // What a feeder that died had numbered, the next one sends.
            let behind = i64::try_from(self.model.next - self.model.watermark).unwrap();
            for behind in (0..=behind).rev().step_by(500) {
                let count = u64::try_from(behind).unwrap().clamp(1, 500);
                if behind > 0 {
                    let call = Call::Feed { behind, count, changed: None };
                    self.step(&Step::unharmed(call)).await?;
                }
            }
            self.unsent.clear();
        }
        for _ in 0..2 {
            self.step(&Step::unharmed(Call::Sweep { minutes: 5 })).await?;
        }
        let Some(stream) = self.stream().await else { return Ok(()) };
        prop_assert_eq!(stream.watermark.number, self.model.run());
        prop_assert_eq!(stream.unsettled(), self.model.unsettled());
        let number = |body: &str| task_message::parse(body, "m").unwrap().event.unwrap().number;
        let sent: BTreeSet<u64> =
            self.queues.messages(&Destination::Tasks).iter().map(|sent| number(&sent.body)).collect();
        for wanted in (0..stream.next).filter(|number| !is_poison(*number) && !self.unsent.contains(number)) {
            prop_assert!(
                sent.contains(&wanted) || self.model.settled.contains_key(&wanted),
                "event {wanted} was never sent"
            );
        }
        // Of what is behind it nothing is left: not a group's bits, and none of what was fed.
        let (nodes, pages) = self.store.stream_parts();
        let groups = self.model.unsettled() + 3;
        prop_assert!(
            nodes as u64 <= groups
                && (pages as u64) <= 2 * self.model.unsettled() + 2 * u64::from(self.faults) * 40 + 2
        );
        let told = self.queues.messages(&Destination::Notification(NotificationQueue::Default));
        let ids: BTreeSet<&str> = told.iter().map(|notice| notice.body.as_str()).collect();
        prop_assert!(watermark_is_told(&stream, &ids));
        Ok(())
    }
}

const fn is_feeding(call: &Call) -> bool {
    matches!(call, Call::Feed { .. } | Call::FeedFar { .. })
}

fn watermark_is_told(stream: &Stream, notices: &BTreeSet<&str>) -> bool {
    let number = format!("\"watermark\":{},", stream.watermark.number);
    stream.watermark.number == 0 || notices.iter().any(|notice| notice.contains(&number))
}
