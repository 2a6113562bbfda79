//! The model that stateright visits.

use std::sync::Arc;

use stateright::{Model, Property};

use super::process::{Calls, Process, Role};
use super::rules::{Promise, Rule};
use super::setting::{Does, Setting};
use super::state::{Action, Place, State};
use super::world::World;
use crate::histories::{Known, Running};

/// One lane in one setting, perhaps with a rule removed.
#[derive(Debug)]
pub struct OneLane {
    setting: Setting,
    removed: Option<Rule>,
    calls: Known<Calls>,
}

impl OneLane {
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
        if let Some(does) = self.setting.who.get(place) {
            let may_begin = match does {
                Does::Brings(_) => true,
                Does::LetsGoOn => state.world.is_stopped(),
            };
            return may_begin.then_some(Role::One(place));
        }
        let of_task = place - self.setting.who.len();
        let task = u8::try_from(of_task % self.setting.tasks()).ok()?;
        let again = self.is_again(place);
        let failed = state.world.failed_in_a_call(task).filter(|_| !again || state.copies > 0)?;
        Some(Role::FollowsUp { task, failed, again })
    }

    fn is_again(&self, place: usize) -> bool {
        place >= self.setting.who.len() + self.setting.tasks()
    }

    /// The process after its I/O. When nobody dies any more, nobody can tell when it sends.
    fn go_on(&self, state: &mut State, process: &Process) -> Option<Arc<Process>> {
        let mut process = self.after_io(state, process)?;
        while state.crashes == 0 && process.next_io().is_some_and(|(_, op)| op.is_sending()) {
            process = self.after_io(state, &process)?;
        }
        Some(process)
    }

    fn after_io(&self, state: &mut State, process: &Process) -> Option<Arc<Process>> {
        let (call, op) = process.next_io()?;
        let answer = state.world.apply(op, process.role, &self.setting, self.removed);
        Some(self.calls.next(process, *call, answer))
    }

    /// Whether everybody who will surely act has.
    fn is_at_rest(&self, state: &State) -> bool {
        let rests = |(place, stands): (usize, &Place)| match stands {
            Place::Runs(_) => false,
            Place::Ended => true,
            Place::Waits => match self.begins(state, place) {
                Some(Role::One(n)) => self.setting.who.get(n) == Some(&Does::LetsGoOn),
                Some(Role::FollowsUp { again, .. }) => again,
                None => true,
            },
        };
        state.places.iter().enumerate().all(rests)
    }
}

impl Model for OneLane {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let Setting { crashes, copies, .. } = self.setting;
        let places = vec![Place::Waits; self.setting.who.len() + 2 * self.setting.tasks()];
        vec![State { world: World::default(), places, crashes, copies }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.world.broken.is_some() {
            return;
        }
        for place in 0..state.places.len() {
            let Some(process) = self.actor(state, place) else { continue };
            let Some((_, op)) = process.next_io() else { continue };
            actions.push(Action::Io { place, dies: false });
            // Who dies after a read has done nothing since its last write.
            if state.crashes > 0 && op.is_write() {
                actions.push(Action::Io { place, dies: true });
            }
        }
        let waiting = state.world.waiting();
        actions.extend(waiting.flat_map(|task| [false, true].map(|failed| Action::Settle { task, failed })));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Settle { task, failed } => state.world.settle(task, failed, &self.setting),
            Action::Io { place, dies } => {
                let process = self.actor(last, place)?;
                let has_begun = last.places.get(place) == Some(&Place::Waits);
                state.copies -= u8::from(has_begun && self.is_again(place));
                let next = if dies {
                    self.after_io(&mut state, &process)?;
                    state.crashes -= 1;
                    self.calls.start(process.role)
                } else {
                    self.go_on(&mut state, &process)?
                };
                state.places[place] = if next.ended { Place::Ended } else { Place::Runs(Running(next)) };
            }
        }
        if self.is_at_rest(&state) && !state.world.is_whole(&self.setting) {
            state.world.breaks(Promise::NobodyLost);
        }
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
        properties![OneTaskATurn, TurnOnce, InOrder, StoppedIsStopped, NobodyLost]
    }
}
