//! What may happen in a state.

use std::sync::Arc;

use groupage_core::routes::Routes;
use stateright::{Model, Property};

use super::promises::{Promise, Rule};
use super::setting::{BEGINS_MS, LARGEST, LONG, QUICK, Setting, batch_id};
use super::state::{Message, Running, State};
use super::world::World;
use crate::harness::claims::{Checked, Promises};
use crate::harness::histories::Known;
use crate::prelude::*;
use crate::steps::io::{Body, Op, Says};
use crate::steps::process::{Origin, Process, Steps};

/// Time goes on in steps of this length, in milliseconds: a process that wakes up does so at the next one.
pub(super) const STEP_MS: u64 = 250;
/// How many names each batch's processes have.
const NAMES: u8 = 8;

/// One thing that happens.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    /// A process does this I/O of those that it has under way, which comes out so.
    Io(u8, u8, Comes),
    /// A message is delivered.
    Begins(u8),
    /// A process stands still.
    StandsStill(u8),
    /// A message comes twice.
    Twice(u8),
    /// The message of a process in hand is delivered once more.
    Again(u8),
    /// A message is late.
    Late(u8),
    /// A message never comes.
    Never(u8),
    /// Time goes on until something happens.
    Passes,
}

/// How an I/O comes out, and what becomes of the process.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Comes {
    /// As the tables have it.
    AsIs,
    /// The same, and the process dies.
    Deadly,
    /// The port does not answer.
    Failing,
    /// The downstream says so.
    Saying(Says),
}

/// Batches behind their gates in one setting.
#[derive(Debug)]
pub struct Gated {
    pub(super) setting: Setting,
    pub(super) removed: Option<Rule>,
    pub(super) steps: Known<Steps>,
}

impl Gated {
    pub(super) fn keeps(&self, rule: Rule) -> bool {
        self.removed != Some(rule)
    }

    pub(super) fn begin(&self, state: &State, body: Kept<Body>, batch: u8) -> Arc<Process> {
        let used = state.names();
        let name = (batch * NAMES..(batch + 1) * NAMES).find(|n| used & (1 << n) == 0);
        debug_assert!(name.is_some(), "the fresh names are used up");
        let name = name.unwrap_or(batch * NAMES);
        self.steps.start(Origin { body, redelivered: false, at: state.world.now, name })
    }

    /// How the next I/O of a process may come out.
    pub(super) fn outcomes(&self, state: &State, op: &Op) -> Vec<Comes> {
        let left = &state.left;
        if let Op::Call(_, items) = op
            && self.setting.kills(items)
        {
            return vec![Comes::Deadly];
        }
        let mut all = vec![Comes::AsIs];
        if left.deaths > 0 && op.writes() {
            all.push(Comes::Deadly);
        }
        if left.errors > 0 && matches!(op, Op::Read(..)) {
            all.push(Comes::Failing);
        }
        if left.pauses > 0 && matches!(op, Op::Call(..)) {
            all.push(Comes::Saying(Says::RetryAfter));
        }
        all
    }

    /// Whether standing still before it makes a difference.
    const fn may_wait(op: &Op) -> bool {
        matches!(op, Op::StoreGate(..) | Op::TakeTicket(..) | Op::Store(..) | Op::Call(..))
    }

    /// Whether an I/O can come out in one way only, and nobody else can tell when it happens.
    pub(super) fn is_quiet(&self, state: &State, running: &Running, op: &Op) -> bool {
        let is_shelf = matches!(op, Op::Unfinished(..) | Op::Sessions(_));
        (is_shelf || !op.is_of_a_gate() && state.about(running.batch()) == 1)
            && (state.left.stalls == 0 || !Self::may_wait(op))
            && self.outcomes(state, op).len() == 1
    }

    pub(super) fn rests(state: &State, running: &Running) -> bool {
        running.rests_until() > state.world.now
    }
}

impl Model for Gated {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let of = &self.setting;
        let world = World::of(of, BEGINS_MS - STEP_MS);
        let mut state = State { world, messages: Vec::new(), running: Vec::new(), left: of.mishaps, sweeps: 0 };
        for (n, arrival) in (0..).zip(of.batches) {
            if let Some(batch) = of.batch(n) {
                state.put(Message {
                    body: Kept::new(Body::Handle(Handle::about(&batch))),
                    at: BEGINS_MS + arrival.at_ms,
                });
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.world.broken.is_some() {
            return;
        }
        let left = &state.left;
        let mut is_busy = false;
        for (n, running) in (0..).zip(&state.running) {
            if left.copies > 0 && running.batch().is_some() {
                actions.push(Action::Again(n));
            }
            if Self::rests(state, running) {
                continue;
            }
            for (which, (_, op)) in (0..).zip(running.process.ios()) {
                is_busy = true;
                actions.extend(self.outcomes(state, op).into_iter().map(|comes| Action::Io(n, which, comes)));
            }
            let Some((_, op)) = running.process.next_io() else { continue };
            if left.stalls > 0 && Self::may_wait(op) && running.batch().is_some() {
                actions.push(Action::StandsStill(n));
            }
        }
        for (n, message) in (0..).zip(&state.messages) {
            if state.is_due(message) {
                is_busy = true;
                actions.push(Action::Begins(n));
            }
            actions.extend((left.copies > 0).then_some(Action::Twice(n)));
            actions.extend((left.lates > 0).then_some(Action::Late(n)));
            actions.extend((left.losses > 0).then_some(Action::Never(n)));
        }
        let is_idle = state.running.is_empty() && state.messages.is_empty();
        let waits = !is_idle || !state.world.are_over() && state.sweeps < self.setting.sweeps;
        if !is_busy && waits {
            actions.push(Action::Passes);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.act(&mut state, action)?;
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Promise::properties()
    }
}

impl Checked for Gated {
    type Run = Setting;
    type Rule = Rule;
    type Promise = Promise;

    const QUICK: &'static [Setting] = &QUICK;
    const LONG: &'static [Setting] = &LONG;
    const LARGEST: &'static [Setting] = &LARGEST;

    fn of(setting: Setting, removed: Option<Rule>) -> Self {
        let routes = Routes::parse(&setting.routes()).unwrap_or_else(|why| unreachable!("{why}"));
        Self { setting, removed, steps: Known::new(Steps::new(routes, true, false)) }
    }

    fn title(setting: &Setting) -> String {
        setting.name.to_owned()
    }

    fn broken(state: &State) -> Option<Promise> {
        state.world.broken
    }

    fn tell(&self, state: &State, action: Action) -> String {
        let at = Timestamp(state.world.now - BEGINS_MS.min(state.world.now)).0;
        match action {
            Action::Io(n, which, comes) => {
                let running = state.running.get(usize::from(n));
                let op = running
                    .and_then(|running| running.process.ios().nth(which.into()))
                    .map(|(_, op)| format!("{op:?}"));
                let op: String = op.unwrap_or_default().chars().take(400).collect();
                let who =
                    running.and_then(Running::batch).map_or_else(|| "sweep".to_owned(), |n| batch_id(n).to_string());
                format!("{at} ms: {who} {comes:?} {op}")
            }
            other => format!("{at} ms: {other:?}"),
        }
    }
}
