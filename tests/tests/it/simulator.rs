//! The simulator counts what the embedded database says that it consumed.

use groupage_aws::{Place, Units};
use groupage_tests::burst::{Burst, burst};
use simulator::load::Load;
use simulator::{Setting, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_burst_costs_what_it_does_on_the_embedded_database() {
    const TASKS: usize = 10_000;
    let embedded = burst(Burst { tasks: TASKS, lag_ms: 0, express: false, shards: 1 }).await;
    let setting = Setting::of(Load::Burst { tasks: TASKS, targets: 1 });
    let simulated = tokio::task::spawn_blocking(move || run(&setting, &|_| {})).await.unwrap().unwrap();
    // How often a leader is elected, signalled and looks at the index depends on how fast the machine is: what locks
    // cost counts in the whole only, and of the reads only those are compared that come once a batch. A session on a
    // slow machine has more heartbeats than the simulated one, and never fewer.
    let mut far_off = Vec::new();
    for place in Place::ON_THE_WAY {
        let (real, ours) = (embedded.usage.at(place), simulated.usage.at(place));
        println!(
            "{}: {} and {} write units, {} and {} read",
            place.name(),
            real.write,
            ours.write,
            real.read,
            ours.read
        );
        let reads_agree = place != Place::Batches || near(real.read, ours.read);
        let beats_more_often = place == Place::Sessions && real.write > ours.write;
        let writes_agree = place == Place::Locks || beats_more_often || near(real.write, ours.write);
        if !reads_agree || !writes_agree {
            far_off.push(place.name());
        }
    }
    let (real, ours) = (embedded.usage.capacity().write, simulated.usage.capacity().write);
    println!("in all: {real} and {ours} write units");
    assert!(far_off.is_empty(), "other units than the database's: {far_off:?}");
    assert!(near(real, ours), "other write units than the database's: {real} and {ours}");
}

/// Within 2 %, or 50 units: a thousandth of the whole is lost in a few heartbeats and repeated reads more or less.
fn near(real: Units, ours: Units) -> bool {
    (real.count() - ours.count()).abs() <= (real.count() * 0.02).max(50.0)
}
