//! A fan-out: items added by and by, acked by many processes that die, sealed at some moment.

use std::cell::{Cell, RefCell};

use futures::future::join_all;
use groupage_core::domain::tracker::{
    Acks, End, Ending, ItemRange, MAX_ADDED, Node, Options, Outcome, Place, State, Tracker,
};
use groupage_core::domain::{NotificationQueue, TrackerId};
use groupage_core::ports::{Env, Freshness, Trackers};
use groupage_core::steps::track::Lifetimes;

use crate::clock::{TestEnv, in_virtual_time};
use crate::process::Plan;
use crate::tally::{Steps, Tally};

/// What a fan-out is like.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Decides everything else.
    pub seed: u64,
    /// Items.
    pub items: u64,
    /// Processes that ack at the same time.
    pub ackers: usize,
    /// The most items of one call.
    pub chunk: u64,
    /// The chance of a call to a port that its process dies there.
    pub deaths: f64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What it broke.
    pub broken: Vec<String>,
    /// Calls that acked.
    pub acks: usize,
    /// Calls to ports.
    pub calls: usize,
    /// Processes that died.
    pub deaths: usize,
    /// Of these, whose chunk nobody repeated: its bits were all written.
    pub left: usize,
    /// Items acked a second time, with the other outcome.
    pub repeated: u64,
    /// Whether the last process left it incomplete and sweep completed it.
    pub healed: bool,
    /// Whether the seal came after the last ack.
    pub sealed_last: bool,
    /// Notices sent, all the same one.
    pub notices: usize,
    /// Items that failed.
    pub failed: u64,
    /// Virtual time, in milliseconds.
    pub took_ms: u64,
}

/// Of a hundred acked items, this many are acked again.
const REPEATED_PERCENT: u64 = 5;

const fn outcome(number: u64) -> Outcome {
    if number % 17 == 3 { Outcome::Failed } else { Outcome::Succeeded }
}

const fn other(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Succeeded => Outcome::Failed,
        Outcome::Failed => Outcome::Succeeded,
    }
}

struct Run {
    what: Crowd,
    id: TrackerId,
    tally: Tally,
    /// Added and in nobody's hands.
    waiting: RefCell<Vec<u64>>,
    /// Chunks whose process died, for somebody else.
    again: RefCell<Vec<Vec<u64>>>,
    /// Some that were acked for certain.
    acked: RefCell<Vec<u64>>,
    /// Items that are not acked for certain, added or not.
    missing: Cell<u64>,
    told: RefCell<Told>,
}

impl Crowd {
    /// Runs it in virtual time.
    pub fn run(self) -> Told {
        in_virtual_time(async {
            let env = TestEnv::new(self.seed);
            let run = Run {
                what: self,
                id: TrackerId::new("fan-out"),
                tally: Tally::new(&env, 5, 0.2),
                waiting: RefCell::default(),
                again: RefCell::default(),
                acked: RefCell::default(),
                missing: Cell::new(self.items),
                told: RefCell::default(),
            };
            let begun = env.now();
            run.open().await;
            let ackers = join_all((0..self.ackers).map(|_| run.ack_all()));
            futures::join!(run.add_and_seal(), ackers);
            run.told.borrow_mut().took_ms = env.now().since(begun);
            run.end().await;
            run.told.into_inner()
        })
    }
}

impl Run {
    fn env(&self) -> &TestEnv {
        &self.tally.env
    }

    fn deadly(&self) -> Plan {
        Plan::Deaths(self.what.deaths)
    }

    async fn tracker(&self) -> Option<Tracker> {
        let looked = self.tally.trackers.truth().look(&self.id, &[], Freshness::Latest).await;
        looked.ok()?.tracker
    }

    async fn groups(&self) -> Vec<Node> {
        self.tally.trackers.groups(&self.id).await.unwrap_or_default()
    }

    async fn open(&self) {
        let options = || Options { deadline: None, notify: NotificationQueue::Default };
        while !self.call(self.deadly(), async |steps| steps.open(self.id.clone(), options()).await).await {}
    }

    /// Makes a call; says whether it was answered with what it asked for.
    async fn call<T, R, E>(&self, plan: Plan, work: impl AsyncFnOnce(Steps<'_>) -> Result<Result<T, R>, E>) -> bool {
        let called = self.tally.call(plan, work).await;
        let mut told = self.told.borrow_mut();
        told.calls += called.calls;
        told.deaths += usize::from(called.answer.is_none());
        if self.tally.notices().0 > 0 && self.tally.trackers.ended().is_empty() {
            told.broken.push("somebody was told before its end".to_owned());
        }
        matches!(called.answer, Some(Ok(Ok(_))))
    }

    /// Adds items when others are almost all acked, in any portions, and seals the tracker at some moment after that.
    async fn add_and_seal(&self) {
        let (mut added, items) = (0, self.what.items);
        while added < items {
            let most = (items / 4).clamp(1, MAX_ADDED);
            let count = self.env().pick(1..=most).min(items - added);
            let key = format!("{added}");
            while !self.call(self.deadly(), async |steps| steps.add(&self.id, &key, count).await).await {}
            self.waiting.borrow_mut().extend(added..added + count);
            added += count;
            let left = self.env().pick(0..=count);
            self.wait_while(|| self.waiting.borrow().len() as u64 > left).await;
        }
        // A third of them are sealed when all is done, or so it seems.
        let left = self.missing.get();
        let left = (self.env().pick(0..=left * 3 / 2)).saturating_sub(left / 2);
        self.wait_while(|| self.missing.get() > left).await;
        self.told.borrow_mut().sealed_last = self.missing.get() == 0;
        while !self.call(self.deadly(), async |steps| steps.seal(&self.id).await).await {
            let sealed = self.tracker().await.is_some_and(|tracker| tracker.state != State::Open);
            if sealed && self.env().chance(0.5) {
                self.told.borrow_mut().left += 1;
                return;
            }
        }
    }

    async fn wait_while(&self, is_so: impl Fn() -> bool) {
        while is_so() || self.env().chance(0.5) {
            self.env().sleep(1).await;
        }
    }

    /// One acker after the other, in one place.
    async fn ack_all(&self) {
        while self.missing.get() > 0 {
            match self.take() {
                Some(chunk) => self.ack(chunk).await,
                None => self.env().sleep(1).await,
            }
        }
    }

    /// A chunk of random items, or one that somebody died with.
    fn take(&self) -> Option<Vec<u64>> {
        if let Some(chunk) = self.again.borrow_mut().pop() {
            return Some(chunk);
        }
        let mut waiting = self.waiting.borrow_mut();
        let size = self.env().pick(1..=self.what.chunk).min(waiting.len() as u64);
        let mut chunk = Vec::new();
        for _ in 0..size {
            let at = self.env().pick(0..=waiting.len() as u64 - 1);
            chunk.push(waiting.swap_remove(usize::try_from(at).unwrap_or_default()));
        }
        (!chunk.is_empty()).then_some(chunk)
    }

    async fn ack(&self, chunk: Vec<u64>) {
        let repeated = self.repeated(chunk.len() as u64);
        let mut ranges: Vec<(ItemRange, Outcome)> = Vec::with_capacity(chunk.len() + repeated.len());
        ranges.extend(chunk.iter().filter_map(|number| Some((self.item(*number)?, outcome(*number)))));
        ranges.extend(repeated.iter().filter_map(|number| Some((self.item(*number)?, other(outcome(*number))))));
        let answered = self.call(self.deadly(), async |steps| steps.ack(&self.id, &ranges).await).await;
        let mut left = false;
        if !answered {
            left = self.env().chance(0.5) && self.is_written(&ranges).await;
            if !left {
                self.again.borrow_mut().push(chunk);
                return;
            }
        }
        let mut told = self.told.borrow_mut();
        (told.acks, told.left) = (told.acks + 1, told.left + usize::from(left));
        told.repeated += repeated.len() as u64;
        drop(told);
        self.missing.set(self.missing.get() - chunk.len() as u64);
        self.acked.borrow_mut().extend(chunk.iter().take(10));
    }

    /// Items that are acked already, for a call that acks this many others.
    fn repeated(&self, fresh: u64) -> Vec<u64> {
        let acked = self.acked.borrow();
        let some = |_| acked.get(usize::try_from(self.env().pick(0..=acked.len() as u64 - 1)).ok()?).copied();
        let count = (0..fresh).filter(|_| self.env().pick(0..=99) < REPEATED_PERCENT).count();
        let mut repeated: Vec<u64> = if acked.is_empty() { Vec::new() } else { (0..count).filter_map(some).collect() };
        repeated.sort_unstable();
        repeated.dedup();
        repeated
    }

    fn item(&self, number: u64) -> Option<ItemRange> {
        let Place { group, index } = Place::of(number)?;
        Some(ItemRange { tracker: self.id.clone(), group, first: index, last: index })
    }

    async fn is_written(&self, ranges: &[(ItemRange, Outcome)]) -> bool {
        let Ok(acks) = Acks::collect(&self.id, ranges.iter().map(|(range, outcome)| (range, *outcome))) else {
            return false;
        };
        let groups = self.groups().await;
        acks.marks().all(|(id, marks)| {
            let group = groups.iter().find(|group| group.id == id);
            group.is_some_and(|group| marks.iter().all(|mark| group.is_done(mark.bit)))
        })
    }

    /// Sweep comes until it need not come again, and dies as everybody does; then everything must be as it should be.
    async fn end(&self) {
        let before = self.tracker().await.map(|tracker| tracker.state);
        self.told.borrow_mut().healed = !matches!(before, Some(State::Ended(_)));
        for plan in [self.deadly(), self.deadly(), Plan::Nothing, Plan::Nothing] {
            self.env().sleep(2 * 60 * 60 * 1_000).await;
            let life = Lifetimes::default();
            self.call(plan, async |steps| Ok::<_, ()>(steps.look_after(&self.id, life).await)).await;
        }
        let failed = (0..self.what.items).filter(|number| outcome(*number) == Outcome::Failed).count() as u64;
        let broken = self.broken(failed).await;
        let mut told = self.told.borrow_mut();
        (told.notices, told.failed) = (self.tally.notices().0, failed);
        told.broken.extend(broken);
    }

    async fn broken(&self, failed: u64) -> Vec<String> {
        let items = self.what.items;
        let mut broken = Vec::new();
        match self.tracker().await.map(|tracker| (tracker.items, tracker.state)) {
            Some((all, State::Ended(End { how: Ending::Completed, failed: counted, missing: 0, told: true, .. })))
                if (all, counted) == (items, failed) => {}
            other => broken.push(format!("it has {items} items of which {failed} failed, and is {other:?}")),
        }
        let ended = self.tally.trackers.ended();
        match ended.as_slice() {
            [only] if only.before.state == State::Sealed && only.done == items => {}
            others => broken.push(format!("it ended not once, or too early: {others:?}")),
        }
        let (sent, different) = self.tally.notices();
        if different.len() != 1 {
            broken.push(format!("{sent} notices were sent: {different:?}"));
        }
        let groups = self.groups().await;
        for number in 0..items {
            let Some(Place { group, index }) = Place::of(number) else { continue };
            let node = groups.get(usize::try_from(group).unwrap_or(usize::MAX));
            let shown = node.filter(|node| node.is_done(index)).map(|node| node.has_failed(index));
            if shown != Some(outcome(number) == Outcome::Failed) {
                broken.push(format!("item {number} is {shown:?}"));
                break;
            }
        }
        broken
    }
}
