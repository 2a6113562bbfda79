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

use groupage_core::domain::tracker::Ending;
use groupage_lab::cases;

use calls::steps;
use case::Case;

const CASES: u32 = 400;

#[test]
fn a_tracker_is_what_plain_sets_say_whatever_crashes() {
    cases::run(CASES, steps(), async |seed, steps| {
        let mut case = Case::new(seed);
        for step in &steps {
            case.step(step).await?;
        }
        case.finish().await?;
        let is_over = |how| case.model.over == Some(how);
        let completed = is_over(Ending::Completed);
        Ok([
            ("crashes", case.faults),
            ("completed", completed.into()),
            ("of several groups", (completed && case.model.items.len() > 7_168).into()),
            ("completed by sweep alone", case.healed.into()),
            ("overdue", is_over(Ending::Overdue).into()),
            ("abandoned", is_over(Ending::Abandoned).into()),
        ])
    });
}
