//! The model that stateright visits.

use std::sync::Arc;

use stateright::{Model, Property};

use super::io::{Answer, Op};
use super::process::{Calls, Process, Role};
use super::rules::{Promise, Rule};
use super::setting::{Does, Setting};
use super::state::{Action, After, Place, State};
use super::world::World;
use crate::histories::{Known, Running};

/// One list in one setting, perhaps with a rule removed.
#[derive(Debug)]
pub struct OneList {
    setting: Setting,
    removed: Option<Rule>,
    calls: Known<Calls>,
}

/// What so many sweeps that live do not work off never will be.
const MOST_SWEEPS: u8 = 2;

impl OneList {
    pub(super) fn new(setting: Setting, removed: Option<Rule>) -> Self {
        Self { setting, removed, calls: Known::new(Calls(setting)) }
    }

    /// The process at a place, if it may act.
    pub(super) fn actor(&self, state: &State, place: usize) -> Option<Arc<Process>> {
        match state.places.get(place)? {
            Place::Runs(running) => return Some(Arc::clone(&running.0)),
            Place::Ended => return None,
            Place::Waits => {}
        }
        if place < self.setting.who.len() {
            return Some(self.calls.start(Role::One(place)));
        }
        let may_begin = self.setting.sweeps && state.sweeps == 0
            || others_ended(state) && !state.world.is_at_rest() && state.sweeps < self.most_sweeps();
        may_begin.then(|| self.calls.start(Role::Sweep(state.sweeps)))
    }

    const fn most_sweeps(&self) -> u8 {
        MOST_SWEEPS + self.setting.sweeps as u8 + self.setting.crashes
    }

    /// Whether what a process has to write is written, so that sweep makes up for the rest.
    fn is_written(&self, state: &State, role: Role) -> bool {
        let Role::One(n) = role else { return false };
        match self.setting.who.get(n) {
            Some(Does::Closes) => state.world.is_closed(),
            Some(Does::Puts(_) | Does::Releases(_) | Does::Discards) => state.world.has_key(&format!("k{n}")),
            None => false,
        }
    }

    /// The process after an answer. When nobody dies any more, nobody can tell when it sends.
    fn go_on(&self, state: &mut State, process: &Process, call: usize, answer: Answer) -> Arc<Process> {
        let mut process = self.calls.next(process, call, answer);
        while state.crashes == 0
            && let Some((call, op @ Op::Send(_))) = process.next_io()
        {
            let answer = state.world.apply(op, false, self.removed);
            process = self.calls.next(&process, *call, answer);
        }
        process
    }

    /// Promises about what was left undone.
    fn judge(&self, state: &mut State) {
        let is_over = state.world.is_at_rest() || state.sweeps == self.most_sweeps();
        let sweep_works = !matches!(state.places.last(), None | Some(Place::Waits));
        if others_ended(state) && is_over && !sweep_works && !(state.world.is_at_rest() && state.world.is_whole()) {
            state.world.breaks(Promise::NothingLost);
        }
    }
}

fn others_ended(state: &State) -> bool {
    state.places.split_last().is_some_and(|(_, others)| others.iter().all(|place| *place == Place::Ended))
}

impl Model for OneList {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let Setting { crashes, copies, lags, .. } = self.setting;
        let places = vec![Place::Waits; self.setting.who.len() + 1];
        vec![State { world: World::of(&self.setting), places, sweeps: 0, crashes, copies, lags }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.world.broken.is_some() {
            return;
        }
        for place in 0..state.places.len() {
            let Some(process) = self.actor(state, place) else { continue };
            let Some((_, op)) = process.next_io() else { continue };
            let may_lag = state.lags > 0 && state.world.may_lag(op);
            for lags in [false, true].into_iter().filter(|lags| !lags || may_lag) {
                actions.push(Action::Io { place, lags, after: After::GoesOn });
                if state.crashes > 0 {
                    actions.push(Action::Io { place, lags, after: After::Dies });
                    actions.push(Action::Io { place, lags, after: After::DiesForGood });
                }
            }
        }
        if state.copies > 0 {
            actions.extend((0..state.world.takings()).map(Action::Copy));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let (place, lags, after) = match action {
            Action::Copy(n) => {
                state.world.copy(n, self.removed);
                state.copies -= 1;
                return Some(state);
            }
            Action::Io { place, lags, after } => (place, lags, after),
        };
        let process = self.actor(last, place)?;
        let (call, op) = process.next_io()?;
        let answer = state.world.apply(op, lags, self.removed);
        state.lags -= u8::from(lags);
        let is_sweep = matches!(process.role, Role::Sweep(_));
        let next = match after {
            After::GoesOn => {
                let process = self.go_on(&mut state, &process, *call, answer);
                if process.ended { Place::Ended } else { Place::Runs(Running(process)) }
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
        properties![OneTaskAToken, PutOnce, TakenOfGiven, TakenOnce, ClosedIsClosed, OnlyReleased, NothingLost]
    }
}
