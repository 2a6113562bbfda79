//! What takes part, the promises, and the rules that keep them.

use crate::prelude::*;

/// A list's name.
pub(super) const NAME: &str = "l";

/// What somebody does, under a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Puts this many tasks.
    Puts(u64),
    /// Releases this many.
    Releases(u64),
    /// Discards all that wait.
    Discards,
    /// Closes the list.
    Closes,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is about.
    pub name: &'static str,
    /// Tasks that wait at the beginning.
    pub waiting: u64,
    /// Those who take part.
    pub who: &'static [Does],
}

const fn of(name: &'static str, waiting: u64, who: &'static [Does]) -> Run<Setting> {
    Run::of(Setting { name, waiting, who })
}

/// Two who put at once, onto a list that is not there.
pub const PUTTERS: Run<Setting> = of("two who put", 0, &[Does::Puts(1), Does::Puts(2)]);
/// Two who release what waits.
pub const RELEASERS: Run<Setting> = of("two who release", 3, &[Does::Releases(2), Does::Releases(2)]);
/// One who puts, and one who releases at the same time.
pub const BOTH: Run<Setting> = of("one who puts and one who releases", 1, &[Does::Puts(1), Does::Releases(2)]);
/// One who releases, and one who discards the rest.
pub const DISCARD: Run<Setting> = of("a release and a discard", 3, &[Does::Releases(1), Does::Discards]);
/// One who releases while another closes.
pub const CLOSING: Run<Setting> = of("a release and a closing", 2, &[Does::Releases(1), Does::Closes]);
/// One release alone.
pub const ALONE: Run<Setting> = of("a release", 2, &[Does::Releases(1)]);
/// Three who release single tasks.
pub const THREE: Run<Setting> = of("three who release", 3, &[Does::Releases(1), Does::Releases(1), Does::Releases(1)]);

promises! {
    /// A token is given to one task.
    OneTaskAToken: "two tasks have one token",
    /// A task is put once.
    PutOnce: "a task is put twice",
    /// Only tokens that were given are taken.
    TakenOfGiven: "a token is taken that was never given",
    /// One call takes once.
    TakenOnce: "one call takes twice",
    /// Nothing is released from a closed list.
    ClosedIsClosed: "a closed list is released",
    /// Only what is released is sent.
    OnlyReleased: "a task is sent that nobody released",
    /// When all processes have ended and sweep has run, what was released is sent, and nothing else has left the list.
    NothingLost: "a released task is lost",
}

rules! { Run<Setting>;
    /// Tasks are put behind the tail that was read.
    TailAsRead: PUTTERS => OneTaskAToken,
    /// What was put under a key is not put again.
    PutOnce: PUTTERS.dying(1) => PutOnce,
    /// No more is taken than is given.
    NotPastTheTail: RELEASERS => TakenOfGiven,
    /// What was taken under a key is remembered when it is worked off.
    RememberedKey: ALONE.dying(1) => TakenOnce,
    /// A taking that saw less taken than what was forgotten since is refused.
    LateCopyRefused: ALONE.copied(1) => TakenOnce,
    /// The write that takes tokens says who owes them.
    RecordsWhoOwes: ALONE.dying(1) => NothingLost,
    /// Tasks leave the list after they are sent.
    SentBeforeRemoved: ALONE.dying(1) => NothingLost,
    /// A task that is not to be seen is not done.
    MissingIsNotDone: BOTH.lagging(2) => NothingLost,
    /// Nothing is released from a closed list.
    ClosedToReleases: CLOSING => ClosedIsClosed,
}
