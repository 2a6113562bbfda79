//! What every `Gates` must do.

use groupage_core::domain::gate::{Admission, Asks, Bid, Ends, Heeds, Limits, Line, Scope, Shares, Stretch};
use groupage_core::domain::outcome::{Failure, Fault};
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
    a_place_that_is_bid_for_is_taken_whatever_was_written_since_in_its_turn,
    a_bid_that_another_one_was_faster_than_shows_the_gate,
    a_bid_takes_nothing_at_a_gate_that_is_closed_or_has_something_to_say,
    a_call_that_failed_alone_is_in_no_bids_way,
    a_ticket_of_a_target_is_handed_out_behind_the_others_of_its_stretch_if_that_is_the_last,
];

const NOW: Timestamp = Timestamp(1_000);
const LIMITS: Limits = Limits { in_flight: Some(10), least: None, gap_ms: Some(100), share: None };

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
    assert_eq!(store.give_back(&route(), &batch, NOW.plus_ms(29_999), None).await.unwrap(), None);
    assert_eq!(in_flight(&store.gate(&route()).await.unwrap()), ["b1", "b2"]);
    // A repeat, whose answer says that there was none, does no harm.
    let ended = Some(NOW.plus_ms(2_000));
    let left = store.give_back(&route(), &batch, lease, ended).await.unwrap();
    let gate = store.gate(&route()).await.unwrap();
    assert_eq!(left.unwrap_or_else(|| gate.clone()), gate, "as it is then");
    assert_eq!(in_flight(&gate), ["b2"]);
    assert_eq!(gate.ends, Ends { calls: 1, left_ms: 28_000 }, "once, whatever is repeated");
    assert!(gate.revision > one.revision.next(), "a write from before is refused");
    assert_eq!(store.give_back(&route(), &batch, lease, None).await.unwrap(), None, "there is none any more");
    assert_eq!(store.give_back(&Scope::Target(target("a")), &batch, lease, None).await.unwrap(), None);
    let _: Option<Gate> = store.give_back(&route(), &BatchId::new("b2"), lease, None).await.unwrap();
    let left = store.gate(&route()).await.unwrap();
    assert_eq!((in_flight(&left), left.ends), (Vec::<&str>::new(), gate.ends), "no call has ended");
}

/// A gate of places at which the line has come to ticket 7.
fn at_turn(turn: u64, places: usize) -> (Gate, Limits) {
    let line = Line { next: 20, next_at: NOW.plus_ms(60_000), gap_ms: 100, ..Line::default() };
    let busy = admit(&Gate::default(), "b1");
    let limits = Limits { in_flight: Some(places), gap_ms: None, ..LIMITS };
    (Gate { turn, line, ..busy }, limits)
}

fn bid(gate: &Gate, batch: &str, number: u64, limits: Limits) -> Bid {
    let by = SessionId::of_handler(&format!("of-{batch}"));
    gate.bid((&BatchId::new(batch), &by), number, limits).expect("all that counts is whether a place is free")
}

async fn a_place_that_is_bid_for_is_taken_whatever_was_written_since_in_its_turn(store: impl Fixture) {
    let (seen, limits) = at_turn(7, 3);
    assert_eq!(store.store_gate(&route(), &seen, NOW).await.unwrap(), Stored::Yes);
    let (seventh, ninth) = (bid(&seen, "b7", 7, limits), bid(&seen, "b9", 9, limits));
    let (lease, later) = (NOW.plus_ms(30_000), NOW.plus_ms(50));
    let refused = store.take_place(&route(), &ninth, lease, NOW).await.unwrap();
    assert_eq!((refused.clone(), ninth.is_won(&refused, lease)), (seen.clone(), false), "two are before it");
    store.take_ticket(&route(), &seen, None, NOW).await.unwrap().expect("the line is busy");
    let taken = store.take_place(&route(), &seventh, lease, later).await.unwrap();
    assert!(seventh.is_won(&taken, lease), "{taken:?}");
    assert_eq!((in_flight(&taken), taken.turn), (vec!["b1", "b7"], 8));
    assert!(taken.line.next > seen.line.next, "the ticket that was handed out since is");
    assert_eq!(store.gate(&route()).await.unwrap(), taken);
    assert!(taken.revision > seen.revision.next(), "a write from before is refused");
    // A repeat, and one whose turn is long past.
    let again = store.take_place(&route(), &seventh, lease, later).await.unwrap();
    assert_eq!((again.clone(), seventh.is_won(&again, lease)), (taken.clone(), true));
    let third = bid(&taken, "b3", 3, limits);
    let passed = store.take_place(&route(), &third, lease, later).await.unwrap();
    assert_eq!((in_flight(&passed), passed.turn, third.is_won(&passed, lease)), (vec!["b1", "b3", "b7"], 8, true));
}

async fn a_bid_that_another_one_was_faster_than_shows_the_gate(store: impl Fixture) {
    let (seen, limits) = at_turn(7, 2);
    assert_eq!(store.store_gate(&route(), &seen, NOW).await.unwrap(), Stored::Yes);
    let (lease, mine, other) = (NOW.plus_ms(30_000), bid(&seen, "b7", 7, limits), bid(&seen, "b6", 6, limits));
    assert!(other.is_won(&store.take_place(&route(), &other, lease, NOW).await.unwrap(), lease));
    let full = store.take_place(&route(), &mine, lease, NOW).await.unwrap();
    assert_eq!((in_flight(&full), mine.is_won(&full, lease)), (vec!["b1", "b6"], false));
    let _: Option<Gate> = store.give_back(&route(), &BatchId::new("b1"), lease, None).await.unwrap();
    // Another delivery of the same batch, in the same millisecond, has not won if this one has.
    let twin = Bid { by: SessionId::of_handler("another"), ..mine.clone() };
    let taken = store.take_place(&route(), &mine, lease, NOW).await.unwrap();
    let of_twin = store.take_place(&route(), &twin, lease, NOW).await.unwrap();
    assert_eq!((mine.is_won(&taken, lease), twin.is_won(&of_twin, lease)), (true, false));
    assert_eq!(of_twin, taken);
}

async fn a_bid_takes_nothing_at_a_gate_that_is_closed_or_has_something_to_say(store: impl Fixture) {
    let (seen, limits) = at_turn(7, 3);
    let (lease, mine) = (NOW.plus_ms(30_000), bid(&seen, "b7", 7, limits));
    let failure = Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream };
    let (call, heeds) = (BatchId::new("c"), Heeds { longest_pause_ms: 5, tells: true });
    let failed = |gate: &Gate| gate.failed((&call, &call), &failure, heeds, NOW).0.expect("it is told");
    let of_target = Target::of(&RouteName::new("parcels"), "x");
    let cases = [
        ("paused", seen.paused(NOW.plus_ms(5_000), NOW)),
        ("held", seen.held(None, NOW)),
        ("a Target held", seen.target_held(&of_target, None, NOW)),
        ("in trouble", Some(failed(&seen))),
        ("draining", seen.drains_with(NOW)),
    ];
    for (name, gate) in cases {
        let (scope, gate) = (Scope::Route(RouteName::new(name.replace(' ', "-"))), gate.expect("it was open"));
        for gate in [&seen, &gate] {
            assert_eq!(store.store_gate(&scope, gate, NOW).await.unwrap(), Stored::Yes, "{name}");
        }
        let refused = store.take_place(&scope, &mine, lease, NOW).await.unwrap();
        assert_eq!((&refused, mine.is_won(&refused, lease)), (&gate, false), "{name}");
    }
    let later = NOW.plus_ms(60_000);
    for over in ["paused", "draining"] {
        let scope = Scope::Route(RouteName::new(over));
        let taken = store.take_place(&scope, &mine, later.plus_ms(1), later).await.unwrap();
        assert!(mine.is_won(&taken, later.plus_ms(1)), "{over}");
    }
    let none = store.take_place(&route(), &mine, lease, NOW).await.unwrap();
    assert_eq!((none, store.gate(&route()).await.unwrap()), (Gate::default(), Gate::default()));
}

async fn a_call_that_failed_alone_is_in_no_bids_way(store: impl Fixture) {
    let (seen, limits) = at_turn(7, 3);
    let failure = Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream };
    let (call, heeds) = (BatchId::new("c"), Heeds { longest_pause_ms: 5, tells: true });
    let failed = seen.failed((&call, &call), &failure, heeds, NOW).0.expect("it is told");
    let answered = failed.answered(&BatchId::new("another"), NOW).expect("it is told");
    assert!(!answered.health.alone.is_empty(), "{answered:?}");
    for gate in [&seen, &failed, &answered] {
        assert_eq!(store.store_gate(&route(), gate, NOW).await.unwrap(), Stored::Yes);
    }
    let (lease, mine) = (NOW.plus_ms(30_000), bid(&answered, "b7", 7, limits));
    let taken = store.take_place(&route(), &mine, lease, NOW).await.unwrap();
    assert!(mine.is_won(&taken, lease), "{taken:?}");
    assert_eq!(taken.health, answered.health);
}
