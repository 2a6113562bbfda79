//! The model that stateright visits.

use std::sync::Arc;

use stateright::{Model, Property};

use super::process::{Calls, Process, Role};
use super::rules::{Promise, Rule};
use super::setting::{Does, Setting};
use super::state::{Action, Place, State};
use super::world::World;
use crate::histories::{Known, Running};

/// One stream in one setting, perhaps with a rule removed.
#[derive(Debug)]
pub struct OneStream {
    setting: Setting,
    removed: Option<Rule>,
    calls: Known<Calls>,
}

/// What so many sweeps that live do not mend never will be.
const MOST_SWEEPS: u8 = 3;

impl OneStream {
    pub(super) fn new(setting: Setting, removed: Option<Rule>) -> Self {
        Self { setting, removed, calls: Known::new(Calls(setting)) }
    }

    /// The process at a place, if it may act.
    pub(super) fn actor(&self, state: &State, place: usize) -> Option<Arc<Process>> {
        match state.places.get(place)? {
            Place::Runs(running) => Some(Arc::clone(&running.0)),
            Place::Waits => self.begins(state, place).map(|role| self.calls.start(role)),
            Place::Ended => None,
        }
    }

    /// What would begin at a place, if it may.
    fn begins(&self, state: &State, place: usize) -> Option<Role> {
        let may_begin = match self.setting.who.get(place) {
            Some(Does::Feeds { .. }) => true,
            Some(Does::Acks(from, to, _)) => (*from..*to).all(|number| state.world.is_sent(number, &self.setting)),
            None => {
                let is_left = self.others_ended(state) && !state.world.is_whole(&self.setting);
                let may_sweep =
                    self.setting.sweeps && state.sweeps == 0 || is_left && state.sweeps < self.most_sweeps();
                return may_sweep.then_some(Role::Sweep(state.sweeps));
            }
        };
        may_begin.then_some(Role::One(place))
    }

    const fn most_sweeps(&self) -> u8 {
        MOST_SWEEPS + self.setting.sweeps as u8 + self.setting.crashes
    }

    /// Whether everybody but sweep has done what can be done.
    fn others_ended(&self, state: &State) -> bool {
        let rests = |(place, stands): (usize, &Place)| match stands {
            Place::Runs(_) => false,
            Place::Ended => true,
            Place::Waits => self.begins(state, place).is_none(),
        };
        state.places.iter().enumerate().take(self.setting.who.len()).all(rests)
    }

    /// The process after its I/O. When nobody dies any more, nobody can tell when it sends.
    fn go_on(&self, state: &mut State, process: &Process) -> Option<Arc<Process>> {
        let mut process = self.after_io(state, process, false)?;
        while state.crashes == 0 && process.next_io().is_some_and(|(_, op)| op.is_sending()) {
            process = self.after_io(state, &process, false)?;
        }
        Some(process)
    }

    fn after_io(&self, state: &mut State, process: &Process, dies: bool) -> Option<Arc<Process>> {
        let (call, op) = process.next_io()?;
        let answer = state.world.apply(op, process.role, dies, &self.setting, self.removed);
        Some(self.calls.next(process, *call, answer))
    }

    /// Promises about what was left undone.
    fn judge(&self, state: &mut State) {
        let sweep_rests = state.places.last() == Some(&Place::Waits);
        let is_over = sweep_rests && state.sweeps == self.most_sweeps() && self.others_ended(state);
        if is_over && !state.world.is_whole(&self.setting) {
            state.world.breaks(Promise::NobodyLost);
        }
    }
}

impl Model for OneStream {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let places = vec![Place::Waits; self.setting.who.len() + 1];
        vec![State { world: World::of(&self.setting), places, sweeps: 0, crashes: self.setting.crashes }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.world.broken.is_some() {
            return;
        }
        for place in 0..state.places.len() {
            let Some(process) = self.actor(state, place) else { continue };
            let Some((_, op)) = process.next_io() else { continue };
            actions.push(Action { place, dies: false });
            // Who dies after a read has done nothing since its last write.
            if state.crashes > 0 && op.is_write() {
                actions.push(Action { place, dies: true });
            }
        }
    }

    fn next_state(&self, last: &State, Action { place, dies }: Action) -> Option<State> {
        let process = self.actor(last, place)?;
        let mut state = last.clone();
        let next = if dies {
            self.after_io(&mut state, &process, true)?;
            state.crashes -= 1;
            Place::Waits
        } else {
            let process = self.go_on(&mut state, &process)?;
            if process.ended { Place::Ended } else { Place::Runs(Running(process)) }
        };
        let is_sweep = matches!(process.role, Role::Sweep(_));
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
        properties![
            OneEvent,
            NeverBack,
            OnlySettled,
            CompleteIsComplete,
            CountsSettled,
            OffsetKnown,
            BitsStay,
            NobodyLost
        ]
    }
}
