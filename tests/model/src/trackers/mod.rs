//! Trackers: every interleaving of an owner, ackers and sweep, for a few items.
//!
//! As for the rest, what runs are the real calls of `Tracking`, as histories over a recorder ([`crate::harness`]); one
//! action is one I/O of one process. An owner adds items and seals, ackers ack, one of them what another acks as well
//! with another outcome, and sweep comes once in between and as often as it takes at the end. A process may die after
//! any I/O; then it begins anew, or, if what it had to write is written, never does: sweep makes up for it. An eventual
//! read shows any version that there ever was, of the tracker and of each node by itself.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `LatestTracker` | nobody completes a tracker but sweep |
//! | `LatestParent` | the same, of two whole groups |
//! | `SealerLooks` | the same, if the seal comes last |
//! | `LooksForTheSeal` | a tracker is completed that is open, or lacks bits |
//! | `WordsAsRead` | a bit is cleared |
//! | `TrackerAsRead` | a tracker ends twice |
//! | `KeyOnce` | items are added twice, and nobody acks them |
//!
//! A node has 7,168 bits, so most of them are set from the beginning where more than one group takes part
//! ([`setting`]). Not covered: deadlines, abandoning, removal, three levels, and ports that answer with an error.

mod ports;
pub mod setting;
mod world;

use groupage_core::steps::track::{Lifetimes, Tracking};

use self::setting::{
    A_GROUP_BEGINS, GROWS, NAME, ONE_GROUP, Promise, REPEATED, Rule, Setting, TWO_GROUPS, TWO_WHOLE_GROUPS,
};
use self::world::{Ago, World};
use crate::harness::histories::{After, Place};
use crate::harness::play::State;
use crate::prelude::*;

/// A tracker that this many sweeps do not complete never will be.
const MOST_SWEEPS: u8 = 4;

/// The owner has the first place, and the ackers those behind it.
impl Subject for Setting {
    type Rule = Rule;
    type Promise = Promise;
    type World = World;
    type Shown = Ago;
    type Event = ();
    type Sent = Kept<String>;

    const LOST: Promise = Promise::NothingLost;
    /// Each with nothing in between, and the smallest with a death and with a sweep.
    const QUICK: &'static [Run<Self>] = &[
        TWO_GROUPS,
        TWO_WHOLE_GROUPS,
        ONE_GROUP,
        A_GROUP_BEGINS,
        GROWS,
        REPEATED,
        ONE_GROUP.dying(1),
        ONE_GROUP.swept(),
    ];
    /// A death or a sweep makes many times as many states.
    const LONG: &'static [Run<Self>] = &[
        TWO_GROUPS.dying(1),
        TWO_WHOLE_GROUPS.dying(1),
        A_GROUP_BEGINS.dying(1),
        TWO_GROUPS.swept(),
        TWO_WHOLE_GROUPS.swept(),
        A_GROUP_BEGINS.swept(),
    ];

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn places(&self) -> usize {
        1 + self.acks.len()
    }

    fn most_sweeps(_: &Run<Self>) -> Option<u8> {
        Some(MOST_SWEEPS)
    }

    fn world(&self) -> World {
        World::of(self)
    }

    /// Nobody has an item's id before it is added.
    fn may_begin(&self, place: usize, world: &World, _: &Mishaps) -> bool {
        let last = |(range, _): (tracker::ItemRange, _)| tracker::Place { group: range.group, index: range.last };
        place == 0 || self.range(place).is_some_and(|range| world.tracker().has(last(range)))
    }

    async fn call(&self, role: Role, ports: &Ports<Self>) {
        let tracking = Tracking { store: ports, outbox: ports, env: ports };
        let id = TrackerId::new(NAME);
        match role {
            Role::One(0) => {
                for (n, count) in self.adds.iter().enumerate() {
                    let _ = tracking.add(&id, &format!("k{n}"), *count).await;
                }
                let _ = tracking.seal(&id).await;
            }
            // Items of tasks and items that somebody acks by a call go different ways at first.
            Role::One(place) => {
                let Some((range, outcome)) = self.range(place) else { return };
                if place == 1 {
                    let at = tracker::Place { group: range.group, index: range.first };
                    let _ = tracking.settle(vec![(ItemId { tracker: id, at }, outcome)]).await;
                } else {
                    let _ = tracking.ack(&id, &[(range, outcome)]).await;
                }
            }
            Role::Sweep(_) => drop(tracking.look_after(&id, Lifetimes::default()).await),
        }
    }

    fn parse(message: &Outgoing) -> Option<Kept<String>> {
        Some(Kept::new(message.body.clone()))
    }

    fn send(act: &mut Act<'_, Self>, text: &Kept<String>) {
        if act.notice.as_ref().is_some_and(|notice| notice != text) {
            act.breaks(Promise::OneNotice);
        }
        act.notice = Some(text.clone());
    }

    fn deaths(_: bool) -> &'static [After] {
        &[After::Dies, After::DiesForGood]
    }

    fn is_written(&self, place: usize, world: &World) -> bool {
        match self.range(place) {
            None => world.tracker().state != tracker::State::Open,
            Some((range, _)) => world.is_done(range.group, range.first..=range.last),
        }
    }

    fn is_whole(&self, world: &World) -> bool {
        world.is_at_rest()
    }

    fn judge(run: &Run<Self>, removed: Option<Rule>, state: &mut State<Self>) {
        let [owner, ackers @ .., sweep] = &*state.places else { return };
        // An acker's first read may be old; no other is.
        if removed.is_none() && state.left.deaths == 0 && !ackers.contains(&Place::Waits) {
            state.world.forget_versions();
        }
        let is_at_once = run.left.deaths == state.left.deaths && state.sweeps == 0 && *sweep == Place::Waits;
        let have_ended = *owner == Place::Ended && ackers.iter().all(|acker| *acker == Place::Ended);
        if is_at_once && have_ended && !matches!(state.world.tracker().state, tracker::State::Ended(_)) {
            state.broken = state.broken.or(Some(Promise::CompleteAtOnce));
        }
    }
}
