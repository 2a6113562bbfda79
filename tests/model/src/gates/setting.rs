//! How large a run is, and what may go wrong in it.

use crate::prelude::*;
use crate::steps::ports::CALL_MS;

/// When all runs begin, in milliseconds.
pub const BEGINS_MS: u64 = 1_000_000;

/// How often each thing may still go wrong.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Mishaps {
    /// Processes that die, after a write and before the next I/O.
    pub deaths: u8,
    /// Messages that come twice.
    pub copies: u8,
    /// Messages that come late.
    pub lates: u8,
    /// Messages that never come.
    pub losses: u8,
    /// Processes that stand still before a write.
    pub stalls: u8,
    /// Calls that are answered with a `Retry-After`.
    pub pauses: u8,
    /// Reads of members that fail.
    pub errors: u8,
}

/// A batch that comes to its gates.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Of which Target.
    pub target: u8,
    /// When, in milliseconds from the beginning.
    pub at_ms: u64,
    /// How many members it has.
    pub members: u8,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is about.
    pub name: &'static str,
    /// The batches.
    pub batches: &'static [Arrival],
    /// Milliseconds between two calls of the route.
    pub gap_ms: Option<u64>,
    /// Calls of the route in flight.
    pub places: Option<u8>,
    /// Odd Targets are of another route, with which the first one shares those limits.
    pub shares: bool,
    /// Calls of each Target in flight.
    pub per_target: Option<u8>,
    /// Milliseconds between two calls of one Target.
    pub target_gap_ms: Option<u64>,
    /// What may go wrong.
    pub mishaps: Mishaps,
    /// How often a batch may be called.
    pub attempts: u8,
    /// Whether a batch that lost its workers is taken apart.
    pub bisects: bool,
    /// The batch and the member whose calls kill their workers, each time.
    pub poison: Option<(u8, u8)>,
    /// Whether the message of a process that dies is lost, so that only sweep looks.
    pub forgets: bool,
    /// How many sweeps there are.
    pub sweeps: u8,
    /// For how long a process stands still, in milliseconds.
    pub stall_ms: u64,
    /// By how much a message is late, in milliseconds.
    pub late_ms: u64,
    /// All is over after so long, in milliseconds from the beginning.
    pub by_ms: u64,
    /// Of those that wait for places: a batch that came so much earlier is not overtaken, in milliseconds.
    pub overtakes_ms: u64,
}

impl Setting {
    /// The routes file of this setting.
    pub fn routes(&self) -> String {
        let own = |limit: Option<String>| limit.filter(|_| !self.shares);
        let places = self.places.map(|places| format!("in_flight: {places}"));
        let rate = self.gap_ms.map(|gap_ms| format!("rates: [{{ amount: {}, per: second }}]", 1_000 / gap_ms));
        let limits: Vec<String> = [
            own(rate.clone()),
            own(places.clone()),
            self.per_target.map(|places| format!("in_flight_per_target: {places}")),
            self.target_gap_ms.map(|gap_ms| format!("calls_per_second_per_target: {}", 1_000 / gap_ms)),
            Some("pause: route".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut limits = format!("{{ {} }}", limits.join(", "));
        let mut file = "version: 1\n".to_owned();
        if self.shares {
            let shared: Vec<String> = [rate, places].into_iter().flatten().collect();
            file = format!("{file}limits: {{ shared: {{ {} }} }}\n", shared.join(", "));
            limits = format!("[{limits}, shared]");
        }
        let routes = if self.shares { ["r", "s"].as_slice() } else { &["r"] };
        routes.iter().fold(file + "routes:\n", |file, name| file + &self.route(name, &limits))
    }

    fn route(&self, name: &str, limits: &str) -> String {
        let on_reject = if self.bisects { "bisect" } else { "fail" };
        format!(
            r#"  - name: {name}
    target: k
    downstream: {{ http: {{ url: "http://downstream.invalid/", timeout_ms: 1000 }} }}
    limits: {limits}
    on_reject: {on_reject}
    retry: {{ attempts: {} }}
    notify: {{ success: none, failure: none, outage: none }}
"#,
            self.attempts
        )
    }

    /// The batch with this number, frozen.
    pub(super) fn batch(&self, n: u8) -> Option<Batch> {
        let Arrival { target, at_ms, members } = *self.batches.get(usize::from(n))?;
        let member = |m| Candidate { id: task_id(n, m), round: Round(0), bytes: 11, traits: Traits::default() };
        let members: Vec<Candidate> = (0..members).map(member).collect();
        Some(Batch::express(batch_id(n), self.target(target), &members, Timestamp(BEGINS_MS + at_ms)))
    }

    /// The task with this id, as its batch's table has it.
    pub(super) fn task(&self, id: &TaskId) -> Option<Task> {
        let (n, _) = id.as_str().split_once('.')?;
        let target = self.batches.get(usize::from(n.parse::<u8>().ok()?))?.target;
        let payload = r#"{"k":"a"}"#.to_owned();
        Some(Task::new(id.clone(), self.target(target), payload, String::new(), Timestamp(BEGINS_MS)))
    }

    fn target(&self, n: u8) -> Target {
        let route = if self.shares && n % 2 == 1 { "s" } else { "r" };
        Target::of(&RouteName::new(route), &format!("k{n}"))
    }

    /// Whether calls of these kill their workers.
    pub(super) fn kills(&self, items: &[TaskId]) -> bool {
        self.poison.is_some_and(|(batch, member)| items.contains(&task_id(batch, member)))
    }

    /// How long a place is held by a worker that is dead, in milliseconds.
    pub(super) const fn lease_ms(&self) -> u64 {
        if self.bisects { 70_000 } else { 12_000 }
    }
}

pub(super) fn batch_id(n: u8) -> BatchId {
    BatchId::new(format!("0{n}"))
}

/// The number of the batch of a call's key.
pub(super) fn number(key: &BatchId) -> u8 {
    key.as_str().get(1..2).and_then(|n| n.parse().ok()).unwrap_or_default()
}

pub(super) fn task_id(batch: u8, member: u8) -> TaskId {
    TaskId::new(format!("{batch}.{member}"))
}

const fn at(at_ms: u64) -> Arrival {
    Arrival { target: 0, at_ms, members: 1 }
}

const fn of(target: u8, at_ms: u64) -> Arrival {
    Arrival { target, at_ms, members: 1 }
}

pub(super) const FOUR: [Arrival; 4] = [of(0, 0), of(1, 0), of(0, 250), of(1, 250)];

const NONE: Mishaps = Mishaps { deaths: 0, copies: 0, lates: 0, losses: 0, stalls: 0, pauses: 0, errors: 0 };
const DEATH: Mishaps = Mishaps { deaths: 1, ..NONE };
const LATE: Mishaps = Mishaps { lates: 1, ..NONE };
const TWICE: Mishaps = Mishaps { copies: 1, ..NONE };
/// One of them may stand still while the other is called.
const SLOW_TWIN: Mishaps = Mishaps { stalls: 1, ..TWICE };
const STALL: Mishaps = Mishaps { stalls: 1, ..NONE };
const LOSS: Mishaps = Mishaps { losses: 1, ..NONE };
pub(super) const PAUSE: Mishaps = Mishaps { pauses: 1, ..NONE };
pub(super) const ERROR: Mishaps = Mishaps { errors: 1, ..NONE };

const CALM: Setting = Setting {
    name: "no limit",
    batches: &[at(0), at(0)],
    gap_ms: None,
    places: None,
    shares: false,
    per_target: None,
    target_gap_ms: None,
    mishaps: NONE,
    attempts: 3,
    bisects: false,
    poison: None,
    forgets: false,
    sweeps: 0,
    stall_ms: 2_000,
    late_ms: 3_000,
    by_ms: 120_000,
    overtakes_ms: 0,
};

/// Three batches of two Targets, one call a second.
pub(super) const RATE: Setting =
    Setting { name: "a rate", batches: &[of(0, 0), of(1, 0), of(0, 0)], gap_ms: Some(1_000), by_ms: 3_000, ..CALM };
/// Three batches and one place.
pub(super) const PLACE: Setting =
    Setting { name: "one place", batches: &[of(0, 0), of(1, 0), of(0, 0)], places: Some(1), ..CALM };
/// Three batches and two places.
const PLACES: Setting = Setting { name: "two places", places: Some(2), ..PLACE };
/// One place for each Target, and one call a second.
const BOTH: Setting = Setting { name: "both gates", per_target: Some(1), ..RATE };
/// Two Targets, and one call a second of each.
const OF_EACH: Setting = Setting { name: "a rate of each Target", gap_ms: None, target_gap_ms: Some(1_000), ..RATE };
/// One place that two routes share.
pub(super) const SHARED: Setting = Setting { name: "a place that two routes share", shares: true, ..PLACE };
/// A worker dies with its message, and leaves the place to its lease.
pub(super) const LEFT: Setting =
    Setting { name: "a place that is left", mishaps: DEATH, forgets: true, by_ms: 30_000, ..PLACE };
/// Two places and a rate at one gate.
pub(super) const PACED: Setting = Setting { name: "two places and a rate", places: Some(2), ..RATE };
/// A call kills its worker each time; another batch waits for the place.
pub(super) const KILLS: Setting = Setting {
    name: "a batch that kills its workers",
    batches: &[at(0), at(0)],
    places: Some(1),
    attempts: 2,
    poison: Some((0, 0)),
    ..CALM
};

/// The same without another batch; two members of it are innocent.
pub(super) const APART: Setting = Setting {
    name: "a batch that kills its workers, taken apart",
    batches: &[Arrival { target: 0, at_ms: 0, members: 3 }],
    bisects: true,
    by_ms: 240_000,
    ..KILLS
};
/// Nobody looks at a lost worker's batch but sweep.
pub(super) const SWEPT: Setting = Setting {
    name: "a batch that kills its workers, by sweep alone",
    forgets: true,
    sweeps: 5,
    by_ms: 360_000,
    ..KILLS
};
/// A batch's message is lost, and sweep finds it; it comes for its place beside another.
const FOUND: Setting =
    Setting { name: "a lost message, found by sweep", mishaps: LOSS, sweeps: 4, by_ms: 300_000, ..PLACE };

/// What goes wrong takes time.
const fn with(name: &'static str, mishaps: Mishaps, setting: Setting) -> Setting {
    Setting { name, mishaps, by_ms: 120_000, ..setting }
}

/// One batch alone, whose message comes twice.
pub(super) const ALONE: Setting = Setting {
    batches: &[at(0)],
    stall_ms: CALL_MS,
    ..with("one for a place, and its message twice", SLOW_TWIN, PLACE)
};
/// Two batches and one place; one message comes twice.
pub(super) const PAIR: Setting =
    Setting { batches: &[at(0), at(0)], ..with("two for a place, and a message twice", TWICE, PLACE) };
/// Each of another Target: a second delivery of the first waits at the route, with a place at its Target.
pub(super) const APIECE: Setting = Setting {
    batches: &[of(0, 0), of(1, 250), of(2, 250)],
    stall_ms: CALL_MS,
    ..with("both gates, three Targets and a message twice", SLOW_TWIN, BOTH)
};

/// What every check visits.
pub(super) const QUICK: [Setting; 34] = [
    RATE,
    PLACE,
    PLACES,
    BOTH,
    PACED,
    OF_EACH,
    with("a rate of each Target, and a pause", PAUSE, OF_EACH),
    with("a rate of each Target, and a death", DEATH, OF_EACH),
    with("a rate of each Target, and one that stands still", STALL, OF_EACH),
    Setting { by_ms: 3_000, ..with("a rate, and a lost ticket", LOSS, RATE) },
    with("a rate, and a pause", PAUSE, RATE),
    with("a rate, and a late message", LATE, RATE),
    with("a rate, and a death", DEATH, RATE),
    with("a place, and an error", ERROR, PLACE),
    with("a place, and a death", DEATH, PLACE),
    with("a place, and a lost ticket", LOSS, PLACE),
    with("a place, and a pause", PAUSE, PLACE),
    LEFT,
    with("both gates, and a death", DEATH, BOTH),
    with("both gates, and a pause", PAUSE, BOTH),
    with("both gates, and an error", ERROR, BOTH),
    with("two places and a rate, and a death", DEATH, PACED),
    KILLS,
    APART,
    SWEPT,
    FOUND,
    ALONE,
    PAIR,
    with("a rate, and one that stands still", STALL, RATE),
    with("a place, and one that stands still", STALL, PLACE),
    with("both gates, and one that stands still", STALL, BOTH),
    SHARED,
    with("a place that two routes share, and a death", DEATH, SHARED),
    Setting { name: "a rate that two routes share beside a place of each Target", shares: true, ..BOTH },
];

/// What a long check visits as well.
pub(super) const LONG: [Setting; 17] = [
    with("both gates, and a message twice", TWICE, BOTH),
    APIECE,
    with("two for a place, a message twice and an error", Mishaps { errors: 1, ..TWICE }, PAIR),
    with("two for a place, a message twice and two errors", Mishaps { errors: 2, ..TWICE }, PAIR),
    with("a rate of each Target, and a late message", LATE, OF_EACH),
    with("two for a place, a message twice and a pause", Mishaps { pauses: 1, ..TWICE }, PAIR),
    Setting { stall_ms: 14_000, ..with("a place, and one that stands still beyond its lease", STALL, PLACE) },
    with("a rate, a death and a pause", Mishaps { pauses: 1, ..DEATH }, RATE),
    with("a place, and a late message", LATE, PLACE),
    with("both gates, and a late message", LATE, BOTH),
    with("both gates, and a lost ticket", LOSS, BOTH),
    with("both gates, and two deaths", Mishaps { deaths: 2, ..NONE }, BOTH),
    with("two places and a rate, and a pause", PAUSE, PACED),
    with("an error, while a worker is killed each time", ERROR, KILLS),
    Setting { batches: &FOUR, ..with("four at a rate, and a pause", PAUSE, RATE) },
    Setting { name: "four for a place", batches: &FOUR, ..PLACE },
    Setting { batches: &FOUR, ..with("four at both gates, and a death", DEATH, BOTH) },
];

/// What no run has come to the end of.
pub(super) const LARGEST: [Setting; 1] = [with("a place, and a message twice", TWICE, PLACE)];
