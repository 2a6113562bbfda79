//! Stories of downstreams that only accept a batch: one message or one execution has all its members, and all of them
//! have succeeded once it is accepted.

use crate::prelude::*;

const QUEUE: &str = r#"{ sqs: { queue: "https://sqs.us-east-1.amazonaws.com/1/load" } }"#;
const STATE_MACHINE: &str = r#"{ step_functions: { state_machine: "arn:aws:states:us-east-1:1:stateMachine:load" } }"#;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    [
        of(QUEUE, ["a queue that accepts", "a queue whose word is lost"]),
        of(STATE_MACHINE, ["a state machine that accepts", "a state machine whose word is lost"]),
    ]
    .concat()
}

fn of(kind: &str, [plain, unsure]: [&'static str; 2]) -> Vec<Scenario> {
    vec![
        Scenario::new(plain, 6, |world| world.send(&parcels(6, 2))).downstream(kind).answering(|_, _| Ok(accepted())),
        // The batch may be accepted already: it is handed over once more, under the same key.
        Scenario::new(unsure, 6, |world| {
            world.send(&parcels(6, 1)[..3]);
            world.send(&parcels(6, 1)[3..]);
        })
        .downstream(kind)
        .answering(|_, before| match before {
            0 => Err(NoAnswer::Timeout),
            1 => Ok(status(429, None)),
            _ => Ok(accepted()),
        }),
    ]
}

/// What each of these kinds answers.
fn accepted() -> Answer {
    status(202, None)
}
