//! Bursts on one Target through the embedded stack: full calls, each task once, at the simulator's price.
//!
//! A long run (`GROUPAGE_TESTS=long`) sends ten thousand tasks, and one to 16 shards as well as to 4.

mod embedded;

use std::collections::HashSet;

use groupage_aws::{Place, Units};
use groupage_lab::effort;
use simulator::load::Load;
use simulator::{Setting, run};

use embedded::{Burst, Cost, burst};

/// Sends a burst, checks its calls, and compares its units with those of the simulated one.
async fn check(sent: Burst) {
    let cost = burst(sent).await;
    let Burst { tasks, lag_ms, express, shards } = sent;
    println!("{tasks} tasks in {:.0} s: {} calls\n{:#?}", cost.ran_s, cost.calls.len(), cost.usage);
    let members: Vec<&String> = cost.calls.values().flatten().collect();
    assert_eq!(members.len(), tasks, "a task in no call, or in two");
    assert_eq!(members.iter().collect::<HashSet<_>>().len(), tasks, "a task twice");
    // On the express path the remainders of events gather for five seconds at the longest. Each time that a machine
    // stalls for so long, a leader may be elected for what each of the mapping's five processes left over, less than a
    // batch, and may make a call that is not full.
    let cut_short = if express { (cost.ran_s / 5.0) as usize } else { 0 };
    assert!(cost.calls.len() <= tasks / 100 + 1 + cut_short, "{} calls for {tasks} tasks", cost.calls.len());
    // A task with a leader is written to the waiting index and deleted from it.
    let elected = if express { (cost.usage.at(Place::Waiting).write.count() / 2.0) as usize } else { 0 };
    assert!(elected <= 500 * cut_short, "a leader for {elected} tasks in {:.0} s", cost.ran_s);
    let setting = Setting { lag_ms, express, shards, ..Setting::of(Load::Burst { tasks, targets: 1 }) };
    let simulated = tokio::task::spawn_blocking(move || run(&setting, &|_| {})).await.unwrap().unwrap();
    compare(&cost, &simulated, elected);
}

/// Fails if the simulator counts other units than the embedded database reports. `elected` tasks had a leader that is
/// not in the simulation.
fn compare(embedded: &Cost, simulated: &simulator::Outcome, elected: usize) {
    // The most that election adds to a task at any place: four writes at the waiting index, with what they cost there.
    let spare = (elected * 4) as f64;
    // How often a leader is elected, signalled and looks at the index depends on how fast the machine is: what locks
    // cost counts in the whole only, and of the reads only those are compared that come once a batch. A session on a
    // slow machine has more heartbeats than the simulated one, and never fewer.
    let mut far_off = Vec::new();
    for place in Place::ON_THE_WAY {
        let (real, ours) = (embedded.usage.at(place), simulated.usage.at(place));
        let name = place.name();
        println!("{name}: {} and {} write units, {} and {} read", real.write, ours.write, real.read, ours.read);
        let reads_agree = place != Place::Batches || near(real.read, ours.read, spare);
        let beats_more_often = place == Place::Sessions && real.write > ours.write;
        let writes_agree = place == Place::Locks || beats_more_often || near(real.write, ours.write, spare);
        if !reads_agree || !writes_agree {
            far_off.push(name);
        }
    }
    let (real, ours) = (embedded.usage.capacity().write, simulated.usage.capacity().write);
    println!("in all: {real} and {ours} write units");
    assert!(far_off.is_empty(), "other units than the database's: {far_off:?}");
    assert!(near(real, ours, 2.0 * spare), "other write units than the database's: {real} and {ours}");
}

/// Within 2 %, or 50 units: a thousandth of the whole is lost in a few heartbeats and repeated reads more or less.
/// The database may report as many more as `spare` says.
fn near(real: Units, ours: Units, spare: f64) -> bool {
    let more = real.count() - ours.count();
    let tolerated = (real.count() * 0.02).max(50.0);
    -tolerated <= more && more <= tolerated + spare
}

fn elected() -> Burst {
    Burst { tasks: effort::either(3_000, 10_000), lag_ms: 0, express: false, shards: 1 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_burst_costs_what_it_does_on_the_embedded_database() {
    check(elected()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_index_costs_neither_fill_nor_units() {
    check(Burst { lag_ms: 2_000, ..elected() }).await;
}

/// However the mapping cuts the burst into events: what each leaves over, less than a batch, gathers.
#[tokio::test(flavor = "multi_thread")]
async fn full_batches_that_arrive_together_cost_what_is_simulated() {
    check(Burst { express: true, lag_ms: 2_000, ..elected() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_cost_neither_fill_nor_units() {
    for shards in effort::either(vec![4], vec![4, 16]) {
        check(Burst { shards, ..elected() }).await;
    }
}
