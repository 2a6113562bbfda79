//! A downstream with moods: good for a while, then away in one way or another, by a seed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::downstream::Seen;
use crate::prelude::*;

/// A way to answer, or not to.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Good,
    Fails(u16),
    Throttles(Option<u64>),
    TimesOut,
    Resets,
    AnswersHalf,
    AnswersNonsense,
}

/// What a seed stands for.
#[derive(Debug)]
pub struct Moods {
    seed: u64,
    routes: String,
    plan: Plan,
    /// Each mood and when it ends, in milliseconds; good from the last one on.
    moods: Vec<(u64, Mood)>,
    /// Events of the task queue, each with the moment of its coming.
    events: Vec<(u64, Vec<String>)>,
}

/// What came of it.
#[derive(Debug)]
pub struct Came {
    /// Promises that were broken.
    pub broken: Vec<String>,
    /// Tasks that failed, and why: none should, since no task is at fault.
    pub failed: BTreeMap<String, String>,
    /// Calls that were made, and those of them that were answered.
    pub calls: (usize, usize),
}

impl Moods {
    /// What follows from a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let one_of = |dice: &mut StdRng, choices: &[&str]| choices[dice.random_range(0..choices.len())].to_owned();
        let (mut moods, mut at) = (Vec::new(), 0);
        for _ in 0..dice.random_range(2..=12) {
            at += dice.random_range(1_000..=90_000);
            moods.push((at, mood(&mut dice)));
        }
        let mut events = Vec::new();
        let mut n = 0;
        for _ in 0..dice.random_range(1..=20) {
            let (size, trucks) = (dice.random_range(1..=6), dice.random_range(1..=2));
            let bodies = (n..n + size).map(|n| parcel(n, n % trucks)).collect();
            n += size;
            events.push((dice.random_range(0..=at), bodies));
        }
        let (items, pause) = (dice.random_range(1..=5), one_of(&mut dice, &["route", "target"]));
        let limits = one_of(
            &mut dice,
            &[
                "",
                "",
                "in_flight: 1, ",
                "in_flight: 3, ",
                "in_flight_per_target: 1, ",
                "calls_per_second: 2, ",
                "calls_per_second: 2, share: { by: target }, ",
                "calls_per_second_per_target: 1, ",
                "in_flight: 1, share: { by: target }, ",
            ],
        );
        let reject = one_of(&mut dice, &["fail", "bisect"]);
        let routes = format!(
            "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    batch: {{ max_items: {items}, wait_ms: 500 }}\n    \
             downstream: {{ http: {{ url: \"http://downstream.invalid/load\", timeout_ms: 5000 }} }}\n    \
             limits: {{ {limits}pause: {pause} }}\n    on_reject: {reject}\n    \
             notify: {{ failure: default, success: default }}\n"
        );
        let plan = if dice.random_bool(0.5) { Plan::Nothing } else { Plan::Random(0.001) };
        Self { seed, routes, plan, moods, events }
    }

    /// Lets it happen, and looks at every promise.
    pub fn run(&self) -> Came {
        in_virtual_time(async {
            let begun = Instant::now();
            let (moods, dice) = (self.moods.clone(), Mutex::new(StdRng::seed_from_u64(self.seed ^ 0x0000_A005)));
            let now = move |at: Instant| {
                let at = u64::try_from(at.duration_since(begun).as_millis()).unwrap_or(u64::MAX);
                moods.iter().find(|(until, _)| at < *until).map_or(Mood::Good, |(_, mood)| *mood)
            };
            let script = move |seen: &Seen, _| now(seen.at).answer(seen);
            let takes_ms = move || dice.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..=400);
            let patience_ms = 24 * 60 * 60 * 1_000;
            let setting = Setting {
                seed: self.seed,
                latency_ms: 4,
                plan: self.plan.clone(),
                sweeps: true,
                patience_ms,
                ..Setting::default()
            };
            let world = World::new(setting, &self.routes, Scripted::new(Box::new(script)).taking(takes_ms));
            let mut sent = std::collections::BTreeSet::new();
            for (at, event) in &self.events {
                world.send_later(*at, event);
            }
            let tasks: usize = self.events.iter().map(|(_, event)| event.len()).sum();
            sent.extend((0..tasks).map(|n| format!("p{n}")));
            let stuck = world.run_to_rest().await.err();
            let failed = |task: Task| Some((task.id.to_string(), task.status.reason()?.to_string()));
            let failed = world.tables().tasks().into_iter().filter_map(failed);
            let answered = world.downstream.answered();
            let good = answered.iter().filter(|(_, answer)| *answer == Ok(ok(""))).count();
            let broken = stuck.into_iter().chain(broken(&world, &sent)).collect();
            Came { broken, failed: failed.collect(), calls: (answered.len(), good) }
        })
    }
}

fn mood(dice: &mut StdRng) -> Mood {
    match dice.random_range(0..10) {
        0..=2 => Mood::Good,
        3 => Mood::Fails(500),
        4 => Mood::Fails([401, 403, 502, 504][dice.random_range(0..4)]),
        5 => Mood::Throttles(dice.random_bool(0.5).then(|| dice.random_range(1_000..=3_600_000))),
        6 => Mood::TimesOut,
        7 => Mood::Resets,
        8 => Mood::AnswersHalf,
        _ => Mood::AnswersNonsense,
    }
}

impl Mood {
    fn answer(self, seen: &Seen) -> Result<Answer, NoAnswer> {
        match self {
            Self::Good => Ok(ok("")),
            Self::Fails(code) => Ok(status(code, None)),
            Self::Throttles(retry_after_ms) => Ok(status(429, retry_after_ms)),
            Self::TimesOut => Err(NoAnswer::Timeout),
            Self::Resets => Err(NoAnswer::Connection),
            Self::AnswersHalf => Ok(ok(&format!(r#"{{"results":[{{"id":"{}","sta"#, seen.items.concat()))),
            Self::AnswersNonsense => Ok(ok("<html>")),
        }
    }
}
