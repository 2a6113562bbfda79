//! What a gate says that was seen a moment ago.

use super::*;

const LEASE_MS: u64 = 10_000;

/// What the gate foretells to `b`, which asks so.
fn foretold(gate: &Gate, (asks, is_new): (Asks, bool), limits: Limits, (seen_at, now): (u64, u64)) -> Foretold {
    let (batch, seen_at) = (&BatchId::new("b"), Timestamp(seen_at));
    let who = Recalls { batch, is_new, asks, lease_ms: LEASE_MS, seen_at, since: seen_at };
    gate.foretells(&who, limits, Timestamp(now))
}

const NEW: (Asks, bool) = (Asks::Anew, true);

#[test]
fn a_new_batch_lines_up_behind_a_crowd_that_was_seen_a_moment_ago() {
    let (gate, _) = crowd(100, 1_000);
    assert_eq!(foretold(&gate, NEW, paced(100), (1_000, 4_000)), Foretold::LinesUp(None));
    assert_eq!(foretold(&gate, NEW, paced(100), (1_000, 4_001)), Foretold::Nothing, "it is too long ago");
    let (few, _) = crowd(3, 1_000);
    assert_eq!(foretold(&few, NEW, paced(100), (1_000, 1_000)), Foretold::Nothing, "it may go");
}

#[test]
fn a_ticket_that_the_gate_did_not_know_yet_is_not_lost() {
    let (gate, _) = crowd(100, 1_000);
    let unknown = Asks::With(gate.line.next);
    assert!(matches!(ask(&gate, "b", unknown, paced(100), 1_000), Admission::Later { ticket: Some(_), .. }));
    assert_eq!(foretold(&gate, (unknown, false), paced(100), (1_000, 1_000)), Foretold::Nothing);
    // A batch with a ticket of its other gate, too.
    assert_eq!(foretold(&gate, (Asks::Anew, false), paced(100), (1_000, 1_000)), Foretold::Nothing);
}

#[test]
fn a_time_is_foretold_that_is_soon_or_as_far_ahead_as_the_sight_is_old() {
    let (gate, tickets) = crowd(300, 1_000);
    let (number, until) = tickets[250];
    let (waits, asks) = (Foretold::Waits { number, until }, (Asks::With(number), false));
    for (now, said) in [
        (1_000, waits),
        (until.0 / 2, waits),
        (until.0 / 2 + 502, Foretold::Nothing),
        (until.0 - 100, Foretold::Nothing),
    ] {
        assert_eq!(foretold(&gate, asks, paced(100), (1_000, now)), said, "{now}");
    }
    let seen_at = until.0 - 2_000;
    assert_eq!(foretold(&gate, asks, paced(100), (seen_at, until.0 - 100)), waits);
}

#[test]
fn a_gate_that_was_closed_is_looked_at() {
    let (gate, tickets) = crowd(300, 1_000);
    let asks = (Asks::With(tickets[200].0), false);
    let closed = [
        gate.paused(Timestamp(9_000), Timestamp(1_000)),
        gate.held(None, Timestamp(1_000)),
        gate.drains_with(Timestamp(1_000)),
        gate.target_held(&Target::of(&RouteName::new("r"), "t"), None, Timestamp(1_000)),
    ];
    for gate in closed.into_iter().flatten() {
        for who in [asks, NEW] {
            assert_eq!(foretold(&gate, who, paced(100), (1_000, 1_500)), Foretold::Nothing, "{gate:?}");
        }
    }
}

#[test]
fn a_gate_without_limits_lets_all_pass_as_far_as_was_seen() {
    assert_eq!(foretold(&Gate::default(), NEW, Limits::default(), (1_000, 60_000)), Foretold::AllPass);
}

#[test]
fn a_place_that_may_be_free_by_now_is_one_to_ask_for() {
    let (one, _) = admitted(&Gate::default(), "a", ONE, 1_000);
    let (full, number, _) = waits(&one, "b", ONE, 1_000);
    let Foretold::Waits { number: own, until } = foretold(&full, (Asks::With(number), false), ONE, (1_000, 1_500))
    else {
        panic!("it waits")
    };
    assert!(own == number && until < Timestamp(1_500), "{until:?}");
    let free = full.without(&BatchId::new("a")).unwrap();
    let now = Foretold::Waits { number, until: Timestamp(1_500) };
    assert_eq!(foretold(&free, (Asks::With(number), false), ONE, (1_000, 1_500)), now);
}

#[test]
fn a_batch_with_a_time_of_its_own_looks_just_before_it_and_one_that_waits_for_a_place_at_it() {
    let ticket = |at| Ticket { of: Of::Route, number: 1, attempts: 0, at: Timestamp(at) };
    let early = |at, limits| ticket(at).early_ms(limits, Timestamp(1_000));
    assert_eq!([0, 900, 1_010, 1_900].map(|at| early(at, paced(100))), [0, 0, 0, 860]);
    assert_eq!([0, 900, 1_010, 1_900].map(|at| early(at, ONE)), [0, 0, 10, 900]);
    assert_eq!(early(1_000 + IN_PLACE_MS + 1, ONE), 0, "it comes back");
}

#[test]
fn a_batch_that_missed_its_time_is_told_none_of_its_own() {
    let (gate, tickets) = crowd(300, 1_000);
    let (number, at) = tickets[0];
    assert_eq!(gate.own_time(number, paced(100), at), at);
    assert_eq!(gate.own_time(number, paced(100), at.plus_ms(3_000)), Timestamp::default(), "all ask at any time then");
    assert_eq!(gate.own_time(number, ONE, at.plus_ms(3_000)), at.plus_ms(3_000), "a place is expected then");
}
