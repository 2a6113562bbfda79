//! What takes part, and what is there at the beginning.

use groupage_core::domain::id::TrackerId;
use groupage_core::domain::notice::NotificationQueue;
use groupage_core::domain::time::Timestamp;
use groupage_core::domain::tracker::{GROUP_SIZE, ItemRange, Mark, Node, NodeId, Options, Outcome, Tracker};

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
    /// How often a process may die.
    pub crashes: u8,
    /// Whether sweep comes in between as well.
    pub sweeps: bool,
}

const ALL_BUT_ONE: u16 = GROUP_SIZE - 1;
const GROUP: u64 = GROUP_SIZE as u64;

/// Two items, added by one call.
pub const ONE_GROUP: Setting = Setting {
    name: "one group",
    items: 0,
    done: &[],
    adds: &[2],
    acks: &[("t:0:0", Outcome::Succeeded), ("t:0:1", Outcome::Failed)],
    crashes: 1,
    sweeps: true,
};

/// Two items, added one after the other.
pub const GROWS: Setting = Setting { name: "one group that grows", adds: &[1, 1], ..ONE_GROUP };

/// Two items, one of which two ackers see otherwise.
pub const REPEATED: Setting = Setting {
    name: "an item acked twice",
    acks: &[("t:0:0", Outcome::Succeeded), ("t:0:0", Outcome::Failed), ("t:0:1", Outcome::Failed)],
    crashes: 0,
    sweeps: false,
    ..ONE_GROUP
};

/// The last items of a whole group and of one that is not.
pub const TWO_GROUPS: Setting = Setting {
    name: "a whole group and a part of one",
    items: GROUP + 2,
    done: &[ALL_BUT_ONE],
    adds: &[],
    acks: &[("t:0:7167", Outcome::Failed), ("t:1:0-1", Outcome::Succeeded)],
    crashes: 1,
    sweeps: true,
};

/// The last items of two whole groups.
pub const TWO_WHOLE_GROUPS: Setting = Setting {
    name: "two whole groups",
    items: 2 * GROUP,
    done: &[ALL_BUT_ONE, ALL_BUT_ONE],
    acks: &[("t:0:7167", Outcome::Failed), ("t:1:7167", Outcome::Succeeded)],
    ..TWO_GROUPS
};

/// A second group begins while the first is not whole yet.
pub const A_GROUP_BEGINS: Setting = Setting {
    name: "a second group begins",
    items: ALL_BUT_ONE as u64,
    done: &[ALL_BUT_ONE],
    adds: &[2],
    acks: &[("t:0:7167", Outcome::Succeeded), ("t:1:0", Outcome::Failed)],
    ..TWO_GROUPS
};

/// Those of every run: each with nothing in between, most with a death, and the smallest with a sweep. `GROUPAGE_MODEL=full`
/// adds a sweep to others, which makes ten times as many states.
#[must_use]
pub fn chosen() -> Vec<Setting> {
    let all = [TWO_GROUPS, TWO_WHOLE_GROUPS, ONE_GROUP, A_GROUP_BEGINS, GROWS, REPEATED];
    let mut chosen: Vec<Setting> = all.iter().map(|setting| setting.with(0, false)).collect();
    chosen.extend(all[..4].iter().map(|setting| setting.with(1, false)));
    chosen.push(ONE_GROUP.with(0, true));
    if std::env::var("GROUPAGE_MODEL").is_ok_and(|model| model == "full") {
        chosen.extend([TWO_GROUPS, TWO_WHOLE_GROUPS, A_GROUP_BEGINS].map(|setting| setting.with(0, true)));
    }
    chosen
}

impl Setting {
    /// With so many deaths, and with a sweep in between or not.
    #[must_use]
    pub const fn with(self, crashes: u8, sweeps: bool) -> Self {
        Self { crashes, sweeps, ..self }
    }

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

    pub(super) fn range(&self, acker: usize) -> Option<(ItemRange, Outcome)> {
        let (range, outcome) = self.acks.get(acker)?;
        Some((ItemRange::parse(range).ok()?, *outcome))
    }
}
