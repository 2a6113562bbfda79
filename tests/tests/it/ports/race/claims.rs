//! One batch for a task, one writer for a revision, one heir for a dead session's batch.

use std::sync::Arc;

use groupage_core::domain::batch::Assumes;
use groupage_lab::prelude::*;

use super::start::{NOW, all_at_once, only};
use crate::ports::samples::{batch, now, session, target, waiting};

pub async fn a_task_joins_one_batch<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let candidate = waiting(&**store, &format!("t{round}"), &target("joins")).await;
    let joined = all_at_once(|n| {
        let (store, candidate) = (Arc::clone(store), candidate.clone());
        async move {
            let batch = BatchId::new(format!("b{n}"));
            let joined = store.join(&candidate.id, candidate.round, &batch).await.unwrap();
            (joined == Joined::Yes).then_some(batch)
        }
    });
    let batch = only(joined.await);
    assert_eq!(now(&**store, &candidate.id).await.status.batch(), Some(&batch));
}

pub async fn a_revision_is_written_once<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let open = batch(&format!("r{round}"), &target("revisions"), 1);
    store.store(&open, Assumes::Absent).await.unwrap();
    let written = all_at_once(|n| {
        let store = Arc::clone(store);
        let next = open.settled(Results::new(), Timestamp(n as u64));
        let assumes = Assumes::At(open.revision);
        async move { (store.store(&next, assumes).await.unwrap() == Stored::Yes).then_some(next) }
    });
    let winner = only(written.await);
    assert_eq!(store.batch(&open.id).await.unwrap(), Some(winner));
}

/// Ending a session may be repeated by anybody, so all succeed; it is the batch's revision that one of them takes.
pub async fn all_may_end_a_dead_session_and_one_takes_its_batch<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let dead = session(&format!("dead/s{round}"));
    store.open_session(&dead).await.unwrap();
    let open = batch(&format!("e{round}"), &target("orphans"), 1);
    let claimed = open.frozen(open.members.clone()).claimed(Claim { session: dead.id.clone() });
    store.store(&claimed, Assumes::Absent).await.unwrap();
    let taken = all_at_once(|n| {
        let (store, id, beat, claimed) = (Arc::clone(store), dead.id.clone(), dead.beat, claimed.clone());
        async move {
            assert_eq!(store.end_session(&id, beat).await.unwrap(), Ended::Yes);
            let mine = claimed.claimed(Claim { session: SessionId::new(format!("live/s{n}")) });
            let stored = store.store(&mine, Assumes::At(claimed.revision)).await.unwrap();
            (stored == Stored::Yes).then_some(mine)
        }
    });
    let heir = only(taken.await);
    assert_eq!(store.session(&dead.id).await.unwrap(), None);
    assert_eq!(store.batch(&claimed.id).await.unwrap(), Some(heir));
    let late = claimed.settled(Results::new(), NOW);
    assert_eq!(store.store(&late, Assumes::At(claimed.revision)).await.unwrap(), Stored::Conflict);
}

/// What one racer for a session was told.
#[derive(Debug)]
enum Told {
    Renewal(Renewed),
    End(Ended),
}

/// Its worker renews it, again and again since answers get lost, while others end it at the beat before: one side wins,
/// and everybody is told which.
pub async fn a_session_is_either_renewed_or_ended<S: Store + Send + 'static>(store: &Arc<S>, round: u64) {
    let first = session(&format!("renewed/s{round}"));
    store.open_session(&first).await.unwrap();
    let next = first.renewed(vec![BatchId::new("b3")], NOW, Timing::default());
    let told = all_at_once(|n| {
        let (store, first, next) = (Arc::clone(store), first.clone(), next.clone());
        // The sides change places each time: the last to come to the start tends to be first to run.
        let renews = (n as u64 + round).is_multiple_of(2);
        async move {
            if renews {
                Told::Renewal(store.renew(&next).await.unwrap())
            } else {
                Told::End(store.end_session(&first.id, first.beat).await.unwrap())
            }
        }
    })
    .await;
    let left: Option<Session> = store.session(&first.id).await.unwrap();
    let (renewal, end) = match &left {
        Some(_) => (Renewed::Kept, Ended::Lives(next.clone())),
        None => (Renewed::Lost, Ended::Yes),
    };
    for told in told {
        match told {
            Told::Renewal(told) => assert_eq!(told, renewal),
            Told::End(told) => assert_eq!(told, end),
        }
    }
    assert!(left.is_none_or(|left| left == next));
}
