//! When calls begin behind the limits of their route.

use std::collections::BTreeMap;

use groupage_core::domain::Target;
use groupage_core::routes::Route;

/// Calls so far, each of which lasts as long.
#[derive(Debug)]
pub struct Calls {
    last_ms: u64,
    routes: BTreeMap<String, Lane>,
    targets: BTreeMap<String, Lane>,
}

/// Calls of one route, or for one Target.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// When the latest one began.
    latest: Option<u64>,
    /// When those that are in flight end.
    ends: Vec<u64>,
}

impl Lane {
    /// When one more may begin, if not before `from`.
    fn free(&self, from: u64, gap_ms: Option<u64>, in_flight: Option<usize>) -> u64 {
        let by_rate = match (self.latest, gap_ms) {
            (Some(latest), Some(gap_ms)) => from.max(latest + gap_ms),
            (Some(_) | None, _) => from,
        };
        let Some(most) = in_flight else { return by_rate };
        let mut ends: Vec<u64> = self.ends.iter().copied().filter(|end| *end > by_rate).collect();
        ends.sort_unstable();
        // Once all but `most - 1` of them are over.
        let over = (ends.len() + 1).checked_sub(most).and_then(|over| over.checked_sub(1));
        over.and_then(|over| ends.get(over).copied()).unwrap_or(by_rate)
    }

    /// Notes a call. Its batch has ended at `from`, and those of all that come end no sooner.
    fn begin(&mut self, from: u64, at: u64, end: u64) {
        self.latest = Some(at);
        self.ends.retain(|other| *other > from);
        self.ends.push(end);
    }
}

impl Calls {
    /// None yet; each lasts this many milliseconds.
    pub const fn lasting(last_ms: u64) -> Self {
        Self { last_ms, routes: BTreeMap::new(), targets: BTreeMap::new() }
    }

    /// When the next call begins, whose batch has ended then; batches come in the order of their ends.
    pub fn begin(&mut self, route: &Route, target: &Target, from: u64) -> u64 {
        // Nobody knows how fast workers pull.
        if route.is_pulled() {
            return from;
        }
        let of_route = self.routes.entry(route.name.to_string()).or_default();
        let of_target = self.targets.entry(target.to_string()).or_default();
        let most_for_target = route.for_target(target).in_flight;
        let mut at = from;
        loop {
            let next = of_target.free(at, None, most_for_target);
            let next = of_route.free(next, route.gap_ms, route.in_flight.in_all);
            if next == at {
                break;
            }
            at = next;
        }
        of_route.begin(from, at, at + self.last_ms);
        of_target.begin(from, at, at + self.last_ms);
        at
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::routes::Routes;

    use super::*;

    /// When calls begin whose batches all end at 0, for these Targets in turn; each lasts 100 ms.
    fn begin(limits: &str, targets: &[&str]) -> Vec<u64> {
        let http = "downstream: { http: { url: 'https://x' } }";
        let yaml = format!("version: 1\nroutes:\n  - {{ name: a, target: t, {http}, limits: {{ {limits} }} }}\n");
        let routes = Routes::parse(&yaml).unwrap();
        let mut calls = Calls::lasting(100);
        let target = |name: &&str| Target::new(*name);
        targets.iter().map(target).map(|target| calls.begin(routes.iter().next().unwrap(), &target, 0)).collect()
    }

    #[test]
    fn calls_begin_as_soon_as_every_limit_lets_them() {
        let one = ["a:t"; 4];
        assert_eq!(begin("", &one), [0, 0, 0, 0]);
        assert_eq!(begin("calls_per_second: 20", &one), [0, 50, 100, 150]);
        assert_eq!(begin("in_flight: 2", &one), [0, 0, 100, 100]);
        assert_eq!(begin("in_flight: 1, calls_per_second: 20", &one), [0, 100, 200, 300]);
        assert_eq!(begin("in_flight_per_target: 1", &["a:t", "a:u", "a:t", "a:u"]), [0, 0, 100, 100]);
    }
}
