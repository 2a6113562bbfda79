//! Lists against a plain queue: any calls, in any order, with a crash at any call to a port, repeated or left to sweep.

mod arrive;
mod calls;
mod case;
mod model;
mod reused;
mod told;
mod too_large;

use groupage_lab::cases;

use calls::steps;
use case::Case;

const CASES: u32 = 600;

#[test]
fn a_list_is_what_a_plain_queue_says_whatever_crashes() {
    cases::run(CASES, steps(), async |seed, steps| {
        let mut case = Case::new(seed);
        for step in &steps {
            case.step(step).await?;
        }
        case.finish().await?;
        Ok([
            ("crashes", case.faults),
            ("tasks released", u32::try_from(case.model.released().count()).unwrap()),
            ("lists discarded", case.model.list.is_some_and(|queue| queue.discarded > 0).into()),
            ("fed on by sweep", case.healed.into()),
            ("removed", case.removed),
            ("removed with tasks", case.expired),
        ])
    });
}
