//! The model: which actions a state has, and where each leads.

use std::sync::Arc;

use shared::domain::id::{Target, TaskId, WorkflowId};
use shared::domain::message::{Elect, Election, Group, Lead};
use shared::domain::session::Session;
use shared::domain::task::Task;
use shared::domain::time::Timestamp;
use shared::ports::Freshness;
use shared::routes::{Error, Routes};
use stateright::{Model, Property};

use crate::io::{Answer, Body, Op, Says};
use crate::kept::Kept;
use crate::process::{Origin, Process, Steps, payload};
use crate::promises::{self, Promise, broken_in};
use crate::rules::{Removed, Rule};
use crate::setting::Setting;
use crate::state::{Message, Running, State};
use crate::tables::{Before, Row, Tables, after_waiting, lives};
use crate::world::{Asker, Comes, Laws, World};

/// One thing that happens.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Action {
    /// A process does its next I/O; a message that is due begins one.
    Step(Who, Comes, After),
    /// A process renews its session.
    Beat(u8),
    /// A process falls asleep, until its next step.
    Sleep(u8),
    /// A message comes twice.
    Copy(Who),
    /// The lock's lease is over.
    LeaseOver,
    /// A session's time is over.
    SessionOver(u8),
    /// A batch's window or pause is over.
    WaitOver(u8),
}

/// A process, or the one that a message begins.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Who {
    /// The message at this place.
    Message(u8),
    /// The process at this place.
    Running(u8),
}

/// What becomes of a process after an I/O.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum After {
    /// It goes on.
    GoesOn,
    /// It dies; its message comes again.
    Dies,
    /// It has acknowledged its message already, and dies *before* the I/O.
    DiesAcknowledged,
}

/// The protocol in one setting.
#[derive(Debug)]
pub struct Groupage {
    setting: Setting,
    removed: Removed,
    target: Target,
    steps: Steps,
}

impl Groupage {
    /// The protocol under all rules but those removed.
    ///
    /// # Errors
    /// The routes of the model are wrong.
    pub fn new(setting: Setting, removed: Removed) -> Result<Self, Error> {
        let routes = Routes::parse(&setting.routes())?;
        let target = Target::of(&shared::domain::id::RouteName::new("r"), "a");
        Ok(Self { setting, removed, target, steps: Steps::new(routes, setting.one_batch_each) })
    }

    /// How many different histories of one process were met.
    #[must_use]
    pub fn histories(&self) -> usize {
        self.steps.histories()
    }

    /// What an action does, in words.
    #[must_use]
    pub fn tell(&self, state: &State, action: Action) -> String {
        match action {
            Action::Step(who, comes, after) => {
                let Some(running) = self.actor(state, who) else { return format!("{action:?}") };
                let new = if matches!(who, Who::Message(_)) { "begins: " } else { "" };
                let op = running.process.next_io().map(|(_, op)| op);
                let body = &running.message.body;
                format!("{new}{} | {op:?} {comes:?} {after:?}", body.title())
            }
            Action::Beat(_)
            | Action::Sleep(_)
            | Action::Copy(_)
            | Action::LeaseOver
            | Action::SessionOver(_)
            | Action::WaitOver(_) => {
                format!("{action:?}")
            }
        }
    }

    fn task(&self, n: u8) -> Task {
        let digest = shared::domain::task_message::parse(&crate::process::task_message(n), "m")
            .map_or_else(|_| String::new(), |message| message.digest());
        Task::new(TaskId::new(format!("t{n}")), self.target.clone(), payload().to_owned(), digest, Timestamp(0))
    }

    fn asker(process: &Process) -> Asker {
        let fence = match &*process.origin.body {
            Body::Group(Group::Lead(Lead { term, .. })) => Some(term.fence),
            Body::Group(Group::Finish(_)) | Body::Register(_) | Body::Elect(_) | Body::Handle(_) => None,
        };
        Asker { fence, drives: process.has_just_seen_its_batch() }
    }

    /// The process that a message begins: it gives names that nobody else has.
    fn begin(&self, state: &State, message: &Message) -> Arc<Process> {
        let (from, to) = match &*message.body {
            Body::Register(_) | Body::Elect(_) => (0, 0),
            Body::Handle(_) => (0, 16),
            Body::Group(_) => (16, 32),
        };
        let used = state.names();
        let name = (from..to).find(|n| used & (1 << n) == 0).unwrap_or(from);
        self.steps.start(Origin { body: message.body.clone(), redelivered: message.redelivered, name })
    }

    fn actor(&self, state: &State, who: Who) -> Option<Running> {
        match who {
            Who::Message(n) => {
                let message = state.messages.get(usize::from(n))?.clone();
                let process = self.begin(state, &message);
                Some(Running { message, process, asleep: false })
            }
            Who::Running(n) => state.running.get(usize::from(n)).cloned(),
        }
    }

    /// Whether this setting leaves a message for later, although it is due.
    fn is_later(&self, state: &State, message: &Message) -> bool {
        match &*message.body {
            Body::Handle(_) => self.setting.calls_last && state.is_grouping(),
            Body::Elect(Elect::Waiting(election)) => {
                self.setting.in_order
                    && election.attempt == 0
                    && !message.redelivered
                    && state.messages.iter().any(|other| match &*other.body {
                        Body::Elect(Elect::Waiting(other)) => other.attempt == 0 && other.workflow < election.workflow,
                        _ => false,
                    })
            }
            Body::Register(_) | Body::Elect(Elect::Returning(_)) | Body::Group(_) => false,
        }
    }

    fn actor_actions(&self, state: &State, who: Who, running: &Running, actions: &mut Vec<Action>) {
        let Some((_, op)) = running.process.next_io() else { return };
        let left = &state.left;
        let mut comes = vec![Comes::AsIs];
        match op {
            Op::Waiting => {
                let rows = state.world.tables.tasks.iter().zip(0..);
                let lag = rows.filter(|(row, _)| row.indexed(true) != row.indexed(false));
                comes.extend(lag.filter(|_| left.lags > 0).map(|(_, n)| Comes::Lagging(n)));
            }
            Op::Read(ids, Freshness::Eventual) => {
                let rows = state.world.tables.tasks.iter().zip(0..);
                let lag = rows.filter(|(row, _)| ids.contains(&row.now.id) && row.shown(true) != row.shown(false));
                comes.extend(lag.filter(|_| left.lags > 0).map(|(_, n)| Comes::Lagging(n)));
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
        for comes in comes {
            actions.push(Action::Step(who, comes, After::GoesOn));
            if left.crashes > 0 && op.writes() {
                actions.push(Action::Step(who, comes, After::Dies));
            }
        }
        if left.crashes > 0 && matches!(op, Op::Send(_)) && !self.removed.keeps(Rule::AcknowledgeLast) {
            actions.push(Action::Step(who, Comes::AsIs, After::DiesAcknowledged));
        }
        if left.beats > 0
            && running.process.sleeps().is_some()
            && matches!(op, Op::Call(..))
            && let Who::Running(n) = who
        {
            actions.push(Action::Beat(n));
        }
    }

    fn step(&self, state: &mut State, who: Who, comes: Comes, after: After) -> Option<()> {
        let mut running = self.actor(state, who)?;
        match who {
            Who::Message(n) => drop(state.messages.remove(usize::from(n))),
            Who::Running(n) => drop(state.running.remove(usize::from(n))),
        }
        match comes {
            Comes::Lagging(_) => state.left.lags -= 1,
            Comes::Saying(Says::FirstFailed) => state.left.failures -= 1,
            Comes::Saying(Says::Unavailable) => state.left.outages -= 1,
            Comes::Saying(Says::Accepted) | Comes::AsIs => {}
        }
        if after == After::DiesAcknowledged {
            state.left.crashes -= 1;
            return Some(());
        }
        let (call, op) = running.process.next_io().cloned()?;
        let answer = self.io(state, &running, &op, comes);
        if after == After::Dies {
            state.left.crashes -= 1;
            state.put(running.message.again());
            return Some(());
        }
        running.process = self.steps.next(&running.process, call, &op, answer);
        running.asleep = false;
        self.go_on(state, running);
        Some(())
    }

    /// What nobody else can see happens at once.
    fn go_on(&self, state: &mut State, mut running: Running) {
        while let Some((call, op)) = running.process.quiet_io(self.setting.calls_last).cloned() {
            let answer = self.io(state, &running, &op, Comes::AsIs);
            running.process = self.steps.next(&running.process, call, &op, answer);
        }
        match running.process.end {
            None => state.run(running),
            Some(true) => {}
            Some(false) => state.put(running.message.again()),
        }
    }

    fn io(&self, state: &mut State, running: &Running, op: &Op, comes: Comes) -> Answer {
        if let Op::Send(messages) = op {
            for sent in messages {
                let loses = matches!(&*sent.body, Body::Elect(Elect::Waiting(_))) && sent.delayed;
                if loses && !self.removed.keeps(Rule::LoserComesBack) {
                    continue;
                }
                let lost_to = running.process.signalled.filter(|_| loses);
                state.put(Message { body: sent.body.clone(), redelivered: false, lost_to });
            }
        }
        let lags = state.left.lags > 0;
        let laws = Laws { target: &self.target, removed: self.removed, lags };
        state.world.apply(op, comes, Self::asker(&running.process), laws)
    }

    /// What time alone brings about.
    fn time_actions(state: &State, actions: &mut Vec<Action>) {
        if state.world.tables.lease_lives() {
            actions.push(Action::LeaseOver);
        }
        for (session, n) in state.world.tables.sessions.iter().zip(0..) {
            if lives(session) {
                actions.push(Action::SessionOver(n));
            }
        }
    }

    /// Promises that are not about one write.
    fn judge(&self, state: &mut State) {
        if state.world.broken.is_none() {
            state.world.broken = broken_in(&state.world.tables);
        }
        if state.world.broken.is_none() && state.running.is_empty() && !state.world.tables.is_at_rest() {
            let mut actions = Vec::new();
            self.actions(state, &mut actions);
            if state.messages.is_empty() || actions.is_empty() {
                state.world.broken = Some(Promise::NothingLost);
            }
        }
    }
}

impl Model for Groupage {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let setting = &self.setting;
        let before = if setting.mishaps.lags > 0 { Before::Absent } else { Before::Same };
        let tasks: Vec<Row> =
            (0..setting.tasks).map(|n| Row { now: Kept::new(self.task(n)), before: before.clone() }).collect();
        let tables = Tables { tasks, lock: None, batches: Vec::new(), sessions: Vec::new() };
        let world = World { tables, inherited: None, look_again: false, broken: None };
        let mut state = State { world, messages: Vec::new(), running: Vec::new(), left: setting.mishaps, passes: 0 };
        for workflow in 0..setting.workflows {
            let own = (0..setting.tasks).filter(|task| task % setting.workflows == workflow);
            let tasks = own.map(|task| self.task(task).candidate()).collect();
            let workflow = WorkflowId::new(format!("w{workflow}"));
            let election = Election { workflow, target: self.target.clone(), tasks, attempt: 0 };
            state.put(Message::new(Body::Elect(Elect::Waiting(election))));
        }
        for task in 0..setting.repeats {
            state.put(Message::new(Body::Register(task)));
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.clear();
        if state.world.broken.is_some() {
            return;
        }
        for (running, n) in state.running.iter().zip(0..) {
            self.actor_actions(state, Who::Running(n), running, actions);
            if state.left.sleeps > 0 && !running.asleep {
                actions.push(Action::Sleep(n));
            }
        }
        let mut previous: Option<&Message> = None;
        for (message, n) in state.messages.iter().zip(0..) {
            // The copies of a message are alike.
            if previous.replace(message) != Some(message) && state.is_due(message) && !self.is_later(state, message) {
                let process = self.begin(state, message);
                let running = Running { message: message.clone(), process, asleep: false };
                self.actor_actions(state, Who::Message(n), &running, actions);
            }
        }
        if state.time_passes() {
            Self::time_actions(state, actions);
        }
        for (batch, n) in state.world.tables.batches.iter().zip(0..) {
            if after_waiting(batch).is_some() {
                actions.push(Action::WaitOver(n));
            }
        }
        if state.left.copies > 0 {
            let mut previous: Option<&Message> = None;
            for (message, n) in state.messages.iter().zip(0..) {
                if previous.replace(message) != Some(message) {
                    actions.push(Action::Copy(Who::Message(n)));
                }
            }
            actions.extend((0..state.running.len()).zip(0..).map(|(_, n)| Action::Copy(Who::Running(n))));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Step(who, comes, after) => self.step(&mut state, who, comes, after)?,
            Action::Beat(n) => {
                let mut running = state.running.remove(usize::from(n));
                let (call, op) = running.process.sleeps().cloned()?;
                running.process = self.steps.next(&running.process, call, &op, Answer::Done);
                state.left.beats -= 1;
                let (call, op) = running.process.last_io().cloned()?;
                if matches!(op, Op::Renew(_)) {
                    let answer = self.io(&mut state, &running, &op, Comes::AsIs);
                    running.process = self.steps.next(&running.process, call, &op, answer);
                }
                self.go_on(&mut state, running);
            }
            Action::Sleep(n) => {
                let mut running = state.running.remove(usize::from(n));
                running.asleep = true;
                state.left.sleeps -= 1;
                state.passes += 1;
                state.run(running);
            }
            Action::Copy(who) => {
                state.left.copies -= 1;
                let copy = match who {
                    Who::Message(n) => state.messages.get(usize::from(n))?.clone(),
                    Who::Running(n) => state.running.get(usize::from(n))?.message.clone().again(),
                };
                state.put(copy);
            }
            Action::LeaseOver | Action::SessionOver(_) => {
                state.passes = state.passes.saturating_sub(1);
                if let Action::SessionOver(n) = action {
                    let session = state.world.tables.sessions.get(usize::from(n))?;
                    let over = Session { expires_at: Timestamp(0), ..(**session).clone() };
                    state.world.tables.put_session(Kept::new(over));
                } else {
                    state.world.tables.end_lease();
                }
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

    fn properties(&self) -> Vec<Property<Self>> {
        /// A property for each promise: stateright takes functions, not closures.
        macro_rules! properties {
            ($($promise:ident),+ $(,)?) => {
                vec![$(Property::always(Promise::$promise.broken(), |_, state: &State| {
                    state.world.broken != Some(Promise::$promise)
                })),+]
            };
        }
        let properties = properties![
            NoCandidateAfterTakeover,
            OneBatchARound,
            MembersFixed,
            NamedIsMember,
            CallsAsFrozen,
            OneOutcome,
            SettledAsRecorded,
            SignalsAnswered,
            RenewedLives,
            NothingLost,
        ];
        debug_assert_eq!(properties.len(), promises::ALL.len());
        properties
    }
}
