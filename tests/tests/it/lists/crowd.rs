//! Many who put and many who release at once, some of whom die, sleep or come twice: nothing is lost, nothing is
//! released twice.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use groupage_core::steps::Error;
use groupage_core::steps::list::{Listing, Outcome, Refused, Taken};
use groupage_tests::effort;
use groupage_tests::prelude::*;
use tokio::sync::Notify;

use super::calls::{IDLE_MS, Steps, id, id_in};

const PUTTERS: usize = 8;
const PUTS: usize = 15;
const RELEASERS: usize = 32;
const RELEASES: usize = 12;

struct Crowd {
    store: Lagging<MemoryStore, TestEnv>,
    queues: MemoryQueues,
    env: TestEnv,
    fate: Arc<Fate>,
    /// The ids that tokens stand for, as those who put them were told.
    tokens: RefCell<BTreeMap<u64, String>>,
    /// What releases were told, by key.
    ranges: RefCell<BTreeMap<String, (u64, u64)>>,
}

impl Crowd {
    fn new(seed: u64, plan: Plan) -> Self {
        let env = TestEnv::new(seed);
        let lag = Lag { slots_ms: 30, ..Lag::default() };
        let store = Lagging::new(MemoryStore::new(), env.clone(), lag, seed);
        let fate = Arc::new(Fate::new(plan, env.with_seed(seed + 1), false));
        let (tokens, ranges) = (RefCell::default(), RefCell::default());
        Self { store, queues: MemoryQueues::new(), env, fate, tokens, ranges }
    }

    /// Makes a call as a process of its own, and a second time beside the first if something says so. The answers of
    /// those that lived.
    async fn call<T>(&self, work: impl AsyncFn(Steps<'_>) -> Result<T, Error>) -> Vec<Result<T, Error>> {
        let twin = Notify::new();
        let process = || Process::new("list", self.env.clone(), Arc::clone(&self.fate), 10);
        let run = async |process: &Process| {
            let (store, outbox) = (Faulty::new(&self.store, process), Faulty::new(&self.queues, process));
            let steps: Steps<'_> = Listing { store: &store, outbox: &outbox, env: process.env() };
            process.run(work(steps), || twin.notify_one()).await
        };
        let (first, second) = (process(), process());
        let begun = std::cell::Cell::new(false);
        let beside = async {
            twin.notified().await;
            begun.set(true);
            run(&second).await
        };
        let (mut alone, mut beside) = (std::pin::pin!(run(&first)), std::pin::pin!(beside));
        let (mut answers, mut is_over, mut is_over_beside) = (Vec::new(), false, false);
        // The second to come may be done first; the first sleeps then, and goes on.
        while !is_over || (begun.get() && !is_over_beside) {
            let answer = tokio::select! {
                answer = &mut alone, if !is_over => {
                    is_over = true;
                    answer
                }
                answer = &mut beside, if !is_over_beside => {
                    is_over_beside = true;
                    answer
                }
            };
            answers.extend(answer);
        }
        answers
    }

    /// Puts tasks until an answer comes.
    async fn put(&self, who: usize) {
        for turn in 0..PUTS {
            self.env.sleep(self.env.pick(0..=200)).await;
            let (key, count) = (format!("{who}-{turn}"), self.env.pick(1..=20));
            let ids: Vec<String> = (0..count).map(|n| format!("{key}-{n}")).collect();
            let messages: Vec<String> = ids.iter().map(|id| format!("{{\"id\":\"{id}\",\"payload\":{{}}}}")).collect();
            loop {
                let answers = self.call(async |steps| steps.put(&id(), &key, &messages).await).await;
                let Some((addition, _)) = answers.into_iter().filter_map(|answer| answer.ok()?.ok()).next() else {
                    continue;
                };
                for (token, id) in (addition.start.0..).zip(&ids) {
                    let before = self.tokens.borrow_mut().insert(token, id.clone());
                    assert_eq!(before, None, "two tasks have the token {token}");
                }
                break;
            }
        }
    }

    fn told(&self, key: &str, answers: Vec<Result<Result<Taken, Refused>, Error>>) -> u64 {
        let mut count = 0;
        for taken in answers.into_iter().filter_map(|answer| answer.ok()?.ok()).filter(|taken| taken.count > 0) {
            let range = (taken.start.0, taken.count);
            let before = self.ranges.borrow_mut().insert(key.to_owned(), range);
            assert!(before.is_none_or(|before| before == range), "two ranges under one key");
            count = taken.count;
        }
        count
    }

    /// Releases tasks; who dies is not repeated.
    async fn release(&self, who: usize) {
        for turn in 0..RELEASES {
            self.env.sleep(self.env.pick(0..=400)).await;
            let (key, count) = (format!("r{who}-{turn}"), if who.is_multiple_of(2) { 1 } else { 100 });
            let answers = self.call(async |steps| -> Outcome<Taken> { steps.release(&id(), &key, count).await }).await;
            self.told(&key, answers);
        }
    }

    /// Sweeps, and releases what is left, until nothing is.
    async fn come_to_rest(&self) {
        let steps = Listing { store: &self.store, outbox: &self.queues, env: &self.env };
        for turn in 0.. {
            self.env.sleep(120_000).await;
            steps.look_after(&id(), IDLE_MS).await.unwrap();
            let key = format!("rest-{turn}");
            let taken = steps.release(&id(), &key, 100).await;
            if self.told(&key, vec![taken]) == 0 {
                break;
            }
        }
        self.env.sleep(120_000).await;
        steps.look_after(&id(), IDLE_MS).await.unwrap();
    }

    async fn check(&self) {
        let tokens = self.tokens.borrow().clone();
        let given = tokens.len() as u64;
        assert!(tokens.keys().copied().eq(0..given), "there is a hole");
        let list = self.store.inner().list(&id()).await.unwrap().unwrap();
        assert_eq!((list.tail.given.0, list.head.taken.0, list.head.discarded), (given, given, 0));
        assert!(list.head.reservations.is_empty() && self.store.inner().all_slots().is_empty());
        let mut taken = BTreeSet::new();
        for (start, count) in self.ranges.borrow().values() {
            assert!((*start..start + count).all(|token| taken.insert(token)), "a token was released twice");
        }
        let messages = self.queues.messages(&Destination::Tasks);
        let sent: BTreeSet<String> = messages.iter().map(|message| id_in(&message.body)).collect();
        assert!(sent.iter().eq(tokens.values().collect::<BTreeSet<_>>()), "a task was lost");
    }
}

fn run(seed: u64, plan: Plan) -> (usize, usize) {
    in_virtual_time(async {
        let crowd = Crowd::new(seed, plan);
        let putters = join_all((0..PUTTERS).map(|who| crowd.put(who)));
        let releasers = join_all((0..RELEASERS).map(|who| crowd.release(who)));
        futures::join!(putters, releasers);
        crowd.come_to_rest().await;
        crowd.check().await;
        let doubled = crowd.queues.messages(&Destination::Tasks).len() - crowd.tokens.borrow().len();
        (crowd.fate.faults().len(), doubled)
    })
}

#[test]
fn where_nobody_dies_every_task_is_sent_once() {
    assert_eq!(run(7, Plan::Nothing), (0, 0));
}

#[test]
fn nothing_is_lost_and_nothing_released_twice_whoever_dies_or_sleeps() {
    let seeds = effort::number("GROUPAGE_SEEDS").unwrap_or(12);
    let mut all = (0, 0);
    for seed in 0..seeds {
        for plan in [Plan::Deaths(0.02), Plan::Random(0.02)] {
            let (faults, doubled) = run(seed, plan);
            all = (all.0 + faults, all.1 + doubled);
        }
    }
    println!("{} faults; {} messages were sent twice", all.0, all.1);
    assert!(all.0 > 100 && all.1 > 0, "too little happened");
}
