//! What every `Failures` must do.

use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::failed::{Filed, Retry};
use groupage_core::domain::lane::State;
use groupage_core::domain::task::Status;
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{back, failure, now, target, task, waiting};

conformance![
    a_failed_task_is_filed_with_what_is_kept_of_its_failure,
    a_task_that_succeeds_is_not_filed,
    failed_tasks_are_read_by_time_page_by_page,
    routes_are_filed_apart,
    a_retried_task_waits_in_its_next_round_and_is_filed_no_more,
    a_task_is_retried_once_for_each_failure,
    only_a_failed_task_is_retried,
    a_dropped_task_stays_failed_and_is_listed_no_more,
    a_task_and_its_lane_are_retried_together_or_not_at_all,
];

const AT: Timestamp = Timestamp(1_700_000_009_000);
const END: (Timestamp, Timestamp) = (Timestamp(0), Timestamp(2_000_000_000_000));

/// A task that a batch settled as failed, then.
async fn failed(store: &impl Store, id: &str, failure: &Failure, at: Timestamp) -> Member {
    let (candidate, batch) = (waiting(store, id, &failure.target).await, BatchId::new("b1"));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    let member = Member { id: candidate.id, round: candidate.round };
    store.settle(&member, &batch, &Settlement::Failed(failure.clone()), at).await.unwrap();
    member
}

fn retry(id: &str, failed_in: u32) -> Retry {
    Retry {
        id: TaskId::new(id),
        failed_in: Round(failed_in),
        target: target("mended"),
        lane: None,
        traits: Traits::default(),
        at: AT,
    }
}

async fn filed(store: &impl Store, route: &str) -> Vec<Failed> {
    let route = RouteName::new(route);
    let mut all = Vec::new();
    for part in Part::all() {
        all.extend(store.failed((&route, part), END, None, 100).await.unwrap());
    }
    all.sort_by(|a, b| a.filed.cmp(&b.filed));
    all
}

async fn ids(store: &impl Store) -> Vec<String> {
    filed(store, "parcels").await.into_iter().map(|failed| failed.filed.id.to_string()).collect()
}

async fn a_failed_task_is_filed_with_what_is_kept_of_its_failure(store: impl Fixture) {
    let answer = Some(Excerpt { status: 422, text: "too heavy: 13 kg".to_owned() });
    let failure = Failure { attempts: 3, answer, ..failure(&target("a"), "http_422") };
    failed(&*store, "t", &failure, AT).await;
    let whole = Failed::of(TaskId::new("t"), AT, &failure);
    assert_eq!(store.failure(&TaskId::new("t")).await.unwrap(), Some(whole.clone()));
    let answer = Some(Excerpt { status: 422, text: String::new() });
    assert_eq!(filed(&*store, "parcels").await, [Failed { answer, ..whole }]);
    assert_eq!(store.failure(&TaskId::new("none")).await.unwrap(), None);
}

async fn a_task_that_succeeds_is_not_filed(store: impl Fixture) {
    let (candidate, batch) = (waiting(&*store, "t", &target("a")).await, BatchId::new("b1"));
    store.join(&candidate.id, Round(0), &batch).await.unwrap();
    assert_eq!(store.failure(&candidate.id).await.unwrap(), None);
    let member = Member { id: candidate.id.clone(), round: Round(0) };
    store.settle(&member, &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(store.failure(&candidate.id).await.unwrap(), None);
    assert_eq!(filed(&*store, "parcels").await, []);
}

async fn failed_tasks_are_read_by_time_page_by_page(store: impl Fixture) {
    // All of one part.
    let names: Vec<String> = (0..).map(|n| format!("t{n}")).filter(|n| part(n) == part("t0")).take(7).collect();
    for (n, name) in names.iter().enumerate() {
        // Two at a time.
        failed(&*store, name, &failure(&target("a"), "no"), Timestamp(1_000 + n as u64 / 2)).await;
    }
    let route = RouteName::new("parcels");
    let read = async |between, after: Option<&Filed>, limit| {
        store.failed((&route, part("t0")), between, after, limit).await.unwrap()
    };
    let all = read(END, None, 100).await;
    assert_eq!(all.len(), 7);
    assert!(all.is_sorted_by(|a, b| a.filed < b.filed));
    let (mut paged, mut after): (Vec<Failed>, Option<Filed>) = (Vec::new(), None);
    loop {
        let page = read(END, after.as_ref(), 3).await;
        after = page.last().map(|failed| failed.filed.clone());
        let is_last = page.len() < 3;
        paged.extend(page);
        if is_last {
            break;
        }
    }
    assert_eq!(paged, all);
    // The first time is in, the second is not.
    let between = (Timestamp(1_001), Timestamp(1_003));
    assert_eq!(read(between, None, 100).await, all[2..6]);
    assert_eq!(read(between, Some(&all[0].filed), 100).await, all[2..6]);
    assert_eq!(read(between, Some(&all[6].filed), 100).await, []);
    assert_eq!(read((Timestamp(1_003), Timestamp(1_001)), None, 100).await, []);
}

fn part(id: &str) -> Part {
    Part::of_task(&TaskId::new(id))
}

async fn routes_are_filed_apart(store: impl Fixture) {
    failed(&*store, "t0", &failure(&target("a"), "no"), AT).await;
    failed(&*store, "t1", &failure(&Target::new("mails:a"), "no"), AT).await;
    assert_eq!(ids(&*store).await, ["t0"]);
    assert_eq!(filed(&*store, "mails").await.len(), 1);
}

async fn a_retried_task_waits_in_its_next_round_and_is_filed_no_more(store: impl Fixture) {
    let member = failed(&*store, "t", &failure(&target("a"), "no"), AT).await;
    assert_eq!(store.retry(&retry("t", 0)).await.unwrap(), Stored::Yes);
    let task = now(&*store, &member.id).await;
    assert_eq!((&task.status, task.round), (&Status::Created { target: target("mended") }, Round(1)));
    assert_eq!((task.attempts, task.waits_since), (0, AT));
    assert_eq!(store.failure(&member.id).await.unwrap(), None);
    assert_eq!(ids(&*store).await, Vec::<String>::new());
    store.index_settles().await;
    let shown = store.waiting(&target("mended"), None, 10).await.unwrap().candidates;
    assert_eq!(shown, [Candidate { round: Round(1), ..task.candidate() }]);
    // What settled it before changes nothing, nor does what was on its way then.
    store.settle(&member, &BatchId::new("b1"), &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(store.join(&member.id, Round(0), &BatchId::new("b1")).await.unwrap(), Joined::Elsewhere);
    let old = Candidate { round: Round(0), ..task.candidate() };
    let put_back = back(&*store, &old, &BatchId::new("b1"), 1, AT).await;
    assert!(matches!(put_back, PutBack::Waits | PutBack::MovedOn));
    assert_eq!(now(&*store, &member.id).await, task);
    // It fails again, and is filed again.
    assert_eq!(store.join(&member.id, Round(1), &BatchId::new("b2")).await.unwrap(), Joined::Yes);
    let (again, batch) = (Member { round: Round(1), ..member }, BatchId::new("b2"));
    let later = AT.plus_ms(5);
    store.settle(&again, &batch, &Settlement::Failed(failure(&target("mended"), "no")), later).await.unwrap();
    assert_eq!(filed(&*store, "parcels").await[0].filed.at, later);
}

async fn a_task_is_retried_once_for_each_failure(store: impl Fixture) {
    failed(&*store, "t", &failure(&target("a"), "no"), AT).await;
    // The second is a write whose first answer was lost.
    for _ in 0..2 {
        assert_eq!(store.retry(&retry("t", 0)).await.unwrap(), Stored::Yes);
    }
    assert_eq!(now(&*store, &TaskId::new("t")).await.round, Round(1));
    store.join(&TaskId::new("t"), Round(1), &BatchId::new("b2")).await.unwrap();
    assert_eq!(store.retry(&retry("t", 0)).await.unwrap(), Stored::Conflict);
    assert_eq!(store.retry(&retry("t", 1)).await.unwrap(), Stored::Conflict);
}

async fn only_a_failed_task_is_retried(store: impl Fixture) {
    assert_eq!(store.retry(&retry("none", 0)).await.unwrap(), Stored::Conflict);
    let candidate = waiting(&*store, "t", &target("a")).await;
    assert_eq!(store.retry(&retry("t", 0)).await.unwrap(), Stored::Conflict);
    let batch = BatchId::new("b1");
    store.join(&candidate.id, Round(0), &batch).await.unwrap();
    assert_eq!(store.retry(&retry("t", 0)).await.unwrap(), Stored::Conflict);
    let member = Member { id: candidate.id.clone(), round: Round(0) };
    store.settle(&member, &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(store.retry(&retry("t", 0)).await.unwrap(), Stored::Conflict);
    assert_eq!(store.unfile(&candidate.id).await.unwrap(), Stored::Conflict);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Succeeded { batch });
}

async fn a_dropped_task_stays_failed_and_is_listed_no_more(store: impl Fixture) {
    let failure = failure(&target("a"), "no");
    let member = failed(&*store, "t", &failure, AT).await;
    let before = now(&*store, &member.id).await;
    for _ in 0..2 {
        assert_eq!(store.unfile(&member.id).await.unwrap(), Stored::Yes);
    }
    assert_eq!(ids(&*store).await, Vec::<String>::new());
    assert_eq!(now(&*store, &member.id).await, before);
    assert_eq!(store.failure(&member.id).await.unwrap(), Some(Failed::of(member.id.clone(), AT, &failure)));
    let registered = store.register(&task("t", &target("a"))).await.unwrap();
    assert!(matches!(registered, Registered::Existing(_)), "its id is used");
    assert_eq!(store.unfile(&TaskId::new("none")).await.unwrap(), Stored::Conflict);
    // Somebody thought better of it.
    assert_eq!(store.retry(&retry("t", 0)).await.unwrap(), Stored::Yes);
}

async fn a_task_and_its_lane_are_retried_together_or_not_at_all(store: impl Fixture) {
    let id = LaneId::of(&RouteName::new("parcels"), "k");
    let open = Lane::open(id.clone(), Numbering::ByArrival, AT);
    let first: Task = task("t", &target("a"));
    let (lane, _) = open.lined_up(&[(first.id.clone(), None)], AT);
    let newcomer = Newcomer { task: Task { lane: Some(id.clone()), ..first }, queued: None };
    let lane = lane.unwrap();
    assert_eq!(store.line_up(&lane, true, &[newcomer]).await.unwrap(), LinedUp::Yes);
    let (member, batch) = (Member { id: TaskId::new("t"), round: Round(0) }, BatchId::new("b1"));
    store.join(&member.id, Round(0), &batch).await.unwrap();
    store.settle(&member, &batch, &Settlement::Failed(failure(&target("a"), "no")), AT).await.unwrap();
    let held = Lane { state: State::Held(member.id.clone()), revision: lane.revision.next(), ..lane };
    assert_eq!(store.store_lane(&held).await.unwrap(), Stored::Yes);
    let again = held.retried(&member.id, Round(0), AT).unwrap();
    let retry = |lane: &Lane, round| Retry { lane: Some(lane.clone()), ..retry("t", round) };
    let failed = now(&*store, &member.id).await;
    // The task is not as assumed; the lane is not.
    assert_eq!(store.retry(&retry(&again, 1)).await.unwrap(), Stored::Conflict);
    let late = Lane { revision: again.revision.next(), ..again.clone() };
    assert_eq!(store.retry(&retry(&late, 0)).await.unwrap(), Stored::Conflict);
    assert_eq!(store.lane(&id).await.unwrap(), Some(held));
    assert_eq!(store.read(std::slice::from_ref(&member.id), Freshness::Latest).await.unwrap(), [failed]);
    assert_eq!(store.retry(&retry(&again, 0)).await.unwrap(), Stored::Yes);
    assert_eq!(store.lane(&id).await.unwrap(), Some(again.clone()));
    assert!(now(&*store, &member.id).await.waits_in(Round(1)));
    assert_eq!((again.since, again.head), (Round(1), Turn(0)));
    assert_eq!(store.retry(&retry(&again, 0)).await.unwrap(), Stored::Conflict);
}
