//! What every `Locks` must do.

use groupage_core::domain::lock::{Acquisition, Assumes, Holder};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{lead, lock_of, taking, target, term};

conformance![
    a_free_lock_is_acquired,
    each_shard_of_a_target_has_a_lock_of_its_own,
    a_held_lock_is_not_free,
    a_lock_that_names_an_open_batch_is_not_free_though_nobody_holds_it,
    a_repeated_acquisition_recognises_itself,
    fence_survives_a_release,
    a_clock_that_is_behind_cannot_lower_the_fence,
    a_lock_is_taken_over_as_it_was_seen,
    a_lock_that_moved_since_it_was_seen_is_not_taken_over,
    a_lock_that_differs_in_anything_from_what_was_seen_is_not_taken_over,
    a_signal_does_not_keep_a_lock_from_being_taken_over,
    signals_survive_an_acquisition,
    a_signal_to_a_holder_that_is_gone_is_refused,
    a_signal_to_a_lock_that_never_was_is_refused,
    a_leader_advances_batch_by_batch,
    a_repeated_advance_recognises_itself,
    a_leader_cannot_advance_from_a_batch_that_is_not_its_latest,
    stale_leader_cannot_advance,
    a_released_leader_cannot_advance,
    a_release_leaves_neither_holder_nor_open_batch,
    a_repeated_release_recognises_itself,
    a_release_after_a_signal_is_refused,
    a_delivery_that_is_behind_its_twin_cannot_release,
    stale_leader_cannot_release,
    nothing_is_released_where_there_is_no_lock,
];

const LATER: Timestamp = Timestamp(5_000);

async fn current(store: &impl Fixture) -> Option<Lock> {
    store.lock(&target("a")).await.unwrap()
}

/// A Target with its leader.
async fn led(store: &impl Fixture) -> (Target, Term) {
    let target = target("a");
    let term = lead(&**store, &target, "w1", 10).await;
    (target, term)
}

/// Signals of the lock as it is now.
async fn signals(store: &impl Fixture) -> u64 {
    current(store).await.expect("the lock is there").signals
}

async fn a_free_lock_is_acquired(store: impl Fixture) {
    assert_eq!(current(&store).await, None);
    let (_, term) = led(&store).await;
    assert_eq!(current(&store).await, Some(lock_of(&term)));
    assert_eq!(store.lock(&target("b")).await.unwrap(), None);
}

async fn each_shard_of_a_target_has_a_lock_of_its_own(store: impl Fixture) {
    let home = target("a");
    let shard = home.in_shard(Shard(2));
    let leader = lead(&*store, &home, "w1", 10).await;
    assert_eq!(store.lock(&shard).await.unwrap(), None);
    let other = lead(&*store, &shard, "w2", 5).await;
    assert_eq!(store.lock(&home).await.unwrap(), Some(lock_of(&leader)));
    assert_eq!(store.lock(&shard).await.unwrap(), Some(lock_of(&other)));
    assert_ne!(leader.batch_id(Seq(0)), Term { fence: leader.fence, ..other }.batch_id(Seq(0)));
}

async fn a_held_lock_is_not_free(store: impl Fixture) {
    let (target, holder) = led(&store).await;
    let other = term(&target, "w2", 99);
    let acquired = store.acquire(&target, &taking(&other, Assumes::Free)).await.unwrap();
    assert_eq!(acquired, Acquired::No(Some(lock_of(&holder))));
}

async fn a_lock_that_names_an_open_batch_is_not_free_though_nobody_holds_it(store: impl Fixture) {
    let target = target("a");
    let left = Lock { holder: None, ..lock_of(&term(&target, "w1", 10)) };
    let leave = Acquisition { assumes: Assumes::Free, next: left.clone() };
    assert_eq!(store.acquire(&target, &leave).await.unwrap(), Acquired::Yes);
    let other = taking(&term(&target, "w2", 99), Assumes::Free);
    assert_eq!(store.acquire(&target, &other).await.unwrap(), Acquired::No(Some(left)));
}

async fn a_repeated_acquisition_recognises_itself(store: impl Fixture) {
    let (target, first) = led(&store).await;
    lead(&*store, &target, "w1", 10).await;
    let takeover = taking(&term(&target, "w2", 11), Assumes::Unchanged(lock_of(&first)));
    for _ in 0..2 {
        assert_eq!(store.acquire(&target, &takeover).await.unwrap(), Acquired::Yes);
    }
}

async fn fence_survives_a_release(store: impl Fixture) {
    let (target, first) = led(&store).await;
    store.release(&first, Seq(0), 0, LATER).await.unwrap();
    assert_eq!(current(&store).await.expect("the item stays").fence, first.fence);
    lead(&*store, &target, "w2", 11).await;
}

async fn a_clock_that_is_behind_cannot_lower_the_fence(store: impl Fixture) {
    let (target, first) = led(&store).await;
    store.release(&first, Seq(0), 0, LATER).await.unwrap();
    for fence in [9, 10] {
        let behind = taking(&term(&target, "w2", fence), Assumes::Free);
        let acquired = store.acquire(&target, &behind).await.unwrap();
        assert!(matches!(acquired, Acquired::No(Some(lock)) if lock.fence == first.fence && lock.holder.is_none()));
    }
}

async fn a_lock_is_taken_over_as_it_was_seen(store: impl Fixture) {
    let (target, first) = led(&store).await;
    let second = term(&target, "w2", 11);
    // The workflow that takes over finishes the batch that it finds open, and so keeps it named.
    let mut takeover = taking(&second, Assumes::Unchanged(lock_of(&first)));
    takeover.next.open = lock_of(&first).open;
    assert_eq!(store.acquire(&target, &takeover).await.unwrap(), Acquired::Yes);
    assert_eq!(current(&store).await, Some(takeover.next));
}

async fn a_lock_that_moved_since_it_was_seen_is_not_taken_over(store: impl Fixture) {
    let (target, first) = led(&store).await;
    store.advance(&first, Seq(0), Timestamp(3_000)).await.unwrap();
    let moved = current(&store).await;
    let takeover = taking(&term(&target, "w2", 11), Assumes::Unchanged(lock_of(&first)));
    assert_eq!(store.acquire(&target, &takeover).await.unwrap(), Acquired::No(moved));
    let of_nothing = taking(&term(&target, "w2", 11), Assumes::Unchanged(lock_of(&first)));
    let elsewhere = super::samples::target("b");
    assert_eq!(store.acquire(&elsewhere, &of_nothing).await.unwrap(), Acquired::No(None));
}

async fn a_lock_that_differs_in_anything_from_what_was_seen_is_not_taken_over(store: impl Fixture) {
    let target = target("a");
    let lock = lock_of(&lead(&*store, &target, "w1", 10).await);
    let holder = lock.holder.as_ref().expect("held");
    let held_by = |holder: Holder| Lock { holder: Some(holder), ..lock.clone() };
    let others = [
        Lock { holder: None, ..lock.clone() },
        held_by(Holder { workflow: WorkflowId::new("w0"), ..holder.clone() }),
        held_by(Holder { lease_until: holder.lease_until.plus_ms(1), ..holder.clone() }),
        Lock { fence: Fence(9), ..lock.clone() },
        Lock { seq: Seq(1), ..lock.clone() },
        Lock { open: None, ..lock.clone() },
        Lock { open: Some(BatchId::new("b")), ..lock.clone() },
    ];
    for seen in others {
        let takeover = taking(&term(&target, "w2", 11), Assumes::Unchanged(seen.clone()));
        let acquired = store.acquire(&target, &takeover).await.unwrap();
        assert_eq!(acquired, Acquired::No(Some(lock.clone())), "{seen:?}");
    }
}

async fn a_signal_does_not_keep_a_lock_from_being_taken_over(store: impl Fixture) {
    let (target, first) = led(&store).await;
    store.signal(&first).await.unwrap();
    let takeover = taking(&term(&target, "w2", 11), Assumes::Unchanged(lock_of(&first)));
    assert_eq!(store.acquire(&target, &takeover).await.unwrap(), Acquired::Yes);
}

async fn signals_survive_an_acquisition(store: impl Fixture) {
    let (target, first) = led(&store).await;
    assert_eq!(store.signal(&first).await.unwrap(), Signalled::Yes);
    let before = signals(&store).await;
    assert!(before >= 1);
    assert_eq!(store.release(&first, Seq(0), before, LATER).await.unwrap(), Released::Yes);
    lead(&*store, &target, "w2", 11).await;
    assert_eq!(signals(&store).await, before);
}

async fn a_signal_to_a_holder_that_is_gone_is_refused(store: impl Fixture) {
    let (target, first) = led(&store).await;
    store.release(&first, Seq(0), 0, LATER).await.unwrap();
    let free = current(&store).await;
    assert_eq!(store.signal(&first).await.unwrap(), Signalled::No(free));
    // The same workflow under a later fence is another holder too.
    let again = lead(&*store, &target, "w1", 11).await;
    assert_eq!(store.signal(&first).await.unwrap(), Signalled::No(Some(lock_of(&again))));
}

async fn a_signal_to_a_lock_that_never_was_is_refused(store: impl Fixture) {
    let target = target("a");
    let nobody = term(&target, "w1", 10);
    assert_eq!(store.signal(&nobody).await.unwrap(), Signalled::No(None));
    assert_eq!(current(&store).await, None);
}

async fn a_leader_advances_batch_by_batch(store: impl Fixture) {
    let (_, term) = led(&store).await;
    for seq in 0..3 {
        let until = Timestamp(3_000 + u64::from(seq));
        let Advanced::Kept(lock) = store.advance(&term, Seq(seq), until).await.unwrap() else { panic!("leads") };
        assert_eq!((lock.seq, lock.open.as_ref()), (Seq(seq + 1), Some(&term.batch_id(Seq(seq + 1)))));
        assert_eq!(lock.holder.as_ref().map(|holder| holder.lease_until), Some(until));
        assert_eq!(current(&store).await, Some(lock));
    }
}

async fn a_repeated_advance_recognises_itself(store: impl Fixture) {
    let (_, term) = led(&store).await;
    let first = store.advance(&term, Seq(0), Timestamp(3_000)).await.unwrap();
    assert_eq!(store.advance(&term, Seq(0), Timestamp(3_000)).await.unwrap(), first);
    assert!(matches!(first, Advanced::Kept(lock) if lock.seq == Seq(1)));
}

async fn a_leader_cannot_advance_from_a_batch_that_is_not_its_latest(store: impl Fixture) {
    let (_, term) = led(&store).await;
    assert_eq!(store.advance(&term, Seq(1), LATER).await.unwrap(), Advanced::Lost);
    for seq in [0, 1] {
        store.advance(&term, Seq(seq), LATER).await.unwrap();
    }
    let before = current(&store).await;
    assert_eq!(store.advance(&term, Seq(0), LATER).await.unwrap(), Advanced::Lost);
    assert_eq!(current(&store).await, before);
}

async fn stale_leader_cannot_advance(store: impl Fixture) {
    let (target, first) = led(&store).await;
    let second = term(&target, "w2", 11);
    store.acquire(&target, &taking(&second, Assumes::Unchanged(lock_of(&first)))).await.unwrap();
    assert_eq!(store.advance(&first, Seq(0), LATER).await.unwrap(), Advanced::Lost);
    // Nor does a workflow that leads again under a later fence advance by its earlier one.
    let earlier = term(&target, "w2", 10);
    assert_eq!(store.advance(&earlier, Seq(0), LATER).await.unwrap(), Advanced::Lost);
    assert_eq!(current(&store).await, Some(lock_of(&second)));
}

async fn a_released_leader_cannot_advance(store: impl Fixture) {
    let (_, term) = led(&store).await;
    store.release(&term, Seq(0), 0, LATER).await.unwrap();
    assert_eq!(store.advance(&term, Seq(0), LATER).await.unwrap(), Advanced::Lost);
}

async fn a_release_leaves_neither_holder_nor_open_batch(store: impl Fixture) {
    let (_, term) = led(&store).await;
    assert_eq!(store.release(&term, Seq(0), 0, LATER).await.unwrap(), Released::Yes);
    assert_eq!(current(&store).await, Some(Lock { holder: None, open: None, ..lock_of(&term) }));
}

async fn a_repeated_release_recognises_itself(store: impl Fixture) {
    let (_, term) = led(&store).await;
    for _ in 0..2 {
        assert_eq!(store.release(&term, Seq(0), 0, LATER).await.unwrap(), Released::Yes);
    }
}

async fn a_release_after_a_signal_is_refused(store: impl Fixture) {
    let (_, term) = led(&store).await;
    store.signal(&term).await.unwrap();
    let signals = signals(&store).await;
    let signalled = Lock { signals, ..lock_of(&term) };
    assert_eq!(store.release(&term, Seq(0), 0, LATER).await.unwrap(), Released::Signalled(signalled.clone()));
    assert_eq!(current(&store).await, Some(signalled));
    assert_eq!(store.release(&term, Seq(0), signals, LATER).await.unwrap(), Released::Yes);
}

async fn a_delivery_that_is_behind_its_twin_cannot_release(store: impl Fixture) {
    let (_, term) = led(&store).await;
    store.advance(&term, Seq(0), LATER).await.unwrap();
    let ahead = current(&store).await;
    assert_eq!(store.release(&term, Seq(0), 0, LATER).await.unwrap(), Released::Lost);
    assert_eq!(current(&store).await, ahead, "the next batch is named still");
    assert_eq!(store.release(&term, Seq(1), 0, LATER).await.unwrap(), Released::Yes);
}

async fn stale_leader_cannot_release(store: impl Fixture) {
    let (target, first) = led(&store).await;
    let second = term(&target, "w2", 11);
    store.acquire(&target, &taking(&second, Assumes::Unchanged(lock_of(&first)))).await.unwrap();
    assert_eq!(store.release(&first, Seq(0), 0, LATER).await.unwrap(), Released::Lost);
    assert_eq!(current(&store).await, Some(lock_of(&second)));
    // Nor after its successor has released: the lock is free, but not by its doing.
    store.release(&second, Seq(0), 0, LATER).await.unwrap();
    assert_eq!(store.release(&first, Seq(0), 0, LATER).await.unwrap(), Released::Lost);
}

async fn nothing_is_released_where_there_is_no_lock(store: impl Fixture) {
    let nobody = term(&target("a"), "w1", 10);
    assert_eq!(store.release(&nobody, Seq(0), 0, LATER).await.unwrap(), Released::Lost);
    assert_eq!(current(&store).await, None);
}
