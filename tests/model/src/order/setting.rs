//! What takes part.

use groupage_core::domain::id::{LaneId, RouteName, Target, TaskId, Turn};
use groupage_core::domain::lane::{Numbering, OnFailure};
use groupage_core::domain::task::Task;
use groupage_core::domain::time::Timestamp;
use groupage_core::steps::lane::Arrival;

/// What somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Brings these tasks at once, in this order, each with the number that it has if tasks bring theirs along.
    Brings(&'static [(u8, u64)]),
    /// Lets the lane go on once a failure has stopped it.
    LetsGoOn,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is about.
    pub name: &'static str,
    /// Those who take part.
    pub who: &'static [Does],
    /// Whether tasks bring their numbers along; the first is 1.
    pub by_sequence: bool,
    /// What a failed task means to those behind it.
    pub on_failure: OnFailure,
    /// How often a process may die.
    pub crashes: u8,
    /// How many follow-ups may come twice.
    pub copies: u8,
}

/// The first number of a task that brings its own.
const FIRST: u64 = 1;

const fn of(name: &'static str, who: &'static [Does]) -> Setting {
    Setting { name, who, by_sequence: false, on_failure: OnFailure::Hold, crashes: 0, copies: 0 }
}

/// One who brings two tasks.
pub const ONE: Setting = of("one who brings two", &[Does::Brings(&[(0, 1), (1, 2)])]);

/// Two who each bring one task to a lane that is not there.
pub const TWO: Setting = of("two who bring one each", &[Does::Brings(&[(0, 1)]), Does::Brings(&[(1, 2)])]);

/// Two who bring three tasks, one of which comes twice.
pub const TWICE: Setting =
    of("two who bring three, one twice", &[Does::Brings(&[(0, 1), (1, 2)]), Does::Brings(&[(1, 2), (2, 3)])]);

/// One who brings three tasks.
pub const THREE: Setting = of("one who brings three", &[Does::Brings(&[(0, 1), (1, 2), (2, 3)])]);

/// Two who bring two tasks and one, and a person.
pub const RESUMED: Setting = of(
    "two who bring three, and a person",
    &[Does::Brings(&[(0, 1), (1, 2)]), Does::Brings(&[(2, 3)]), Does::LetsGoOn],
);

/// One who brings two tasks, and two people.
pub const TWO_PEOPLE: Setting =
    of("one who brings two, and two people", &[Does::Brings(&[(0, 1), (1, 2)]), Does::LetsGoOn, Does::LetsGoOn]);

/// Two who bring numbers the wrong way round.
pub const WRONG_WAY: Setting = Setting {
    by_sequence: true,
    ..of("two the wrong way round", &[Does::Brings(&[(2, 3), (1, 2)]), Does::Brings(&[(0, 1), (1, 2)])])
};

/// Two who bring one number.
pub const USED: Setting = Setting {
    by_sequence: true,
    ..of("a number used twice", &[Does::Brings(&[(0, 1), (1, 2)]), Does::Brings(&[(2, 2)]), Does::LetsGoOn])
};

/// Those of every run, and larger ones if that is asked for.
#[must_use]
pub fn chosen() -> Vec<Setting> {
    use OnFailure::{FailRest, Hold, Skip};
    let mut chosen = vec![
        TWO.when(Skip, 1, 1),
        TWICE.when(Skip, 1, 0),
        TWO_PEOPLE.when(Hold, 1, 0),
        TWO_PEOPLE.when(FailRest, 1, 0),
        WRONG_WAY.when(Skip, 1, 0),
        RESUMED.when(Hold, 1, 0),
        RESUMED.when(FailRest, 0, 1),
        USED.when(Hold, 1, 0),
        USED.when(FailRest, 0, 1),
    ];
    if std::env::var("GROUPAGE_MODEL").is_ok_and(|model| model == "full") {
        chosen.extend([
            TWO_PEOPLE.when(Hold, 1, 1),
            TWO_PEOPLE.when(FailRest, 1, 1),
            USED.when(FailRest, 1, 0),
            RESUMED.when(FailRest, 1, 0),
        ]);
    }
    chosen
}

impl Setting {
    /// With this policy, so many deaths and so many follow-ups that come twice.
    #[must_use]
    pub const fn when(self, on_failure: OnFailure, crashes: u8, copies: u8) -> Self {
        Self { on_failure, crashes, copies, ..self }
    }

    /// Who numbers the tasks.
    pub(super) const fn numbering(&self) -> Numbering {
        if self.by_sequence { Numbering::BySequence { first: Turn(self.first()) } } else { Numbering::ByArrival }
    }

    /// The first turn of all.
    pub(super) const fn first(&self) -> u64 {
        if self.by_sequence { FIRST } else { 0 }
    }

    /// Everybody who is brought, as often as that happens, each with its number if it brings one.
    pub(super) fn brought(&self) -> impl Iterator<Item = (u8, Option<u64>)> {
        let by_sequence = self.by_sequence;
        let brought = self.who.iter().flat_map(|does| match does {
            Does::Brings(tasks) => *tasks,
            Does::LetsGoOn => &[],
        });
        brought.map(move |(task, number)| (*task, by_sequence.then_some(*number)))
    }

    /// How many tasks there are.
    pub(super) fn tasks(&self) -> usize {
        self.brought().map(|(task, _)| usize::from(task) + 1).max().unwrap_or_default()
    }

    /// A task that comes.
    pub(super) fn arrival(&self, (n, number): (u8, u64)) -> Arrival {
        let target = Target::of(&RouteName::new("r"), "t");
        let task = Task::new(task(n), target.clone(), String::new(), String::new(), Timestamp(0));
        Arrival { task, target, sequence: self.by_sequence.then_some(Turn(number)) }
    }
}

/// The lane.
pub(super) fn lane() -> LaneId {
    LaneId::of(&RouteName::new("r"), "k")
}

/// The `n`-th task's id.
pub(super) fn task(n: u8) -> TaskId {
    TaskId::new(n.to_string())
}

/// Which task that is.
pub(super) fn number(task: &TaskId) -> u8 {
    task.as_str().parse().unwrap_or(u8::MAX)
}
