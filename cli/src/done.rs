//! The report on tasks that a command was to cancel, erase, run again or take off a list.

use std::fmt::Display;

use groupage_core::domain::TaskId;
use groupage_core::steps::cas::Outcome;
use serde::Serialize;

use crate::output::{Ending, Output, grouped, summary};

/// A report on tasks, each named once.
#[derive(Debug, Default, Serialize)]
pub struct Done {
    /// Tasks that were named or found.
    pub tasks: u64,
    /// Tasks of which it is done, by this call or before.
    done: u64,
    /// Tasks of which it is not, and why.
    refused: Vec<NotDone>,
    /// The time that it took, if the command measures that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// A task of which it is not done.
#[derive(Debug, Serialize)]
struct NotDone {
    id: TaskId,
    why: String,
}

impl Done {
    /// Counts what became of some, and says why it is not done of the others.
    pub fn add<R: Display>(&mut self, each: Vec<(TaskId, Outcome<(), R>)>, output: Output) {
        self.tasks += each.len() as u64;
        for (id, outcome) in each {
            let why = match outcome {
                Ok(Ok(())) => {
                    self.done += 1;
                    continue;
                }
                Ok(Err(refused)) => refused.to_string(),
                Err(error) => error.to_string(),
            };
            output.not_done(&id, &why);
            self.refused.push(NotDone { id, why });
        }
    }

    /// Prints it, with words for the tasks and for what was done of them.
    pub fn print(&self, [tasks, done]: [&str; 2], output: Output) -> Ending {
        let refused = self.refused.len() as u64;
        let rows = [(tasks, self.tasks), (done, self.done), ("not", refused)];
        output.result(self, || summary(rows.map(|(name, number)| (name, grouped(number)))));
        if refused == 0 { Ending::Well } else { Ending::Badly }
    }
}
