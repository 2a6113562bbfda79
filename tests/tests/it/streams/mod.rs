//! Streams against a sorted set of numbers: any calls, in any order, with a crash at any call to a port, repeated or
//! left to sweep.

mod calls;
mod case;
mod killed;
mod model;

use groupage_core::domain::stream::State;
use groupage_lab::cases;

use calls::steps;
use case::Case;

const CASES: u32 = 120;

#[test]
fn a_stream_is_what_a_sorted_set_says_whatever_crashes() {
    cases::run(CASES, steps(), async |seed, steps| {
        let mut case = Case::new(seed);
        for step in &steps {
            case.step(step).await?;
        }
        case.finish().await?;
        Ok([
            ("crashes", case.faults),
            ("completed", (case.model.state == Some(State::Completed)).into()),
            ("past a whole group", (case.model.watermark > 7_168).into()),
            ("committed by sweep", case.healed.into()),
            ("windows full", case.full),
        ])
    });
}
