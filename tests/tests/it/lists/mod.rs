//! Lists against a plain queue: any calls, in any order, with a crash at any call to a port, repeated or left to sweep.

mod arrive;
mod calls;
mod case;
mod crowd;
mod model;
mod reused;
mod told;

use std::cell::Cell;

use groupage_tests::cases;

use calls::steps;
use case::Case;

const CASES: u32 = 600;

/// What the cases came to, so that they show that they try what they say.
#[derive(Default)]
struct Seen {
    released: Cell<u32>,
    discarded: Cell<u32>,
    healed: Cell<u32>,
    removed: Cell<u32>,
    expired: Cell<u32>,
    faults: Cell<u32>,
}

fn count(seen: &Cell<u32>, more: u32) {
    seen.set(seen.get() + more);
}

#[test]
fn a_list_is_what_a_plain_queue_says_whatever_crashes() {
    let seen = Seen::default();
    let cases = cases::run(CASES, steps(), async |seed, steps| {
        let mut case = Case::new(seed);
        for step in &steps {
            case.step(step).await?;
        }
        case.finish().await?;
        count(&seen.released, u32::try_from(case.model.released().count()).unwrap());
        count(&seen.discarded, u32::from(case.model.list.is_some_and(|queue| queue.discarded > 0)));
        count(&seen.healed, u32::from(case.healed));
        count(&seen.removed, case.removed);
        count(&seen.expired, case.expired);
        count(&seen.faults, case.faults);
        Ok(())
    });
    let Seen { released, discarded, healed, removed, expired, faults } = seen;
    println!(
        "{cases} cases, {} crashes: {} tasks released, {} lists discarded, {} fed on by sweep, {} removed, {} of them with tasks",
        faults.get(),
        released.get(),
        discarded.get(),
        healed.get(),
        removed.get(),
        expired.get()
    );
    let few = [&released, &discarded, &healed, &removed, &expired].into_iter().find(|seen| seen.get() == 0);
    assert!(few.is_none(), "the cases do not show all that they should");
}
