//! Ordered routes end to end on ports in memory: who goes before whom, how fast, and what cannot be ordered.

use std::collections::VecDeque;

use groupage_core::domain::task::Status;
use groupage_core::routes::Notify;
use groupage_core::steps::lane::{Arrival, Lined, Ordering, Over, Resumed, Skipped};
use groupage_lab::prelude::*;
use proptest::prelude::*;

fn routes(order: &str) -> String {
    format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    ordered_by: key\n    order: {{ {order} }}\n    \
         batch: {{ max_items: 100, wait_ms: 0 }}\n    downstream: {{ http: {{ url: \"http://downstream.invalid/\" }} }}\n    \
         notify: {{ success: default }}\n"
    )
}

/// A world with calls of a second.
fn world(order: &str) -> World {
    let downstream = Scripted::new(Box::new(|_, _| Ok(ok("")))).taking(|| 1_000);
    World::new(Setting { latency_ms: 5, ..Setting::default() }, &routes(order), downstream)
}

/// How many tasks a second of this many keys, with as many tasks each, reach their end.
fn per_second(keys: usize, each: usize) -> f64 {
    in_virtual_time(async {
        let world = world("");
        let bodies: Vec<String> = (0..keys * each).map(|n| keyed(n, 0, n % keys, n / keys + 1)).collect();
        let began = world.env.now();
        world.send(&bodies);
        world.run_to_rest().await.unwrap();
        assert_kept(&world, keys * each);
        let settled = world.downstream.ledger().into_iter().map(|seen| seen.items.len()).sum::<usize>();
        assert_eq!(settled, keys * each);
        (keys * each) as f64 * 1_000.0 / world.env.now().since(began) as f64
    })
}

#[test]
fn twenty_keys_run_fifteen_times_as_fast_as_one() {
    let (one, twenty) = (per_second(1, 40), per_second(20, 40));
    println!("one key: {one:.3} tasks a second, 20 keys: {twenty:.3}, {:.1} times as many", twenty / one);
    assert!(twenty >= 15.0 * one);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_never_comes_is_given_up_by_a_person() {
    let world = world("sequence: turn");
    let lane = LaneId::of(&RouteName::new("parcels"), "k0");
    world.send(&[4, 6].map(|turn| keyed(turn, 0, 0, turn)));
    assert!(world.run_to_rest().await.is_err(), "they wait for turn 1");
    let ordering = || Ordering { store: &world.store, outbox: &world.queues, env: &world.env };
    assert!(matches!(ordering().skip(&lane, Turn(2)).await.unwrap(), Skipped::NotMissing(_)));
    assert_eq!(world.downstream.ledger().len(), 0);
    assert_eq!(ordering().skip(&lane, Turn(1)).await.unwrap(), Skipped::Yes);
    assert!(world.run_to_rest().await.is_err(), "the next one waits for turn 5");
    assert!(matches!(ordering().skip(&lane, Turn(1)).await.unwrap(), Skipped::NotMissing(_)), "a repeat");
    world.send(&[keyed(5, 0, 0, 5)]);
    world.run_to_rest().await.unwrap();
    let called: Vec<_> = world.downstream.ledger().into_iter().flat_map(|seen| seen.items).collect();
    assert_eq!(called, ["p4", "p5", "p6"]);
}

#[test]
fn a_task_that_cannot_be_written_keeps_those_behind_it_back() {
    // More than one transaction takes.
    const TASKS: usize = 120;
    let told = |plan: Plan| {
        in_virtual_time(async {
            let downstream = Scripted::new(Box::new(|_, _| Ok(ok(""))));
            let world = World::new(Setting { plan, latency_ms: 5, ..Setting::default() }, &routes(""), downstream);
            let bodies: Vec<String> = (0..TASKS).map(|n| keyed(n, 0, 0, n + 1)).collect();
            world.send(&bodies);
            world.run_to_rest().await.unwrap();
            let ids: Vec<String> = (0..TASKS).map(|n| format!("p{n}")).collect();
            assert_kept(&world, TASKS);
            // In the order in which they were sent, not only in that in which they were accepted.
            let mut called: Vec<String> = world.downstream.ledger().into_iter().flat_map(|seen| seen.items).collect();
            called.dedup();
            assert_eq!(called, ids);
            world.fate.points()
        })
    };
    let points = told(Plan::Nothing);
    let transactions = || points.iter().enumerate().filter(|(_, point)| point.call == "line_up").map(|(at, _)| at);
    assert_eq!(transactions().count(), 3);
    for at in transactions() {
        for (side, fault) in [
            (Side::Before, Fault::Error),
            (Side::After, Fault::Error),
            (Side::Before, Fault::Death),
            (Side::After, Fault::Death),
        ] {
            told(Plan::At(at, side, fault));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_ordered_is_rejected_and_its_neighbours_go_on() {
    let world = world("sequence: turn");
    let body = |id: &str, rest: &str| format!(r#"{{"id":"{id}","payload":{{"truck":"t"{rest}}}}}"#);
    let report = world
        .register(&[
            body("no-key", r#","turn":1"#),
            body("no-turn", r#","key":"k""#),
            body("two", r#","key":"k","turn":2"#),
            body("one", r#","key":"k","turn":1"#),
            body("also-two", r#","key":"k","turn":2"#),
            body("zero", r#","key":"k","turn":0"#),
        ])
        .await;
    assert_eq!((report.registered, report.rejected, report.failed.len()), (2, 4, 0));
    let rejected = world.queues.now().messages(&Destination::Rejected);
    let reasons: Vec<String> = rejected
        .iter()
        .map(|message| message.attributes.iter().find(|(name, _)| *name == "Reason").unwrap().1.clone())
        .collect();
    assert_eq!(reasons, ["bad_order", "bad_order", "bad_sequence", "bad_sequence"]);
    // The same again changes nothing, nor does a number that is over.
    let again = world.register(&[body("one", r#","key":"k","turn":1"#), body("two", r#","key":"k","turn":2"#)]).await;
    assert_eq!((again.repeated, again.rejected), (2, 0));
    world.run_to_rest().await.unwrap();
    let late = world.register(&[body("late", r#","key":"k","turn":2"#), body("one", r#","key":"k","turn":1"#)]).await;
    assert_eq!((late.repeated, late.rejected), (1, 1));
    let tasks = world.tables().tasks();
    assert_eq!(tasks.len(), 2);
    assert!(tasks.iter().all(|task| matches!(task.status, Status::Succeeded { .. })));
}

/// What happens to a lane.
#[derive(Clone, Debug)]
enum Event {
    /// This many tasks come, some of them again.
    Come(usize, bool),
    /// The task that has the turn is settled, and that is told this many times.
    Settle(Outcome, usize),
    /// A person lets it go on.
    Resume,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1..60_usize, any::<bool>()).prop_map(|(count, again)| Event::Come(count, again)),
        (prop_oneof![4 => Just(Outcome::Succeeded), 1 => Just(Outcome::Failed)], 1..3_usize)
            .prop_map(|(outcome, times)| Event::Settle(outcome, times)),
        Just(Event::Resume),
    ]
}

/// A plain queue, and what stops it.
#[derive(Debug, Default)]
struct Plain {
    came: usize,
    turn: Option<usize>,
    waiting: VecDeque<usize>,
    failed: Vec<usize>,
    stopped: bool,
}

impl Plain {
    fn come(&mut self, on_failure: OnFailure) {
        let task = self.came;
        self.came += 1;
        match (self.stopped, on_failure) {
            (true, OnFailure::FailRest) => self.failed.push(task),
            _ if self.stopped || self.turn.is_some() => self.waiting.push_back(task),
            _ => self.turn = Some(task),
        }
    }

    fn settle(&mut self, outcome: Outcome, on_failure: OnFailure) {
        self.turn = None;
        match (outcome, on_failure) {
            (Outcome::Failed, OnFailure::Hold) => self.stopped = true,
            (Outcome::Failed, OnFailure::FailRest) => {
                self.stopped = true;
                self.failed.extend(self.waiting.drain(..));
            }
            _ => self.turn = self.waiting.pop_front(),
        }
    }

    fn resume(&mut self) {
        if std::mem::take(&mut self.stopped) {
            self.turn = self.waiting.pop_front();
        }
    }
}

/// A lane in memory.
struct Lane {
    memory: Memory,
    id: LaneId,
    target: Target,
    on_failure: OnFailure,
}

impl Lane {
    fn steps(&self) -> Ordering<'_, MemoryStore, MemoryQueues, TestEnv> {
        Ordering { store: &self.memory.store, outbox: &self.memory.queues, env: &self.memory.env }
    }

    async fn come(&self, tasks: std::ops::Range<usize>) -> Vec<Lined> {
        let arrivals: Vec<Arrival> = tasks
            .map(|n| {
                let task = Task::new(id(n), self.target.clone(), "{}".into(), String::new(), Timestamp(0));
                Arrival { task, target: self.target.clone(), sequence: None }
            })
            .collect();
        let lined = self.steps().line_up(&self.id, Numbering::ByArrival, &arrivals, &Notify::default()).await;
        lined.into_iter().map(Result::unwrap).collect()
    }

    /// Puts a task into a batch of its own, settles it, and says so.
    async fn settle(&self, n: usize, outcome: Outcome, times: usize) {
        let (task, batch) = (id(n), BatchId::new(format!("b{n}")));
        self.memory.store.join(&task, Round(0), &batch).await.unwrap();
        let settlement = match outcome {
            Outcome::Succeeded => Settlement::Succeeded,
            Outcome::Failed => Settlement::Failed(failure(&self.target)),
        };
        self.memory
            .store
            .settle(&Member { id: task.clone(), round: Round(0) }, &batch, &settlement, Timestamp(1))
            .await
            .unwrap();
        for _ in 0..times {
            let (task, lane) = (task.clone(), self.id.clone());
            let settled = [Over { task, round: Round(0), lane, outcome }];
            self.steps().hand_over(&settled, self.on_failure, &Notify::default()).await.unwrap();
        }
    }

    async fn status(&self, n: usize) -> Status {
        self.memory.store.read(&[id(n)], Freshness::Latest).await.unwrap().pop().expect("it came").status
    }
}

fn failure(target: &Target) -> Failure {
    Failure { target: target.clone(), reason: Reason::new("no"), attempts: 1, answer: None, keep_ms: 0 }
}

fn id(n: usize) -> TaskId {
    TaskId::new(format!("t{n}"))
}

proptest! {
    #[test]
    fn a_lane_is_a_queue(
        events in proptest::collection::vec(event(), 1..40),
        on_failure in prop_oneof![Just(OnFailure::Hold), Just(OnFailure::Skip), Just(OnFailure::FailRest)],
    ) {
        in_virtual_time(async {
            let route = RouteName::new("r");
            let (id, target) = (LaneId::of(&route, "k"), Target::of(&route, "t"));
            let lane = Lane { memory: Memory::new(7), id, target, on_failure };
            let mut plain = Plain::default();
            for event in events {
                match event {
                    Event::Come(count, again) => {
                        let from = plain.came;
                        (0..count).for_each(|_| plain.come(on_failure));
                        let lined = lane.come(from..plain.came).await;
                        assert!(lined.iter().all(|lined| matches!(lined, Lined::First | Lined::Behind)));
                        if again {
                            let lined = lane.come(from..plain.came).await;
                            assert!(lined.iter().all(|lined| matches!(lined, Lined::Existing(_))));
                        }
                    }
                    Event::Settle(outcome, times) => {
                        if let Some(turn) = plain.turn {
                            lane.settle(turn, outcome, times).await;
                            plain.settle(outcome, on_failure);
                        }
                    }
                    Event::Resume => {
                        let resumed = lane.steps().resume(&lane.id, &Notify::default()).await.unwrap();
                        assert_eq!(matches!(resumed, Resumed::Yes { .. }), plain.stopped);
                        plain.resume();
                    }
                }
                for task in 0..plain.came {
                    let status = lane.status(task).await;
                    assert_eq!(matches!(status, Status::Created { .. }), plain.turn == Some(task), "t{task}: {status:?}");
                    assert_eq!(status == Status::Queued, plain.waiting.contains(&task), "t{task}: {status:?}");
                    let passed_over = matches!(status, Status::Failed { batch: None, .. });
                    assert_eq!(passed_over, plain.failed.contains(&task), "t{task}: {status:?}");
                }
                let waiting: usize = lane.memory.store.lanes().iter().map(|(_, waiting)| waiting).sum();
                assert_eq!(waiting, plain.waiting.len());
            }
        });
    }
}
