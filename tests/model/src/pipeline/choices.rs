//! What may happen in a state.

use crate::harness::histories::After;
use crate::pipeline::action::{Action, Who};
use crate::pipeline::model::Groupage;
use crate::pipeline::rules::Rule;
use crate::pipeline::setting::Mishaps;
use crate::pipeline::state::{Message, Running, State};
use crate::pipeline::tables::{Tables, after_waiting, lives};
use crate::pipeline::world::Comes;
use crate::prelude::*;
use crate::steps::io::{Body, Op, Says};

impl Groupage {
    /// Everything that may happen next.
    pub(super) fn choices(&self, state: &State, actions: &mut Vec<Action>) {
        actions.clear();
        if state.world.broken.is_some() {
            return;
        }
        if let Some((n, running)) = alone(state) {
            self.io_choices(state, Who::Running(n), running, actions);
            if state.left.copies > 0 && comes_again(running) {
                actions.push(Action::Copy(Who::Running(n)));
            }
            return;
        }
        for (running, n) in state.running.iter().zip(0..) {
            self.io_choices(state, Who::Running(n), running, actions);
            if state.left.sleeps > 0 && !running.asleep {
                actions.push(Action::Sleep(n));
            }
        }
        for (n, message) in unlike(&state.messages) {
            if state.is_due(message) && !self.is_later(state, message) {
                let process = self.begin(state, message);
                let running = Running::new(message.clone(), process);
                self.io_choices(state, Who::Message(n), &running, actions);
            }
        }
        time_choices(state, actions);
        if state.left.copies > 0 {
            actions.extend(unlike(&state.messages).map(|(n, _)| Action::Copy(Who::Message(n))));
            let running = state.running.iter().zip(0..).filter(|(running, _)| comes_again(running));
            actions.extend(running.map(|(_, n)| Action::Copy(Who::Running(n))));
        }
    }

    /// Whether this setting leaves a message for later, although it is due.
    fn is_later(&self, state: &State, message: &Message) -> bool {
        match &*message.body {
            Body::Handle(handle) => {
                self.setting.calls_last && (state.is_grouping() || state.is_calling_before(message, &handle.batch))
            }
            Body::Elect(Elect::Waiting(election)) => {
                self.setting.in_order
                    && election.attempt == 0
                    && !message.redelivered
                    && state.messages.iter().any(|other| match &*other.body {
                        Body::Elect(Elect::Waiting(other)) => other.attempt == 0 && other.workflow < election.workflow,
                        _ => false,
                    })
            }
            Body::Register(_)
            | Body::Rest(..)
            | Body::Elect(Elect::Several(_) | Elect::Returning(_) | Elect::Due(_))
            | Body::Group(_)
            | Body::Sweep => false,
        }
    }

    /// How the next I/O of a process may come out, and whether the process lives on.
    fn io_choices(&self, state: &State, who: Who, running: &Running, actions: &mut Vec<Action>) {
        let Some((_, op)) = running.process.next_io() else { return };
        let left = &state.left;
        for comes in outcomes(op, &state.world.tables, left) {
            actions.push(Action::Step(who, comes, After::GoesOn));
            if left.crashes > 0 && op.writes() {
                actions.push(Action::Step(who, comes, After::Dies));
            }
        }
        if left.crashes > 0 && matches!(op, Op::Send(_)) && !self.keeps(Rule::AcknowledgeLast) {
            actions.push(Action::Step(who, Comes::AsIs, After::DiesForGood));
        }
        if left.beats > 0
            && running.process.sleeps().is_some()
            && matches!(op, Op::Call(..))
            && let Who::Running(n) = who
        {
            actions.push(Action::Beat(n));
        }
    }
}

/// Whether a process's message may be delivered once more beside it.
const fn comes_again(running: &Running) -> bool {
    !running.deleted && running.message.shared == 0
}

/// A process whose next I/O commutes with everything that others do, and breaks no promise by itself: it sends, or
/// opens a session that nobody knows yet. What others could do before it they can do after it, so only this is looked
/// at.
fn alone(state: &State) -> Option<(u8, &Running)> {
    let commutes = |running: &Running| {
        !running.asleep && matches!(running.process.next_io(), Some((_, Op::Send(_) | Op::OpenSession(_))))
    };
    (0..).zip(&state.running).find(|(_, running)| state.left.sleeps == 0 && commutes(running))
}

fn outcomes(op: &Op, tables: &Tables, left: &Mishaps) -> Vec<Comes> {
    let mut comes = vec![Comes::AsIs];
    let rows = tables.tasks.iter().zip(0..);
    match op {
        Op::Waiting(_) if left.lags > 0 => {
            let lag = rows.filter(|(row, _)| row.indexed(true) != row.indexed(false));
            comes.extend(lag.map(|(_, n)| Comes::Lagging(n)));
        }
        Op::Read(ids, Freshness::Eventual) if left.lags > 0 => {
            let lag = rows.filter(|(row, _)| ids.contains(&row.now.id) && row.shown(true) != row.shown(false));
            comes.extend(lag.map(|(_, n)| Comes::Lagging(n)));
        }
        Op::Call(_, items) => {
            if left.failures > 0 && !items.is_empty() {
                comes.push(Comes::Saying(Says::FirstFailed));
            }
            if left.outages > 0 {
                comes.push(Comes::Saying(Says::Unavailable));
            }
        }
        _ => {}
    }
    comes
}

/// The messages with their places; the copies of a message are alike, so only one of them.
fn unlike(messages: &[Message]) -> impl Iterator<Item = (u8, &Message)> {
    let mut previous: Option<&Message> = None;
    (0..).zip(messages).filter(move |(_, message)| previous.replace(message) != Some(message))
}

/// What time alone brings about.
fn time_choices(state: &State, actions: &mut Vec<Action>) {
    let tables = &state.world.tables;
    if state.time_passes() {
        let leases = tables.locks.iter().zip(0..).filter(|(led, _)| led.lives());
        actions.extend(leases.map(|(_, n)| Action::LeaseOver(n)));
        let sessions = tables.sessions.values().zip(0..);
        actions.extend(sessions.filter(|(session, _)| lives(session)).map(|(_, n)| Action::SessionOver(n)));
    }
    let batches = tables.batches.iter().zip(0..);
    actions.extend(batches.filter(|(batch, _)| after_waiting(batch).is_some()).map(|(_, n)| Action::WaitOver(n)));
}
