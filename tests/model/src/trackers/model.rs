//! The model that stateright visits.

use std::sync::Arc;

use groupage_core::domain::tracker;
use groupage_core::ports::Freshness;
use stateright::{Model, Property};

use super::io::{Answer, Op};
use super::process::{Calls, Process, Role};
use super::rules::{Promise, Rule};
use super::setting::Setting;
use super::state::{Action, After, Place, State};
use super::world::{Ago, World};
use crate::histories::{self, Known};

/// One tracker in one setting, perhaps with a rule removed.
#[derive(Debug)]
pub struct OneTracker {
    pub(super) setting: Setting,
    pub(super) removed: Option<Rule>,
    pub(super) calls: Known<Calls>,
}

/// A tracker that so many sweeps do not complete never will be.
const MOST_SWEEPS: u8 = 4;

impl OneTracker {
    pub(super) fn new(setting: Setting, removed: Option<Rule>) -> Self {
        Self { setting, removed, calls: Known::new(Calls(setting)) }
    }

    fn role(&self, place: usize, sweeps: u8) -> Role {
        match place.checked_sub(1) {
            None => Role::Owner,
            Some(acker) if acker < self.setting.acks.len() => Role::Acker(acker),
            Some(_) => Role::Sweep(sweeps),
        }
    }

    /// The process at a place, if it may act.
    pub(super) fn actor(&self, state: &State, place: usize) -> Option<Arc<Process>> {
        match state.places.get(place)? {
            Place::Runs(running) => return Some(Arc::clone(&running.0)),
            Place::Ended => return None,
            Place::Waits => {}
        }
        let role = self.role(place, state.sweeps);
        let may_begin = match role {
            Role::Owner => true,
            // Nobody has an item's id before it is added.
            Role::Acker(n) => self.setting.range(n).is_some_and(|(range, _)| {
                state.world.tracker().has(tracker::Place { group: range.group, index: range.last })
            }),
            Role::Sweep(number) => {
                self.setting.sweeps && number == 0
                    || others_ended(state) && !state.world.is_at_rest() && number < MOST_SWEEPS
            }
        };
        may_begin.then(|| self.calls.start(role))
    }

    /// Whether what a process has to write is written, so that sweep makes up for the rest.
    fn is_written(&self, state: &State, role: Role) -> bool {
        match role {
            Role::Owner => state.world.tracker().state != tracker::State::Open,
            Role::Acker(n) => self
                .setting
                .range(n)
                .is_some_and(|(range, _)| state.world.is_done(range.group, range.first..=range.last)),
            Role::Sweep(_) => false,
        }
    }

    /// The process after an answer. When nobody dies any more, nobody can tell when it sends.
    fn go_on(&self, state: &mut State, process: &Process, call: usize, answer: Answer) -> Arc<Process> {
        let mut process = self.calls.next(process, call, answer);
        while state.crashes == 0
            && let Some((call, op @ Op::Send(_))) = process.next_io()
        {
            let answer = state.world.apply(process.role, op, Ago::default(), self.removed);
            process = self.calls.next(&process, *call, answer);
        }
        process
    }

    /// Promises about what was left undone.
    fn judge(&self, state: &mut State) {
        if !others_ended(state) || state.world.is_at_rest() {
            return;
        }
        let is_ended = matches!(state.world.tracker().state, tracker::State::Ended(_));
        let sweep = &state.places[state.places.len() - 1];
        let nobody_died = state.crashes == self.setting.crashes;
        if nobody_died && state.sweeps == 0 && *sweep == Place::Waits && !is_ended {
            state.world.breaks(Promise::CompleteAtOnce);
        }
        if state.sweeps == MOST_SWEEPS {
            state.world.breaks(Promise::NothingLost);
        }
    }
}

fn others_ended(state: &State) -> bool {
    state.places.split_last().is_some_and(|(_, others)| others.iter().all(|place| *place == Place::Ended))
}

impl Model for OneTracker {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            world: World::of(&self.setting),
            places: vec![Place::Waits; self.setting.acks.len() + 2],
            sweeps: 0,
            crashes: self.setting.crashes,
            stale: true,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.world.broken.is_some() {
            return;
        }
        for place in 0..state.places.len() {
            let Some(process) = self.actor(state, place) else { continue };
            let Some((_, op)) = process.next_io() else { continue };
            for ago in state.world.shown_to(op, self.removed, state.stale) {
                actions.push(Action { place, ago, after: After::GoesOn });
                if state.crashes > 0 {
                    actions.push(Action { place, ago, after: After::Dies });
                    actions.push(Action { place, ago, after: After::DiesForGood });
                }
            }
        }
    }

    fn next_state(&self, last: &State, Action { place, ago, after }: Action) -> Option<State> {
        let process = self.actor(last, place)?;
        let (call, op) = process.next_io()?;
        let mut state = last.clone();
        let answer = state.world.apply(process.role, op, ago, self.removed);
        state.stale &= ago == Ago::default() || !matches!(op, Op::Look(_, Freshness::Latest));
        let is_sweep = matches!(process.role, Role::Sweep(_));
        let next = match after {
            After::GoesOn => {
                let process = self.go_on(&mut state, &process, *call, answer);
                if process.ended { Place::Ended } else { Place::Runs(histories::Running(process)) }
            }
            After::Dies => Place::Waits,
            After::DiesForGood if self.is_written(&state, process.role) => Place::Ended,
            After::DiesForGood => return None,
        };
        state.crashes -= u8::from(after != After::GoesOn);
        let is_over = !matches!(next, Place::Runs(_));
        // The next sweep takes its place.
        state.places[place] = if is_sweep && is_over { Place::Waits } else { next };
        state.sweeps += u8::from(is_sweep && is_over);
        // An acker's first read may be old; no other is.
        let ackers = &state.places[1..state.places.len() - 1];
        if self.removed.is_none() && state.crashes == 0 && !ackers.contains(&Place::Waits) {
            state.world.forget_versions();
        }
        self.judge(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! properties {
            ($($promise:ident),+ $(,)?) => {
                vec![$(Property::always(Promise::$promise.broken(), |_, state: &State| {
                    state.world.broken != Some(Promise::$promise)
                })),+]
            };
        }
        properties![OneEnd, CompleteIsComplete, BitsStay, FullIsFull, CompleteAtOnce, NothingLost, OneNotice]
    }
}
