//! A batch and its tasks of different moments: of tables that were restored one after the other.

use super::{Batch, FollowUp, Member, Status};
use crate::domain::outcome::Exception;
use crate::domain::task::{Candidate, Task};

impl Batch {
    /// Whether its follow-up takes this member's own part for done. A task that still names it then is of an earlier
    /// moment, and nothing would ever tell it its outcome.
    pub fn takes_for_done(&self, task: &Task) -> bool {
        let Status::Settled { results, follow_up, .. } = &self.status else { return false };
        let is_member = |member: &Member| member.round == task.round && member.id == task.id;
        let Some(position) = self.members.iter().position(is_member) else { return false };
        let returns = matches!(results.get(&task.id), Some(Exception::Returned { .. }));
        match follow_up {
            FollowUp::Done => true,
            // Those that return are waited for, and sent for again.
            FollowUp::Returning => !returns,
            FollowUp::Pending => !returns && self.left.as_ref().is_some_and(|left| !left.unsettled.contain(position)),
        }
    }

    /// Whether its outcome sends this member back to waiting. The message that says so may be of a later moment.
    pub fn sends_back(&self, member: &Candidate) -> bool {
        let Status::Settled { results, .. } = &self.status else { return false };
        let is_member = |of: &Member| of.round == member.round && of.id == member.id;
        self.members.iter().any(is_member) && matches!(results.get(&member.id), Some(Exception::Returned { .. }))
    }

    /// Whether it waits for members to return, and for nothing else.
    pub const fn is_returning(&self) -> bool {
        matches!(self.status, Status::Settled { follow_up: FollowUp::Returning, .. })
    }

    /// This settled batch, with all of its follow-up to be done again; any other stays as it is, except its revision.
    pub fn followed_up_again(&self) -> Self {
        self.with_follow_up(FollowUp::Pending)
    }

    /// This batch without an outcome, given up: those of its members that name it go back to waiting, and its key is
    /// never used again.
    pub fn given_up_for_others(&self) -> Self {
        Self { revision: self.revision.next(), ..Self::void(self.id.clone(), self.target.clone(), self.created_at) }
    }
}
