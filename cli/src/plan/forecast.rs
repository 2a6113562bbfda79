//! Which tasks meet in a batch, and what ends it.

use std::collections::{BTreeMap, VecDeque};

use groupage_core::domain::batch::urgency::{InTurn, in_turn};
use groupage_core::domain::batch::{Limits, Load, Room};
use groupage_core::domain::{Candidate, Round, Target, TaskId, Timestamp, Traits};
use groupage_core::routes::Route;
use serde::Serialize;

/// A batch that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Batch {
    pub route: String,
    pub target: Target,
    pub tasks: usize,
    /// Of these, those that a newer one replaces.
    pub superseded: usize,
    /// That of its most urgent task.
    pub priority: u8,
    /// Of the payloads of the others.
    pub bytes: u64,
    /// The weight of the others.
    pub weight: u64,
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
    /// The next task would be over `max_weight`, or nothing is left of it.
    Weight,
    /// It has a task for which `close_when` holds.
    Closed,
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
            Self::Weight => "it has max_weight, or the next task would be over it",
            Self::Closed => "close_when holds for a task of it",
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
    load: Load,
    priority: u8,
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
    pub traits: Traits,
    /// When it was sent.
    pub came: Timestamp,
    /// When it begins to wait for others.
    pub at: Timestamp,
}

impl Coming<'_> {
    /// As a leader knows it, who has heard of as many tasks.
    fn candidate(&self, count: u64) -> Candidate {
        let traits = self.traits.came(Timestamp(count), 0);
        Candidate { id: TaskId::new("next"), round: Round(0), bytes: self.bytes, traits }
    }
}

/// Batches that form as tasks come.
#[derive(Debug, Default)]
pub struct Forecast {
    open: BTreeMap<Target, Open>,
    /// Tasks so far.
    came: u64,
    /// Of each Target with urgent tasks: places in a row that have gone by urgency.
    passed: BTreeMap<Target, usize>,
    ended: Vec<Batch>,
}

impl Forecast {
    /// Tasks come at one moment, not before those that came earlier.
    pub fn add_all(&mut self, together: Vec<Coming<'_>>) {
        let mut known: BTreeMap<Target, Vec<(Coming<'_>, Candidate)>> = BTreeMap::new();
        for coming in together {
            self.came += 1;
            let next = coming.candidate(self.came);
            let Coming { route, target, .. } = coming;
            // On the express path what comes together is carved as it came.
            if route.for_target(target).batch.urgent_first && !route.express {
                known.entry(target.clone()).or_default().push((coming, next));
            } else {
                self.add(coming, next);
            }
        }
        for (target, mut known) in known {
            while !known.is_empty() {
                known = self.fill(&target, known);
            }
        }
    }

    /// Fills one batch of a Target with tasks in their turn. Returns those for which there was no room, as they came.
    fn fill<'a>(&mut self, target: &Target, known: Vec<(Coming<'a>, Candidate)>) -> Vec<(Coming<'a>, Candidate)> {
        let (comings, known): (Vec<_>, VecDeque<_>) = known.into_iter().unzip();
        let (mut left, ended) = (Vec::new(), self.ended.len());
        for InTurn { candidate, place, passed } in in_turn(known, self.passed.get(target).copied().unwrap_or(0)) {
            let Some(coming) = comings.get(place) else { continue };
            if self.ended.len() > ended {
                left.push((place, (*coming, candidate)));
            } else {
                self.passed.insert(target.clone(), passed);
                self.add(*coming, candidate);
            }
        }
        left.sort_by_key(|(place, _)| *place);
        left.into_iter().map(|(_, task)| task).collect()
    }

    /// A task comes.
    fn add(&mut self, coming: Coming<'_>, next: Candidate) {
        let Coming { target, came, at: now, .. } = coming;
        if let Some((at, why)) = self.open.get(target).and_then(|open| open.ends_before(now)) {
            self.end(target, at, why);
        }
        let open = self.open.entry(target.clone()).or_insert_with(|| Open::new(coming));
        if open.room().take(&mut VecDeque::from([next.clone()])).0.is_empty() {
            let why = open.full_by(&next);
            self.end(target, now, why);
        }
        let open = self.open.entry(target.clone()).or_insert_with(|| Open::new(coming));
        open.tasks += 1;
        open.load.add(&next);
        open.priority = open.priority.max(next.traits.priority);
        open.came = open.came.min(came);
        // What has waited for its time is elected.
        open.express &= came == now;
        open.last = now;
        // Others with the key of one that it has need no place: a leader takes those that wait already.
        if open.room().is_full() && !open.limits.collapses {
            let why = open.full_by(&next);
            self.end(target, now, why);
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
        let Some(open) = self.open.remove(target) else { return };
        let Open { route, express, tasks, load, priority, came, began, last, .. } = open;
        let is_express = express && began == last && matches!(why, Why::Full | Why::Bytes | Why::Weight | Why::Enough);
        let (superseded, bytes, weight) = (tasks - load.called(), load.bytes(), load.weight());
        let (came_ms, began_ms, ended_ms) = (came.0, began.0, at.0);
        self.ended.push(Batch {
            route,
            target: target.clone(),
            tasks,
            superseded,
            priority,
            bytes,
            weight,
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
        let express = route.express && !route.is_ordered() && !limits.collapses;
        Self { route: name, limits, express, tasks: 0, load: Load::default(), priority: 0, came, began: at, last: at }
    }

    fn room(&self) -> Room {
        self.limits.room_beside(self.load.clone())
    }

    /// What leaves no room for a candidate.
    fn full_by(&self, next: &Candidate) -> Why {
        match () {
            () if self.load.called() >= self.limits.max_items => Why::Full,
            () if self.load.beside(next).0 > self.limits.max_bytes => Why::Bytes,
            () => Why::Weight,
        }
    }

    /// When it ends if nothing more comes, and why.
    fn ends(&self) -> (Timestamp, Why) {
        if self.room().is_full() {
            return (self.last, if self.load.called() >= self.limits.max_items { Why::Full } else { Why::Weight });
        }
        let window = self.began.plus_ms(self.limits.wait_ms);
        let at = self.limits.waits_until(&self.load, self.last, window);
        let why = match () {
            () if self.load.closes() => Why::Closed,
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
    use groupage_core::routes::{Assigned, Routes};

    use super::*;

    /// Adds a task with this payload, counted as one of two bytes.
    fn add(forecast: &mut Forecast, routes: &Routes, payload: &str, at_ms: u64) {
        let Assigned { route, target, traits, .. } = routes.assign(payload).unwrap();
        let at = Timestamp(at_ms);
        forecast.add_all(vec![Coming { route, target: &target, bytes: 2, traits, came: at, at }]);
    }

    /// Tasks, bytes, time of the end and reason of each batch of one Target, to which tasks of two bytes come at these
    /// times.
    fn batches(fields: &str, comes: &[u64]) -> Vec<(usize, u64, u64, Why)> {
        let yaml = format!(
            "version: 1\nroutes:\n  - {{ name: a, target: \"'t'\", downstream: pull, batch: {{ {fields} }} }}\n"
        );
        let routes = Routes::parse(&yaml).unwrap();
        let mut forecast = Forecast::default();
        for at_ms in comes {
            add(&mut forecast, &routes, "{}", *at_ms);
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
        let weighing = "weight: '`4`', max_weight: 10";
        assert_eq!(batches(weighing, &[0, 10, 20]), [(2, 4, 20, Why::Weight), (1, 2, 1_020, Why::Window)]);
        assert_eq!(batches("close_when: '`true`'", &[0, 0, 9]), [(2, 4, 0, Why::Closed), (1, 2, 9, Why::Closed)]);
        assert_eq!(batches("wait_ms: 0", &[0, 0, 1]), [(2, 4, 0, Why::Window), (1, 2, 1, Why::Window)]);
    }

    #[test]
    fn tasks_that_fill_a_batch_at_one_moment_need_no_leader() {
        let yaml = "version: 1\nroutes:\n  - { name: a, target: t, downstream: pull, batch: { max_items: 2 } }\n";
        let routes = Routes::parse(yaml).unwrap();
        let mut forecast = Forecast::default();
        for (at_ms, target) in [(0, "t"), (0, "t"), (0, "u"), (5, "u")] {
            add(&mut forecast, &routes, &format!(r#"{{"t":"{target}"}}"#), at_ms);
        }
        assert_eq!(forecast.ended().iter().map(|batch| batch.is_express).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_batch_is_as_large_as_its_target_may_have_it() {
        let yaml = "version: 1\nroutes:\n  - { name: a, target: t, downstream: pull, batch: { max_items: 2 }, \
                    targets: [{ match: 'b*', batch: { max_items: 3 } }] }\n";
        let (routes, mut forecast) = (Routes::parse(yaml).unwrap(), Forecast::default());
        for target in ["t", "b1", "t", "b1", "t", "b1"] {
            add(&mut forecast, &routes, &format!(r#"{{"t":"{target}"}}"#), 0);
        }
        let ended = forecast.ended();
        let sizes: Vec<_> = ended.iter().map(|batch| (batch.target.as_str(), batch.tasks)).collect();
        assert_eq!(sizes, [("a:t", 2), ("a:b1", 3), ("a:t", 1)]);
    }

    /// Priorities of the tasks of each batch of up to ten, if tasks with these come at once.
    fn filled(route: &str, priorities: &[u8]) -> Vec<u8> {
        let yaml = format!(
            "version: 1\nroutes:\n  - {{ name: a, target: \"'t'\", priority: p, downstream: pull, {route} }}\n"
        );
        let routes = Routes::parse(&yaml).unwrap();
        let mut forecast = Forecast::default();
        let assigned: Vec<_> =
            priorities.iter().map(|priority| routes.assign(&format!(r#"{{"p":{priority}}}"#)).unwrap()).collect();
        let coming = assigned.iter().map(|Assigned { route, target, traits, .. }| {
            let (came, at) = (Timestamp(0), Timestamp(0));
            Coming { route, target, bytes: 2, traits: *traits, came, at }
        });
        forecast.add_all(coming.collect());
        forecast.ended().into_iter().map(|batch| batch.priority).collect()
    }

    #[test]
    fn the_urgent_of_those_that_come_together_fill_the_next_batch_first() {
        let priorities: Vec<u8> = [vec![0; 15], vec![5; 5], vec![9; 10]].concat();
        // Nine of the most urgent and a usual one, then the last of them.
        assert_eq!(filled("batch: { max_items: 10, express: false }", &priorities), [9, 9, 0]);
        assert_eq!(
            filled("batch: { max_items: 10 }", &priorities),
            [0, 5, 9],
            "what comes together is carved as it came"
        );
    }

    #[test]
    fn of_tasks_with_one_collapse_key_the_newest_is_called() {
        let fields = "target: t, downstream: pull, collapse: k, batch: { max_items: 2 }";
        let routes = Routes::parse(&format!("version: 1\nroutes:\n  - {{ name: a, {fields} }}\n")).unwrap();
        let mut forecast = Forecast::default();
        for (at_ms, key) in [(0, "7"), (10, "7"), (20, "8"), (30, "7"), (30, "9")] {
            add(&mut forecast, &routes, &format!(r#"{{"t":"t","k":"{key}"}}"#), at_ms);
        }
        let told = |batch: Batch| (batch.tasks, batch.superseded, batch.ended_ms, batch.why);
        let ended: Vec<_> = forecast.ended().into_iter().map(told).collect();
        assert_eq!(ended, [(3, 1, 20, Why::Full), (2, 0, 30, Why::Full)]);
    }
}
