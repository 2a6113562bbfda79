//! Lists: every interleaving of those who put, those who release or discard, and sweep, for a few tasks.
//!
//! As for trackers, what runs are the real calls of `Listing`, as histories over a recorder ([`crate::harness`]). A
//! process may die after any I/O; then it begins anew under the same key, or, if its write is made, nobody does: sweep
//! makes up for it. A copy of any taking may come again at any later time. A read of tasks may miss those that were put
//! last: a transaction's writes are seen one by one.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `TailAsRead` | two tasks have one token |
//! | `PutOnce` | a task is put twice |
//! | `NotPastTheTail` | a token is taken that was never given |
//! | `RememberedKey`, `LateCopyRefused` | one call takes twice |
//! | `RecordsWhoOwes`, `SentBeforeRemoved`, `MissingIsNotDone` | a released task is lost |
//! | `ClosedToReleases` | a closed list is released |
//!
//! Not covered: what is worked off in passing (it takes five that linger), removal of idle lists, pages, and ports that
//! answer with an error.

mod ports;
pub mod setting;
mod world;

use groupage_core::domain::list::Purpose;
use groupage_core::steps::list::Listing;

use self::setting::{ALONE, BOTH, CLOSING, DISCARD, Does, NAME, PUTTERS, Promise, RELEASERS, Rule, Setting, THREE};
use self::world::World;
use crate::harness::histories::After;
use crate::prelude::*;

/// What this many sweeps that live do not work off never will be.
const MOST_SWEEPS: u8 = 2;
/// An idle list is removed long after any run, in milliseconds.
const IDLE_MS: u64 = 86_400_000;

impl Subject for Setting {
    type Rule = Rule;
    type Promise = Promise;
    type World = World;
    /// Whether a read misses what was put last.
    type Shown = bool;
    /// A copy of a taking comes.
    type Event = usize;
    type Sent = Kept<String>;

    const LOST: Promise = Promise::NothingLost;
    const QUICK: &'static [Run<Self>] = &[
        PUTTERS.dying(2),
        RELEASERS.dying(2).copied(1),
        RELEASERS.dying(1).swept(),
        BOTH.dying(2).copied(1).lagging(2).swept(),
        DISCARD.dying(2).copied(1),
        DISCARD.dying(1).swept(),
        CLOSING.dying(2).copied(1).swept(),
        ALONE.dying(3).copied(2).swept(),
        THREE.dying(1),
    ];
    const LONG: &'static [Run<Self>] =
        &[RELEASERS.dying(2).copied(1).swept(), DISCARD.dying(2).copied(1).swept(), THREE.dying(1).copied(1)];
    /// More than any reservation is left alone, less than after what a task counts as lost.
    const SWEEP_MS: u64 = 70_000;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn places(&self) -> usize {
        self.who.len()
    }

    fn most_sweeps(run: &Run<Self>) -> Option<u8> {
        Some(MOST_SWEEPS + u8::from(run.sweeps) + run.left.deaths)
    }

    fn world(&self) -> World {
        World::of(self)
    }

    fn may_begin(&self, _: usize, _: &World, _: &Mishaps) -> bool {
        true
    }

    async fn call(&self, role: Role, ports: &Ports<Self>) {
        let listing = Listing { store: ports, outbox: ports, env: ports };
        let id = ListId::new(NAME);
        let Role::One(n) = role else { return drop(listing.look_after(&id, IDLE_MS).await) };
        let key = format!("k{n}");
        match self.who.get(n) {
            Some(Does::Puts(count)) => {
                let message = |at| format!("{{\"id\":\"t{n}-{at}\",\"payload\":{{}}}}");
                let _ = listing.put(&id, &key, &Vec::from_iter((0..*count).map(message))).await;
            }
            Some(Does::Releases(count)) => drop(listing.release(&id, &key, *count).await),
            Some(Does::Discards) => drop(listing.discard(&id, &key).await),
            Some(Does::Closes) => drop(listing.close(&id).await),
            None => {}
        }
    }

    fn parse(message: &Outgoing) -> Option<Kept<String>> {
        Some(Kept::new(message.body.clone()))
    }

    fn send(act: &mut Act<'_, Self>, body: &Kept<String>) {
        let token = act.put.iter().find(|(_, put)| *put == body).map(|(token, _)| *token);
        match token.map(|token| (token, act.purpose_of(token))) {
            Some((token, Some(Purpose::Release { .. }))) => drop(act.sent.insert(token)),
            Some((_, Some(Purpose::Discard) | None)) | None => act.breaks(Promise::OnlyReleased),
        }
    }

    fn deaths(_: bool) -> &'static [After] {
        &[After::Dies, After::DiesForGood]
    }

    fn is_written(&self, place: usize, world: &World) -> bool {
        match self.who.get(place) {
            Some(Does::Closes) => world.is_closed(),
            Some(Does::Puts(_) | Does::Releases(_) | Does::Discards) => world.has_key(&format!("k{place}")),
            None => false,
        }
    }

    fn events(&self, world: &World, left: &Mishaps) -> Vec<usize> {
        if left.copies > 0 { (0..world.takings.len()).collect() } else { Vec::new() }
    }

    fn happen(act: &mut Act<'_, Self>, taking: usize) {
        act.copy(taking);
        act.left.copies -= 1;
    }

    fn is_at_rest(&self, world: &World) -> bool {
        world.is_at_rest()
    }

    fn is_whole(&self, world: &World) -> bool {
        world.is_at_rest() && world.is_whole()
    }
}
