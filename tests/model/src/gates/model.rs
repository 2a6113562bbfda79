//! What may happen in a state, and what it does.

use std::sync::Arc;

use groupage_core::domain::Timestamp;
use groupage_core::domain::message::Handle;
use groupage_core::domain::outcome::WORKER_LOST;
use groupage_core::routes::Routes;
use stateright::{Model, Property};

use super::ports::{Op, Says, Told};
use super::process::{Does, Origin, Process, Steps, is_claim};
use super::setting::{BEGINS_MS, LONG, Promise, QUICK, Rule, SWEEP_MS, Setting, batch_id, task_id};
use super::state::{Message, Running, State};
use super::world::{Asker, World};
use crate::harness::act::Answer;
use crate::harness::claims::{Checked, Promises};
use crate::harness::histories::{self, Known};
use crate::harness::kept::Kept;

/// Time goes on in steps of so many milliseconds: who wakes up does so at the next one.
const STEP_MS: u64 = 250;
/// A message whose process died comes again after so long, in milliseconds;
const HIDDEN_MS: u64 = 5_000;
/// and one that its process gave back after so long, in milliseconds.
const GIVEN_BACK_MS: u64 = 3_000;
/// Each batch's processes have so many names.
const NAMES: u8 = 8;

/// One thing that happens.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    /// A process does its next I/O, which comes out so.
    Io(u8, Comes),
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
    setting: Setting,
    removed: Option<Rule>,
    steps: Known<Steps>,
}

impl Gated {
    fn keeps(&self, rule: Rule) -> bool {
        self.removed != Some(rule)
    }

    fn begin(&self, state: &State, does: Does, batch: u8) -> Arc<Process> {
        let used = state.names();
        let name = (batch * NAMES..(batch + 1) * NAMES).find(|n| used & (1 << n) == 0);
        debug_assert!(name.is_some(), "the fresh names are used up");
        self.steps.start(Origin { does, at: state.world.now, name: name.unwrap_or(batch * NAMES) })
    }

    /// How the next I/O of a process may come out.
    fn outcomes(&self, state: &State, op: &Op) -> Vec<Comes> {
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
        if left.errors > 0 && matches!(op, Op::Read(_)) {
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
    fn is_quiet(&self, state: &State, running: &Running, op: &Op) -> bool {
        let is_shelf = matches!(op, Op::Unfinished(..) | Op::Sessions(_));
        (is_shelf || !op.is_of_a_gate() && state.about(running.batch()) == 1)
            && (state.left.stalls == 0 || !Self::may_wait(op))
            && self.outcomes(state, op).len() == 1
    }

    fn rests(state: &State, running: &Running) -> bool {
        running.rests_until() > state.world.now
    }

    /// What nobody else can see happens at once.
    fn settle(&self, state: &mut State) {
        loop {
            let now = state.world.now;
            let quiet = state.running.iter().position(|running| {
                !Self::rests(state, running)
                    && running.process.next_io().is_some_and(|(_, op)| self.is_quiet(state, running, op))
            });
            if let Some(n) = quiet {
                let comes = state.running[n].process.next_io().map(|(_, op)| self.outcomes(state, op)[0]);
                self.io(state, n, comes.unwrap_or(Comes::AsIs));
                continue;
            }
            let alone =
                state.messages.iter().position(|message| message.at <= now && state.about(Some(message.batch())) == 1);
            match alone {
                Some(n) => self.deliver(state, n),
                None => break,
            }
        }
    }

    fn deliver(&self, state: &mut State, n: usize) {
        let message = state.messages.remove(n);
        let process = self.begin(state, Does::Handles(message.body.clone()), message.batch());
        self.go_on(state, Running::new(process));
    }

    /// A process does its next I/O.
    fn io(&self, state: &mut State, n: usize, comes: Comes) -> Option<()> {
        let mut running = state.running.remove(n);
        let (call, op) = running.process.next_io().cloned()?;
        let says = if let Comes::Saying(says) = comes { says } else { Says::Accepted };
        if let Op::Send(messages) = &op {
            for (body, delay_ms) in messages {
                let body = if self.keeps(Rule::TicketTravels) {
                    body.clone()
                } else {
                    Kept::new(Handle { ticket: None, ..(**body).clone() })
                };
                state.put(Message { body, at: state.world.now + delay_ms });
            }
        }
        let asker = Asker {
            of: &self.setting,
            removed: self.removed,
            batch: running.batch(),
            is_late: running.is_late,
            has_called: running.process.learnt.called,
            says,
        };
        let answer = match comes {
            Comes::Failing => Answer::of(()),
            Comes::AsIs | Comes::Deadly | Comes::Saying(_) => state.world.apply(&op, asker),
        };
        match comes {
            Comes::Failing => state.left.errors -= 1,
            Comes::Saying(_) => state.left.pauses -= 1,
            Comes::AsIs | Comes::Deadly => {}
        }
        if comes != Comes::AsIs {
            disturb(state, running.batch());
        }
        let told = Told { at: state.world.now, answer };
        running.process = histories::Running(self.steps.next(&running.process, call, told));
        running.still = 0;
        if comes == Comes::Deadly {
            self.die(state, running, &op);
        } else {
            self.go_on(state, running);
        }
        Some(())
    }

    fn die(&self, state: &mut State, running: Running, op: &Op) {
        let is_killed = matches!(op, Op::Call(_, items) if self.setting.kills(items));
        state.left.deaths -= u8::from(!is_killed);
        let learnt = running.process.learnt;
        if let (Some(n), Does::Handles(body)) = (running.batch(), &running.process.role.does) {
            state.world.claims[usize::from(n)].1 += u8::from(learnt.claimed && !learnt.called);
            if self.setting.forgets && self.setting.sweeps == 0 {
                state.world.lost |= 1 << n;
            }
            if !self.setting.forgets {
                state.put(Message { body: body.clone(), at: state.world.now + HIDDEN_MS });
            }
        }
    }

    /// A process has got an answer.
    fn go_on(&self, state: &mut State, running: Running) {
        match (running.process.end, &running.process.role.does) {
            (None, _) => state.run(running),
            (Some(false), Does::Handles(body)) => {
                state.put(Message { body: body.clone(), at: state.world.now + GIVEN_BACK_MS });
            }
            (Some(_), _) => {}
        }
    }

    fn act(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Io(n, comes) => self.io(state, n.into(), comes)?,
            Action::Begins(n) => self.deliver(state, n.into()),
            Action::StandsStill(n) => {
                let mut running = state.running.remove(n.into());
                let op = running.process.next_io().map(|(_, op)| op.clone())?;
                running.is_late |= matches!(&op, Op::Call(..)) || matches!(&op, Op::Store(batch, _) if is_claim(batch));
                running.still = state.world.now + self.setting.stall_ms;
                disturb(state, running.batch());
                state.left.stalls -= 1;
                state.run(running);
            }
            Action::Twice(n) => {
                let copy = state.messages.get(usize::from(n))?.clone();
                disturb(state, Some(copy.batch()));
                state.left.copies -= 1;
                state.put(copy);
            }
            Action::Again(n) => {
                let Does::Handles(body) = state.running.get(usize::from(n))?.process.role.does.clone() else {
                    return None;
                };
                state.left.copies -= 1;
                let copy = Message { body, at: state.world.now };
                disturb(state, Some(copy.batch()));
                state.put(copy);
            }
            Action::Late(n) => {
                let late = state.messages.remove(n.into());
                disturb(state, Some(late.batch()));
                state.left.lates -= 1;
                state.put(Message { at: late.at + self.setting.late_ms, ..late });
            }
            Action::Never(n) => {
                let lost = state.messages.remove(n.into());
                state.world.lost |= 1 << lost.batch();
                state.left.losses -= 1;
            }
            Action::Passes => {
                let next_ms = state.next_ms(self.setting.sweeps)?;
                state.world.now = next_ms.next_multiple_of(STEP_MS).max(state.world.now + STEP_MS);
                let sweeps_at = BEGINS_MS + SWEEP_MS * (u64::from(state.sweeps) + 1);
                if state.sweeps < self.setting.sweeps && sweeps_at <= state.world.now {
                    state.sweeps += 1;
                    let last = u8::try_from(self.setting.batches.len()).unwrap_or_default();
                    let process = self.begin(state, Does::Sweeps, last);
                    self.go_on(state, Running::new(process));
                }
            }
        }
        self.settle(state);
        self.judge(state);
        Some(())
    }

    /// Promises that are not about one I/O.
    fn judge(&self, state: &mut State) {
        let of = &self.setting;
        for n in (0..).take(of.batches.len()) {
            let is_in_hand = state.running.iter().any(|running| running.batch().is_none_or(|batch| batch == n));
            let counts = is_in_hand || state.world.counts_calls(n);
            state.world.promise(counts, Promise::AttemptsAreCalls);
        }
        let in_time = state.world.now <= BEGINS_MS + of.by_ms || state.world.are_over();
        state.world.promise(in_time, Promise::InTime);
        if !state.running.is_empty() || !state.messages.is_empty() {
            return;
        }
        if !state.world.are_over() {
            let is_swept = state.sweeps >= of.sweeps;
            state.world.promise(!is_swept, Promise::NothingLost);
            return;
        }
        let has_died = of.poison.is_some() || state.left.deaths < of.mishaps.deaths;
        let returned = has_died || state.world.lost != 0 || !state.world.holds_places();
        state.world.promise(returned, Promise::PlacesReturned);
        let is_right = state.world.settled.iter().all(|(id, failed)| {
            let (n, m) = of.poison.unwrap_or((u8::MAX, u8::MAX));
            let is_poison = *id == task_id(n, m) || !of.bisects && id.as_str().starts_with(&format!("{n}."));
            let says = failed.as_deref();
            if is_poison { says == Some(WORKER_LOST) } else { says.is_none() }
        });
        state.world.promise(is_right, Promise::BlameIsRight);
    }
}

/// Something went wrong with a batch.
fn disturb(state: &mut State, batch: Option<u8>) {
    if let Some(n) = batch {
        state.world.disturbed |= 1 << n;
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
                state.put(Message { body: Kept::new(Handle::about(&batch)), at: BEGINS_MS + arrival.at_ms });
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
            let Some((_, op)) = running.process.next_io().filter(|_| !Self::rests(state, running)) else { continue };
            is_busy = true;
            actions.extend(self.outcomes(state, op).into_iter().map(|comes| Action::Io(n, comes)));
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

    fn of(setting: Setting, removed: Option<Rule>) -> Self {
        let routes = Routes::parse(&setting.routes()).unwrap_or_else(|why| unreachable!("{why}"));
        Self { setting, removed, steps: Known::new(Steps::new(routes)) }
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
            Action::Io(n, comes) => {
                let running = state.running.get(usize::from(n));
                let op = running.and_then(|running| running.process.next_io()).map(|(_, op)| format!("{op:?}"));
                let op: String = op.unwrap_or_default().chars().take(400).collect();
                let who =
                    running.and_then(Running::batch).map_or_else(|| "sweep".to_owned(), |n| batch_id(n).to_string());
                format!("{at} ms: {who} {comes:?} {op}")
            }
            other => format!("{at} ms: {other:?}"),
        }
    }
}
