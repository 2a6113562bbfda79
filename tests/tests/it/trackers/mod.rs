//! Any calls in any order against a model of plain sets, with a crash at any call to a port and eventual reads that may
//! be old.
//!
//! A call that crashed is repeated, or nobody does and sweep comes some time. Until then a tracker may be unfinished;
//! never may it show anything that the model has not.

mod calls;
mod case;
mod listing;
mod model;
mod notices;
mod rejected;
mod reused;

use std::cell::Cell;

use groupage_core::domain::tracker::Ending;
use groupage_tests::cases;

use calls::steps;
use case::Case;

const CASES: u32 = 400;

/// What the cases came to, so that they show that they try what they say.
#[derive(Default)]
struct Seen {
    completed: Cell<u32>,
    of_several_groups: Cell<u32>,
    overdue: Cell<u32>,
    abandoned: Cell<u32>,
    healed: Cell<u32>,
    faults: Cell<u32>,
}

fn count(seen: &Cell<u32>, that: bool) {
    seen.set(seen.get() + u32::from(that));
}

#[test]
fn a_tracker_is_what_plain_sets_say_whatever_crashes() {
    let seen = Seen::default();
    let cases = cases::run(CASES, steps(), async |seed, steps| {
        let mut case = Case::new(seed);
        for step in &steps {
            case.step(step).await?;
        }
        case.finish().await?;
        count(&seen.completed, case.model.over == Some(Ending::Completed));
        count(&seen.of_several_groups, case.model.over == Some(Ending::Completed) && case.model.items.len() > 7_168);
        count(&seen.overdue, case.model.over == Some(Ending::Overdue));
        count(&seen.abandoned, case.model.over == Some(Ending::Abandoned));
        count(&seen.healed, case.healed);
        seen.faults.set(seen.faults.get() + case.faults);
        Ok(())
    });
    let Seen { completed, of_several_groups, overdue, abandoned, healed, faults } = seen;
    println!(
        "{cases} cases, {} crashes: {} completed ({} of several groups, {} by sweep alone), {} overdue, {} abandoned",
        faults.get(),
        completed.get(),
        of_several_groups.get(),
        healed.get(),
        overdue.get(),
        abandoned.get()
    );
    let few = [&of_several_groups, &overdue, &abandoned, &healed].into_iter().find(|seen| seen.get() == 0);
    assert!(few.is_none(), "the cases do not show all that they should");
}
