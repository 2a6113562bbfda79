//! Targets that wait at one gate, in simulated time: who waits for how long.

use std::collections::{BTreeMap, BinaryHeap};

use super::*;

/// A batch that comes to its gate: when, whose, and with which ticket.
type Comes = std::cmp::Reverse<(u64, usize, usize, Option<u64>)>;

const GAP_MS: u64 = 100;

fn share(target: impl std::fmt::Display, weight: u64) -> Share {
    Class::Usual.of_target(&Target::new(format!("r:{target}")), weight)
}

/// When the calls of each Target start that has a weight and batches, all of which come then.
fn starts(targets: &[(u64, usize, u64)], shared: bool, places: Option<usize>, until: u64) -> Vec<Vec<u64>> {
    let targets = targets.iter().enumerate();
    let shares = targets.map(|(n, (weight, batches, at))| (shared.then(|| share(n, *weight)), *batches, *at));
    starts_of(&shares.collect::<Vec<_>>(), places, until)
}

/// When the calls of each share start that has batches, all of which come then, at ten calls a second or with these
/// places of a second each.
pub(super) fn starts_of(shares: &[(Option<Share>, usize, u64)], places: Option<usize>, until: u64) -> Vec<Vec<u64>> {
    let rates = places.map_or_else(|| Rates::every(GAP_MS), |_| Rates::default());
    let most = Limits { in_flight: places, rates, share: None };
    starts_within(|_, _| most, shares, until, |_, _| ())
}

/// The same within these limits of each share's batches. The batches come back for the times they are told, early by up
/// to a second. Each gate that was written is seen, with its time.
fn starts_within(
    most: impl Fn(usize, usize) -> Limits,
    shares: &[(Option<Share>, usize, u64)],
    until: u64,
    mut see: impl FnMut(u64, &Gate),
) -> Vec<Vec<u64>> {
    let places = most(0, 0).in_flight;
    let mut coming: BinaryHeap<Comes> = BinaryHeap::new();
    for (target, (_, batches, at)) in shares.iter().enumerate() {
        coming.extend((0..*batches).map(|batch| std::cmp::Reverse((*at, target, batch, None))));
    }
    let mut ends: BTreeMap<u64, Vec<BatchId>> = BTreeMap::new();
    let (mut gate, mut starts) = (Gate::default(), vec![Vec::new(); shares.len()]);
    while let Some(std::cmp::Reverse((now, target, batch, ticket))) = coming.pop().filter(|next| next.0.0 < until) {
        while let Some((end, over)) = ends.first_key_value().filter(|(end, _)| **end <= now) {
            let end = Timestamp(*end);
            let leave =
                |gate: Gate, batch| gate.given_back(batch, gate.permits.leases[batch], Some(end)).unwrap_or(gate);
            gate = over.iter().filter(|_| places.is_some()).fold(gate, leave);
            ends.pop_first();
        }
        let limits = Limits { share: shares[target].0, ..most(target, batch) };
        see(now, &gate);
        let (id, asks) = (BatchId::new(format!("{target}-{batch}")), ticket.map_or(Asks::Anew, Asks::With));
        let (at, lease) = (Timestamp(now), Timestamp(now + 60_000));
        let (number, back) = match gate.admit(&id, asks, limits, at, lease) {
            Admission::Admitted(next, start) => {
                gate = next.unwrap_or(gate);
                starts[target].push(start.0);
                ends.entry(start.0 + 1_000).or_default().push(id);
                continue;
            }
            Admission::LinesUp { flow, behind } => {
                gate = gate.with_ticket(flow, behind).expect("it waits");
                let tag = gate.queue.flows[&flow].last;
                (Some(tag), gate.time_of(tag, limits, lease, at).unwrap_or(at))
            }
            Admission::Later { gate: next, ticket, at } => {
                gate = next.unwrap_or(gate);
                (ticket, at)
            }
            other @ Admission::Away { .. } => panic!("{other:?}"),
        };
        let early = 250 + batch as u64 % 10 * 100;
        let soon = if places.is_some() { 50 } else { 1 };
        coming.push(std::cmp::Reverse((back.0.saturating_sub(early).max(now + soon), target, batch, number)));
    }
    starts.iter_mut().for_each(|starts| starts.sort_unstable());
    starts
}

/// Returns how long the one batch of a Target waits that comes beside these of another. The simulation ends once that
/// batch must have been called.
fn waits_of_one(batches: usize, shared: bool, places: Option<usize>) -> u64 {
    let begins = 1_000_000;
    let came = begins + 20_000;
    let until = if shared { came + 60_000 } else { begins + 150 * batches as u64 };
    starts(&[(1, batches, begins), (1, 1, came)], shared, places, until)[1][0] - came
}

#[test]
fn a_target_with_ten_thousand_batches_delays_the_one_of_another_by_seconds() {
    let (before, after) = (waits_of_one(1_000, false, None), waits_of_one(10_000, true, None));
    println!("at 10 calls a second the one waits for {before} ms behind 1,000");
    println!("where Targets share it waits for {after} ms beside 10,000");
    assert!(before > 70_000, "the one waited {before} ms behind all others");
    assert!(after <= 3_300, "{after} ms");
}

#[test]
fn so_it_is_with_places_in_flight() {
    let (before, after) = (waits_of_one(1_000, false, Some(10)), waits_of_one(10_000, true, Some(10)));
    println!("with 10 calls in flight the one waits for {before} ms behind 1,000");
    println!("where Targets share it waits for {after} ms beside 10,000");
    assert!(before > 60_000, "the one waited {before} ms behind all others");
    assert!(after <= 6_000, "{after} ms");
}

/// A budget of 60,000 tokens a minute, behind which batches of 1 to 8,000 wait.
#[test]
fn a_budget_is_used_whole_whatever_batches_cost_and_however_many_targets_share_it() {
    let tokens = Rate { of: Unit::Weight, amount: 60_000, burst: 8_000, ..Rate::every(60_000) };
    let cost = |target: usize, batch: usize| (target * 25 + batch) as u64 * 4_793 % 8_000 + 1;
    for (targets, batches) in [(1, 500), (20, 25)] {
        let shares: Vec<_> = (0..targets).map(|n| ((targets > 1).then(|| share(n, 1)), batches, 1_000_000)).collect();
        let limits =
            |target, batch| Limits { rates: Rates::of([tokens]).costing(|_| cost(target, batch)), ..Limits::default() };
        let starts = starts_within(limits, &shares, 9_000_000, |_, _| ());
        let last = starts.iter().flatten().max().unwrap() - 1_000_000;
        let all: u64 = (0..targets).flat_map(|n| (0..batches).map(move |batch| cost(n, batch))).sum();
        println!("{targets} Targets: {all} tokens in {last} ms");
        assert_eq!(starts.iter().map(Vec::len).sum::<usize>(), 500, "each is called once");
        assert!((all - 8_000) as f64 >= 0.95 * last as f64, "{targets}: {all} in {last} ms");
    }
}

#[test]
fn ten_targets_with_weights_get_their_shares_of_the_rate_and_of_places() {
    let targets: Vec<(u64, usize, u64)> = (1..=10).map(|weight| (weight, 1_000, 1_000_000)).collect();
    for places in [None, Some(10)] {
        let starts = starts(&targets, true, places, 1_230_000);
        // From then on all have lined up.
        let within = |starts: &Vec<u64>| starts.iter().filter(|start| (1_010_000..1_220_000).contains(*start)).count();
        let counts: Vec<usize> = starts.iter().map(within).collect();
        let all: usize = counts.iter().sum();
        println!("{places:?}: {counts:?}");
        assert!(all > 2_050, "the limit is used: {all} calls");
        for (weight, count) in (1..).zip(&counts) {
            let (share, due) = (*count as f64 / all as f64, f64::from(weight) / 55.0);
            assert!((share / due - 1.0).abs() < 0.05, "{weight}: {share:.4} of {due:.4}");
        }
    }
}

#[test]
fn calls_of_targets_that_share_keep_their_distance_and_none_is_left_behind() {
    let targets = [(1, 300, 1_000_000), (3, 300, 1_002_000), (1, 5, 1_010_000), (7, 100, 1_011_000)];
    let starts = starts(&targets, true, None, 2_000_000);
    let counts: Vec<usize> = starts.iter().map(Vec::len).collect();
    assert_eq!(counts, [300, 300, 5, 100]);
    let mut all: Vec<u64> = starts.concat();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[1] - pair[0] >= GAP_MS), "{all:?}");
    let took = all[all.len() - 1] - all[0];
    assert!(took <= 704 * GAP_MS + 3_000, "no slot is lost: {took} ms");
}

#[test]
fn all_batches_of_hundreds_of_targets_are_called_and_the_limit_is_used() {
    let targets: Vec<(u64, usize, u64)> = (0..200).map(|n| (1 + n % 9, 4, 1_000_000 + n * 50)).collect();
    for places in [None, Some(10)] {
        let starts = starts(&targets, true, places, 2_000_000);
        assert!(starts.iter().all(|starts| starts.len() == 4), "each is called");
        let mut all: Vec<u64> = starts.concat();
        all.sort_unstable();
        let took = all[all.len() - 1] - all[0];
        println!("{places:?}: 800 calls took {took} ms");
        assert!(took <= 800 * GAP_MS * 11 / 10, "{took} ms");
    }
}

/// What comes to a line that many light Targets share with one that always waits.
struct Steady {
    /// Calls a second that the line lets through.
    rate: u64,
    /// Batches of light Targets that come in a second, each of another one in turn.
    light: u64,
    /// Of these, one in this number is urgent; 0: none.
    urgent_in: u64,
}

/// What came of it.
#[derive(Debug)]
struct Waited {
    /// How long the batches of light Targets waited, the usual and the urgent ones, in milliseconds.
    usual: Vec<u64>,
    urgent: Vec<u64>,
    /// The most flows that the gate had.
    flows: usize,
    /// How many calls there were in the seconds in which there is always something to call.
    calls: usize,
}

/// For so long light batches come, in seconds.
const STEADY_S: u64 = 4;
/// The first of them comes so long after the heavy Target's, in milliseconds.
const LATER_MS: u64 = 3_000;

impl Steady {
    /// Runs for seven seconds, in which the heavy Target always has batches.
    fn run(&self) -> Waited {
        let (begins, class) = (1_000_000, |is_urgent: bool| Class::of(u8::from(is_urgent)));
        let heavy = Class::Usual.of_target(&Target::new("r:heavy"), 1);
        let mut all = vec![(Some(heavy), usize::try_from(self.rate * 9).unwrap(), begins)];
        for n in 0..self.light * STEADY_S {
            let is_urgent = self.urgent_in > 0 && n % self.urgent_in == 0;
            // Each comes less often than it has turns.
            let target = Target::new(format!("r:light-{}", n % (self.light * 4)));
            all.push((Some(class(is_urgent).of_target(&target, 1)), 1, begins + LATER_MS + n * 1_000 / self.light));
        }
        let (limits, mut flows) = (Limits { rates: Rates::every(1_000 / self.rate), ..Limits::default() }, 0);
        let starts = starts_within(|_, _| limits, &all, 2_000_000, |_, gate| flows = flows.max(gate.queue.flows.len()));
        let counts: Vec<usize> = all.iter().map(|(_, batches, _)| *batches).collect();
        assert_eq!(starts.iter().map(Vec::len).collect::<Vec<_>>(), counts, "each is called once");
        let mut sorted: Vec<u64> = starts.concat();
        sorted.sort_unstable();
        let gap_ms = 1_000 / self.rate;
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= gap_ms), "calls keep their distance");
        let (mut usual, mut urgent) = (Vec::new(), Vec::new());
        for (n, ((_, _, came), starts)) in all.iter().zip(&starts).skip(1).enumerate() {
            let is_urgent = self.urgent_in > 0 && (n as u64).is_multiple_of(self.urgent_in);
            if is_urgent { &mut urgent } else { &mut usual }.extend(starts.iter().map(|start| start - came));
        }
        let (from, to) = (begins + LATER_MS, begins + LATER_MS + STEADY_S * 1_000);
        let calls = sorted.iter().filter(|at| (from..to).contains(*at)).count();
        let waited = Waited { usual, urgent, flows, calls };
        let most = |waits: &Vec<u64>| waits.iter().max().copied().unwrap_or_default();
        println!(
            "{} calls a second, {} light ones: usual ones wait for up to {} ms, urgent ones {}; {flows} flows",
            self.rate,
            self.light,
            most(&waited.usual),
            most(&waited.urgent)
        );
        waited
    }
}

/// A turn of each Target that waits, at 50 calls a second.
const TURN_MS: u64 = 500;

#[test]
fn light_targets_wait_for_a_turn_each_however_many_come_and_leave_their_room_to_others() {
    for (rate, light) in [(50, 15), (50, 30), (200, 15), (200, 60), (200, 150)] {
        let Waited { usual, flows, calls, .. } = Steady { rate, light, urgent_in: 0 }.run();
        assert!(usual.iter().all(|wait| *wait <= TURN_MS), "{rate}, {light}: {:?} ms", usual.iter().max());
        assert!(flows < 64, "{rate}, {light}: {flows}");
        assert_eq!(calls as u64, rate * STEADY_S, "the limit is used whole");
    }
}

#[test]
fn urgent_batches_of_light_targets_have_their_turns() {
    for (rate, light, urgent_in) in [(50, 28, 4), (200, 80, 2)] {
        let Waited { usual, urgent, flows, .. } = Steady { rate, light, urgent_in }.run();
        assert!(urgent.iter().all(|wait| *wait <= TURN_MS), "{rate}: {:?} ms", urgent.iter().max());
        assert!(usual.iter().all(|wait| *wait <= TURN_MS), "{rate}: {:?} ms", usual.iter().max());
        assert!(flows < 64, "{rate}, {light}: {flows}");
    }
}
