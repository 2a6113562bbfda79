//! A run in which anything may happen: what, follows from its seed.

mod expired;
mod express;
mod fan_out;
mod kept;
mod list;
mod named;
mod order;
mod pushes;
mod shards;
mod stream;
mod targets;
mod traits;

pub(crate) use list::naming;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::downstream::Seen;
use crate::fan_out::FanOut;
use crate::prelude::*;
use crate::scenario::Told;
use crate::shelf::Caller;

/// What a seed stands for.
#[derive(Debug)]
pub struct Chaos {
    /// What the world is like.
    pub setting: Setting,
    /// The routes file.
    pub routes: String,
    /// Events of the task queue, each with the moment of its coming, in milliseconds.
    events: Vec<(u64, Vec<String>)>,
    /// The owner that sends the tasks instead, if they are counted.
    fan_out: Option<fan_out::Random>,
    /// Those who make calls to a list, if some of the tasks wait on one.
    callers: Vec<Caller>,
    /// The stream by which the tasks are fed instead.
    stream: Option<stream::Random>,
    temper: Temper,
    /// When a person holds all calls back for a while, if one does.
    held_at: Option<u64>,
    /// The tasks that are sent.
    sent: BTreeSet<String>,
}

/// Tasks of which one may kill every worker that calls the downstream with it.
const DEADLY: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// What the downstream is like: chances of answers, in a hundred.
#[derive(Clone, Copy, Debug)]
struct Temper {
    seed: u64,
    unavailable: u32,
    throttled: u32,
    timeout: u32,
    reset: u32,
    nonsense: u32,
    member: u32,
    poison: Option<usize>,
    slow_ms: u64,
}

impl Chaos {
    /// What follows from a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let one_of = |dice: &mut StdRng, choices: &[u64]| choices[dice.random_range(0..choices.len())];
        let workers = dice.random_bool(0.25).then(|| ("parcels", dice.random_range(1..=3)));
        let setting = Setting {
            seed,
            plan: match dice.random_range(0..5) {
                0 => Plan::Nothing,
                1 => Plan::Deaths(0.01),
                2 => Plan::Random(0.002),
                3 => Plan::Random(0.01),
                _ => Plan::Random(0.03),
            },
            lag: Lag {
                index_ms: one_of(&mut dice, &[0, 500, 4_000]),
                read_ms: one_of(&mut dice, &[0, 500, 2_000]),
                slots_ms: 0,
            },
            latency_ms: one_of(&mut dice, &[1, 5, 50]),
            skew_ms: one_of(&mut dice, &[0, 0, 200, 2_000]),
            loss: [0.0, 0.0, 0.01, 0.05][dice.random_range(0..4)],
            twice: [0.0, 0.02, 0.1][dice.random_range(0..3)],
            sweeps: true,
            workers,
            ..Setting::default()
        };
        // Of dice of their own, so that the rest of a seed stays what it is.
        let mut order = order::of(&mut StdRng::seed_from_u64(seed ^ 0x000A_DE55));
        let mut express_dice = StdRng::seed_from_u64(seed ^ 0x0E89_4E55);
        let express = express::of(&mut express_dice);
        let mut routes = routes(&mut dice, workers.is_some(), express.express);
        let (tasks, trucks) = (dice.random_range(1..=16), dice.random_range(1..=3));
        let shards = shards::of(&mut StdRng::seed_from_u64(seed ^ 0x0005_4A2D)).filter(|_| order.is_none());
        let (tasks, trucks) = shards.and_then(|shards| shards.hot).map_or((tasks, trucks), |tasks| (tasks, 1));
        let bodies: Vec<String> = (0..tasks)
            .map(|n| order.map_or_else(|| parcel(n, n % trucks), |order| order.parcel(n, n % trucks)))
            .collect();
        let bodies = expired::some(&mut StdRng::seed_from_u64(seed ^ 0x0000_E4D5), bodies);
        // What is fed or has a place in a lane goes on at once.
        let fed = bodies.clone();
        let mut later_dice = StdRng::seed_from_u64(seed ^ 0x0000_D0E5);
        let bodies = if order.is_none() { expired::later(&mut later_dice, bodies) } else { bodies };
        let mut events = Vec::new();
        for chunk in bodies.chunks(dice.random_range(1..=8)) {
            let at = one_of(&mut dice, &[0, 0, 100, 2_500, 20_000]);
            let at = shards.map_or(at, |shards| shards.moment(at));
            events.push((at, chunk.to_vec()));
            if dice.random_bool(0.2) {
                events.push((at + one_of(&mut dice, &[0, 50, 5_000, 90_000]), chunk.to_vec()));
            }
        }
        if order.is_none() {
            express.events(&mut express_dice, &bodies, &mut events);
        }
        let chance = |dice: &mut StdRng| [0, 0, 5, 20][dice.random_range(0..4)];
        let temper = Temper {
            seed: dice.random(),
            unavailable: chance(&mut dice),
            throttled: chance(&mut dice),
            timeout: chance(&mut dice),
            reset: chance(&mut dice),
            nonsense: chance(&mut dice),
            member: chance(&mut dice),
            poison: dice.random_bool(0.2).then(|| dice.random_range(0..tasks)),
            slow_ms: one_of(&mut dice, &[0, 300, 3_000, 9_000]),
        };
        let fan_out = dice.random_bool(0.4).then(|| fan_out::of(&mut dice, &bodies));
        // An owner that begins anew whenever it dies gets through few tasks only.
        let fan_out = fan_out.filter(|_| shards.is_none_or(|shards| shards.hot.is_none()));
        if fan_out.is_some() {
            events.clear();
        }
        let mut sent: BTreeSet<String> = (0..tasks).map(|n| format!("p{n}")).collect();
        let (mut setting, mut callers) = (setting, Vec::new());
        if fan_out.is_none() && dice.random_bool(0.35) {
            setting.lag.slots_ms = one_of(&mut dice, &[0, 0, 100, 3_000]);
            let list = list::of(&mut dice, &bodies);
            // What becomes of those on the list is looked at apart.
            sent.clear();
            // Numbers of tasks that are discarded, or stay on the list, would be waited for in vain.
            order = order.map(order::Random::by_arrival);
            (events, callers) = (list.events, list.callers);
        }
        let mut dice = StdRng::seed_from_u64(seed ^ 0x0057_4EA3);
        let stream = stream::of(&mut dice, &fed).filter(|_| fan_out.is_none() && callers.is_empty());
        if stream.is_some() {
            events.clear();
        }
        let mut dice = StdRng::seed_from_u64(seed ^ 0x0000_4E1D);
        let held_at = dice.random_bool(0.15).then(|| one_of(&mut dice, &[0, 1_000, 3_000, 30_000]));
        setting.expires = kept::of(&mut StdRng::seed_from_u64(seed ^ 0x0000_7715));
        let mut dice = StdRng::seed_from_u64(seed ^ 0x0DEA_D1E5);
        setting.lasting.deadly = dice.random_bool(0.15).then(|| DEADLY[dice.random_range(0..DEADLY.len())]);
        let mut dice = StdRng::seed_from_u64(seed ^ 0x0000_A6A1);
        setting.retries = if dice.random_bool(0.4) { dice.random_range(1..=2) } else { 0 };
        setting.cancels = if dice.random_bool(0.3) { [0.1, 0.4][dice.random_range(0..2)] } else { 0.0 };
        // A queue that keeps order gives records back in order, too.
        setting.mixes = express.mixes && order.is_none();
        let traits = traits::of(&mut StdRng::seed_from_u64(seed ^ 0x0007_4A17));
        routes = traits.options(&routes, order.is_some());
        routes.push_str(&order.map(order::Random::route).unwrap_or_default());
        routes.push_str(&shards.map(shards::Random::route).unwrap_or_default());
        let mut dice = StdRng::seed_from_u64(seed ^ 0x007A_26E7);
        routes.push_str(&targets::of(&mut dice, order.is_none()).unwrap_or_default());
        let mut dice = StdRng::seed_from_u64(seed ^ 0x0001_1317);
        let shared = named::of(&mut dice, &routes).filter(|_| order.is_none() && shards.is_none());
        let is_alone = shared.is_none() && fan_out.is_none() && callers.is_empty() && stream.is_none();
        let routes = shared.unwrap_or(routes);
        pushes::of(&mut StdRng::seed_from_u64(seed ^ 0x0009_C5E5), &routes, is_alone, &mut setting);
        Self { setting, routes, events, fan_out, callers, stream, temper, held_at, sent }
    }

    /// The same with one rule broken.
    pub fn with(mut self, mutation: Mutation) -> Self {
        // Without its rule a run may go round in circles; of those with all of them the longest makes a third of that.
        self.setting = Setting { mutation: Some(mutation), most_calls: 400_000, ..self.setting };
        self
    }

    /// The same while a new version is deployed: half of the messages between steps are of the next one.
    pub fn upgrading(mut self) -> Self {
        self.setting.newer = 0.5;
        self
    }

    /// Lets it happen, and looks at every promise.
    pub fn run(&self, traced: bool) -> Told {
        in_virtual_time(async {
            let setting = Setting { traced, ..self.setting.clone() };
            let world = World::new(setting, &self.routes, self.temper.downstream());
            for (at, event) in &self.events {
                world.send_later(*at, event);
            }
            self.stream.iter().flat_map(stream::Random::sources).for_each(|source| world.feed(source));
            if let Some(fan_out::Random { fan_out, deadline_ms }) = self.fan_out.clone() {
                let deadline = deadline_ms.map(|ms| world.env.now().plus_ms(ms));
                world.fan_out_later(0, FanOut { deadline, ..fan_out });
            }
            if let Some(at) = self.held_at {
                world.hold_later(at, "parcels");
            }
            for caller in &self.callers {
                world.call_list(caller.clone());
            }
            Told::of(&world, world.run_to_rest().await, &self.sent)
        })
    }
}

/// A downstream that is called.
const CALLED: &str = r#"{ http: { url: "http://downstream.invalid/load", timeout_ms: 10000 } }"#;
/// The limits of a route, one of these.
const LIMITS: [&str; 10] = [
    "{}",
    "{}",
    "{ in_flight_per_target: 1 }",
    "{ in_flight: 1 }",
    "{ in_flight_per_target: 1, in_flight: 2, pause: route }",
    "{ calls_per_second: 2 }",
    "{ calls_per_second: 1, in_flight: 2 }",
    "{ calls_per_second: 2, share: { by: target } }",
    "{ calls_per_second_per_target: 1, in_flight_per_target: 2 }",
    "{ in_flight: 1, share: { by: target } }",
];

fn routes(dice: &mut StdRng, pulled: bool, express: bool) -> String {
    let one_of = |dice: &mut StdRng, choices: &[&str]| choices[dice.random_range(0..choices.len())].to_owned();
    let items = dice.random_range(1..=5);
    let wait = one_of(dice, &["0", "500", "3000"]);
    let limits = one_of(dice, &LIMITS);
    let reject = one_of(dice, if pulled { &["fail"] } else { &["fail", "bisect"] });
    let attempts = dice.random_range(2..=6);
    let downstream = if pulled { "pull" } else { CALLED };
    format!(
        "version: 1\nroutes:\n  - name: parcels\n    target: truck\n    \
         batch: {{ max_items: {items}, wait_ms: {wait}, express: {express} }}\n    downstream: {downstream}\n    limits: {limits}\n    \
         on_reject: {reject}\n    retry: {{ attempts: {attempts}, base_ms: 1000, cap_ms: 8000 }}\n    \
         notify: {{ failure: default, success: default }}\n"
    )
}

impl Temper {
    fn downstream(self) -> Scripted {
        let dice = Mutex::new(StdRng::seed_from_u64(self.seed));
        let pace = Mutex::new(StdRng::seed_from_u64(self.seed.wrapping_add(1)));
        let script = move |seen: &Seen, _| self.answer(seen, &mut dice.lock().unwrap_or_else(PoisonError::into_inner));
        let takes = move || pace.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..=self.slow_ms);
        Scripted::new(Box::new(script)).taking(takes)
    }

    fn answer(self, seen: &Seen, dice: &mut StdRng) -> Result<Answer, NoAnswer> {
        let status = |status, retry_after_ms| Ok(Answer { status, retry_after_ms, ..Answer::default() });
        let mut happens = |chance| dice.random_range(0..100) < chance;
        if happens(self.unavailable) {
            return status(503, None);
        }
        if happens(self.throttled) {
            return status(429, Some(7_000));
        }
        if happens(self.timeout) {
            return Err(NoAnswer::Timeout);
        }
        if happens(self.reset) {
            return Err(NoAnswer::Connection);
        }
        if happens(self.nonsense) {
            return Ok(ok("<html>"));
        }
        if self.poison.is_some_and(|poison| seen.items.contains(&format!("p{poison}"))) {
            return status(422, None);
        }
        let results: Vec<_> = seen
            .items
            .iter()
            .map(|id| match (happens(self.member), happens(50)) {
                (false, _) => serde_json::json!({ "id": id, "status": "succeeded", "output": seen.output(id) }),
                (true, false) => serde_json::json!({ "id": id, "status": "retry", "reason": "busy" }),
                (true, true) => {
                    serde_json::json!({ "id": id, "status": "failed", "reason": "too_heavy", "output": seen.output(id) })
                }
            })
            .collect();
        Ok(ok(if self.member == 0 { String::new() } else { serde_json::json!({ "results": results }).to_string() }
            .as_str()))
    }
}
