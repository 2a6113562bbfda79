//! Limits that two routes share: together they are called as the limit allows, and both are called.

use std::collections::BTreeSet;

use groupage_core::domain::task::Status;
use groupage_lab::downstream::Seen;
use groupage_lab::prelude::*;
use groupage_lab::process::Lasting;

/// Two routes that name the limit `shared` beside these lines.
fn routes(shared: &str, own: &str) -> String {
    let limits = if shared.is_empty() { String::new() } else { format!("limits: {{ shared: {shared} }}\n") };
    file(&limits, own, own)
}

/// Two routes with these limits, of which the first takes tasks with odd numbers.
fn file(limits: &str, of_letters: &str, of_parcels: &str) -> String {
    let route = |name: &str, when: &str, timeout_ms: u64, own: &str| {
        let http = format!("http: {{ url: 'http://downstream.invalid/', timeout_ms: {timeout_ms} }}");
        format!(
            "  - {{ name: {name}, {when} target: truck, downstream: {{ {http} }}, limits: {own}, \
             batch: {{ max_items: 1, wait_ms: 0 }}, notify: {{ success: default }}, retry: {{ attempts: 3, base_ms: 100, cap_ms: 100 }} }}\n"
        )
    };
    let odd: Vec<String> = (0..30).map(|n| format!("n == `{}`", 2 * n + 1)).collect();
    let odd = format!("when: \"{}\",", odd.join(" || "));
    format!(
        "version: 1\n{limits}routes:\n{}{}",
        route("letters", &odd, 2_000, of_letters),
        route("parcels", "", 9_000, of_parcels)
    )
}

/// The outcome of tasks with these numbers, whose calls take this long: calls with their times from the beginning on,
/// and tasks that failed.
struct Came {
    calls: Vec<(u64, Seen)>,
    failed: Vec<String>,
    most_in_flight: usize,
}

fn came(setting: Setting, file: &str, tasks: &[usize], call_ms: u64) -> Came {
    in_virtual_time(async {
        let setting = Setting { seed: 5, latency_ms: 4, sweeps: true, ..setting };
        let world = World::new(setting, file, Scripted::accepting().taking(move || call_ms));
        let begun = world.env.now();
        world.send(&tasks.iter().map(|n| parcel(*n, n % 3)).collect::<Vec<_>>());
        world.run_to_rest().await.unwrap();
        let sent: BTreeSet<String> = tasks.iter().map(|n| format!("p{n}")).collect();
        assert_eq!(broken(&world, &sent), Vec::<String>::new());
        let all = world.tables().tasks();
        assert_eq!(all.len(), tasks.len());
        let failed = all.iter().filter(|task| matches!(task.status, Status::Failed { .. }));
        let call = |seen: Seen| (world.env.moment(seen.at).since(begun), seen);
        Came {
            failed: failed.map(|task| task.id.to_string()).collect(),
            calls: world.downstream.ledger().into_iter().map(call).collect(),
            most_in_flight: world.downstream.most_in_flight().get(&None).copied().unwrap_or_default(),
        }
    })
}

const ONE: &str = "{ in_flight: 1 }";
const TWO_A_SECOND: &str = "{ rates: [{ amount: 2, per: second }] }";

#[test]
fn two_routes_are_called_as_one_shared_rate_allows_and_one_permit() {
    let tasks: Vec<usize> = (0..20).collect();
    for own in ["[shared]", "[{ in_flight_per_target: 1, in_flight: 2 }, shared]"] {
        let Came { calls, failed, .. } = came(Setting::default(), &routes(TWO_A_SECOND, own), &tasks, 50);
        let times: Vec<u64> = calls.iter().map(|(at, _)| *at).collect();
        assert!(failed.is_empty() && times.windows(2).all(|pair| pair[1] - pair[0] > 450), "{own}: {times:?}");
        assert!(times[19] < times[0] + 19 * 500 + 2_500, "{own}: the rate is used: {times:?}");
        let one = came(Setting::default(), &routes(ONE, own), &tasks, 700);
        assert_eq!((one.most_in_flight, one.failed), (1, Vec::new()), "{own}");
        let last = one.calls.iter().map(|(at, _)| *at).max();
        assert!(last < Some(20 * 1_000), "{own}: the permit is used: {last:?}");
    }
}

#[test]
fn the_one_batch_of_a_route_does_not_wait_for_all_of_another() {
    let tasks: Vec<usize> = (0..50).map(|n| 2 * n).chain([1]).collect();
    for (shared, call_ms) in [(TWO_A_SECOND, 50), (ONE, 500)] {
        let calls = came(Setting::default(), &routes(shared, "[shared]"), &tasks, call_ms).calls;
        let place = calls.iter().position(|(_, seen)| seen.items == ["p1"]).unwrap();
        assert!(place < 10, "{shared}: it is called as number {place}");
    }
}

#[test]
fn a_worker_that_dies_with_a_shared_permit_holds_up_others_for_its_lease_only() {
    let setting = Setting { lasting: Lasting { deadly: Some("p0"), ..Lasting::default() }, ..Setting::default() };
    let Came { calls, failed, .. } = came(setting, &routes(ONE, "[shared]"), &[0, 1, 2, 3], 300);
    assert_eq!((failed, calls.len()), (vec!["p0".to_owned()], 3 + 3));
    let last = calls.iter().filter(|(_, seen)| seen.items != ["p0"]).map(|(at, _)| *at).max();
    // Each death costs a lease of the slower route.
    assert!(last < Some(3 * 28_000 + 10_000), "{last:?}");
}

#[test]
fn what_waits_at_a_shared_limit_goes_on_when_it_is_raised_renamed_or_removed() {
    let slow = "{ rates: [{ amount: 1, per: minute }] }";
    let before = routes(slow, "[shared]");
    let raised = routes("{ rates: [{ amount: 600, per: minute }] }", "[shared]");
    let renamed = raised.replace("shared", "another");
    let permits = routes(ONE, "[shared, { in_flight_per_target: 1 }]");
    for (what, before, after) in [
        ("raised", &before, raised),
        ("renamed", &before, renamed),
        ("removed", &before, routes("", "{}")),
        ("its permits removed", &permits, routes("", "{}")),
    ] {
        let setting = Setting { pushes: vec![(5_000, after)], ..Setting::default() };
        // A call lasts for as long as its route lets it: the permit is held meanwhile.
        let call_ms = if what.contains("permits") { 1_900 } else { 50 };
        let tasks: Vec<usize> = (0..24).collect();
        let Came { calls, failed, .. } = came(setting, before, &tasks, call_ms);
        let last = calls.iter().map(|(at, _)| *at).max();
        assert!(failed.is_empty() && calls.len() == 24 && last < Some(5_000 + 130_000), "{what}: {last:?}");
    }
}

#[test]
fn a_permit_that_a_batch_kept_at_a_slow_rate_lapses_within_minutes_once_its_route_names_it_no_more() {
    let limits = "limits: { permit: { in_flight: 1 }, rate: { rates: [{ amount: 1, per: hour }] } }\n";
    let pushes = vec![(60_000, file(limits, "[rate]", "[permit]"))];
    let setting = Setting { pushes, ..Setting::default() };
    let Came { calls, failed, .. } = came(setting, &file(limits, "[permit, rate]", "[permit]"), &[1, 3, 0, 2], 50);
    let last = calls.iter().filter(|(_, seen)| ["p0", "p2"].contains(&&*seen.items[0])).map(|(at, _)| *at).max();
    assert!(failed.is_empty() && calls.len() == 4 && last < Some(60_000 + 16 * 60_000), "{last:?}");
}
