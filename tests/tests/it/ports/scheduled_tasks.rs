//! Scheduled tasks: what every `Tasks` must show of what falls due.

use std::collections::BTreeSet;

use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{failure, now, target, task};
use super::task_ends::ended;

conformance![
    a_scheduled_task_waits_for_nobody_until_it_falls_due,
    what_is_due_is_found_in_its_order_page_by_page,
    a_scheduled_task_that_ends_is_due_no_more,
];

const AT: Timestamp = Timestamp(1_700_000_009_000);

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
