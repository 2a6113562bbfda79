//! What takes part, and what is there at the beginning; the promises, and the rules that keep them.

use groupage_core::domain::tracker::{ItemRange, Mark, Options};

use crate::prelude::*;

/// A tracker's name.
pub(super) const NAME: &str = "t";

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is about.
    pub name: &'static str,
    /// Items at the beginning.
    pub items: u64,
    /// How many of the first items of each group are done then.
    pub done: &'static [u16],
    /// What the owner adds before it seals, call by call.
    pub adds: &'static [u64],
    /// What each acker acks.
    pub acks: &'static [(&'static str, Outcome)],
}

const ALL_BUT_ONE: u16 = GROUP_SIZE - 1;
const GROUP: u64 = GROUP_SIZE as u64;

/// A read that must not be old may be so once, if no rule forbids that.
const fn of(setting: Setting) -> Run<Setting> {
    Run::of(setting).lagging(1)
}

const SMALL: Setting = Setting {
    name: "one group",
    items: 0,
    done: &[],
    adds: &[2],
    acks: &[("t:0:0", Outcome::Succeeded), ("t:0:1", Outcome::Failed)],
};

/// Two items, added by one call.
pub const ONE_GROUP: Run<Setting> = of(SMALL);
/// Two items, added one after the other.
pub const GROWS: Run<Setting> = of(Setting { name: "one group that grows", adds: &[1, 1], ..SMALL });
/// Two items, one of which two ackers see otherwise.
pub const REPEATED: Run<Setting> = of(Setting {
    name: "an item acked twice",
    acks: &[("t:0:0", Outcome::Succeeded), ("t:0:0", Outcome::Failed), ("t:0:1", Outcome::Failed)],
    ..SMALL
});
/// The last items of a whole group and of one that is not.
pub const TWO_GROUPS: Run<Setting> = of(Setting {
    name: "a whole group and a part of one",
    items: GROUP + 2,
    done: &[ALL_BUT_ONE],
    adds: &[],
    acks: &[("t:0:7167", Outcome::Failed), ("t:1:0-1", Outcome::Succeeded)],
});
/// The last items of two whole groups.
pub const TWO_WHOLE_GROUPS: Run<Setting> = of(Setting {
    name: "two whole groups",
    items: 2 * GROUP,
    done: &[ALL_BUT_ONE, ALL_BUT_ONE],
    adds: &[],
    acks: &[("t:0:7167", Outcome::Failed), ("t:1:7167", Outcome::Succeeded)],
});
/// A second group begins while the first is not whole yet.
pub const A_GROUP_BEGINS: Run<Setting> = of(Setting {
    name: "a second group begins",
    items: ALL_BUT_ONE as u64,
    done: &[ALL_BUT_ONE],
    adds: &[2],
    acks: &[("t:0:7167", Outcome::Succeeded), ("t:1:0", Outcome::Failed)],
});

promises! {
    /// A tracker ends once; its end changes no more, except the notice that is sent.
    OneEnd: "a tracker ends twice",
    /// A tracker is completed when it is sealed and all bits are set.
    CompleteIsComplete: "a tracker is completed that is not complete",
    /// A bit that is set stays so, with the outcome that it was set with.
    BitsStay: "a bit is changed that was set",
    /// A parent has the bits of full children only.
    FullIsFull: "a node is reported that is not full",
    /// The later of the seal and the last bit completes the tracker: it is not left to sweep if nobody died.
    CompleteAtOnce: "a complete tracker is left to sweep",
    /// When all processes have ended and sweep has run, the tracker is complete.
    NothingLost: "a tracker is never completed",
    /// All notices are one.
    OneNotice: "two notices differ",
}

rules! { Run<Setting>;
    /// After a mark or a seal the tracker is read as it is.
    LatestTracker: ONE_GROUP => CompleteAtOnce,
    /// A parent is read as it is.
    LatestParent: TWO_WHOLE_GROUPS => CompleteAtOnce,
    /// Who seals looks whether all is done.
    SealerLooks: ONE_GROUP => CompleteAtOnce,
    /// Who completes has seen the seal.
    LooksForTheSeal: ONE_GROUP => CompleteIsComplete,
    /// A word is written over what was read.
    WordsAsRead: REPEATED => BitsStay,
    /// A tracker is written over what was read.
    TrackerAsRead: TWO_GROUPS => OneEnd,
    /// What was added under a key is not added again.
    KeyOnce: ONE_GROUP.dying(1) => NothingLost,
}

impl Setting {
    pub(super) fn tracker(&self) -> Tracker {
        let options = Options { deadline: None, notify: NotificationQueue::Default };
        Tracker { items: self.items, ..Tracker::open(TrackerId::new(NAME), options, Timestamp(0)) }
    }

    pub(super) fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for (group, done) in (0..).zip(self.done) {
            let empty = Node::empty(NodeId::group(group));
            let marks: Vec<Mark> = (0..*done).map(|bit| Mark { bit, failures: 0 }).collect();
            nodes.extend(empty.marking(&marks).map(|change| empty.changed(&change)));
        }
        nodes
    }

    /// What the acker at a place acks.
    pub(super) fn range(&self, place: usize) -> Option<(ItemRange, Outcome)> {
        let (range, outcome) = self.acks.get(place.checked_sub(1)?)?;
        Some((ItemRange::parse(range).ok()?, *outcome))
    }
}
