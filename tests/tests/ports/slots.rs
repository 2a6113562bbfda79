//! What every `SlotStore` must do.

use shared::domain::id::{BatchId, Revision, RouteName};
use shared::domain::slots::{Scope, Slots};
use shared::domain::time::Timestamp;
use shared::ports::{Locks, SlotStore, Stored};

use crate::fixture::{Fixture, conformance};
use crate::samples::{lead, target};

conformance![
    slots_that_were_never_taken_are_free,
    slots_are_read_as_they_were_written,
    a_repeated_write_recognises_itself,
    of_two_who_read_the_same_slots_one_writes,
    each_limit_has_slots_of_its_own,
    the_slots_of_a_target_do_not_touch_its_lock,
];

const NOW: Timestamp = Timestamp(1_000);

fn route() -> Scope {
    Scope::Route(RouteName::new("parcels"))
}

fn take(slots: &Slots, batch: &str) -> Slots {
    slots.with(&BatchId::new(batch), 10, NOW, NOW.plus_ms(30_000)).expect("a slot is free")
}

async fn slots_that_were_never_taken_are_free<F: Fixture>(fixture: F) {
    assert_eq!(fixture.store().slots(&route()).await.unwrap(), Slots::default());
}

async fn slots_are_read_as_they_were_written<F: Fixture>(fixture: F) {
    let store = fixture.store();
    let one = take(&Slots::default(), "b1");
    let two = take(&one, "b2");
    let back = two.without(&BatchId::new("b1")).expect("b1 holds a slot");
    let none = back.without(&BatchId::new("b2")).expect("b2 holds a slot");
    for slots in [one, two, back, none] {
        assert_eq!(store.store_slots(&route(), &slots, NOW).await.unwrap(), Stored::Yes);
        assert_eq!(store.slots(&route()).await.unwrap(), slots);
    }
}

async fn a_repeated_write_recognises_itself<F: Fixture>(fixture: F) {
    let store = fixture.store();
    let one = take(&Slots::default(), "b1");
    for slots in [&one, &take(&one, "b2")] {
        for _ in 0..2 {
            assert_eq!(store.store_slots(&route(), slots, NOW).await.unwrap(), Stored::Yes);
        }
    }
}

async fn of_two_who_read_the_same_slots_one_writes<F: Fixture>(fixture: F) {
    let store = fixture.store();
    for read in [Slots::default(), take(&Slots::default(), "b1")] {
        if read.revision > Revision(0) {
            assert_eq!(store.slots(&route()).await.unwrap(), read);
        }
        assert_eq!(store.store_slots(&route(), &take(&read, "b1"), NOW).await.unwrap(), Stored::Yes);
        assert_eq!(store.store_slots(&route(), &take(&read, "b2"), NOW).await.unwrap(), Stored::Conflict);
    }
    let taken = store.slots(&route()).await.unwrap().taken;
    assert_eq!(taken.into_keys().collect::<Vec<_>>(), [BatchId::new("b1")]);
}

async fn each_limit_has_slots_of_its_own<F: Fixture>(fixture: F) {
    let store = fixture.store();
    let scopes = [route(), Scope::Route(RouteName::new("letters")), Scope::Target(target("a"))];
    for (n, scope) in scopes.iter().enumerate() {
        let slots = take(&Slots::default(), &format!("b{n}"));
        assert_eq!(store.store_slots(scope, &slots, NOW).await.unwrap(), Stored::Yes);
    }
    for (n, scope) in scopes.iter().enumerate() {
        let taken = store.slots(scope).await.unwrap().taken;
        assert_eq!(taken.into_keys().collect::<Vec<_>>(), [BatchId::new(format!("b{n}"))]);
    }
}

async fn the_slots_of_a_target_do_not_touch_its_lock<F: Fixture>(fixture: F) {
    let store = fixture.store();
    lead(&*store, &target("a"), "w1", 10).await;
    let lock = store.lock(&target("a")).await.unwrap();
    let scope = Scope::Target(target("a"));
    store.store_slots(&scope, &take(&Slots::default(), "b1"), NOW).await.unwrap();
    assert_eq!(store.lock(&target("a")).await.unwrap(), lock);
}
