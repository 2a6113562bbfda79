//! What an action does to a state.

use groupage_core::domain::message::{Finish, Lead};

use crate::harness::histories::{self, After};
use crate::pipeline::action::{Action, Who};
use crate::pipeline::model::Groupage;
use crate::pipeline::promises::{Promise, broken_in};
use crate::pipeline::rules::Rule;
use crate::pipeline::state::{Message, Running, State};
use crate::pipeline::tables::after_waiting;
use crate::pipeline::world::{Asker, Comes};
use crate::prelude::*;
use crate::steps::io::{Body, Op, Says, Told};
use crate::steps::process::{Process, task_id};

impl Groupage {
    /// The state after an action, and which promise it breaks.
    pub(super) fn after(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Step(who, comes, after) => self.step(&mut state, who, comes, after)?,
            Action::Beat(n) => self.beat(&mut state, n)?,
            Action::Sleep(n) => {
                let mut running = state.running.remove(usize::from(n));
                running.asleep = true;
                state.left.sleeps -= 1;
                state.passes += 1;
                state.run(running);
            }
            Action::Copy(who) => {
                state.left.copies -= 1;
                match who {
                    Who::Message(n) => {
                        let copy = state.messages.get(usize::from(n))?.clone();
                        state.put(Message { shared: 0, ..copy });
                    }
                    Who::Running(n) => {
                        let mut running = state.running.remove(usize::from(n));
                        running.message.shared = last.left.copies;
                        state.put(running.message.clone().again());
                        state.run(running);
                    }
                }
            }
            Action::LeaseOver(n) => {
                state.passes = state.passes.saturating_sub(1);
                state.world.tables.locks.get_mut(usize::from(n))?.end_lease();
            }
            Action::SessionOver(n) => {
                state.passes = state.passes.saturating_sub(1);
                let session = state.world.tables.sessions.0.values_mut().nth(usize::from(n))?;
                *session = Kept::new(Session { expires_at: Timestamp(0), ..(**session).clone() });
            }
            Action::WaitOver(n) => {
                let batch = after_waiting(state.world.tables.batches.get(usize::from(n))?)?;
                state.world.tables.put_batch(Kept::new(batch));
            }
        }
        if state.left.lags == 0 && last.left.lags > 0 {
            state.world.tables.catch_up();
        }
        self.judge(&mut state);
        Some(state)
    }

    fn step(&self, state: &mut State, who: Who, comes: Comes, after: After) -> Option<()> {
        let mut running = self.actor(state, who)?;
        match who {
            Who::Message(n) => {
                if matches!(&*running.message.body, Body::Register(numbers) | Body::Rest(numbers, _) if numbers.len() > 1)
                {
                    state.burnt |= 1 << running.process.role.name;
                }
                state.messages.remove(usize::from(n));
            }
            Who::Running(n) => drop(state.running.remove(usize::from(n))),
        }
        match comes {
            Comes::Lagging(_) => state.left.lags -= 1,
            Comes::Saying(Says::FirstFailed) => state.left.failures -= 1,
            Comes::Saying(Says::Unavailable) => state.left.outages -= 1,
            Comes::Saying(Says::Accepted | Says::RetryAfter) | Comes::AsIs => {}
        }
        // It has acknowledged its message already, and dies before the I/O.
        if after == After::DiesForGood {
            state.left.crashes -= 1;
            state.acknowledge(&running.message);
            return Some(());
        }
        let (call, op) = running.process.next_io().cloned()?;
        let answer = self.io(state, &running, &op, comes);
        if after == After::Dies {
            state.left.crashes -= 1;
            state.give_back(running);
            return Some(());
        }
        running.process = histories::Running(self.steps.next(&running.process, call, answer));
        running.asleep = false;
        self.go_on(state, running);
        Some(())
    }

    /// The pause between two heartbeats is over: the session is renewed.
    fn beat(&self, state: &mut State, n: u8) -> Option<()> {
        let mut running = state.running.remove(usize::from(n));
        let (call, _) = running.process.sleeps().cloned()?;
        running.process =
            histories::Running(self.steps.next(&running.process, call, Told { at: 0, answer: Answer::of(()) }));
        state.left.beats -= 1;
        if let Some((call, op)) = running.process.renewal().cloned() {
            let answer = self.io(state, &running, &op, Comes::AsIs);
            running.process = histories::Running(self.steps.next(&running.process, call, answer));
        }
        self.go_on(state, running);
        Some(())
    }

    /// What nobody else can see happens at once.
    fn go_on(&self, state: &mut State, mut running: Running) {
        while let Some((call, op)) = running.process.quiet_io(self.setting.calls_last).cloned() {
            let answer = self.io(state, &running, &op, Comes::AsIs);
            running.process = histories::Running(self.steps.next(&running.process, call, answer));
        }
        match running.process.end {
            None => state.run(running),
            Some(true) => state.acknowledge(&running.message),
            Some(false) => state.give_back(running),
        }
    }

    fn io(&self, state: &mut State, running: &Running, op: &Op, comes: Comes) -> Told {
        if let Op::Send(messages) = op {
            for sent in messages {
                let loses =
                    matches!(&*sent.body, Body::Elect(Elect::Waiting(_) | Elect::Several(_))) && sent.delay_ms > 0;
                if loses && !self.keeps(Rule::LoserComesBack) {
                    continue;
                }
                // Several have not lost to one leader alone.
                let lost = loses && matches!(&*sent.body, Body::Elect(Elect::Waiting(_)));
                let lost_to = running.process.learnt.signalled.filter(|_| lost);
                state.put(Message { lost_to, ..Message::new(unhurried(&sent.body)) });
            }
        }
        let laws = self.laws(state.left.lags > 0);
        Told { at: 0, answer: state.world.apply(op, comes, &asker(&running.process), laws) }
    }

    /// Promises that are not about one write.
    fn judge(&self, state: &mut State) {
        if state.world.broken.is_none() {
            let arrive = self.setting.tasks..self.setting.tasks + self.setting.express;
            let arriving: Vec<_> = arrive.filter(|n| state.registers(*n)).map(task_id).collect();
            state.world.broken = broken_in(&state.world.tables, &arriving);
        }
        let all = usize::from(self.setting.tasks + self.setting.express);
        let rests = state.world.tables.tasks.len() == all && state.world.tables.is_at_rest(state.orphaned);
        if state.world.broken.is_none() && state.running.is_empty() && !rests {
            let mut actions = Vec::new();
            self.choices(state, &mut actions);
            if state.messages.is_empty() || actions.is_empty() {
                state.world.broken = Some(Promise::NothingLost);
            }
        }
    }
}

/// Counters that only stretch a delay are cut off, so that a message which goes round does so unchanged.
fn unhurried(body: &Body) -> Body {
    let mut body = body.clone();
    match &mut body {
        Body::Elect(Elect::Waiting(election)) => cut_off(std::slice::from_mut(election)),
        Body::Elect(Elect::Several(elections)) => cut_off(elections),
        Body::Group(Group::Lead(Lead { copies, .. }) | Group::Finish(Finish { copies, .. })) => *copies = Copies::NONE,
        Body::Handle(handle) => {
            handle.waits = handle.waits.min(1);
            handle.copies = Copies::NONE;
        }
        Body::Elect(Elect::Returning(_) | Elect::Due(_)) | Body::Register(_) | Body::Rest(..) | Body::Sweep => {}
    }
    body
}

fn cut_off(elections: &mut [Election]) {
    for election in elections {
        election.attempt = election.attempt.min(1);
        election.copies = Copies::NONE;
    }
}

fn asker(process: &Process) -> Asker {
    let term = match &*process.role.body {
        Body::Group(Group::Lead(Lead { term, .. })) => Some(term.clone()),
        Body::Group(Group::Finish(_))
        | Body::Register(_)
        | Body::Rest(..)
        | Body::Elect(_)
        | Body::Handle(_)
        | Body::Sweep => None,
    };
    Asker { term, drives: process.has_just_seen_its_batch() }
}
