//! Gates over random events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

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
                    if let Some(paused) = gate.paused(Timestamp(now + ms)) {
                        gate = paused;
                        pauses.push((now, now + ms));
                        // The last look before a call finds it.
                        starts.retain(|start, _| start.0 <= now || start.0 >= now + ms);
                    }
                    continue;
                }
                Event::Returns { .. } | Event::Vanishes { .. } => continue,
            };
            match ask(&gate, &batch, asks, Limits { rates: Rates::every(gap_ms), ..Limits::default() }, clock) {
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
        let limits = Limits { in_flight: Some(most), ..Limits::default() };
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
    }
}
