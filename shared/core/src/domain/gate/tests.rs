mod permits;
mod random;

use super::admission::KEPT_MS;
use super::*;
use crate::domain::outcome::{Failure, Fault, Reason};

const ONE: Limits = Limits { in_flight: Some(1), rates: Rates::NONE, share: None };

fn paced(gap_ms: u64) -> Limits {
    Limits { rates: Rates::of([Rate { amount: 1_000 / gap_ms, ..Rate::every(1_000) }]), ..Limits::default() }
}

fn ask(gate: &Gate, batch: &str, asks: Asks, limits: Limits, now: u64) -> Admission {
    match gate.admit(&BatchId::new(batch), asks, limits, Timestamp(now), Timestamp(now + 10_000)) {
        Admission::LinesUp { flow, behind } => {
            let gate = gate.with_ticket(flow, behind).expect("it waits");
            let (tag, now) = (gate.queue.flows[&flow].last, Timestamp(now));
            let at = gate.time_of(tag, limits, now.plus_ms(10_000), now).unwrap_or(now);
            Admission::Later { gate: Some(gate), ticket: Some(tag), at }
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
    let limit = Scope::Limit(LimitName::new("r"));
    let scopes = [Scope::Route(route.clone()), Scope::Target(Target::of(&route, "")), limit];
    let keys = scopes.each_ref().map(Scope::key);
    assert_eq!(keys, ["#route:r", "#target:r:", "#limit:r"]);
    assert_eq!(keys.map(|key| Scope::of_key(&key)), scopes.map(Some));
    let of = |name| Scope::Limit(LimitName::new(name)).of();
    assert_ne!(of("tokens"), of("calls"));
    for of in [Of::Route, Of::Target, of("tokens")] {
        let written = serde_json::to_value(of).unwrap();
        assert!(written.is_string() && serde_json::from_value::<Of>(written).unwrap() == of, "{of:?}");
    }
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
    let paused = Gate::default().paused(Timestamp(1_100)).expect("open before");
    assert_eq!(paused.paused(Timestamp(1_050)), None);
    let said = ask(&paused, "a", Asks::Anew, Limits::default(), 1_099);
    assert_eq!(said, Admission::Later { gate: None, ticket: None, at: Timestamp(1_100) });
    let said = ask(&paused, "a", Asks::Anew, Limits::default(), 1_100);
    assert_eq!(said, Admission::Admitted(None, Timestamp(1_100)));
}

#[test]
fn those_that_wait_come_back_one_gap_apart_in_the_order_in_which_they_came() {
    let (gate, tickets) = crowd(1_000, 1_000);
    assert!(tickets.windows(2).all(|pair| pair[1].0 > pair[0].0 && pair[1].1.since(pair[0].1) == 100));
    let (_, ticket, at) = waits(&gate, "newcomer", paced(100), 30_000);
    assert!(tickets.iter().all(|(other, time)| *other < ticket && *time < at), "a newcomer overtakes no batch");
}

#[test]
fn a_batch_whose_turn_has_come_reserves_its_start_and_before_that_waits_on() {
    let (gate, tickets) = crowd(100, 1_000);
    let (ticket, at) = tickets[20];
    let said = ask(&gate, "b", Asks::With(ticket), paced(100), at.0);
    assert!(
        matches!(&said, Admission::Admitted(Some(next), _) if next.queue.ahead(ticket, Share::ALL, 1) == 0),
        "{said:?}"
    );
    let said = ask(&gate, "b", Asks::With(ticket), paced(100), at.0 - 1);
    assert_eq!(said, Admission::Later { gate: None, ticket: Some(ticket), at });
}

#[test]
fn a_pause_holds_for_all_that_wait_by_one_write_and_they_keep_their_order() {
    let (gate, tickets) = crowd(100, 1_000);
    let paused = gate.paused(Timestamp(60_000)).expect("it is longer");
    let back: Vec<u64> = tickets
        .iter()
        .map(|(ticket, _)| match ask(&paused, "b", Asks::With(*ticket), paced(100), 30_000) {
            Admission::Later { at, .. } => at.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(back.first(), Some(&60_000));
    assert!(back.windows(2).all(|pair| pair[1] - pair[0] == 100));
    let (_, _, newcomer) = waits(&paused, "x", paced(100), 30_000);
    assert_eq!(newcomer.0, back[back.len() - 1] + 100, "it waits behind those that came before");
}

#[test]
fn a_batch_that_misses_its_turn_takes_the_next_start() {
    let (gate, tickets) = crowd(100, 1_000);
    let Admission::Admitted(Some(gate), _) = ask(&gate, "b", Asks::With(tickets[3].0), paced(100), tickets[3].1.0)
    else {
        panic!("its turn has come")
    };
    let said = ask(&gate, "late", Asks::With(tickets[0].0), paced(100), tickets[3].1.0);
    let Admission::Admitted(Some(_), start) = said else { panic!("{said:?}") };
    assert_eq!(start, tickets[3].1.plus_ms(100));
}

#[test]
fn a_ticket_that_no_batch_comes_with_costs_its_own_turn_only() {
    let (gate, tickets) = crowd(100, 1_000);
    let (after, at) = tickets[51];
    let said = ask(&gate, "b", Asks::With(after), paced(100), at.0);
    let Admission::Admitted(Some(next), start) = said else { panic!("those before never came: {said:?}") };
    assert_eq!((start, next.queue.ahead(tickets[60].0, Share::ALL, 1)), (at, 8));
}

#[test]
fn a_ticket_that_was_passed_over_for_half_a_minute_is_another_one() {
    let (gate, tickets) = crowd(1_000, 1_000);
    let Admission::Admitted(Some(gate), _) = ask(&gate, "b", Asks::With(tickets[400].0), paced(100), 50_000) else {
        panic!("its turn has come")
    };
    let busy = (0..20).fold(gate, |gate, n| match ask(&gate, &format!("c{n}"), Asks::Again, paced(100), 50_000) {
        Admission::Admitted(Some(next), _) => next,
        _ => gate,
    });
    let said = ask(&busy, "late", Asks::With(tickets[0].0), paced(100), 50_000);
    let Admission::Later { ticket: Some(anew), .. } = said else { panic!("{said:?}") };
    assert!(tickets.iter().all(|(ticket, _)| *ticket < anew));
}

#[test]
fn one_call_more_of_a_batch_does_not_wait_for_those_that_wait() {
    let (gate, _) = crowd(10_000, 1_000);
    let Admission::Admitted(Some(_), start) = ask(&gate, "b", Asks::Again, paced(100), 5_000) else {
        panic!("it goes first")
    };
    assert_eq!(start.0, 5_000);
}
