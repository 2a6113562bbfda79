//! A tracker's items, page by page.

use std::collections::BTreeSet;

use groupage_core::domain::tracker::{Addition, Place, Which};
use groupage_lab::prelude::*;
use proptest::prelude::*;

/// Everything that is listed, in pages.
async fn listed(
    tracking: Tracking<'_, MemoryStore, MemoryQueues, TestEnv>,
    id: &TrackerId,
    which: Which,
    limit: usize,
) -> Vec<u64> {
    let tracker = tracking.progress(id).await.unwrap().unwrap().tracker;
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = tracking.items(&tracker, which, from, limit).await.unwrap();
        assert!(page.items.len() <= limit);
        all.extend(page.items.iter().map(|item| item.at.number()));
        from = page.next;
        if from.is_none() {
            return all;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_item_is_listed_once_under_what_became_of_it(
        items in 1..30_000_u64,
        failed in prop::collection::btree_set(0..30_000_u64, 0..40),
        missing in prop::collection::btree_set(0..30_000_u64, 0..40),
        is_complete in any::<bool>(),
        limit in 1..20_usize,
    ) {
        let missing: BTreeSet<u64> = missing.into_iter().filter(|number| !is_complete && *number < items).collect();
        let failed: BTreeSet<u64> =
            failed.into_iter().filter(|number| *number < items && !missing.contains(number)).collect();
        in_virtual_time(async {
            let memory = Memory::new(1);
            let tracking = memory.tracking();
            let id = track(tracking, "t", items).await;
            let range = |Place { group, index }| ItemRange { tracker: id.clone(), group, first: index, last: index };
            let failed_ranges = failed.iter().map(|number| (range(Place::of(*number).unwrap()), Outcome::Failed));
            tracking.ack(&id, &failed_ranges.collect::<Vec<_>>()).await.unwrap().unwrap();
            // Between those that fail and those that are left out, all others succeed.
            let cuts: BTreeSet<u64> = failed.union(&missing).copied().chain([items]).collect();
            let mut start = 0;
            for cut in cuts {
                let between = Addition { key: String::new(), start, count: cut - start };
                let succeeded: Vec<_> = between
                    .groups()
                    .map(|part| ItemRange { last: part.first + part.size - 1, ..range(Place { group: part.group, index: part.first }) })
                    .map(|range| (range, Outcome::Succeeded))
                    .collect();
                tracking.ack(&id, &succeeded).await.unwrap().unwrap();
                start = cut + 1;
            }
            tracking.seal(&id).await.unwrap().unwrap();
            let expected = |which| match which {
                Which::Failed => failed.iter().copied().collect(),
                Which::Missing => missing.iter().copied().collect(),
                Which::Succeeded => (0..items).filter(|n| !failed.contains(n) && !missing.contains(n)).collect::<Vec<u64>>(),
            };
            for (which, limit) in [(Which::Failed, limit), (Which::Missing, limit), (Which::Succeeded, 2_000)] {
                prop_assert_eq!(listed(tracking, &id, which, limit).await, expected(which));
            }
            Ok(())
        })?;
    }
}
