//! Soak: the steps and workers that pull as real processes, killed by `kill -9` at random under load, against a
//! downstream with faults. In the end its ledger, the tables and the notifications agree: nothing is lost, nothing is
//! settled twice, and everybody was told.
//!
//! `GROUPAGE_SOAK_TASKS` and `GROUPAGE_SOAK_KILLS` make it longer; `GROUPAGE_SOAK_SEED` repeats its dice, though not
//! what the machine makes of them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod dice;
mod downstream;
mod ledger;
#[path = "../it/stand.rs"]
mod stand;
mod tables;
mod verdict;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dice::Dice;
use ledger::Ledger;
use stand::{PATIENCE, Process, Stand};
use tables::Tables;
use verdict::Verdict;

/// Processes of each kind.
const PROCESSES: usize = 3;
const TARGETS: usize = 12;

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Half of the tasks are called for over HTTP, the other half wait for workers, who make the same calls.
fn routes(url: &str) -> String {
    let shared = "target: target\n    batch: { max_items: 25, wait_ms: 500 }\n    \
        retry: { attempts: 50, base_ms: 100, cap_ms: 1000 }\n    notify: { success: default, failure: default }";
    format!(
        "version: 1\nroutes:\n  - name: pulled\n    when: pulled\n    {shared}\n    downstream: pull\n  - name: called\n    \
         {shared}\n    limits: {{ in_flight: 12, in_flight_per_target: 2 }}\n    \
         downstream: {{ http: {{ url: \"{url}\", timeout_ms: 2000 }} }}\n"
    )
}

/// What a worker that pulls runs for each batch: the same call, with what the environment says of it.
fn command(url: &str) -> String {
    format!(
        "curl --silent --fail --max-time 2 -H \"Idempotency-Key: $GROUPAGE_BATCH\" -H 'Content-Type: application/json' \
         --data-binary @- {url}"
    )
}

/// The ids of all tasks; the ledger's downstream refuses those that say so.
fn ids(tasks: usize) -> Vec<String> {
    (0..tasks).map(|n| if n % 50 == 7 { format!("task-{n}-refused") } else { format!("task-{n}") }).collect()
}

fn line(id: &str, n: usize) -> String {
    let (target, pulled) = (n / 2 % TARGETS, n.is_multiple_of(2));
    format!(r#"{{"id":"{id}","payload":{{"target":"t{target}","pulled":{pulled},"n":{n}}}}}"#)
}

/// Processes that may die at any time.
struct Crew<'a> {
    stand: &'a Stand,
    command: String,
    steps: Vec<Process>,
    workers: Vec<Process>,
    killed: (usize, usize),
}

impl<'a> Crew<'a> {
    fn start(stand: &'a Stand, command: String) -> Self {
        let mut crew = Self { stand, command, steps: Vec::new(), workers: Vec::new(), killed: (0, 0) };
        crew.steps = (0..PROCESSES).map(|_| crew.steps()).collect();
        crew.workers = (0..PROCESSES).map(|_| crew.worker()).collect();
        crew
    }

    fn steps(&self) -> Process {
        self.stand.spawn(&["steps"], &[("GROUPAGE_LOG", "error")])
    }

    fn worker(&self) -> Process {
        let arguments = ["--json", "work", "--route", "pulled", "--timeout", "5s", "--exec", &self.command];
        self.stand.spawn(&arguments, &[("GROUPAGE_LOG", "error")])
    }

    /// Kills one by `kill -9` and starts another in its place at once.
    fn kill_one(&mut self, dice: &mut Dice) {
        let victim = dice.below(2 * PROCESSES);
        if victim < PROCESSES {
            let new = self.steps();
            std::mem::replace(&mut self.steps[victim], new).kill();
            self.killed.0 += 1;
        } else {
            let new = self.worker();
            std::mem::replace(&mut self.workers[victim - PROCESSES], new).kill();
            self.killed.1 += 1;
        }
    }

    /// Fails unless all of them run that were not killed.
    fn all_run(&mut self) {
        self.steps.iter_mut().chain(&mut self.workers).for_each(Process::still_runs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_settled_twice_and_everybody_is_told_whoever_is_killed() {
    let tasks = usize::try_from(from_env("GROUPAGE_SOAK_TASKS", 1_000)).unwrap();
    let kills = usize::try_from(from_env("GROUPAGE_SOAK_KILLS", 5)).unwrap();
    let seed = from_env("GROUPAGE_SOAK_SEED", u64::from(std::process::id()));
    println!("soak: GROUPAGE_SOAK_TASKS={tasks} GROUPAGE_SOAK_KILLS={kills} GROUPAGE_SOAK_SEED={seed}");
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let url = downstream::start(seed, Arc::clone(&ledger)).await;
    let handle = tokio::runtime::Handle::current();
    let run = move || {
        let folder = tempfile::tempdir().unwrap();
        let stand = Stand::start(folder.path(), &routes(&url), &["--no-steps"]);
        let tables = Tables::of(&stand);
        let ids = ids(tasks);
        let mut crew = Crew::start(&stand, command(&url));
        let began = Instant::now();

        load(&stand, &ids, kills, &mut crew, &mut Dice::new(seed));
        println!("all sent, {:?} (steps, workers) killed after {:.1} s", crew.killed, began.elapsed().as_secs_f64());
        let (mut left, mut changed) = (usize::MAX, Instant::now());
        while left > 0 {
            std::thread::sleep(Duration::from_millis(500));
            crew.all_run();
            let now_left = handle.block_on(tables.left(&ids));
            if now_left != left {
                (left, changed) = (now_left, Instant::now());
            }
            // What does not come to rest is the verdict's to tell.
            if changed.elapsed() > PATIENCE {
                break;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        drop(crew);
        let settled = handle.block_on(tables.read(&ids));
        let notices = handle.block_on(tables.notices());
        let verdict = Verdict::of(&ids, &settled, &notices, &ledger.lock().unwrap());
        println!("{}  seconds                {seconds:.1}\n{}", verdict.text(), stand.depths());
        assert_eq!(left, 0, "not at rest");
        assert!(verdict.is_well(), "seed {seed}: {:#?}", verdict.complaints());
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}

/// Sends all tasks in portions, and kills somebody after each.
fn load(stand: &Stand, ids: &[String], kills: usize, crew: &mut Crew<'_>, dice: &mut Dice) {
    let portion = ids.len().div_ceil(kills + 1);
    let mut sent = 0;
    for _ in 0..=kills {
        let until = ids.len().min(sent + portion);
        let mut lines = String::new();
        for (n, id) in ids.iter().enumerate().take(until).skip(sent) {
            writeln!(lines, "{}", line(id, n)).unwrap();
        }
        stand.send(&lines);
        sent = until;
        if sent < ids.len() {
            std::thread::sleep(Duration::from_millis(200 + dice.below(1_800) as u64));
            crew.kill_one(dice);
        }
    }
}
