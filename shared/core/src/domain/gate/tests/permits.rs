//! Permits: acquired, renewed, given back, waited for.

use super::*;

#[test]
fn a_full_gate_admits_nobody_until_a_lease_is_over() {
    let (one, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let (full, ticket, _) = waits(&one, "b", ONE, 10_999);
    let Admission::Admitted(Some(next), _) = ask(&full, "b", Asks::With(ticket), ONE, 11_000) else { panic!("full") };
    assert_eq!(next.permits.leases.keys().collect::<Vec<_>>(), [&BatchId::new("b")]);
}

#[test]
fn nobody_gives_a_permit_back_that_another_worker_has_taken_over() {
    let a = BatchId::new("a");
    let (first, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let (second, _) = admitted(&first, "a", ONE, 1_005);
    assert_eq!(second.given_back(&a, Timestamp(11_000), None), None);
    assert!(second.given_back(&a, Timestamp(11_005), None).is_some_and(|gate| !gate.counts(&a)));
    // Two that begin in one moment, and one whose clock is slow.
    for now in [1_000, 400] {
        let (second, _) = admitted(&first, "a", ONE, now);
        assert_eq!(
            (second.lease(&a, Timestamp(now)), second.given_back(&a, Timestamp(11_000), None)),
            (Some(Timestamp(11_001)), None)
        );
    }
}

#[test]
fn one_call_more_of_the_same_worker_keeps_the_lease_that_it_knows() {
    let a = BatchId::new("a");
    let (first, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let Admission::Admitted(Some(again), _) = ask(&first, "a", Asks::Again, ONE, 1_000) else {
        panic!("it has a place")
    };
    assert_eq!(again.lease(&a, Timestamp(1_000)), Some(Timestamp(11_000)));
    assert_eq!(again.lease(&a, Timestamp(11_000)), None, "it is over");
}

#[test]
fn a_second_delivery_that_is_let_through_as_the_probe_knows_a_lease_of_its_own() {
    let (a, lease) = (BatchId::new("a"), Timestamp(100_000));
    let admit = |gate: &Gate, asks, now| match gate.admit(&a, asks, ONE, Timestamp(now), lease) {
        Admission::Admitted(Some(gate), _) => gate,
        other => panic!("not admitted: {other:?}"),
    };
    let first = admit(&Gate::default(), Asks::Anew, 1_000);
    let failure = Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Ours };
    let policy = BreakerPolicy { longest_pause_ms: 5, notifies: false };
    let away = first.failed((&a, &a), &failure, policy, Timestamp(1_000)).0.expect("its outage begins");
    let lease_of = |asks| admit(&away, asks, 20_000).lease(&a, Timestamp(20_000));
    assert_eq!(lease_of(Asks::Anew), Some(lease.plus_ms(1)), "the clock of one is slow");
    assert_eq!(lease_of(Asks::Again), Some(lease), "it is the same worker's");
}

#[test]
fn a_permit_that_is_given_back_changes_nothing_else() {
    let (a, b) = (BatchId::new("a"), BatchId::new("b"));
    let (taken, _) = admitted(&Gate::default(), "a", ONE, 101_000);
    let paused = taken.paused(Timestamp(101_050)).unwrap();
    assert!(paused.counts(&a) && !paused.counts(&b));
    assert_eq!((paused.paused(Timestamp(101_050)), paused.without(&b)), (None, None));
    let left = paused.without(&a).unwrap();
    assert_eq!((left.paused_until, left.permits.leases.len()), (Timestamp(101_050), 0));
    let revisions = [&Gate::default(), &taken, &paused, &left].map(|gate| gate.revision);
    assert!(revisions.is_sorted_by(|before, after| before < after), "each is a write");
}

#[test]
fn the_same_batch_never_takes_two_permits() {
    let (one, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    assert_eq!(admitted(&one, "a", ONE, 1_005).0.permits.leases.len(), 1);
}

#[test]
fn a_permit_that_is_kept_for_a_wait_lasts_longer_and_never_shorter() {
    let (one, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let kept = one.kept(&BatchId::new("a"), Timestamp(70_000)).expect("it has a place");
    assert_eq!(kept.permits.leases.values().collect::<Vec<_>>(), [&Timestamp(70_000)]);
    assert_eq!(kept.kept(&BatchId::new("a"), Timestamp(60_000)), None);
    assert_eq!(kept.kept(&BatchId::new("b"), Timestamp(90_000)), None);
}

#[test]
fn permits_are_taken_in_the_order_of_the_tickets() {
    let two = Limits { in_flight: Some(2), ..Limits::default() };
    let (gate, _) = admitted(&Gate::default(), "a", two, 101_000);
    let (gate, _) = admitted(&gate, "b", two, 101_000);
    let (gate, first, _) = waits(&gate, "c", two, 101_001);
    let (gate, second, _) = waits(&gate, "d", two, 101_002);
    let gate = gate.given_back(&BatchId::new("a"), Timestamp(u64::MAX), Some(Timestamp(101_300))).expect("in flight");
    let passes = |gate: &Gate, batch, asks| matches!(ask(gate, batch, asks, two, 101_400), Admission::Admitted(..));
    assert!(!passes(&gate, "newcomer", Asks::Anew), "the place is kept for those that wait");
    assert!(!passes(&gate, "d", Asks::With(second)), "and for the first of them");
    assert!(passes(&gate, "c", Asks::With(first)));
    let both = gate.without(&BatchId::new("b")).expect("in flight");
    assert!(passes(&both, "d", Asks::With(second)), "there is one for the second, too");
}

#[test]
fn the_first_that_waits_is_not_overtaken_before_its_permit_is_back() {
    let (gate, _) = admitted(&Gate::default(), "a", ONE, 101_000);
    let (gate, first, _) = waits(&gate, "b", ONE, 101_000);
    let (gate, second, _) = waits(&gate, "c", ONE, 101_250);
    let gate = gate.given_back(&BatchId::new("a"), Timestamp(u64::MAX), Some(Timestamp(101_300))).expect("in flight");
    let passes = |batch, asks| matches!(ask(&gate, batch, asks, ONE, 101_750), Admission::Admitted(..));
    assert!(!passes("c", Asks::With(second)), "the line began anew while its first one waited");
    assert!(passes("b", Asks::With(first)));
}

#[test]
fn a_batch_that_comes_back_with_its_permit_passes_no_other_over() {
    let (gate, _) = admitted(&Gate::default(), "a", ONE, 101_000);
    let (gate, first, _) = waits(&gate, "b", ONE, 101_001);
    let (gate, second, _) = waits(&gate, "c", ONE, 101_002);
    // It had to wait at a wider limit meanwhile.
    let (gate, _) = admitted(&gate, "a", ONE, 101_500);
    assert_eq!([first, second].map(|ticket| gate.queue.ahead(ticket, Share::ALL, 1)), [0, 1]);
}

#[test]
fn a_permit_is_not_kept_for_long_for_a_batch_that_does_not_come() {
    let (gate, _) = admitted(&Gate::default(), "a", ONE, 101_000);
    let (gate, _, _) = waits(&gate, "lost", ONE, 101_001);
    let (gate, second, at) = waits(&gate, "b", ONE, 101_002);
    let gate = gate.without(&BatchId::new("a")).expect("in flight");
    let said = ask(&gate, "b", Asks::With(second), ONE, at.0 + KEPT_MS);
    assert!(matches!(said, Admission::Admitted(Some(_), _)), "{said:?}");
}

#[test]
fn those_that_wait_for_permits_come_back_by_how_long_calls_hold_them() {
    let (mut gate, _) = admitted(&Gate::default(), "b0", ONE, 101_000);
    let mut tickets = Vec::new();
    for n in 1..50 {
        let (next, ticket, _) = waits(&gate, &format!("b{n}"), ONE, 101_000 + n);
        gate = next;
        tickets.push(ticket);
    }
    // Calls of three seconds: much longer than was guessed.
    for (n, ticket) in tickets.iter().take(20).enumerate() {
        let now = 104_000 + 3_000 * n as u64;
        let batch = BatchId::new(format!("b{n}"));
        gate = gate.given_back(&batch, gate.permits.leases[&batch], Some(Timestamp(now))).expect("in flight");
        let said = ask(&gate, &format!("b{}", n + 1), Asks::With(*ticket), ONE, now);
        let Admission::Admitted(Some(next), _) = said else { panic!("{n}: {said:?}") };
        gate = next;
    }
    let now = 104_000 + 3_000 * 19;
    let said = ask(&gate, "b40", Asks::With(tickets[39]), ONE, now + 10);
    let Admission::Later { gate: None, ticket: Some(_), at } = said else { panic!("{said:?}") };
    assert!((59_000..=61_000).contains(&at.since(Timestamp(now))), "twenty places of three seconds: {at:?}");
}

#[test]
fn beside_a_limit_on_permits_calls_keep_the_distance_of_the_rate() {
    let both = Limits { in_flight: Some(3), rates: Rates::every(1_000), share: None };
    let (mut gate, mut now, mut starts, mut waiting) = (Gate::default(), 101_000, Vec::new(), Vec::new());
    for n in 0..10 {
        waiting.push((format!("b{n}"), Asks::Anew));
    }
    while !waiting.is_empty() && now < 200_000 {
        for (batch, asks) in std::mem::take(&mut waiting) {
            match ask(&gate, &batch, asks, both, now) {
                Admission::Admitted(next, start) => {
                    gate = next.expect("it has a place");
                    starts.push(start);
                    gate = gate.without(&BatchId::new(batch)).expect("in flight");
                }
                Admission::Later { gate: next, ticket, .. } => {
                    gate = next.unwrap_or(gate);
                    waiting.push((batch, ticket.map_or(asks, Asks::With)));
                }
                other @ (Admission::LinesUp { .. } | Admission::Away { .. }) => panic!("{other:?}"),
            }
        }
        now += 100;
    }
    assert_eq!(starts.len(), 10, "{waiting:?}");
    assert!(starts.windows(2).all(|pair| pair[1].since(pair[0]) >= 1_000), "{starts:?}");
    assert!(starts[9].since(starts[0]) < 12_000, "{starts:?}");
}
