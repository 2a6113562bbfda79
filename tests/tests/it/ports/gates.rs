//! What every `Gates` must do.

use groupage_core::domain::gate::{Admission, Asks, Flow, Limits, Rates, WaitQueue};
use groupage_lab::prelude::*;

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
    a_flow_that_does_not_wait_hands_out_no_ticket,
    a_place_is_given_back_whatever_was_written_since_unless_another_worker_has_it,
    a_ticket_of_one_flow_leaves_the_others_as_they_are,
];

const NOW: Timestamp = Timestamp(1_000);
const LIMITS: Limits = Limits { in_flight: Some(10), rates: Rates::every(100), share: None };

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
    gate.permits.leases.keys().map(BatchId::as_str).collect()
}

async fn a_gate_that_nobody_wrote_is_open(store: impl Fixture) {
    assert_eq!(store.gate(&route()).await.unwrap(), Gate::default());
}

async fn a_gate_is_read_as_it_was_written(store: impl Fixture) {
    let one = admit(&Gate::default(), "b1");
    let two = admit(&one, "b2");
    let paused = two.paused(NOW.plus_ms(7_000)).expect("it was open");
    let back = paused.without(&BatchId::new("b1")).expect("b1 is in flight");
    let none = back.without(&BatchId::new("b2")).expect("b2 is in flight");
    for gate in [one, two, paused, back, none] {
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

/// A gate at which a batch waits, and its flow.
fn waits() -> (Gate, u64, u64) {
    let full = admit(&admit(&Gate::default(), "b1"), "b2");
    let none = Limits { in_flight: Some(0), ..LIMITS };
    match full.admit(&BatchId::new("b3"), Asks::Anew, none, NOW, NOW.plus_ms(30_000)) {
        Admission::Later { gate: Some(gate), .. } => {
            let (key, flow) = gate.queue.flows.iter().next().expect("it waits");
            (gate.clone(), *key, flow.stride)
        }
        other => panic!("it does not wait: {other:?}"),
    }
}

/// The gates that lead to this one are written, and then this one.
async fn write(store: &impl Gates, gate: &Gate) {
    let one = admit(&Gate::default(), "b1");
    for gate in [&one, &admit(&one, "b2"), gate] {
        assert_eq!(store.store_gate(&route(), gate, NOW).await.unwrap(), Stored::Yes);
    }
}

async fn a_ticket_is_handed_out_whatever_was_written_since(store: impl Fixture) {
    let (gate, flow, stride) = waits();
    write(&*store, &gate).await;
    let last = |gate: &Gate| gate.queue.flows[&flow].last;
    let once = gate.with_ticket(flow, stride).expect("it waits");
    for written in [once.clone(), once.with_ticket(flow, stride).expect("it waits")] {
        let taken = store.take_ticket(&route(), flow, stride).await.unwrap();
        // An answer that was lost costs a ticket.
        assert!(taken.is_some_and(|taken| last(&taken) >= last(&written)));
    }
    let now = store.gate(&route()).await.unwrap();
    assert!(now.queue.waiting() >= gate.queue.waiting() + 2 && now.revision.0 >= gate.revision.0 + 2);
    assert_eq!(store.store_gate(&route(), &once, NOW).await.unwrap(), Stored::Conflict);
}

async fn a_flow_that_does_not_wait_hands_out_no_ticket(store: impl Fixture) {
    let (gate, flow, stride) = waits();
    assert_eq!(store.take_ticket(&route(), flow, stride).await.unwrap(), None);
    write(&*store, &gate).await;
    assert_eq!(store.take_ticket(&route(), flow + 1, stride).await.unwrap(), None);
    assert_eq!(store.gate(&route()).await.unwrap(), gate);
}

async fn a_ticket_of_one_flow_leaves_the_others_as_they_are(store: impl Fixture) {
    let flow = |last| Flow { first: 7, last, stride: 8 };
    let queue = WaitQueue { served: 3, moved: NOW, flows: [(5, flow(15)), (6, flow(7))].into() };
    let gate = Gate { queue, ..waits().0 };
    write(&*store, &gate).await;
    assert_eq!(store.gate(&route()).await.unwrap(), gate);
    let taken = store.take_ticket(&route(), 5, 8).await.unwrap().expect("it waits");
    assert!(taken.queue.flows[&5].last >= 23);
    assert_eq!((taken.queue.flows[&6], taken.queue.served), (flow(7), 3));
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
    let hold_times = |gate: &Gate| (gate.permits.returned, gate.permits.left_ms);
    assert_eq!(hold_times(&gate), (1, 28_000), "once, whatever is repeated");
    assert_eq!(gate.queue.moved, NOW.plus_ms(2_000), "the permit is kept for the first that wait");
    assert!(gate.revision > one.revision.next(), "a write from before is refused");
    assert_eq!(
        store.give_back(&route(), &batch, lease, None).await.unwrap(),
        Stored::Conflict,
        "there is none any more"
    );
    assert_eq!(store.give_back(&Scope::Target(target("a")), &batch, lease, None).await.unwrap(), Stored::Conflict);
    let _: Stored = store.give_back(&route(), &BatchId::new("b2"), lease, None).await.unwrap();
    let left = store.gate(&route()).await.unwrap();
    assert_eq!((in_flight(&left), hold_times(&left)), (Vec::<&str>::new(), (1, 28_000)), "no call has ended");
}
