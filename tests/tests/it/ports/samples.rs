//! Tasks, locks, batches and trackers to write.

use groupage_core::domain::id::digest;
use groupage_core::domain::lock::{Acquisition, Assumes};
use groupage_core::domain::tracker::Options;
use groupage_lab::prelude::*;

pub fn target(value: &str) -> Target {
    Target::of(&RouteName::new("parcels"), value)
}

pub fn task(id: &str, target: &Target) -> Task {
    let payload = format!("{{\"parcel\":\"{id}\"}}");
    let digest = digest(&[&payload]);
    Task::new(TaskId::new(id), target.clone(), payload, digest, Timestamp(1_700_000_000_123))
}

pub fn failure(target: &Target, reason: &str) -> Failure {
    Failure { target: target.clone(), reason: Reason::new(reason), attempts: 1, answer: None, keep_ms: 0 }
}

pub fn member(candidate: &Candidate) -> Member {
    Member { id: candidate.id.clone(), round: candidate.round }
}

/// Registers a new task that waits for `target`.
pub async fn waiting(store: &impl Tasks, id: &str, target: &Target) -> Candidate {
    let task = task(id, target);
    assert_eq!(store.register(&task).await.unwrap(), Registered::New);
    task.candidate()
}

/// Puts a member back that waits for `a` then.
pub async fn back(store: &impl Tasks, member: &Candidate, batch: &BatchId, attempts: u32, at: Timestamp) -> PutBack {
    store
        .put_back(WayBack { member, batch, target: &target("a"), attempts, is_unsure: attempts > 1, at })
        .await
        .unwrap()
}

pub async fn now(store: &impl Tasks, id: &TaskId) -> Task {
    let mut tasks = store.read(std::slice::from_ref(id), groupage_core::ports::Freshness::Latest).await.unwrap();
    tasks.pop().expect("the task is there")
}

pub fn term(target: &Target, workflow: &str, fence: u64) -> Term {
    Term { target: target.clone(), workflow: WorkflowId::new(workflow), fence: Fence(fence) }
}

/// The lock as a term's acquisition leaves it, its lease over at 2,000.
pub fn lock_of(term: &Term) -> Lock {
    let holder =
        Holder { workflow: term.workflow.clone(), waits_since: Timestamp(1_000), lease_until: Timestamp(2_000) };
    let open = Some(term.batch_id(Seq(0)));
    Lock { holder: Some(holder), fence: term.fence, seq: Seq(0), signals: 0, open }
}

pub fn taking(term: &Term, assumes: Assumes) -> Acquisition {
    Acquisition { assumes, next: lock_of(term) }
}

/// Makes a workflow the leader of a free lock.
pub async fn lead(store: &impl Locks, target: &Target, workflow: &str, fence: u64) -> Term {
    let term = term(target, workflow, fence);
    let acquired = store.acquire(target, &taking(&term, Assumes::Free)).await.unwrap();
    assert_eq!(acquired, Acquired::Yes);
    term
}

pub fn batch(id: &str, target: &Target, members: usize) -> Batch {
    let candidates: Vec<Candidate> = (0..members).map(|n| task(&format!("{id}-{n}"), target).candidate()).collect();
    Batch::open(BatchId::new(id), target.clone(), Fence(7), &candidates, Timestamp(1_000), 500)
}

/// A session at its first beat that has claimed two batches, over at 6,000.
pub fn session(id: &str) -> Session {
    let claims = vec![BatchId::new("b1"), BatchId::new("b2")];
    Session::open(SessionId::new(id), format!("worker of {id}"), claims, Timestamp(1_000), Timing::default())
}

/// A tracker that was just opened.
pub fn tracker(id: &str) -> Tracker {
    let options = Options { deadline: Some(Timestamp(90_000_000)), notify: NotificationQueue::Default };
    Tracker::open(TrackerId::new(id), options, Timestamp(1_000))
}

/// Puts a new tracker.
pub async fn opened(store: &impl Trackers, id: &str) -> Tracker {
    let tracker = tracker(id);
    assert_eq!(store.open_tracker(&tracker).await.unwrap(), Opened::New);
    tracker
}

/// The tracker as it is now.
pub async fn tracked(store: &impl Trackers, id: &TrackerId) -> Option<Tracker> {
    store.look(id, &[], Freshness::Latest).await.unwrap().tracker
}
