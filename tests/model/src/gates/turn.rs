//! What an action does to a state.

use groupage_core::domain::outcome::WORKER_LOST;

use super::model::{Action, Comes, Gated, STEP_MS};
use super::promises::{Promise, Rule};
use super::setting::{BEGINS_MS, task_id};
use super::state::{Message, Running, State};
use super::world::Asker;
use crate::harness::histories;
use crate::prelude::*;
use crate::steps::io::{Body, Op, Says, Sent, Told};
use crate::steps::process::{SWEEP_MS, is_claim};

/// A message whose process died comes again after so long, in milliseconds;
const HIDDEN_MS: u64 = 5_000;
/// and one that its process gave back after so long, in milliseconds.
const GIVEN_BACK_MS: u64 = 3_000;

impl Gated {
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
                self.io(state, n, 0, comes.unwrap_or(Comes::AsIs));
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
        let process = self.begin(state, message.body.clone(), message.batch());
        self.go_on(state, Running::new(process));
    }

    /// A process does one of the I/Os that it has under way.
    fn io(&self, state: &mut State, n: usize, which: usize, comes: Comes) -> Option<()> {
        let mut running = state.running.remove(n);
        let (call, op) = running.process.ios().nth(which).cloned()?;
        let says = if let Comes::Saying(says) = comes { says } else { Says::Accepted };
        if let Op::Send(messages) = &op
            && self.keeps(Rule::WaitersComeBack)
        {
            for Sent { body, delay_ms } in messages {
                let body = match &**body {
                    Body::Handle(handle) if !self.keeps(Rule::TicketTravels) => {
                        Kept::new(Body::Handle(Handle { ticket: None, ..handle.clone() }))
                    }
                    _ => body.clone(),
                };
                state.put(Message { body, at: state.world.now + delay_ms });
            }
        }
        let asker = Asker {
            of: &self.setting,
            removed: self.removed,
            batch: running.batch(),
            is_late: running.is_late,
            has_passed: running.process.learnt.passed,
            has_claimed: running.process.learnt.claimed,
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
        if let Some(n) = running.batch() {
            state.world.claims[usize::from(n)].1 += u8::from(learnt.claimed && !learnt.called);
            if self.setting.forgets && self.setting.sweeps == 0 {
                state.world.lost |= 1 << n;
            }
            if !self.setting.forgets {
                state.put(Message { body: running.process.role.body.clone(), at: state.world.now + HIDDEN_MS });
            }
        }
    }

    /// A process has got an answer.
    fn go_on(&self, state: &mut State, running: Running) {
        match running.process.end {
            None => state.run(running),
            Some(false) => {
                state.put(Message { body: running.process.role.body.clone(), at: state.world.now + GIVEN_BACK_MS });
            }
            Some(true) => {}
        }
    }

    /// The state after an action, and which promise it breaks.
    pub(super) fn act(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Io(n, which, comes) => self.io(state, n.into(), which.into(), comes)?,
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
                let body = state.running.get(usize::from(n))?.process.role.body.clone();
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
                state.world.lost |= u8::from(self.setting.sweeps == 0) << lost.batch();
                disturb(state, Some(lost.batch()));
                state.left.losses -= 1;
            }
            Action::Passes => {
                let next_ms = state.next_ms(self.setting.sweeps)?;
                state.world.now = next_ms.next_multiple_of(STEP_MS).max(state.world.now + STEP_MS);
                let sweeps_at = BEGINS_MS + SWEEP_MS * (u64::from(state.sweeps) + 1);
                if state.sweeps < self.setting.sweeps && sweeps_at <= state.world.now {
                    state.sweeps += 1;
                    let last = u8::try_from(self.setting.batches.len()).unwrap_or_default();
                    let process = self.begin(state, Kept::new(Body::Sweep), last);
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
