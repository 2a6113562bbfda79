//! One small story of the pipeline, told the same way every time, so that every call to a port in it can be numbered
//! and made to fail.

use std::collections::BTreeSet;

use futures::future::LocalBoxFuture;

use crate::downstream::{Seen, running};
use crate::prelude::*;
use crate::process::Point;

/// What happens in a story after its messages are sent, before the rest follows: some are lost.
pub type Mishap = for<'a> fn(&'a World) -> LocalBoxFuture<'a, Result<(), String>>;

/// Answers a look at a job, given the last call that had begun it and how often it was looked at before.
pub type AnswersLooks = fn(&Seen, usize) -> Result<Answer, NoAnswer>;

/// A story.
#[derive(Clone)]
#[must_use]
pub struct Scenario {
    /// What it is about.
    pub name: &'static str,
    /// The routes file.
    pub routes: String,
    /// What its world is like; the plan is the teller's.
    pub setting: Setting,
    /// What the downstream answers.
    pub script: fn(&Seen, usize) -> Result<Answer, NoAnswer>,
    /// How long a call takes, in milliseconds.
    pub takes_ms: u64,
    /// How long the job takes that a call begins, in milliseconds, and how it is told what became of its members.
    pub job: Option<(u64, AnswersLooks)>,
    /// Sends its messages; the rest follows.
    pub begin: fn(&World),
    /// What happens then, if anything does.
    pub mishap: Option<Mishap>,
    /// The tasks that it sends.
    pub sent: BTreeSet<String>,
}

/// What came of a story.
#[derive(Debug)]
pub struct Told {
    /// Every call to a port.
    pub points: Vec<Point>,
    /// What befell whom.
    pub faults: Vec<String>,
    /// Every call with its answer, if that was asked for.
    pub trace: Vec<String>,
    /// The promises that were broken.
    pub broken: Vec<String>,
    /// How many batches with members leaders of shards made.
    pub shard_batches: usize,
}

impl Told {
    /// What came of a world in which these tasks were sent, and which came to rest or is stuck.
    pub(crate) fn of(world: &World, ended: Result<(), String>, sent: &BTreeSet<String>) -> Self {
        let broken = ended.err().into_iter().chain(broken(world, sent)).collect();
        let (points, faults, trace) = (world.fate.points(), world.fate.faults(), world.fate.trace());
        Self { points, faults, trace, broken, shard_batches: shard_batches(world) }
    }
}

/// How many batches with members the leaders of shards other than the home have made.
fn shard_batches(world: &World) -> usize {
    let is_of_shard = |batch: &&Batch| batch.target.shard() != Shard::HOME && !batch.members.is_empty();
    world.tables().batches().iter().filter(is_of_shard).count()
}

/// Calls of three, so that few tasks make more than one.
const ROUTES: &str = r#"
version: 1
routes:
  - name: parcels
    target: truck
    batch: { max_items: 3, wait_ms: 1000, express: false }
    downstream: { http: { url: "http://downstream.invalid/load", timeout_ms: 5000 } }
    retry: { attempts: 3, base_ms: 1000, cap_ms: 4000 }
    notify: { failure: default, success: default }
"#;

/// A routes file of which no route wants a parcel.
pub(crate) const OTHERS: &str =
    "version: 1\nroutes: [{ name: others, when: \"n == `-1`\", target: truck, downstream: pull }]";

/// A routes file whose one route groups parcels by their truck, and has these lines besides.
#[macro_export]
macro_rules! parcels_route {
    ($($line:literal),* $(,)?) => {
        concat!(
            "version: 1\nroutes:\n  - name: parcels\n    target: truck\n",
            "    downstream: { http: { url: \"http://downstream.invalid/load\" } }\n",
            $("    ", $line, "\n"),*
        )
    };
}

/// The routes file of stories, with these lines in its route.
pub fn routes_with(lines: &str) -> String {
    with_lines(ROUTES, lines)
}

fn with_lines(routes: &str, lines: &str) -> String {
    routes.replace("    retry:", &format!("    {lines}\n    retry:"))
}

/// A message of the task queue.
pub fn parcel(n: usize, truck: usize) -> String {
    format!(r#"{{"id":"p{n}","payload":{{"truck":"t{truck}","n":{n}}}}}"#)
}

/// A message with an order key; those of one key have turns from 1 on.
pub fn keyed(n: usize, truck: usize, key: usize, turn: usize) -> String {
    format!(r#"{{"id":"p{n}","payload":{{"truck":"t{truck}","n":{n},"key":"k{key}","turn":{turn}}}}}"#)
}

/// The same message, for a task that is wanted for this number of seconds.
pub fn expiring(body: &str, seconds: u64) -> String {
    body.strip_suffix('}').map_or_else(String::new, |open| format!(r#"{open},"expires_at":{seconds}}}"#))
}

/// The same message, for a task that is called after this number of seconds at the earliest.
pub fn scheduled(body: &str, seconds: u64) -> String {
    body.strip_suffix('}').map_or_else(String::new, |open| format!(r#"{open},"not_before":{seconds}}}"#))
}

/// Messages of the task queue, for this many trucks.
pub fn parcels(count: usize, trucks: usize) -> Vec<String> {
    (0..count).map(|n| parcel(n, n % trucks)).collect()
}

impl Scenario {
    /// A story in which everything is accepted.
    pub fn new(name: &'static str, tasks: usize, begin: fn(&World)) -> Self {
        let setting = Setting { seed: 11, latency_ms: 4, ..Setting::default() };
        let sent = (0..tasks).map(|n| format!("p{n}")).collect();
        let (routes, script) = (ROUTES.to_owned(), |_: &Seen, _| Ok(ok("")));
        Self { name, routes, setting, script, takes_ms: 0, job: None, begin, mishap: None, sent }
    }

    /// With lines added to its route.
    pub fn route(self, lines: &str) -> Self {
        Self { routes: with_lines(&self.routes, lines), ..self }
    }

    /// With another window, and whatever else says when a batch ends.
    pub fn window(self, fields: &str) -> Self {
        Self { routes: self.routes.replace("wait_ms: 1000", fields), ..self }
    }

    /// With another number of attempts, and whatever else a retry says.
    pub fn retry(self, fields: &str) -> Self {
        Self { routes: self.routes.replace("attempts: 3", fields), ..self }
    }

    /// With full batches made at once, and records that come again in other events.
    pub fn express(mut self) -> Self {
        self.routes = self.routes.replace("express: false", "express: true");
        self.setting.mixes = true;
        self
    }

    /// With a downstream of another kind.
    pub fn downstream(self, kind: &str) -> Self {
        let other = |line: &str| match line.split_once("downstream:") {
            Some((indent, _)) => format!("{indent}downstream: {kind}\n"),
            None => format!("{line}\n"),
        };
        Self { routes: self.routes.lines().map(other).collect(), ..self }
    }

    /// With a downstream that is not called but pulled.
    pub fn pulled(self, workers: usize) -> Self {
        self.downstream("pull").setting(|setting| setting.workers = Some(("parcels", workers)))
    }

    /// With a downstream that answers otherwise.
    pub fn answering(self, script: fn(&Seen, usize) -> Result<Answer, NoAnswer>) -> Self {
        Self { script, ..self }
    }

    /// With calls that take so long, in milliseconds.
    pub fn taking(self, takes_ms: u64) -> Self {
        Self { takes_ms, ..self }
    }

    /// Has calls begin jobs, which take so long, in milliseconds, and then answer so.
    pub fn job(self, takes_ms: u64, answers: AnswersLooks) -> Self {
        let http = "{ http: { url: \"http://downstream.invalid/load\", timeout_ms: 5000, job: { url: headers.location, \
                    ended: \"!(body.state == 'running')\", every_s: 2, deadline_s: 600 } } }";
        Self { job: Some((takes_ms, answers)), ..self.downstream(http) }
    }

    /// With something that happens once its messages are sent.
    pub fn then(self, mishap: Mishap) -> Self {
        Self { mishap: Some(mishap), ..self }
    }

    /// With sweep, which finds what somebody has lost.
    pub fn swept(self) -> Self {
        self.setting(|setting| setting.sweeps = true)
    }

    /// With a task that kills every worker which calls the downstream with it.
    pub fn killed_by(self, task: &'static str) -> Self {
        self.setting(|setting| setting.lasting.deadly = Some(task))
    }

    /// In another world.
    pub fn setting(mut self, change: impl FnOnce(&mut Setting)) -> Self {
        change(&mut self.setting);
        self
    }

    /// Tells the story to its end, and looks at every promise.
    pub fn tell(&self, plan: Plan, traced: bool) -> Told {
        in_virtual_time(async {
            let setting = Setting { plan, traced, ..self.setting.clone() };
            let takes_ms = self.takes_ms;
            let downstream = Scripted::new(Box::new(self.script)).taking(move || takes_ms);
            let downstream =
                match self.job {
                    Some((job_ms, answers)) => downstream.with_jobs(job_ms, move |seen, since_ms, looks| {
                        if since_ms < job_ms { Ok(running()) } else { answers(seen, looks) }
                    }),
                    None => downstream,
                };
            let world = World::new(setting, &self.routes, downstream);
            (self.begin)(&world);
            let begun = match self.mishap {
                Some(mishap) => mishap(&world).await,
                None => Ok(()),
            };
            let told = match begun {
                Ok(()) => world.run_to_rest().await,
                Err(stuck) => Err(stuck),
            };
            Told::of(&world, told, &self.sent)
        })
    }
}
