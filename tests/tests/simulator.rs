//! The simulator counts what the embedded database says that it consumed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss, reason = "tests")]

use groupage_tests::burst::{Burst, burst};
use shared::aws::Place;
use simulator::load::Load;
use simulator::{Setting, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_burst_costs_what_it_does_on_the_embedded_database() {
    const TASKS: usize = 10_000;
    let embedded = burst(Burst { tasks: TASKS, lag_ms: 0, express: false, shards: 1 }).await;
    let setting = Setting::of(Load::Burst { tasks: TASKS, targets: 1 });
    let simulated = tokio::task::spawn_blocking(move || run(&setting, &|_| {})).await.unwrap().unwrap();
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
        // A thousandth of the whole is lost in a few elections and heartbeats more or less.
        let bound = (real.write.count() * 0.02).max(TASKS as f64 * 0.005);
        if (real.write.count() - ours.write.count()).abs() > bound {
            far_off.push(place.name());
        }
    }
    let writes = |usage: &shared::aws::Usage| usage.capacity().write.count();
    let reads = |usage: &shared::aws::Usage| (usage.capacity().read - usage.looked_through()).count();
    let near = |real: f64, ours: f64, share: f64| (real - ours).abs() <= share * real;
    println!("{} and {} read units in all", reads(&embedded.usage), reads(&simulated.usage));
    assert!(far_off.is_empty(), "other write units than the database's: {far_off:?}");
    assert!(near(writes(&embedded.usage), writes(&simulated.usage), 0.02), "write units");
    assert!(near(reads(&embedded.usage), reads(&simulated.usage), 0.1), "read units");
}
