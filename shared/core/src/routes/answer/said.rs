//! The verdicts of an answer, member by member.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem::discriminant;
use std::time::Duration;

use super::unbelievable::Unbelievable;
use crate::domain::answer::MAX_ANSWER_BYTES;
use crate::domain::id::TaskId;
use crate::domain::json;
use crate::domain::outcome::{Reading, Reply, Said};
use crate::domain::output::{Output, Outputs};

/// Returns whole or broken seconds as milliseconds.
pub(super) fn millis(seconds: f64) -> Option<u64> {
    u64::try_from(Duration::try_from_secs_f64(seconds).ok()?.as_millis()).ok()
}

/// Says of all members that they succeeded.
pub(super) fn all_succeeded(members: &[TaskId]) -> Verdicts {
    let said = members.iter().map(|id| (id.clone(), Said::Succeeded)).collect();
    Verdicts { said, ..Verdicts::default() }
}

/// The verdicts of an answer on the members, each for itself.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    pub(super) said: BTreeMap<TaskId, Said>,
    pub(super) outputs: Outputs,
    /// The bytes of all outputs, those that are not kept among them.
    output_bytes: usize,
}

impl From<Verdicts> for Reading {
    fn from(verdicts: Verdicts) -> Self {
        Self { reply: Reply::PerMember(verdicts.said), outputs: verdicts.outputs }
    }
}

impl Verdicts {
    /// Notes what is said of a member. Said twice it must be the same.
    pub(super) fn add(&mut self, id: TaskId, one: Said) -> Result<(), Unbelievable> {
        match self.said.entry(id) {
            Entry::Occupied(before) if discriminant(before.get()) != discriminant(&one) => {
                Err(Unbelievable::ContradictsItself)
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(free) => {
                free.insert(one);
                Ok(())
            }
        }
    }

    /// Notes a member's output. All together are no larger than an answer: an expression may say more than it read.
    pub(super) fn add_output(&mut self, id: TaskId, json: &str) {
        let json = json::compact(json);
        self.output_bytes += json.len();
        let is_kept = self.output_bytes <= MAX_ANSWER_BYTES;
        let output = if is_kept { Output::of(json) } else { Output::TooLarge(json.len() as u64) };
        self.outputs.entry(id).or_insert(output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::output::MAX_OUTPUT_BYTES;

    #[test]
    fn the_outputs_of_an_answer_are_together_no_larger_than_an_answer_may_be() {
        let mut verdicts = Verdicts::default();
        for n in 0..12 {
            verdicts.add_output(TaskId::new(n.to_string()), &"1".repeat(MAX_OUTPUT_BYTES));
        }
        let kept = verdicts.outputs.values().filter(|output| output.omitted_bytes().is_none()).count();
        assert_eq!((kept, verdicts.outputs.len()), (MAX_ANSWER_BYTES / MAX_OUTPUT_BYTES, 12));
    }
}
