//! What every `Tasks` must do.

use std::collections::BTreeSet;

use groupage_core::domain::task::Status;
use groupage_core::ports::Failures;
use groupage_tests::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{back, failure, member, now, target, task, waiting};

conformance![
    an_id_is_registered_once,
    a_repeated_registration_finds_the_task,
    a_read_leaves_out_what_is_not_there,
    a_read_of_an_id_named_twice_finds_the_task,
    a_read_of_more_tasks_than_one_request_takes_finds_all,
    the_index_shows_a_waiting_task_with_its_round_and_size,
    the_pages_of_the_index_hold_every_task_of_one_target_once,
    the_index_keeps_the_shards_of_a_target_apart,
    a_join_takes_a_task_out_of_the_index,
    a_repeated_join_recognises_itself,
    a_join_in_an_old_round_changes_nothing,
    a_task_that_is_in_a_batch_cannot_join_another,
    nothing_joins_where_there_is_no_task,
    a_member_that_is_put_back_waits_in_its_next_round,
    a_repeated_put_back_recognises_itself,
    traits_are_shown_by_the_index_and_outlast_every_way_back,
    urgent_tasks_are_found_apart_the_most_urgent_first,
    a_put_back_by_another_batch_changes_nothing,
    a_put_back_of_a_task_that_moved_on_changes_nothing,
    nothing_is_put_back_where_there_is_no_task,
    a_task_is_settled_once,
    a_failed_task_keeps_its_reason,
    a_member_that_its_batch_is_called_without_ends_and_is_not_filed,
    a_task_keeps_until_when_it_is_wanted,
    the_tasks_of_a_tracker_that_are_not_settled_are_found_page_by_page,
    a_scheduled_task_waits_for_nobody_until_it_falls_due,
    what_is_due_is_found_in_its_order_page_by_page,
    a_scheduled_task_that_ends_is_due_no_more,
    only_the_batch_a_task_names_settles_it,
    a_settle_in_an_old_round_changes_nothing,
    a_round_counts_even_in_the_same_batch,
    a_settled_task_neither_joins_nor_waits_again,
    a_waiting_task_ends_once_and_is_found_until_all_have_heard,
    a_task_in_a_batch_or_in_another_round_does_not_end,
];

const AT: Timestamp = Timestamp(1_700_000_009_000);

async fn an_id_is_registered_once(store: impl Fixture) {
    let first = task("t", &target("a"));
    let second = task("t", &target("b"));
    assert_eq!(store.register(&first).await.unwrap(), Registered::New);
    assert_eq!(store.register(&second).await.unwrap(), Registered::Existing(Box::new(first.clone())));
    assert_eq!(now(&*store, &first.id).await, first);
}

async fn a_repeated_registration_finds_the_task(store: impl Fixture) {
    let task = task("t", &target("a"));
    store.register(&task).await.unwrap();
    // The very same write may also take itself for its own repeat: either way the task is driven on.
    let again = store.register(&task).await.unwrap();
    assert!(again == Registered::New || again == Registered::Existing(Box::new(task)), "{again:?}");
}

async fn a_read_leaves_out_what_is_not_there(store: impl Fixture) {
    let there = waiting(&*store, "there", &target("a")).await.id;
    for freshness in [Freshness::Eventual, Freshness::Latest] {
        let found = store.read(&[TaskId::new("gone"), there.clone()], freshness).await.unwrap();
        assert_eq!(found.iter().map(|task| &task.id).collect::<Vec<_>>(), [&there]);
    }
    assert!(store.read(&[], Freshness::Latest).await.unwrap().is_empty());
}

async fn a_read_of_an_id_named_twice_finds_the_task(store: impl Fixture) {
    let id = waiting(&*store, "t", &target("a")).await.id;
    let found = store.read(&[id.clone(), id.clone()], Freshness::Latest).await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|task| task.id == id));
}

async fn a_read_of_more_tasks_than_one_request_takes_finds_all(store: impl Fixture) {
    let mut ids = BTreeSet::new();
    for n in 0..230 {
        ids.insert(waiting(&*store, &format!("t{n}"), &target("a")).await.id);
    }
    let asked: Vec<TaskId> = ids.iter().cloned().collect();
    let found = store.read(&asked, Freshness::Latest).await.unwrap();
    assert_eq!(found.into_iter().map(|task| task.id).collect::<BTreeSet<_>>(), ids);
}

async fn the_index_shows_a_waiting_task_with_its_round_and_size(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    store.index_settles().await;
    let page = store.waiting(&target("a"), None, 10).await.unwrap();
    assert_eq!(page.candidates, [candidate]);
    assert!(page.candidates[0].bytes > 0);
}

/// Every page's candidates, in the order of the pages.
async fn walk(store: &impl Tasks, value: &str, limit: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.waiting(&target(value), cursor.as_ref(), limit).await.unwrap();
        assert!(page.candidates.len() <= limit);
        found.extend(page.candidates);
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn the_pages_of_the_index_hold_every_task_of_one_target_once(store: impl Fixture) {
    let mut wanted = BTreeSet::new();
    for n in 0..23 {
        wanted.insert(waiting(&*store, &format!("a{n}"), &target("a")).await.id);
        waiting(&*store, &format!("b{n}"), &target("b")).await;
    }
    store.index_settles().await;
    for limit in [1, 10, 23, 100] {
        let found = walk(&*store, "a", limit).await;
        assert_eq!(found.len(), 23, "in pages of {limit}");
        assert_eq!(found.into_iter().map(|candidate| candidate.id).collect::<BTreeSet<_>>(), wanted);
    }
    assert!(walk(&*store, "c", 10).await.is_empty());
}

async fn the_index_keeps_the_shards_of_a_target_apart(store: impl Fixture) {
    let home = target("a");
    let shards: Vec<Target> = home.shards(3).collect();
    for (n, shard) in shards.iter().enumerate() {
        waiting(&*store, &format!("t{n}"), shard).await;
    }
    store.index_settles().await;
    for (n, shard) in shards.iter().enumerate() {
        let page = store.waiting(shard, None, 10).await.unwrap();
        let ids: Vec<String> = page.candidates.iter().map(|candidate| candidate.id.to_string()).collect();
        assert_eq!(ids, [format!("t{n}")], "{shard}");
        let task = now(&*store, &TaskId::new(&ids[0])).await;
        assert_eq!(task.status, Status::Created { target: shard.clone() });
    }
    // A look through everything that waits tells the shard.
    let look = Look::at(Segment { index: 0, of: 1 }, Timestamp(u64::MAX), 10);
    let page = store.waiting_long(look).await.unwrap();
    let found: BTreeSet<Target> = page.tasks.into_iter().map(|waiting| waiting.target).collect();
    assert_eq!(found, BTreeSet::from_iter(shards));
}

async fn a_join_takes_a_task_out_of_the_index(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    let batch = BatchId::new("b1");
    assert_eq!(store.join(&candidate.id, candidate.round, &batch).await.unwrap(), Joined::Yes);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch });
    store.index_settles().await;
    assert!(walk(&*store, "a", 10).await.is_empty());
}

async fn a_repeated_join_recognises_itself(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    for _ in 0..2 {
        let joined = store.join(&candidate.id, candidate.round, &BatchId::new("b1")).await.unwrap();
        assert_eq!(joined, Joined::Yes);
    }
}

async fn a_join_in_an_old_round_changes_nothing(store: impl Fixture) {
    let (old, batch) = (waiting(&*store, "t", &target("a")).await, BatchId::new("b1"));
    store.join(&old.id, old.round, &batch).await.unwrap();
    back(&*store, &old, &batch, 1, AT).await;
    let before = now(&*store, &old.id).await;
    for late in [&batch, &BatchId::new("b2")] {
        assert_eq!(store.join(&old.id, old.round, late).await.unwrap(), Joined::Elsewhere);
    }
    assert_eq!(now(&*store, &old.id).await, before);
    assert!(before.waits_in(Round(1)));
}

async fn a_task_that_is_in_a_batch_cannot_join_another(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    let first = BatchId::new("b1");
    store.join(&candidate.id, candidate.round, &first).await.unwrap();
    let joined = store.join(&candidate.id, candidate.round, &BatchId::new("b2")).await.unwrap();
    assert_eq!(joined, Joined::Elsewhere);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch: first });
}

async fn nothing_joins_where_there_is_no_task(store: impl Fixture) {
    let gone = TaskId::new("gone");
    assert_eq!(store.join(&gone, Round(0), &BatchId::new("b1")).await.unwrap(), Joined::Elsewhere);
    assert!(store.read(&[gone], Freshness::Latest).await.unwrap().is_empty());
}

/// A task that waited for `a` and has joined the batch `b1`.
async fn joined(store: &impl Tasks) -> (Candidate, BatchId) {
    let (candidate, batch) = (waiting(store, "t", &target("a")).await, BatchId::new("b1"));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    (candidate, batch)
}

async fn a_member_that_is_put_back_waits_in_its_next_round(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    assert_eq!(back(&*store, &candidate, &batch, 3, AT).await, PutBack::Waits);
    let task = now(&*store, &candidate.id).await;
    assert!(task.waits_in(Round(1)));
    assert_eq!((task.attempts, task.waits_since), (3, AT));
    assert_eq!(task.status, Status::Created { target: target("a") });
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [Candidate { round: Round(1), ..candidate }]);
}

fn some_traits() -> Traits {
    Traits { priority: 2, collapse: Some(traits::Collapse::of("7")), weight: 40, closes: true }
}

async fn traits_are_shown_by_the_index_and_outlast_every_way_back(store: impl Fixture) {
    let (a, batch) = (target("a"), BatchId::new("b1"));
    let with = task("t", &a).with_traits(some_traits());
    store.register(&with).await.unwrap();
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [with.candidate()]);
    assert_eq!(store.join(&with.id, Round(0), &batch).await.unwrap(), Joined::Yes);
    assert_eq!(store.join(&with.id, Round(0), &batch).await.unwrap(), Joined::Yes);
    assert_eq!(now(&*store, &with.id).await.traits, some_traits());
    assert_eq!(back(&*store, &with.candidate(), &batch, 1, AT).await, PutBack::Waits);
    assert_eq!(back(&*store, &with.candidate(), &batch, 1, AT).await, PutBack::Waits);
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [Candidate { round: Round(1), ..with.candidate() }]);
    let ending = failure(&a, "cancelled");
    assert!(store.end(&with.id, Round(1), &ending, AT).await.unwrap().is_some(), "it waits");
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, []);
    let later = task("s", &a).with_traits(some_traits()).scheduled(AT);
    store.register(&later).await.unwrap();
    let fell = store.fall_due((&later.id, some_traits()), &a, AT).await.unwrap().unwrap();
    assert_eq!(fell.candidate.traits, some_traits());
    store.index_settles().await;
    assert_eq!(walk(&*store, "a", 10).await, [fell.candidate]);
}

async fn urgent_tasks_are_found_apart_the_most_urgent_first(store: impl Fixture) {
    let a = target("a");
    for (id, priority) in [("p0", 0), ("p1", 1), ("p9", 9), ("p5", 5), ("x5", 5)] {
        let weight = if id == "x5" { 7 } else { 1 };
        let task = task(id, &a).with_traits(Traits { priority, weight, ..Traits::default() });
        store.register(&task).await.unwrap();
    }
    let heavy = task("w", &a).with_traits(Traits { weight: 7, ..Traits::default() });
    store.register(&heavy).await.unwrap();
    store.register(&task("other", &target("b")).with_traits(some_traits())).await.unwrap();
    store.index_settles().await;
    let of = async |above, limit| store.urgent(&a, above, None, limit).await.unwrap();
    let priorities = |urgent: &[Candidate]| urgent.iter().map(|one| one.traits.priority).collect::<Vec<_>>();
    assert_eq!(priorities(&of(0, 10).await.candidates), [9, 5, 5, 1]);
    for (above, found) in [(1, &[9, 5, 5][..]), (4, &[9, 5, 5]), (5, &[9]), (8, &[9])] {
        assert_eq!(priorities(&of(above, 10).await.candidates), found, "above {above}");
    }
    let first = of(0, 2).await;
    assert_eq!(priorities(&first.candidates), [9, 5]);
    for (above, found) in [(0, &[5, 1][..]), (4, &[5])] {
        let behind = store.urgent(&a, above, first.next.as_ref(), 10).await.unwrap();
        assert_eq!(priorities(&behind.candidates), found, "behind the first two, above {above}");
    }
    assert_eq!(priorities(&walk(&*store, "a", 2).await), [0, 0, 1, 5, 5, 9], "the walk shows all, the usual first");
}

async fn a_repeated_put_back_recognises_itself(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    for at in [AT, AT.plus_ms(9)] {
        assert_eq!(back(&*store, &candidate, &batch, 1, at).await, PutBack::Waits);
    }
    let task = now(&*store, &candidate.id).await;
    assert_eq!((task.round, task.waits_since), (Round(1), AT));
}

async fn a_put_back_by_another_batch_changes_nothing(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let put_back = back(&*store, &candidate, &BatchId::new("b2"), 1, AT).await;
    assert_eq!(put_back, PutBack::MovedOn);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch });
}

async fn a_put_back_of_a_task_that_moved_on_changes_nothing(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    back(&*store, &candidate, &batch, 1, AT).await;
    store.join(&candidate.id, Round(1), &BatchId::new("b2")).await.unwrap();
    let before = now(&*store, &candidate.id).await;
    assert_eq!(back(&*store, &candidate, &batch, 1, AT).await, PutBack::MovedOn);
    assert_eq!(now(&*store, &candidate.id).await, before);
}

async fn nothing_is_put_back_where_there_is_no_task(store: impl Fixture) {
    let gone = Candidate { id: TaskId::new("gone"), round: Round(0), bytes: 1, traits: Traits::default() };
    let put_back = back(&*store, &gone, &BatchId::new("b1"), 1, AT).await;
    assert_eq!(put_back, PutBack::MovedOn);
    assert!(store.read(&[gone.id], Freshness::Latest).await.unwrap().is_empty());
}

async fn a_task_is_settled_once(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let failed = Settlement::Failed(failure(&target("a"), "late"));
    for settlement in [&Settlement::Succeeded, &Settlement::Succeeded, &failed] {
        store.settle(&member(&candidate), &batch, settlement, AT).await.unwrap();
    }
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Succeeded { batch });
}

async fn a_failed_task_keeps_its_reason(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let reason = Reason::new("too_heavy");
    let settlement = Settlement::Failed(failure(&target("a"), reason.as_str()));
    store.settle(&member(&candidate), &batch, &settlement, AT).await.unwrap();
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Failed { batch: Some(batch), reason });
}

async fn a_member_that_its_batch_is_called_without_ends_and_is_not_filed(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    let ended = groupage_core::domain::ended::Ended::Expired;
    for attempts in [2, 7] {
        store.settle(&member(&candidate), &batch, &Settlement::Ended { ended, attempts }, AT).await.unwrap();
    }
    let status = Status::Failed { batch: Some(batch), reason: ended.reason() };
    assert_eq!(now(&*store, &candidate.id).await.status, status);
    let kept = store.failure(&candidate.id).await.unwrap().unwrap();
    assert_eq!((kept.reason, kept.attempts, kept.filed.at), (ended.reason(), 2, AT));
    let (route, ever) = (target("a").route(), (Timestamp(0), Timestamp(u64::MAX / 2)));
    for part in Part::all() {
        assert_eq!(store.failed((&route, part), ever, None, 10).await.unwrap(), []);
    }
}

async fn a_task_keeps_until_when_it_is_wanted(store: impl Fixture) {
    for (id, expires_at) in [("ends", Some(Timestamp(1_700_000_600_123))), ("never", None)] {
        let task = task(id, &target("a")).expiring(expires_at);
        store.register(&task).await.unwrap();
        assert_eq!(now(&*store, &task.id).await, task);
    }
}

/// What is due before a time, whatever part of it.
async fn due(store: &impl Tasks, before: Timestamp) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for part in Part::all() {
        let due = store.due(Look::at(part, before, 100)).await.unwrap().all();
        all.extend(due.into_iter().map(|due| (due.id.to_string(), due.target.to_string())));
    }
    all
}

async fn a_scheduled_task_waits_for_nobody_until_it_falls_due(store: impl Fixture) {
    let scheduled = task("t", &target("a")).scheduled(AT);
    assert_eq!(store.register(&scheduled).await.unwrap(), Registered::New);
    assert_eq!(now(&*store, &scheduled.id).await, scheduled);
    assert!(store.waiting(&target("a"), None, 10).await.unwrap().candidates.is_empty());
    let joined = store.join(&scheduled.id, Round(0), &BatchId::new("b")).await.unwrap();
    assert_eq!((joined, due(&*store, AT).await.len()), (Joined::Elsewhere, 0));
    assert_eq!(due(&*store, Timestamp(AT.0 + 1)).await, [("t".to_owned(), target("a").to_string())].into());
    let early = store.fall_due((&scheduled.id, Traits::default()), &target("a"), Timestamp(AT.0 - 1)).await.unwrap();
    assert_eq!((early, now(&*store, &scheduled.id).await.status), (None, scheduled.status.clone()));
    for later in [0, 5_000] {
        let waits = store
            .fall_due((&scheduled.id, Traits::default()), &target("a"), Timestamp(AT.0 + later))
            .await
            .unwrap()
            .unwrap();
        assert_eq!((waits.candidate, waits.since), (scheduled.candidate(), AT), "a repeat changes nothing");
    }
    store.index_settles().await;
    let waiting = store.waiting(&target("a"), None, 10).await.unwrap().candidates;
    assert_eq!((waiting, due(&*store, Timestamp(u64::MAX / 2)).await.len()), (vec![scheduled.candidate()], 0));
    store.join(&scheduled.id, Round(0), &BatchId::new("b")).await.unwrap();
    assert_eq!(
        store.fall_due((&scheduled.id, Traits::default()), &target("a"), AT).await.unwrap(),
        None,
        "it has moved on"
    );
    assert_eq!(store.fall_due((&TaskId::new("nobody"), Traits::default()), &target("a"), AT).await.unwrap(), None);
}

async fn what_is_due_is_found_in_its_order_page_by_page(store: impl Fixture) {
    for n in 0..40_u64 {
        let id = format!("t{n}");
        store.register(&task(&id, &target("a")).scheduled(Timestamp(AT.0 + 1_000 - n))).await.unwrap();
    }
    let mut found = 0;
    for part in Part::all() {
        let (mut after, mut times) = (None, Vec::new());
        loop {
            let look = Look::at(part, Timestamp(AT.0 + 990), 2).behind(after.as_ref());
            let page = store.due(look).await.unwrap();
            assert!(page.found.len() <= 2);
            for entry in &page.found {
                let number: u64 = entry.what.id.as_str()[1..].parse().unwrap();
                assert_eq!(Part::of_task(&entry.what.id), part);
                times.push(1_000 - number);
            }
            after = page.found.last().map(|entry| entry.at.clone()).or(after);
            if page.are_last {
                break;
            }
        }
        assert!(times.is_sorted() && times.iter().all(|time| *time < 990), "{times:?}");
        found += times.len();
    }
    assert_eq!(found, 29);
}

async fn a_scheduled_task_that_ends_is_due_no_more(store: impl Fixture) {
    let scheduled = task("t", &target("a")).scheduled(AT);
    store.register(&scheduled).await.unwrap();
    let ending = failure(&target("a"), "cancelled");
    assert!(store.end(&scheduled.id, Round(0), &ending, AT).await.unwrap().is_some());
    assert_eq!(due(&*store, Timestamp(u64::MAX / 2)).await.len(), 0);
    assert_eq!(store.fall_due((&scheduled.id, Traits::default()), &target("a"), AT).await.unwrap(), None);
    assert_eq!(ended(&*store).await.len(), 1);
}

async fn the_tasks_of_a_tracker_that_are_not_settled_are_found_page_by_page(store: impl Fixture) {
    let (mine, batch) = (TrackerId::new("t-1"), BatchId::new("b1"));
    // The id of one tracker may begin as that of another.
    let items = ["t-1:0:0", "t-1:3:7167", "t-1:0:2", "t-10:0:0", "t:0:0"].map(|item| ItemId::parse(item).ok());
    for (n, item) in items.into_iter().enumerate() {
        store.register(&task(&format!("p{n}"), &target("a")).with_item(item)).await.unwrap();
    }
    waiting(&*store, "of-nobody", &target("a")).await;
    let [batched, settled] = ["p1", "p2"].map(|id| task(id, &target("a")).candidate());
    for candidate in [&batched, &settled] {
        store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    }
    store.settle(&member(&settled), &batch, &Settlement::Succeeded, AT).await.unwrap();
    let (mut found, mut after, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let page = store.unsettled_of(&mine, after.as_ref(), 2).await.unwrap();
        found.extend(page.found.iter().map(ToString::to_string));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, BTreeSet::from(["p0".to_owned(), "p1".to_owned()]));
    assert!(pages > 2, "six tasks, two at a time: {pages}");
}

async fn only_the_batch_a_task_names_settles_it(store: impl Fixture) {
    let (candidate, batch) = (waiting(&*store, "t", &target("a")).await, BatchId::new("b1"));
    let member = member(&candidate);
    store.settle(&member, &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert!(now(&*store, &candidate.id).await.waits_in(Round(0)));
    store.join(&candidate.id, candidate.round, &batch).await.unwrap();
    store.settle(&member, &BatchId::new("b2"), &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Batched { batch });
}

async fn a_settle_in_an_old_round_changes_nothing(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    back(&*store, &candidate, &batch, 1, AT).await;
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert!(now(&*store, &candidate.id).await.waits_in(Round(1)));
}

async fn a_round_counts_even_in_the_same_batch(store: impl Fixture) {
    let (candidate, batch) = (waiting(&*store, "t", &target("a")).await, BatchId::new("b1"));
    store.join(&candidate.id, Round(0), &batch).await.unwrap();
    back(&*store, &candidate, &batch, 1, AT).await;
    store.join(&candidate.id, Round(1), &batch).await.unwrap();
    let before = now(&*store, &candidate.id).await;
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, AT).await.unwrap();
    assert_eq!(back(&*store, &candidate, &batch, 1, AT).await, PutBack::MovedOn);
    assert_eq!(store.join(&candidate.id, Round(0), &batch).await.unwrap(), Joined::Elsewhere);
    assert_eq!(now(&*store, &candidate.id).await, before);
}

async fn a_settled_task_neither_joins_nor_waits_again(store: impl Fixture) {
    let (candidate, batch) = joined(&*store).await;
    store.settle(&member(&candidate), &batch, &Settlement::Succeeded, AT).await.unwrap();
    let joined = store.join(&candidate.id, candidate.round, &BatchId::new("b2")).await.unwrap();
    assert_eq!(joined, Joined::Elsewhere);
    assert_eq!(back(&*store, &candidate, &batch, 1, AT).await, PutBack::MovedOn);
    assert_eq!(now(&*store, &candidate.id).await.status, Status::Succeeded { batch });
}

/// What the index shows as ended, whatever part of it.
async fn ended(store: &impl Tasks) -> Vec<Waiting> {
    let segment = Segment { index: 0, of: 1 };
    store.waiting_long(Look::at(segment, Timestamp(u64::MAX), 100)).await.unwrap().ended
}

async fn a_waiting_task_ends_once_and_is_found_until_all_have_heard(store: impl Fixture) {
    let candidate = waiting(&*store, "t", &target("a")).await;
    let ending = failure(&target("a"), "cancelled");
    for later in [AT, Timestamp(AT.0 + 60_000)] {
        let ended = store.end(&candidate.id, Round(0), &ending, later).await.unwrap();
        assert_eq!(ended.map(|ended| ended.at), Some(AT), "by the first write");
    }
    let task = now(&*store, &candidate.id).await;
    assert_eq!(task.status, Status::Failed { batch: None, reason: Reason::new("cancelled") });
    store.index_settles().await;
    assert!(store.waiting(&target("a"), None, 10).await.unwrap().candidates.is_empty());
    let found = ended(&*store).await;
    assert_eq!(found.len(), 1);
    let Waiting { target: of, candidate: entry, since } = &found[0];
    assert_eq!((of, &entry.id, entry.round, *since), (&target("a"), &candidate.id, Round(0), AT));
    assert_eq!(store.join(&candidate.id, Round(0), &BatchId::new("b1")).await.unwrap(), Joined::Elsewhere);
    for _ in 0..2 {
        store.heard_of(&candidate.id, Round(0)).await.unwrap();
        assert_eq!(ended(&*store).await, []);
    }
    assert_eq!(now(&*store, &candidate.id).await, task);
}

async fn a_task_in_a_batch_or_in_another_round_does_not_end(store: impl Fixture) {
    let ending = failure(&target("a"), "cancelled");
    let (candidate, batch) = joined(&*store).await;
    assert_eq!(store.end(&candidate.id, Round(0), &ending, AT).await.unwrap(), None);
    back(&*store, &candidate, &batch, 1, AT).await;
    assert_eq!(store.end(&candidate.id, Round(0), &ending, AT).await.unwrap(), None);
    store.heard_of(&candidate.id, Round(1)).await.unwrap();
    store.index_settles().await;
    assert_eq!(store.waiting(&target("a"), None, 10).await.unwrap().candidates.len(), 1, "it waits on");
    assert_eq!(store.end(&TaskId::new("none"), Round(0), &ending, AT).await.unwrap(), None);
}
