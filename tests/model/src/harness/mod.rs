//! What all models share: a model is what takes part ([`Subject`]), its tables, its rules and its promises.
//!
//! What runs are the real calls, as histories over a recorder ([`histories`]). One action is one I/O of one process,
//! after which it may die; or something that happens by itself. Those who take part have a place each, and sweep, where
//! it comes, the last one: the next sweep takes its place ([`play`]).

pub mod act;
pub mod check;
pub mod claims;
pub mod histories;
pub mod kept;
pub mod play;
pub mod recorder;

use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;

use self::act::{Act, Ports};
use self::claims::{Promises, Rules};
use self::histories::After;
use self::play::State;
use crate::prelude::*;

/// What somebody is in a run.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Role {
    /// The one at this place.
    One(usize),
    /// The sweep of this number.
    Sweep(u8),
}

/// What may still go wrong.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Mishaps {
    /// How often a process may die.
    pub deaths: u8,
    /// How often something may come twice.
    pub copies: u8,
    /// How often a read may be old that otherwise is not.
    pub lags: u8,
}

/// A setting, and what may go wrong in it.
#[derive(Clone, Copy, Debug)]
pub struct Run<S> {
    /// Who takes part in what.
    pub of: S,
    /// What may go wrong.
    pub left: Mishaps,
    /// Whether sweep comes in between as well, not only at the end.
    pub sweeps: bool,
}

impl<S: Copy> Run<S> {
    /// Nothing goes wrong.
    pub const fn of(of: S) -> Self {
        Self { of, left: Mishaps { deaths: 0, copies: 0, lags: 0 }, sweeps: false }
    }

    /// With this many deaths.
    pub const fn dying(self, deaths: u8) -> Self {
        Self { left: Mishaps { deaths, ..self.left }, ..self }
    }

    /// With this many copies.
    pub const fn copied(self, copies: u8) -> Self {
        Self { left: Mishaps { copies, ..self.left }, ..self }
    }

    /// With this many reads that lag.
    pub const fn lagging(self, lags: u8) -> Self {
        Self { left: Mishaps { lags, ..self.left }, ..self }
    }

    /// With a sweep in between.
    pub const fn swept(self) -> Self {
        Self { sweeps: true, ..self }
    }
}

/// What a model is about: who takes part, and what is there at the beginning.
pub trait Subject: Copy + Debug + Send + Sync + 'static {
    /// What can be removed.
    type Rule: Rules<Run = Run<Self>, Promise = Self::Promise>;
    /// What must hold.
    type Promise: Promises;
    /// The tables.
    type World: Clone + Debug + Hash + Eq + Send + Sync;
    /// How a read may come out; the default shows what there is.
    type Shown: Copy + Debug + Default + Hash + Eq + Send + Sync;
    /// What happens by itself.
    type Event: Copy + Debug + Hash + Eq + Send + Sync;
    /// What is sent.
    type Sent: Debug + Send + Sync;

    /// What is broken when all has ended and something is left undone.
    const LOST: Self::Promise;
    /// What every check visits.
    const QUICK: &'static [Run<Self>];
    /// What a long check visits as well.
    const LONG: &'static [Run<Self>];
    /// Between sweeps, in milliseconds: more than sweep leaves anything alone.
    const SWEEP_MS: u64 = 4_000_000;
    /// Whether a process that dies begins anew at once, whether it still may or not.
    const COMES_BACK_AT_ONCE: bool = false;

    /// What it is about.
    fn name(&self) -> String;

    /// How many take part, besides sweep.
    fn places(&self) -> usize;

    /// How many sweeps mend what can be mended, if sweep comes at all.
    fn most_sweeps(run: &Run<Self>) -> Option<u8>;

    /// The tables at the beginning.
    fn world(&self) -> Self::World;

    /// Whether the one at a place may begin.
    fn may_begin(&self, place: usize, world: &Self::World, left: &Mishaps) -> bool;

    /// Whether the one at a place may as well never begin.
    fn may_stay_away(&self, _place: usize) -> bool {
        false
    }

    /// The one at a place begins.
    fn begin(&self, _place: usize, _world: &mut Self::World, _left: &mut Mishaps) {}

    /// The time of a process, in milliseconds.
    fn now(&self, role: Role) -> u64 {
        match role {
            Role::One(_) => 0,
            Role::Sweep(number) => Self::SWEEP_MS * (u64::from(number) + 1),
        }
    }

    /// What a process does.
    fn call(&self, role: Role, ports: &Ports<Self>) -> impl Future<Output = ()>;

    /// What a message says.
    fn parse(message: &Outgoing) -> Option<Self::Sent>;

    /// A message is sent.
    fn send(act: &mut Act<'_, Self>, sent: &Self::Sent);

    /// Whatever the tables break, by any process.
    fn judge_write(_act: &mut Act<'_, Self>) {}

    /// The deaths that may follow an I/O. Who dies after a read has done nothing since its last write.
    fn deaths(writes: bool) -> &'static [After] {
        if writes { &[After::Dies] } else { &[] }
    }

    /// Whether what the one at a place has to write is written, so that it may die for good.
    fn is_written(&self, _place: usize, _world: &Self::World) -> bool {
        false
    }

    /// What may happen by itself.
    fn events(&self, _world: &Self::World, _left: &Mishaps) -> Vec<Self::Event> {
        Vec::new()
    }

    /// Something happens by itself.
    fn happen(_act: &mut Act<'_, Self>, _event: Self::Event) {}

    /// Whether nothing is left for sweep.
    fn is_at_rest(&self, world: &Self::World) -> bool {
        self.is_whole(world)
    }

    /// Whether nothing is lost, once all that can be done is done.
    fn is_whole(&self, world: &Self::World) -> bool;

    /// Promises about more than the tables.
    fn judge(_run: &Run<Self>, _removed: Option<Self::Rule>, _state: &mut State<Self>) {}
}
