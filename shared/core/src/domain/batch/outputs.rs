//! The parts in which a batch's outputs are kept.
//!
//! A worker keeps the outputs of its calls before it records the outcome: in parts, each an item of its own. A part's
//! key names the attempt, so a worker that has lost its claim overwrites nothing. Looks at a job need no claim: a look
//! that found outputs writes the batch first, and the key names the revision that only this look knows. The next write
//! of the batch names the parts. A part that no batch names expires unread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Batch, Positions};
use crate::domain::id::{BatchId, Revision, TaskId};
use crate::domain::output::{Output, Outputs};
use crate::domain::time::DAY_MS;

/// The outputs of one part together, in bytes, unless one alone is larger: to look at one reads all of its part.
const MAX_PART_BYTES: usize = 64 * 1024;
/// The outputs of one batch together, in bytes: a function holds them, and their notices, at once.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// The bytes that each output takes beside its JSON, at most.
const OVERHEAD_BYTES: usize = 8;

/// How much longer than the retention a part is kept, in milliseconds: 90 days. A batch that is not settled, or not
/// followed up, within them loses its outputs.
pub const OUTLIVES_MS: u64 = 90 * DAY_MS;

const fn bytes(output: &Output) -> usize {
    match output {
        Output::Json(json) => OVERHEAD_BYTES + json.len(),
        Output::TooLarge(_) => 2 * OVERHEAD_BYTES,
    }
}

/// A part of a batch's outputs, as the batch names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct OutputPart {
    /// The attempt that wrote it.
    pub attempt: u32,
    /// The batch's revision at the look that wrote it, if it is of a job: looks need no claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<Revision>,
    /// Its number among the parts of its batch.
    pub number: usize,
    /// The positions of the members whose outputs it has.
    pub of: Positions,
    /// The bytes of these outputs.
    pub bytes: usize,
}

impl OutputPart {
    /// Returns the key of its item.
    pub fn key(&self, batch: &BatchId) -> String {
        let look = self.look.map_or_else(String::new, |at| format!("/{at}"));
        format!("{batch}/outputs/{}/{}{look}", self.attempt, self.number)
    }
}

/// The outputs of some members of a batch, by their positions.
pub type ByPosition = BTreeMap<usize, Output>;

impl Batch {
    /// Returns these outputs of a call in the present attempt, divided into parts behind those that the batch names.
    /// Those beyond what a batch may have leave their size.
    pub fn parts_of(&self, mut outputs: Outputs) -> Vec<(OutputPart, ByPosition)> {
        let mut parts: Vec<(OutputPart, ByPosition)> = Vec::new();
        let mut all_bytes: usize = self.outputs.iter().map(|part| part.bytes).sum();
        for (position, member) in self.members.iter().enumerate() {
            let Some(output) = outputs.remove(&member.id) else { continue };
            let output = if all_bytes + bytes(&output) > MAX_BATCH_BYTES { output.omitted() } else { output };
            let bytes = bytes(&output);
            all_bytes += bytes;
            if parts.last().is_none_or(|(part, _)| part.bytes + bytes > MAX_PART_BYTES) {
                let number = self.outputs.len() + parts.len();
                let look = self.under_way().map(|_| self.revision);
                let (attempt, of) = (self.attempts, Positions::default());
                let part = OutputPart { attempt, look, number, of, bytes: 0 };
                parts.push((part, ByPosition::new()));
            }
            if let Some((part, kept)) = parts.last_mut() {
                part.bytes += bytes;
                kept.insert(position, output);
            }
        }
        for (part, kept) in &mut parts {
            part.of = kept.keys().copied().collect();
        }
        parts
    }

    /// Returns a member's position, and the part that has its output.
    pub fn output_part(&self, id: &TaskId) -> Option<(usize, &OutputPart)> {
        let position = self.members.iter().position(|member| member.id == *id)?;
        Some((position, self.outputs.iter().find(|part| part.of.contain(position))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::output::MAX_OUTPUT_BYTES;
    use crate::domain::task::Candidate;
    use crate::domain::{Fence, Round, Target, Timestamp, Traits};

    fn batch(members: usize) -> Batch {
        let id = |n| TaskId::new(format!("t{n:04}"));
        let candidate = |n| Candidate { id: id(n), round: Round(0), bytes: 2, traits: Traits::default() };
        let members: Vec<Candidate> = (0..members).map(candidate).collect();
        let open = Batch::open(BatchId::new("b"), Target::new("r:t"), Fence(1), &members, Timestamp(5), 0);
        Batch { attempts: 3, ..open }
    }

    fn outputs(of: &Batch, positions: &[usize], bytes: usize) -> Outputs {
        let output = |n: &usize| (of.members[*n].id.clone(), Output::of("1".repeat(bytes)));
        positions.iter().map(output).collect()
    }

    #[test]
    fn outputs_are_divided_into_parts_that_fit_an_item_and_each_member_finds_its_own() {
        let batch = batch(1_000);
        let parts = batch.parts_of(outputs(&batch, &[0, 7, 8, 999], MAX_OUTPUT_BYTES - OVERHEAD_BYTES));
        let of: Vec<Vec<usize>> = parts.iter().map(|(part, _)| part.of.iter().collect()).collect();
        assert_eq!(of, [[0], [7], [8], [999]]);
        let keys: Vec<String> = parts.iter().map(|(part, _)| part.key(&batch.id)).collect();
        assert_eq!(keys[..2], ["b/outputs/3/0", "b/outputs/3/1"]);
        let named = Batch { outputs: parts.into_iter().map(|(part, _)| part).collect(), ..batch };
        let found = |n: usize| named.output_part(&named.members[n].id).map(|(position, part)| (position, part.number));
        assert_eq!([found(0), found(7), found(999), found(9)], [Some((0, 0)), Some((7, 1)), Some((999, 3)), None]);
        let [(next, _)] = &named.parts_of(outputs(&named, &[9], 1))[..] else { panic!("one part") };
        assert_eq!(next.number, 4, "no part of this attempt is overwritten");
    }

    #[test]
    fn small_outputs_share_a_part_and_those_beyond_what_a_batch_may_have_leave_their_size() {
        let batch = batch(1_000);
        let all: Vec<usize> = (0..1_000).collect();
        let small = batch.parts_of(outputs(&batch, &all, 500));
        assert_eq!((small.len(), small[0].0.of.iter().count()), (8, MAX_PART_BYTES / 508));
        let large = batch.parts_of(outputs(&batch, &all, 20_000));
        let kept = large.iter().flat_map(|(_, kept)| kept.values()).filter(|output| output.omitted_bytes().is_none());
        assert_eq!(kept.count(), MAX_BATCH_BYTES / 20_008);
        let named = Batch { outputs: large.into_iter().map(|(part, _)| part).collect(), ..batch };
        let [(_, more)] = &named.parts_of(outputs(&named, &[9], 20_000))[..] else { panic!("one part") };
        assert_eq!(more[&9], Output::TooLarge(20_000));
    }
}
