//! Streams against a sorted set of numbers: any calls, in any order, with a crash at any call to a port, repeated or left
//! to sweep.

mod calls;
mod case;
mod crowd;
mod killed;
mod model;

use std::cell::Cell;

use groupage_core::domain::stream::State;
use groupage_tests::cases;

use calls::steps;
use case::Case;

const CASES: u32 = 120;

/// What the cases came to, so that they show that they try what they say.
#[derive(Default)]
struct Seen {
    completed: Cell<u32>,
    of_several_groups: Cell<u32>,
    healed: Cell<u32>,
    full: Cell<u32>,
    faults: Cell<u32>,
}

fn count(seen: &Cell<u32>, more: u32) {
    seen.set(seen.get() + more);
}

#[test]
fn a_stream_is_what_a_sorted_set_says_whatever_crashes() {
    let seen = Seen::default();
    let cases = cases::run(CASES, steps(), async |seed, steps| {
        let mut case = Case::new(seed);
        for step in &steps {
            case.step(step).await?;
        }
        case.finish().await?;
        count(&seen.completed, u32::from(case.model.state == Some(State::Completed)));
        count(&seen.of_several_groups, u32::from(case.model.watermark > 7_168));
        count(&seen.healed, u32::from(case.healed));
        count(&seen.full, case.full);
        count(&seen.faults, case.faults);
        Ok(())
    });
    let Seen { completed, of_several_groups, healed, full, faults } = seen;
    println!(
        "{cases} cases, {} crashes: {} completed, {} past a whole group, {} committed by sweep, {} windows full",
        faults.get(),
        completed.get(),
        of_several_groups.get(),
        healed.get(),
        full.get()
    );
    let few = [&completed, &of_several_groups, &healed, &full].into_iter().find(|seen| seen.get() == 0);
    assert!(few.is_none(), "the cases do not show all that they should");
}
