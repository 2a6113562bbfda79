mod places;
mod random;

use super::admission::{KEPT_MS, LOST_MS};
use super::line::SETTLED_MS;
use super::*;
use crate::domain::outcome::{Failure, Fault, Reason};

const ONE: Limits = Limits { in_flight: Some(1), gap_ms: None, share: None };

fn paced(gap_ms: u64) -> Limits {
    Limits { in_flight: None, gap_ms: Some(gap_ms), share: None }
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

/// When the last of 200 batches goes whose rate of ten a second is changed after two seconds, and how near two came.
fn with_changed_rate(gap_ms: u64) -> (u64, u64) {
    let (mut gate, tickets) = crowd(200, 1_000);
    let mut waits: Vec<(u64, u64)> = tickets.into_iter().map(|(ticket, at)| (at.0, ticket)).collect();
    let mut starts = Vec::new();
    while let Some((told, ticket)) = waits.iter().min().copied() {
        waits.retain(|(_, other)| *other != ticket);
        let now = told - 500;
        let limits = paced(if now < 3_000 { 100 } else { gap_ms });
        match ask(&gate, &format!("t{ticket}"), Asks::With(ticket), limits, now) {
            Admission::Admitted(next, start) => {
                gate = next.unwrap_or(gate);
                starts.push(start.0);
            }
            Admission::Later { gate: next, ticket, at } => {
                gate = next.unwrap_or(gate);
                waits.push((at.0.max(now + 501), ticket.expect("it has one")));
            }
            other => panic!("{other:?}"),
        }
        assert!(now < 300_000, "{} of them never go", waits.len());
    }
    starts.sort_unstable();
    (*starts.last().expect("there are some"), starts.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or_default())
}

#[test]
fn a_line_goes_on_when_its_rate_is_raised_or_lowered() {
    for (gap_ms, last) in [(20, 25_000), (50, 25_000), (200, 45_000), (500, 110_000)] {
        let (went, nearest) = with_changed_rate(gap_ms);
        assert!(went < last && nearest >= gap_ms.min(100), "{gap_ms} ms: the last went at {went}, {nearest} apart");
    }
}

#[test]
fn each_gate_has_a_key_of_its_own_and_none_that_a_target_has() {
    let route = RouteName::new("r");
    let scopes = [Scope::Route(route.clone()), Scope::Target(Target::of(&route, ""))];
    assert_eq!(scopes.map(|scope| scope.key()), ["#route:r", "#target:r:"]);
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
fn one_call_more_of_a_batch_does_not_wait_for_the_whole_line() {
    let (gate, tickets) = crowd(10_000, 1_000);
    let Admission::Admitted(Some(next), start) = ask(&gate, "b", Asks::Again, paced(100), 5_000) else {
        panic!("there is room")
    };
    assert!(start.0 < 10_000);
    assert!(tickets.iter().all(|(ticket, _)| next.line.at(*ticket) != start));
}
