//! What takes part, the promises, and the rules that keep them.

use groupage_core::domain::lane::{Numbering, OnFailure};
use groupage_core::steps::lane::Arrival;

use crate::prelude::*;

/// What somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Brings these tasks at once, in this order, each with the number that it has if tasks bring theirs along.
    Brings(&'static [(u8, u64)]),
    /// Lets the lane go on once a failure has stopped it.
    LetsGoOn,
}

/// Who hands a settled task's turn over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FollowUp {
    /// The task.
    pub(super) task: u8,
    /// Whether it failed.
    pub(super) failed: bool,
    /// Whether this is the follow-up's second coming.
    pub(super) again: bool,
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
}

/// The first number of a task that brings its own.
const FIRST: u64 = 1;

const fn of(name: &'static str, who: &'static [Does]) -> Run<Setting> {
    Run::of(Setting { name, who, by_sequence: false, on_failure: OnFailure::Hold })
}

const fn numbered(name: &'static str, who: &'static [Does]) -> Run<Setting> {
    Run::of(Setting { name, who, by_sequence: true, on_failure: OnFailure::Hold })
}

impl Run<Setting> {
    /// With this policy.
    pub const fn on(self, on_failure: OnFailure) -> Self {
        Self { of: Setting { on_failure, ..self.of }, ..self }
    }
}

/// One who brings two tasks.
pub const ONE: Run<Setting> = of("one who brings two", &[Does::Brings(&[(0, 1), (1, 2)])]);
/// Two who each bring one task to a lane that is not there.
pub const TWO: Run<Setting> = of("two who bring one each", &[Does::Brings(&[(0, 1)]), Does::Brings(&[(1, 2)])]);
/// Two who bring three tasks, one of which comes twice.
pub const TWICE: Run<Setting> =
    of("two who bring three, one twice", &[Does::Brings(&[(0, 1), (1, 2)]), Does::Brings(&[(1, 2), (2, 3)])]);
/// One who brings three tasks.
pub const THREE: Run<Setting> = of("one who brings three", &[Does::Brings(&[(0, 1), (1, 2), (2, 3)])]);
/// Two who bring two tasks and one, and a person.
pub const RESUMED: Run<Setting> = of(
    "two who bring three, and a person",
    &[Does::Brings(&[(0, 1), (1, 2)]), Does::Brings(&[(2, 3)]), Does::LetsGoOn],
);
/// One who brings two tasks, and two people.
pub const TWO_PEOPLE: Run<Setting> =
    of("one who brings two, and two people", &[Does::Brings(&[(0, 1), (1, 2)]), Does::LetsGoOn, Does::LetsGoOn]);
/// Two who bring numbers the wrong way round.
pub const WRONG_WAY: Run<Setting> =
    numbered("two the wrong way round", &[Does::Brings(&[(2, 3), (1, 2)]), Does::Brings(&[(0, 1), (1, 2)])]);
/// Two who bring one number.
pub const USED: Run<Setting> =
    numbered("a number used twice", &[Does::Brings(&[(0, 1), (1, 2)]), Does::Brings(&[(2, 2)]), Does::LetsGoOn]);

promises! {
    /// A turn is one task's.
    OneTaskATurn: "two tasks have one turn",
    /// A task has its turn once.
    TurnOnce: "a task has its turn twice",
    /// A task is let in only when all before it in its lane are settled.
    InOrder: "a task is let in before one ahead of it is settled",
    /// Behind a failure nobody is let in until a person lets the lane go on.
    StoppedIsStopped: "a task is let in behind a failure",
    /// When all processes have ended, everybody whose turn can come had it, the others failed and people are told, and
    /// nobody waits in a lane who is not queued.
    NobodyLost: "a task is lost",
}

rules! { Run<Setting>;
    /// A lane is written only if it is as it was read.
    LaneAsRead: TWO.on(OnFailure::Skip) => NobodyLost,
    /// Tasks come to their lane only if that is as it was read.
    LinedUpAsRead: TWO.on(OnFailure::Skip) => OneTaskATurn,
    /// Nobody is given a turn for which another waits.
    FreeTurn: USED.on(OnFailure::Skip) => OneTaskATurn,
    /// A task that is there does not come again.
    NewTask: TWICE.on(OnFailure::Skip) => NobodyLost,
    /// Only a queued task is let in.
    LetInOnce: ONE.on(OnFailure::Skip).copied(1) => TurnOnce,
    /// Only the task that has the turn hands it over.
    OwnTurn: THREE.on(OnFailure::Skip).copied(1) => InOrder,
    /// Those who fail with a task do so before the lane goes on.
    PassedOverFirst: RESUMED.on(OnFailure::FailRest) => InOrder,
    /// A task that comes to a lane that a failure stopped waits.
    StoppedForAll: TWO.on(OnFailure::Hold) => StoppedIsStopped,
    /// That a task waited for its turn is forgotten after its message is sent.
    SentBeforeLeft: ONE.on(OnFailure::Skip).dying(1) => NobodyLost,
    /// Nobody forgets for one task that another waits for a turn.
    LeavesItsOwn: USED.on(OnFailure::FailRest) => NobodyLost,
}

impl Setting {
    /// How many follow-ups may come: whether its task succeeded or failed, one of the two never does.
    pub(super) fn follow_ups(&self) -> usize {
        4 * self.tasks()
    }

    /// The follow-up at a place.
    pub(super) fn follow_up(&self, place: usize) -> Option<FollowUp> {
        let n = place.checked_sub(self.who.len()).filter(|n| *n < self.follow_ups())?;
        Some(FollowUp { task: u8::try_from(n / 4).ok()?, failed: n % 2 > 0, again: n % 4 > 1 })
    }

    /// Whether a person is at a place.
    pub(super) fn is_person(&self, place: usize) -> bool {
        self.who.get(place) == Some(&Does::LetsGoOn)
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
