use std::collections::BTreeMap;

use proptest::prelude::*;

use super::admission::{KEPT_MS, LOST_MS};
use super::line::SETTLED_MS;
use super::*;
use crate::domain::outcome::{Failure, Fault, Reason};

const ONE: Limits = Limits { in_flight: Some(1), least: None, gap_ms: None, share: None };

fn paced(gap_ms: u64) -> Limits {
    Limits { in_flight: None, least: None, gap_ms: Some(gap_ms), share: None }
}

fn ask(gate: &Gate, batch: &str, asks: Asks, limits: Limits, now: u64) -> Admission {
    match gate.admit(&BatchId::new(batch), asks, limits, Timestamp(now), Timestamp(now + 10_000)) {
        Admission::LinesUp { stretch } => {
            let gate = gate.with_ticket(stretch, Timestamp(now)).expect("the line is busy");
            let (ticket, at) = gate.last_ticket(stretch).expect("it has a last one");
            Admission::Later { gate: Some(gate), ticket: Some(ticket), at }
        }
        other @ (Admission::Admitted(..) | Admission::Later { .. } | Admission::Away { .. }) => other,
    }
}

fn admitted(gate: &Gate, batch: &str, limits: Limits, now: u64) -> (Gate, Timestamp) {
    match ask(gate, batch, Asks::Anew, limits, now) {
        Admission::Admitted(Some(gate), start) => (gate, start),
        other => panic!("not admitted: {other:?}"),
    }
}

/// The gate once a batch has its ticket, with that and its time.
fn waits(gate: &Gate, batch: &str, limits: Limits, now: u64) -> (Gate, u64, Timestamp) {
    match ask(gate, batch, Asks::Anew, limits, now) {
        Admission::Later { gate: Some(gate), ticket: Some(ticket), at } => (gate, ticket, at),
        other => panic!("it does not wait with a ticket: {other:?}"),
    }
}

/// A gate of ten calls a second at which this many wait, with their tickets and times.
fn crowd(size: usize, now: u64) -> (Gate, Vec<(u64, Timestamp)>) {
    let (mut gate, mut tickets) = (Gate::default(), Vec::new());
    for n in 0..size {
        match ask(&gate, &format!("b{n}"), Asks::Anew, paced(100), now) {
            Admission::Admitted(Some(next), _) => gate = next,
            Admission::Later { gate: Some(next), ticket: Some(ticket), at } => {
                gate = next;
                tickets.push((ticket, at));
            }
            other => panic!("{other:?}"),
        }
    }
    (gate, tickets)
}

#[test]
fn a_full_gate_admits_nobody_until_a_lease_is_over() {
    let (one, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let (full, ticket, _) = waits(&one, "b", ONE, 10_999);
    let Admission::Admitted(Some(next), _) = ask(&full, "b", Asks::With(ticket), ONE, 11_000) else { panic!("full") };
    assert_eq!(next.in_flight.keys().collect::<Vec<_>>(), [&BatchId::new("b")]);
}

#[test]
fn nobody_gives_a_place_back_that_another_worker_has_taken_over() {
    let a = BatchId::new("a");
    let (first, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let (second, _) = admitted(&first, "a", ONE, 1_005);
    assert_eq!(second.left(&a, Timestamp(11_000)), None);
    assert!(second.left(&a, Timestamp(11_005)).is_some_and(|gate| !gate.counts(&a)));
    // Two that begin in one moment, and one whose clock is slow.
    for now in [1_000, 400] {
        let (second, _) = admitted(&first, "a", ONE, now);
        assert_eq!(
            (second.lease(&a, Timestamp(now)), second.left(&a, Timestamp(11_000))),
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
    let heeds = Heeds { longest_pause_ms: 5, tells: false };
    let away = first.failed((&a, &a), &failure, heeds, Timestamp(1_000)).0.expect("its outage begins");
    let lease_of = |asks| admit(&away, asks, 20_000).lease(&a, Timestamp(20_000));
    assert_eq!(lease_of(Asks::Anew), Some(lease.plus_ms(1)), "the clock of one is slow");
    assert_eq!(lease_of(Asks::Again), Some(lease), "it is the same worker's");
}

#[test]
fn each_gate_has_a_key_of_its_own_and_none_that_a_target_has() {
    let route = RouteName::new("r");
    let scopes = [Scope::Route(route.clone()), Scope::Target(Target::of(&route, ""))];
    assert_eq!(scopes.map(|scope| scope.key()), ["#route:r", "#target:r:"]);
}

#[test]
fn a_place_that_is_given_back_changes_nothing_else() {
    let (a, b) = (BatchId::new("a"), BatchId::new("b"));
    let (taken, _) = admitted(&Gate::default(), "a", ONE, 101_000);
    let paused = taken.paused(Timestamp(101_050), Timestamp(101_000)).unwrap();
    assert!(paused.counts(&a) && !paused.counts(&b));
    assert_eq!((paused.paused(Timestamp(101_050), Timestamp(101_000)), paused.without(&b)), (None, None));
    let left = paused.without(&a).unwrap();
    assert_eq!((left.paused_until, left.in_flight.len()), (Timestamp(101_050), 0));
    let revisions = [&Gate::default(), &taken, &paused, &left].map(|gate| gate.revision);
    assert!(revisions.is_sorted_by(|before, after| before < after), "each is a write");
}

#[test]
fn the_same_batch_never_takes_two_places() {
    let (one, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    assert_eq!(admitted(&one, "a", ONE, 1_005).0.in_flight.len(), 1);
}

#[test]
fn a_place_that_is_kept_for_a_wait_lasts_longer_and_never_shorter() {
    let (one, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let kept = one.kept(&BatchId::new("a"), Timestamp(70_000)).expect("it has a place");
    assert_eq!(kept.in_flight.values().collect::<Vec<_>>(), [&Timestamp(70_000)]);
    assert_eq!(kept.kept(&BatchId::new("a"), Timestamp(60_000)), None);
    assert_eq!(kept.kept(&BatchId::new("b"), Timestamp(90_000)), None);
}

#[test]
fn two_that_reserve_one_time_do_not_write_the_same() {
    let ((mine, start), (theirs, same)) =
        (admitted(&Gate::default(), "a", paced(100), 1_000), admitted(&Gate::default(), "b", paced(100), 1_000));
    assert_eq!(start, same);
    assert_ne!(mine, theirs);
}

#[test]
fn nobody_passes_during_a_pause_and_a_shorter_one_does_not_end_it() {
    let paused = Gate::default().paused(Timestamp(1_100), Timestamp(1_000)).expect("open before");
    assert_eq!(paused.paused(Timestamp(1_050), Timestamp(1_000)), None);
    let said = ask(&paused, "a", Asks::Anew, Limits::default(), 1_099);
    assert_eq!(said, Admission::Later { gate: None, ticket: None, at: Timestamp(1_100) });
    let said = ask(&paused, "a", Asks::Anew, Limits::default(), 1_100);
    assert_eq!(said, Admission::Admitted(None, Timestamp(1_100)));
}

#[test]
fn those_that_wait_are_one_gap_apart_in_the_order_in_which_they_came() {
    let (gate, tickets) = crowd(1_000, 1_000);
    assert!(tickets.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1 && pair[1].1.since(pair[0].1) == 100));
    let (_, ticket, at) = waits(&gate, "newcomer", paced(100), 30_000);
    assert!(tickets.iter().all(|(other, time)| *other < ticket && *time < at), "a newcomer overtakes nobody");
}

#[test]
fn a_batch_whose_time_has_come_passes_without_a_write_and_before_that_waits_on() {
    let (gate, tickets) = crowd(100, 1_000);
    let (ticket, at) = tickets[50];
    let said = ask(&gate, "b", Asks::With(ticket), paced(100), at.0 - IN_PLACE_MS);
    assert_eq!(said, Admission::Admitted(None, at));
    let said = ask(&gate, "b", Asks::With(ticket), paced(100), at.0 - IN_PLACE_MS - 1);
    assert_eq!(said, Admission::Later { gate: None, ticket: Some(ticket), at });
}

#[test]
fn a_pause_moves_all_that_wait_by_one_write_and_keeps_their_distance() {
    let (gate, tickets) = crowd(1_000, 1_000);
    let paused = gate.paused(Timestamp(60_000), Timestamp(10_000)).expect("it is longer");
    let moved: Vec<Timestamp> = tickets
        .iter()
        .filter(|(_, at)| at.0 >= 10_000 + SETTLED_MS)
        .map(|(ticket, _)| paused.line.at(*ticket))
        .collect();
    assert_eq!(moved.first(), Some(&Timestamp(60_000)));
    assert!(moved.windows(2).all(|pair| pair[1].since(pair[0]) == 100));
}

#[test]
fn a_batch_that_comes_during_a_pause_waits_behind_those_that_came_before() {
    let (gate, tickets) = crowd(100, 1_000);
    let paused = gate.paused(Timestamp(60_000), Timestamp(2_000)).expect("it is longer");
    let (next, _, first) = waits(&paused, "x", paced(100), 5_000);
    let (_, _, second) = waits(&next, "y", paced(100), 5_000);
    let last = paused.line.at(tickets[tickets.len() - 1].0);
    assert_eq!([first.since(last), second.since(first)], [100, 100]);
    let (_, _, alone) =
        waits(&Gate::default().paused(Timestamp(9_000), Timestamp(1_000)).unwrap(), "z", paced(1), 1_000);
    assert_eq!(alone, Timestamp(9_000));
}

#[test]
fn a_batch_that_missed_its_time_gets_one_before_the_newcomers_and_moves_the_rest_by_a_gap() {
    let (gate, tickets) = crowd(100, 1_000);
    let (ticket, at) = tickets[0];
    let now = at.0 + 500;
    let Admission::Admitted(Some(next), start) = ask(&gate, "late", Asks::With(ticket), paced(100), now) else {
        panic!("there is room")
    };
    assert!(start.since(Timestamp(now)) > IN_PLACE_MS, "no batch that waits in place is disturbed");
    assert!(tickets.iter().all(|(ticket, _)| next.line.at(*ticket) != start));
    let last = tickets[tickets.len() - 1];
    assert_eq!(next.line.at(last.0), last.1.plus_ms(100));
}

#[test]
fn a_ticket_that_is_lost_costs_its_time_and_no_other() {
    let (gate, tickets) = crowd(100, 1_000);
    let (_, before) = tickets[49];
    let (after, at) = tickets[51];
    assert_eq!(at.since(before), 200, "the time between is that of the lost one");
    assert_eq!(ask(&gate, "b", Asks::With(after), paced(100), at.0 - 500), Admission::Admitted(None, at));
    let (gate, tickets) = crowd(1_000, 1_000);
    let said = ask(&gate, "b", Asks::With(tickets[0].0), paced(100), tickets[0].1.0 + LOST_MS);
    let Admission::Later { ticket: Some(anew), .. } = said else { panic!("it waits anew") };
    assert!(tickets.iter().all(|(ticket, _)| *ticket < anew), "a ticket that is half a minute old is none");
}

#[test]
fn tickets_of_a_gate_that_was_forgotten_are_none_of_the_new_one() {
    let (_, tickets) = crowd(100, 1_000);
    let (mut anew, mut now) = (Gate::default(), 900_000);
    for n in 0..200 {
        now += 1;
        match ask(&anew, &n.to_string(), Asks::Anew, paced(100), now) {
            Admission::Admitted(Some(gate), _) | Admission::Later { gate: Some(gate), .. } => anew = gate,
            other => panic!("{other:?}"),
        }
    }
    for (ticket, _) in tickets {
        assert!(anew.line.time(ticket).is_none());
    }
}

#[test]
fn places_are_taken_in_the_order_of_the_tickets() {
    let two = Limits { in_flight: Some(2), least: None, gap_ms: None, share: None };
    let (gate, _) = admitted(&Gate::default(), "a", two, 101_000);
    let (gate, _) = admitted(&gate, "b", two, 101_000);
    let (gate, first, _) = waits(&gate, "c", two, 101_001);
    let (gate, second, _) = waits(&gate, "d", two, 101_002);
    let gate = gate.without(&BatchId::new("a")).expect("in flight");
    let passes = |gate: &Gate, batch, asks| matches!(ask(gate, batch, asks, two, 101_400), Admission::Admitted(..));
    assert!(!passes(&gate, "newcomer", Asks::Anew), "the place is kept for those that wait");
    assert!(!passes(&gate, "d", Asks::With(second)), "and for the first of them");
    assert!(passes(&gate, "c", Asks::With(first)));
    let both = gate.without(&BatchId::new("b")).expect("in flight");
    assert!(passes(&both, "d", Asks::With(second)), "there is one for the second, too");
}

#[test]
fn the_first_of_a_line_is_not_overtaken_before_its_place_is_back() {
    let (gate, _) = admitted(&Gate::default(), "a", ONE, 101_000);
    let (gate, first, _) = waits(&gate, "b", ONE, 101_000);
    let (gate, second, _) = waits(&gate, "c", ONE, 101_250);
    let gate = gate.without(&BatchId::new("a")).expect("in flight");
    let passes = |batch, asks| matches!(ask(&gate, batch, asks, ONE, 101_750), Admission::Admitted(..));
    assert!(!passes("c", Asks::With(second)), "the line began anew while its first one waited");
    assert!(passes("b", Asks::With(first)));
}

#[test]
fn a_place_is_not_kept_for_long_for_one_that_does_not_come() {
    let (gate, _) = admitted(&Gate::default(), "a", ONE, 101_000);
    let (gate, _, _) = waits(&gate, "lost", ONE, 101_001);
    let (gate, second, at) = waits(&gate, "b", ONE, 101_002);
    let gate = gate.without(&BatchId::new("a")).expect("in flight");
    let said = ask(&gate, "b", Asks::With(second), ONE, at.0 + KEPT_MS);
    assert!(matches!(said, Admission::Admitted(Some(_), _)), "{said:?}");
}

#[test]
fn those_that_wait_for_places_are_told_by_the_pace_that_is_seen() {
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
        gate = gate.given_back(&batch, gate.in_flight[&batch], Some(Timestamp(now))).expect("in flight");
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
fn a_place_that_is_free_is_not_kept_for_tickets_whose_time_has_not_come() {
    let line = Line { next: 1_100, next_at: Timestamp(1_400_000), gap_ms: 5_000, from: 1_000, shifts: Vec::new() };
    let pace = Pace { since: Timestamp(371_250), entries: 100 };
    let gate = Gate { line, pace, turn: 1_000, ..Gate::default() };
    // Two and a half seconds after the time of one ticket, and before that of the next.
    let said = ask(&gate, "b", Asks::Anew, ONE, 1_002_500);
    assert!(matches!(said, Admission::Admitted(Some(_), _)), "{said:?}");
    let said = ask(&gate, "b", Asks::Anew, ONE, 1_004_000);
    assert!(matches!(said, Admission::LinesUp { .. } | Admission::Later { .. }), "{said:?}");
}

#[test]
fn beside_a_limit_on_places_calls_keep_the_distance_of_the_rate() {
    let both = Limits { in_flight: Some(3), least: None, gap_ms: Some(1_000), share: None };
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

#[test]
fn one_call_more_of_a_batch_does_not_wait_for_the_whole_line() {
    let (gate, tickets) = crowd(10_000, 1_000);
    let Admission::Admitted(Some(next), start) = ask(&gate, "b", Asks::Again, paced(100), 5_000) else {
        panic!("there is room")
    };
    assert!(start.0 < 10_000);
    assert!(tickets.iter().all(|(ticket, _)| next.line.at(*ticket) != start));
}

/// Workers whose clocks differ, batches that come at any time with or without their ticket, and pauses.
#[derive(Clone, Debug)]
enum Event {
    Comes,
    Returns { which: usize, early_ms: u64 },
    Vanishes { which: usize },
    Pauses { ms: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Comes),
        4 => (0_usize..40, 0_u64..3_000).prop_map(|(which, early_ms)| Event::Returns { which, early_ms }),
        1 => (0_usize..40).prop_map(|which| Event::Vanishes { which }),
        1 => (1_u64..8_000).prop_map(|ms| Event::Pauses { ms }),
    ]
}

proptest! {
    #[test]
    fn calls_keep_their_distance_and_no_ticket_is_used_twice(
        events in proptest::collection::vec((event(), 0_u64..400, 0_u64..500), 1..300), gap_ms in 20_u64..700,
    ) {
        let (mut gate, mut now, mut pauses) = (Gate::default(), 10_000, Vec::new());
        let mut waiting: Vec<(String, u64, Timestamp)> = Vec::new();
        let mut starts: BTreeMap<Timestamp, String> = BTreeMap::new();
        for (number, (event, wait_ms, skew_ms)) in events.into_iter().enumerate() {
            now += wait_ms;
            let (batch, asks, clock) = match event {
                Event::Comes => (format!("b{number}"), Asks::Anew, now + skew_ms),
                Event::Returns { which, early_ms } if !waiting.is_empty() => {
                    let which = which % waiting.len();
                    let (batch, ticket, at) = waiting.swap_remove(which);
                    now = now.max(at.0.saturating_sub(early_ms));
                    (batch, Asks::With(ticket), now + skew_ms)
                }
                Event::Vanishes { which } if !waiting.is_empty() => {
                    waiting.swap_remove(which % waiting.len());
                    continue;
                }
                Event::Pauses { ms } => {
                    if let Some(paused) = gate.paused(Timestamp(now + ms), Timestamp(now)) {
                        gate = paused;
                        pauses.push((now, now + ms));
                        // The last look before a call finds it.
                        starts.retain(|start, _| start.0 <= now || start.0 >= now + ms);
                    }
                    continue;
                }
                Event::Returns { .. } | Event::Vanishes { .. } => continue,
            };
            match ask(&gate, &batch, asks, paced(gap_ms), clock) {
                Admission::Admitted(next, start) => {
                    gate = next.unwrap_or(gate);
                    prop_assert!(start.0 >= clock, "no call starts in the past");
                    let other = starts.insert(start, batch);
                    prop_assert!(other.is_none(), "{other:?} has this time, too");
                }
                Admission::Later { gate: next, ticket: Some(ticket), at } => {
                    gate = next.unwrap_or(gate);
                    prop_assert!(at.0 >= clock);
                    waiting.push((batch, ticket, at));
                }
                other @ (Admission::LinesUp { .. } | Admission::Later { ticket: None, .. } | Admission::Away { .. }) => prop_assert!(false, "{other:?}"),
            }
            let times: Vec<u64> = starts.keys().map(|start| start.0).collect();
            prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= gap_ms), "{times:?} {gate:?}");
            for (from, until) in &pauses {
                prop_assert!(!times.iter().any(|start| (from + 1..*until).contains(start)), "{times:?}");
            }
        }
    }

    #[test]
    fn no_more_are_in_flight_than_may_be_and_all_that_wait_pass_in_the_end(
        events in proptest::collection::vec((0_u64..300, any::<bool>()), 1..150), most in 1_usize..5,
    ) {
        let limits = Limits { in_flight: Some(most), least: None, gap_ms: None, share: None };
        let (mut gate, mut now) = (Gate::default(), 10_000);
        let (mut inside, mut waiting): (Vec<String>, Vec<(String, Asks)>) = (Vec::new(), Vec::new());
        let mut events = events.into_iter().enumerate();
        for _ in 0..100_000 {
            let asks = match events.next() {
                Some((number, (wait_ms, comes))) => {
                    now += wait_ms;
                    comes.then(|| (format!("b{number}"), Asks::Anew))
                }
                None => None,
            };
            let asks = asks.or_else(|| (!waiting.is_empty()).then(|| waiting.remove(0)));
            if asks.is_none() || inside.len() == most {
                now += 20;
                if let Some(batch) = (!inside.is_empty()).then(|| inside.remove(0)) {
                    gate = gate.without(&BatchId::new(batch)).expect("it is in flight");
                }
            }
            let Some((batch, asks)) = asks else {
                if inside.is_empty() { break } else { continue }
            };
            match ask(&gate, &batch, asks, limits, now) {
                Admission::Admitted(next, _) => {
                    gate = next.expect("a place is written down");
                    inside.push(batch);
                    prop_assert!(inside.len() <= most);
                }
                Admission::Later { gate: next, ticket, .. } => {
                    gate = next.unwrap_or(gate);
                    waiting.push((batch, ticket.map_or(asks, Asks::With)));
                    now += 10;
                }
                other @ (Admission::LinesUp { .. } | Admission::Away { .. }) => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert!(waiting.is_empty() && inside.is_empty(), "{waiting:?} {inside:?}");
        prop_assert!(gate.line.shifts.len() <= 4);
    }
}

/// The lease of a batch that is taken apart is partly over at each of its calls.
#[test]
fn one_call_more_of_a_batch_says_nothing_of_how_long_calls_take() {
    let call = |gate: &Gate, n: u64| {
        let batch = BatchId::new(format!("b{n}"));
        let (gate, _) = admitted(gate, &format!("b{n}"), ONE, 1_000 * n);
        let ended = Timestamp(1_000 * n + 1_000);
        let lease = Timestamp(1_000 * n + 10_000);
        let ends = gate.ends.and(lease, ended);
        Gate { ends, ..gate.left(&batch, lease).expect("it has the place") }
    };
    let gate = (1..10).fold(Gate::default(), |gate, n| call(&gate, n));
    let (gate, _) = admitted(&gate, "a", ONE, 20_000);
    assert_eq!(gate.line.gap_ms, 1_000);
    let a = BatchId::new("a");
    let lease = gate.lease(&a, Timestamp(20_000)).expect("it has the place");
    let Admission::Admitted(Some(again), _) = gate.admit(&a, Asks::Again, ONE, Timestamp(29_000), lease) else {
        panic!("it has its place")
    };
    assert_eq!(again.line.gap_ms, 1_000);
}
