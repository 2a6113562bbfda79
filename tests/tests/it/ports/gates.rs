//! What every `Gates` must do.

use groupage_core::domain::gate::{Admission, Asks, Ends, Limits, Line, Scope, Shares, Stretch};
use groupage_tests::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{lead, target};

conformance![
    a_gate_that_nobody_wrote_is_open,
    a_gate_is_read_as_it_was_written,
    a_repeated_write_recognises_itself,
    of_two_who_read_the_same_gate_one_writes,
    a_write_that_skips_a_revision_is_refused,
    each_scope_has_a_gate_of_its_own,
    the_gate_of_a_target_does_not_touch_its_lock,
    a_ticket_is_handed_out_whatever_was_written_since,
    a_line_that_is_not_busy_hands_out_no_ticket,
    a_place_is_given_back_whatever_was_written_since_unless_another_worker_has_it,
    a_ticket_of_a_target_is_handed_out_behind_the_others_of_its_stretch_if_that_is_the_last,
];

const NOW: Timestamp = Timestamp(1_000);
const LIMITS: Limits = Limits { in_flight: Some(10), gap_ms: Some(100), share: None };

fn route() -> Scope {
    Scope::Route(RouteName::new("parcels"))
}

/// The gate with one more batch in flight.
fn admit(gate: &Gate, batch: &str) -> Gate {
    match gate.admit(&BatchId::new(batch), Asks::Anew, LIMITS, NOW, NOW.plus_ms(30_000)) {
        Admission::Admitted(Some(next), _) => next,
        other => panic!("not admitted: {other:?}"),
    }
}

fn in_flight(gate: &Gate) -> Vec<&str> {
    gate.in_flight.keys().map(BatchId::as_str).collect()
}

async fn a_gate_that_nobody_wrote_is_open(store: impl Fixture) {
    assert_eq!(store.gate(&route()).await.unwrap(), Gate::default());
}

async fn a_gate_is_read_as_it_was_written(store: impl Fixture) {
    let one = admit(&Gate::default(), "b1");
    let two = admit(&one, "b2");
    let paused = two.paused(NOW.plus_ms(7_000), NOW).expect("it was open");
    let back = paused.without(&BatchId::new("b1")).expect("b1 is in flight");
    let none = back.without(&BatchId::new("b2")).expect("b2 is in flight");
    let waits = none.with_ticket(None, NOW).expect("the line is busy during the pause");
    for gate in [one, two, paused, back, none, waits] {
        assert_eq!(store.store_gate(&route(), &gate, NOW).await.unwrap(), Stored::Yes);
        assert_eq!(store.gate(&route()).await.unwrap(), gate);
    }
}

async fn a_repeated_write_recognises_itself(store: impl Fixture) {
    let one = admit(&Gate::default(), "b1");
    for gate in [&one, &admit(&one, "b2")] {
        for _ in 0..2 {
            assert_eq!(store.store_gate(&route(), gate, NOW).await.unwrap(), Stored::Yes);
        }
    }
}

async fn of_two_who_read_the_same_gate_one_writes(store: impl Fixture) {
    for read in [Gate::default(), admit(&Gate::default(), "b1")] {
        assert_eq!(store.gate(&route()).await.unwrap(), read);
        assert_eq!(store.store_gate(&route(), &admit(&read, "b1"), NOW).await.unwrap(), Stored::Yes);
        assert_eq!(store.store_gate(&route(), &admit(&read, "b2"), NOW).await.unwrap(), Stored::Conflict);
    }
    assert_eq!(in_flight(&store.gate(&route()).await.unwrap()), ["b1"]);
}

async fn a_write_that_skips_a_revision_is_refused(store: impl Fixture) {
    let first = admit(&Gate::default(), "b1");
    let ahead = Gate { revision: Revision(3), ..first.clone() };
    assert_eq!(store.store_gate(&route(), &ahead, NOW).await.unwrap(), Stored::Conflict);
    assert_eq!(store.gate(&route()).await.unwrap(), Gate::default());
    store.store_gate(&route(), &first, NOW).await.unwrap();
    assert_eq!(store.store_gate(&route(), &ahead, NOW).await.unwrap(), Stored::Conflict);
    assert_eq!(store.gate(&route()).await.unwrap(), first);
}

async fn each_scope_has_a_gate_of_its_own(store: impl Fixture) {
    let scopes = [route(), Scope::Route(RouteName::new("letters")), Scope::Target(target("a"))];
    for (n, scope) in scopes.iter().enumerate() {
        let gate = admit(&Gate::default(), &format!("b{n}"));
        assert_eq!(store.store_gate(scope, &gate, NOW).await.unwrap(), Stored::Yes);
    }
    for (n, scope) in scopes.iter().enumerate() {
        assert_eq!(in_flight(&store.gate(scope).await.unwrap()), [format!("b{n}")]);
    }
}

async fn the_gate_of_a_target_does_not_touch_its_lock(store: impl Fixture) {
    lead(&*store, &target("a"), "w1", 10).await;
    let lock = store.lock(&target("a")).await.unwrap();
    let scope = Scope::Target(target("a"));
    store.store_gate(&scope, &admit(&Gate::default(), "b1"), NOW).await.unwrap();
    assert_eq!(store.lock(&target("a")).await.unwrap(), lock);
}

/// A gate whose calls may start again in seven seconds.
fn busy() -> Gate {
    admit(&Gate::default(), "b1").paused(NOW.plus_ms(7_000), NOW).expect("it was open")
}

async fn a_ticket_is_handed_out_whatever_was_written_since(store: impl Fixture) {
    let (one, busy) = (admit(&Gate::default(), "b1"), busy());
    for gate in [&one, &busy] {
        assert_eq!(store.store_gate(&route(), gate, NOW).await.unwrap(), Stored::Yes);
    }
    for written in
        [busy.with_ticket(None, NOW).unwrap(), busy.with_ticket(None, NOW).unwrap().with_ticket(None, NOW).unwrap()]
    {
        let taken = store.take_ticket(&route(), &busy, None, NOW).await.unwrap();
        // An answer that was lost costs a ticket.
        assert!(taken.is_some_and(|taken| taken.last_ticket(None) >= written.last_ticket(None)));
    }
    let gate = store.gate(&route()).await.unwrap();
    assert!(gate.line.next >= busy.line.next + 2 && gate.revision.0 >= busy.revision.0 + 2);
    assert_eq!(store.store_gate(&route(), &busy.with_ticket(None, NOW).unwrap(), NOW).await.unwrap(), Stored::Conflict);
}

async fn a_line_that_is_not_busy_hands_out_no_ticket(store: impl Fixture) {
    assert_eq!(store.take_ticket(&route(), &busy(), None, NOW).await.unwrap(), None);
    let one = admit(&Gate::default(), "b1");
    store.store_gate(&route(), &one, NOW).await.unwrap();
    assert_eq!(store.take_ticket(&route(), &one, None, NOW).await.unwrap(), None);
    store.store_gate(&route(), &one.paused(NOW.plus_ms(7_000), NOW).unwrap(), NOW).await.unwrap();
    let other = Gate { line: Line { gap_ms: 5, ..one.line.clone() }, ..one };
    assert_eq!(store.take_ticket(&route(), &other, None, NOW).await.unwrap(), None, "its gap is another");
}

async fn a_ticket_of_a_target_is_handed_out_behind_the_others_of_its_stretch_if_that_is_the_last(store: impl Fixture) {
    let (first, second, other) = (5 << 44, (5 << 44) + 3, 6 << 44);
    let stretch = |tickets| Stretch { tickets, from: 7, stride: 8 };
    let shares = Shares([(first, stretch(3)), (second, stretch(1)), (other, stretch(1))].into());
    let line = Line { next: 1_005, from: 1_000, ..busy().line };
    let (one, busy) = (admit(&Gate::default(), "b1"), Gate { shares, line, ..busy() });
    for gate in [&one, &busy] {
        assert_eq!(store.store_gate(&route(), gate, NOW).await.unwrap(), Stored::Yes);
        assert_eq!(store.gate(&route()).await.unwrap(), *gate);
    }
    let taken = store.take_ticket(&route(), &busy, Some(second), NOW).await.unwrap().expect("it is the last");
    assert!(taken.shares.0[&second].tickets >= 2 && taken.line.next > busy.line.next);
    assert_eq!((taken.shares.0[&first], taken.shares.0[&other]), (stretch(3), stretch(1)));
    for none in [first, 7 << 44] {
        assert_eq!(store.take_ticket(&route(), &taken, Some(none), NOW).await.unwrap(), None, "{none}");
    }
    assert_eq!(store.gate(&route()).await.unwrap(), taken);
}

async fn a_place_is_given_back_whatever_was_written_since_unless_another_worker_has_it(store: impl Fixture) {
    let one = admit(&Gate::default(), "b1");
    for gate in [&one, &admit(&one, "b2")] {
        assert_eq!(store.store_gate(&route(), gate, NOW).await.unwrap(), Stored::Yes);
    }
    let (batch, lease) = (BatchId::new("b1"), NOW.plus_ms(30_000));
    assert_eq!(store.give_back(&route(), &batch, NOW.plus_ms(29_999), None).await.unwrap(), Stored::Conflict);
    assert_eq!(in_flight(&store.gate(&route()).await.unwrap()), ["b1", "b2"]);
    // A repeat, whose answer says that there was none, does no harm.
    let ended = Some(NOW.plus_ms(2_000));
    let _: Stored = store.give_back(&route(), &batch, lease, ended).await.unwrap();
    let gate = store.gate(&route()).await.unwrap();
    assert_eq!(in_flight(&gate), ["b2"]);
    assert_eq!(gate.ends, Ends { calls: 1, left_ms: 28_000 }, "once, whatever is repeated");
    assert!(gate.revision > one.revision.next(), "a write from before is refused");
    assert_eq!(
        store.give_back(&route(), &batch, lease, None).await.unwrap(),
        Stored::Conflict,
        "there is none any more"
    );
    assert_eq!(store.give_back(&Scope::Target(target("a")), &batch, lease, None).await.unwrap(), Stored::Conflict);
    let _: Stored = store.give_back(&route(), &BatchId::new("b2"), lease, None).await.unwrap();
    let left = store.gate(&route()).await.unwrap();
    assert_eq!((in_flight(&left), left.ends), (Vec::<&str>::new(), gate.ends), "no call has ended");
}
