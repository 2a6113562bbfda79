//! Which tasks meet in a batch, and what ends it.

use std::collections::{BTreeMap, VecDeque};

use groupage_core::domain::{Candidate, Round, Target, TaskId, Timestamp, batch::Limits};
use groupage_core::routes::Route;
use serde::Serialize;

/// A batch that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Batch {
    pub route: String,
    pub target: Target,
    pub tasks: usize,
    /// Of their payloads.
    pub bytes: u64,
    /// When its first task came, in milliseconds after the first of all.
    pub came_ms: u64,
    /// When that one began to wait for others: later, if it waited for its time or for its window to close.
    pub began_ms: u64,
    /// When it takes no more tasks.
    pub ended_ms: u64,
    /// What ended it.
    pub why: Why,
    /// When its call begins.
    pub called_ms: u64,
    /// Whether its tasks came at one moment and need no leader.
    pub is_express: bool,
}

/// What ends a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It has `max_items`.
    Full,
    /// The next task would be over `max_bytes`.
    Bytes,
    /// It has `min_items`, and nothing else waits.
    Enough,
    /// Nothing came for `quiet_ms`.
    Quiet,
    /// It has waited for `wait_ms`.
    Window,
}

impl Why {
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Full => "it has max_items",
            Self::Bytes => "the next task would be over max_bytes",
            Self::Enough => "it has min_items, and nothing else waits",
            Self::Quiet => "nothing came for quiet_ms",
            Self::Window => "wait_ms is over",
        }
    }
}

/// A batch that takes tasks.
#[derive(Debug)]
struct Open {
    route: String,
    limits: Limits,
    express: bool,
    tasks: usize,
    bytes: u64,
    came: Timestamp,
    began: Timestamp,
    last: Timestamp,
}

/// A task that comes, or whose time does.
#[derive(Clone, Copy, Debug)]
pub struct Coming<'a> {
    pub route: &'a Route,
    pub target: &'a Target,
    /// Of its payload.
    pub bytes: u32,
    /// When it was sent.
    pub came: Timestamp,
    /// When it begins to wait for others.
    pub at: Timestamp,
}

/// Batches that form as tasks come.
#[derive(Debug, Default)]
pub struct Forecast {
    open: BTreeMap<Target, Open>,
    ended: Vec<Batch>,
}

impl Forecast {
    /// A task comes, not before those that came earlier.
    pub fn add(&mut self, coming: Coming<'_>) {
        let Coming { target, bytes, came, at: now, .. } = coming;
        if let Some((at, why)) = self.open.get(target).and_then(|open| open.ends_before(now)) {
            self.end(target, at, why);
        }
        let mut queue = VecDeque::from([Candidate { id: TaskId::new("next"), round: Round(0), bytes }]);
        let open = self.open.entry(target.clone()).or_insert_with(|| Open::new(coming));
        let room = open.limits.room_beside(open.tasks, open.bytes);
        if room.take(&mut queue).0.is_empty() {
            self.end(target, now, Why::Bytes);
        }
        let open = self.open.entry(target.clone()).or_insert_with(|| Open::new(coming));
        open.tasks += 1;
        open.bytes += u64::from(bytes);
        open.came = open.came.min(came);
        // What has waited for its time is elected.
        open.express &= came == now;
        open.last = now;
        if open.tasks >= open.limits.max_items {
            self.end(target, now, Why::Full);
        }
    }

    /// All batches once no more tasks come, in the order in which they end.
    pub fn ended(mut self) -> Vec<Batch> {
        let targets: Vec<Target> = self.open.keys().cloned().collect();
        for target in targets {
            if let Some((at, why)) = self.open.get(&target).map(Open::ends) {
                self.end(&target, at, why);
            }
        }
        // A stable sort: of those that end together the one that began first stays in front.
        self.ended.sort_by_key(|batch| (batch.ended_ms, batch.began_ms));
        self.ended
    }

    fn end(&mut self, target: &Target, at: Timestamp, why: Why) {
        let Some(Open { route, express, tasks, bytes, came, began, last, .. }) = self.open.remove(target) else {
            return;
        };
        let is_express = express && began == last && matches!(why, Why::Full | Why::Bytes | Why::Enough);
        let (came_ms, began_ms, ended_ms) = (came.0, began.0, at.0);
        self.ended.push(Batch {
            route,
            target: target.clone(),
            tasks,
            bytes,
            came_ms,
            began_ms,
            ended_ms,
            why,
            called_ms: ended_ms,
            is_express,
        });
    }
}

impl Open {
    fn new(Coming { route, target, came, at, .. }: Coming<'_>) -> Self {
        let (name, limits) = (route.name.to_string(), route.for_target(target).batch);
        let express = route.express && !route.is_ordered();
        Self { route: name, limits, express, tasks: 0, bytes: 0, came, began: at, last: at }
    }

    /// When it ends if nothing more comes, and why.
    fn ends(&self) -> (Timestamp, Why) {
        let window = self.began.plus_ms(self.limits.wait_ms);
        let at = self.limits.waits_until(self.tasks, self.last, window);
        let why = match () {
            () if at == window => Why::Window,
            () if self.limits.quiet_ms.is_some() => Why::Quiet,
            () => Why::Enough,
        };
        (at, why)
    }

    /// When it has ended before a task that comes `now`, if it has. What comes with the latest task still meets it.
    fn ends_before(&self, now: Timestamp) -> Option<(Timestamp, Why)> {
        Some(self.ends()).filter(|(at, _)| *at <= now && self.last < now)
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::routes::Routes;

    use super::*;

    fn coming<'a>(route: &'a Route, target: &'a Target, at_ms: u64) -> Coming<'a> {
        Coming { route, target, bytes: 2, came: Timestamp(at_ms), at: Timestamp(at_ms) }
    }

    /// Tasks, bytes, time of the end and reason of each batch of one Target, to which tasks of two bytes come at these
    /// times.
    fn batches(fields: &str, comes: &[u64]) -> Vec<(usize, u64, u64, Why)> {
        let yaml =
            format!("version: 1\nroutes:\n  - {{ name: a, target: t, downstream: pull, batch: {{ {fields} }} }}\n");
        let routes = Routes::parse(&yaml).unwrap();
        let route = routes.iter().next().unwrap();
        let mut forecast = Forecast::default();
        for at_ms in comes {
            forecast.add(coming(route, &Target::new("a:t"), *at_ms));
        }
        let told = |batch: Batch| (batch.tasks, batch.bytes, batch.ended_ms, batch.why);
        forecast.ended().into_iter().map(told).collect()
    }

    #[test]
    fn a_batch_ends_by_what_its_route_says_first() {
        assert_eq!(batches("max_items: 2", &[0, 10, 20]), [(2, 4, 10, Why::Full), (1, 2, 1_020, Why::Window)]);
        assert_eq!(batches("max_bytes: 5", &[0, 10, 20]), [(2, 4, 20, Why::Bytes), (1, 2, 1_020, Why::Window)]);
        assert_eq!(batches("min_items: 2", &[0, 10, 20]), [(2, 4, 10, Why::Enough), (1, 2, 1_020, Why::Window)]);
        assert_eq!(batches("min_items: 2", &[0, 0, 0]), [(3, 6, 0, Why::Enough)]);
        assert_eq!(batches("quiet_ms: 50", &[0, 40, 90]), [(2, 4, 90, Why::Quiet), (1, 2, 140, Why::Quiet)]);
        assert_eq!(batches("wait_ms: 60, quiet_ms: 50", &[0, 40, 59]), [(3, 6, 60, Why::Window)]);
        assert_eq!(batches("wait_ms: 0", &[0, 0, 1]), [(2, 4, 0, Why::Window), (1, 2, 1, Why::Window)]);
    }

    #[test]
    fn tasks_that_fill_a_batch_at_one_moment_need_no_leader() {
        let yaml = "version: 1\nroutes:\n  - { name: a, target: t, downstream: pull, batch: { max_items: 2 } }\n";
        let routes = Routes::parse(yaml).unwrap();
        let mut forecast = Forecast::default();
        for (at_ms, target) in [(0, "a:t"), (0, "a:t"), (0, "a:u"), (5, "a:u")] {
            forecast.add(coming(routes.iter().next().unwrap(), &Target::new(target), at_ms));
        }
        assert_eq!(forecast.ended().iter().map(|batch| batch.is_express).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_batch_is_as_large_as_its_target_may_have_it() {
        let yaml = "version: 1\nroutes:\n  - { name: a, target: t, downstream: pull, batch: { max_items: 2 }, \
                    targets: [{ match: 'b*', batch: { max_items: 3 } }] }\n";
        let (routes, mut forecast) = (Routes::parse(yaml).unwrap(), Forecast::default());
        for target in ["a:t", "a:b1", "a:t", "a:b1", "a:t", "a:b1"] {
            forecast.add(coming(routes.iter().next().unwrap(), &Target::new(target), 0));
        }
        let ended = forecast.ended();
        let sizes: Vec<_> = ended.iter().map(|batch| (batch.target.as_str(), batch.tasks)).collect();
        assert_eq!(sizes, [("a:t", 2), ("a:b1", 3), ("a:t", 1)]);
    }
}
