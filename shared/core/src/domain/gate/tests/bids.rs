//! Places that are taken without a look.

use super::*;

const TWO: Limits = Limits { in_flight: Some(2), ..ONE };

/// A full gate of two places, at which this many wait: with their tickets, in the order in which they came.
fn full(waiting: usize) -> (Gate, Vec<u64>) {
    let (mut gate, mut tickets) = (Gate::default(), Vec::new());
    for name in ["x", "y"] {
        gate = admitted(&gate, name, TWO, 1_000).0;
    }
    for n in 0..waiting {
        let (next, ticket, _) = waits(&gate, &format!("b{n}"), TWO, 1_000);
        (gate, _) = (next, tickets.push(ticket));
    }
    (gate, tickets)
}

fn bid(gate: &Gate, batch: &str, ticket: u64, limits: Limits) -> Option<Bid> {
    gate.bid((&BatchId::new(batch), &SessionId::of_handler("s")), ticket, limits)
}

fn left(gate: &Gate, batch: &str, at: u64) -> Gate {
    gate.given_back(&BatchId::new(batch), Timestamp(90_000), Some(Timestamp(at))).expect("it has a place")
}

#[test]
fn a_bid_wins_in_its_turn_once_a_place_is_free() {
    let (gate, tickets) = full(2);
    let (first, second) = (bid(&gate, "b0", tickets[0], TWO).unwrap(), bid(&gate, "b1", tickets[1], TWO).unwrap());
    let (lease, now) = (Timestamp(12_000), Timestamp(2_000));
    assert_eq!(gate.with_bid(&first, lease, now), None, "no place is free");
    let free = left(&gate, "x", 1_900);
    assert_eq!(free.with_bid(&second, lease, now), None, "it is not its turn");
    let won = free.with_bid(&first, lease, now).expect("it is the first");
    assert!(first.is_won(&won, lease) && !second.is_won(&won, lease) && !first.is_won(&won, now));
    assert_eq!((won.turn, won.lease(&first.batch, now)), (tickets[0] + 1, Some(lease)));
    assert_eq!((won.line.clone(), won.ends, won.revision), (free.line.clone(), free.ends, free.revision.next()));
    assert_eq!(won.with_bid(&first, lease, now), None, "it has a place");
    assert_eq!(won.with_bid(&second, lease, now), None, "all are taken");
    let next = left(&won, "y", 1_950);
    assert!(next.with_bid(&second, lease, now).is_some_and(|gate| gate.turn == tickets[1] + 1));
}

#[test]
fn one_that_was_passed_by_needs_no_turn_and_takes_none_away() {
    let (gate, tickets) = full(3);
    let late = Gate { turn: tickets[2], ..left(&gate, "x", 1_900) };
    let mine = bid(&late, "b0", tickets[0], TWO).unwrap();
    assert!(mine.has_turn(&late) && !mine.has_turn(&gate));
    let won = late.with_bid(&mine, Timestamp(12_000), Timestamp(2_000)).unwrap();
    assert_eq!((won.turn, won.in_flight.len()), (tickets[2], 2));
}

#[test]
fn nobody_bids_where_more_counts_than_a_free_place() {
    let (gate, tickets) = full(1);
    let ticket = tickets[0];
    assert!(bid(&gate, "b0", ticket, TWO).is_some());
    let share = Share::of(&["t"], 1, 9);
    for limits in [
        Limits { gap_ms: Some(100), ..TWO },
        Limits { least: Some(1), ..TWO },
        Limits { share: Some(share), ..TWO },
        paced(100),
        Limits::default(),
    ] {
        assert_eq!(bid(&gate, "b0", ticket, limits), None, "{limits:?}");
    }
    assert_eq!(bid(&gate, "b0", gate.line.next, TWO), None, "a ticket that the gate does not know yet");
    assert_eq!(bid(&gate, "x", ticket, TWO), None, "it has a place");
}

#[test]
fn a_gate_that_is_closed_or_has_something_to_say_takes_no_bid() {
    let (gate, tickets) = full(1);
    let (mine, free) = (bid(&gate, "b0", tickets[0], TWO).unwrap(), left(&gate, "x", 1_900));
    let wins = |gate: &Gate, now| gate.with_bid(&mine, Timestamp(90_000), Timestamp(now)).is_some();
    assert!(wins(&free, 2_000));
    let paused = free.paused(Timestamp(3_000), Timestamp(2_000)).unwrap();
    assert!(!wins(&paused, 2_999) && wins(&paused, 3_000));
    let drains = free.drains_with(Timestamp(2_000)).unwrap();
    assert!(!wins(&drains, 51_999) && wins(&drains, 52_000));
    let held = free.held(None, Timestamp(2_000)).unwrap();
    let failure = Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream };
    let (call, heeds) = (BatchId::new("c"), Heeds { longest_pause_ms: 5, tells: false });
    let failed = free.failed((&call, &call), &failure, heeds, Timestamp(2_000)).0.unwrap();
    assert!(!wins(&held, 2_000) && !wins(&failed, 2_000));
    let alone = failed.answered(&BatchId::new("d"), Timestamp(2_000)).unwrap();
    assert!(!alone.health.is_well() && wins(&alone, 2_000), "a call that failed alone is in nobody's way");
}

#[test]
fn what_follows_from_a_bid_is_written_by_some_and_is_what_follows_from_a_look() {
    let (gate, tickets) = full(2);
    let known = (0..40).fold(gate, |gate, _| Gate { ends: gate.ends.and(Timestamp(11_000), Timestamp(2_000)), ..gate });
    let (free, lease, now) = (left(&known, "x", 1_900), Timestamp(12_000), Timestamp(2_000));
    let mine = bid(&free, "b0", tickets[0], TWO).unwrap();
    let won = free.with_bid(&mine, lease, now).unwrap();
    let Admission::Admitted(Some(looked), _) = ask(&free, "b0", Asks::With(tickets[0]), TWO, 2_000) else {
        panic!("it may go")
    };
    let sixteenth = Bid { slot: 16, ..mine.clone() };
    let written = won.up_to_date(&sixteenth, lease, now).expect("one of sixteen does");
    let of = |gate: &Gate| (gate.in_flight.clone(), gate.turn, gate.ends);
    assert_eq!(of(&written), of(&looked));
    assert_eq!((written.ends.calls, written.revision), (20, won.revision.next()), "the older half is forgotten");
    let other = Bid { slot: 17, ..mine };
    let with_line = |next_at| Gate { line: Line { next_at, ..won.line.clone() }, ..won.clone() };
    let right = written.line.next_at;
    for (wrong_ms, is_written) in [(0, false), (1_000, false), (1_001, true)] {
        let wrong = with_line(right.plus_ms(wrong_ms));
        assert_eq!(wrong.up_to_date(&other, lease, now).is_some(), is_written, "{wrong_ms}");
    }
}
