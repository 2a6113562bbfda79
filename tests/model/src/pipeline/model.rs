//! The model: the protocol in one setting, where it begins, and what is asked of every state. What may happen in a
//! state is in `choices.rs`, what it does in `turn.rs`.

use std::sync::Arc;

use groupage_core::domain::traits::Collapse;
use groupage_core::routes::Routes;
use stateright::{Model, Property};

use crate::harness::claims::{Checked, Promises};
use crate::harness::histories::Known;
use crate::pipeline::action::{Action, Who};
use crate::pipeline::promises::Promise;
use crate::pipeline::rules::Rule;
use crate::pipeline::setting::{self, Setting};
use crate::pipeline::state::{Message, Running, State};
use crate::pipeline::tables::{Before, EXPRESS_NAMES, Led, Row, Tables};
use crate::pipeline::world::{Laws, World};
use crate::prelude::*;
use crate::steps::io::Body;
use crate::steps::process::{Origin, Process, Steps, payload, task_id, text};
use crate::steps::sessions::Sessions;

/// The protocol in one setting.
#[derive(Debug)]
pub struct Groupage {
    pub(super) setting: Setting,
    removed: Option<Rule>,
    target: Target,
    pub(super) steps: Known<Steps>,
}

impl Groupage {
    /// Whether a rule is kept.
    pub(super) fn keeps(&self, rule: Rule) -> bool {
        self.removed != Some(rule)
    }

    /// What is fixed for this run, except reads that may lag no more.
    pub(super) const fn laws(&self, lags: bool) -> Laws {
        Laws { shards: self.setting.shards, attempts: self.setting.attempts, removed: self.removed, lags }
    }

    /// The shard that a task waits in: that of its workflow.
    fn shard(&self, n: u8) -> Target {
        self.target.in_shard(Shard(n % self.setting.workflows.max(1) % self.setting.shards))
    }

    fn task(&self, n: u8) -> Task {
        let digest = task_message::parse(&text(n), "m").map_or_else(|_| String::new(), |message| message.digest());
        let task = Task::new(task_id(n), self.shard(n), payload().to_owned(), digest, Timestamp(0));
        let collapse = self.setting.collapses.then(|| Collapse::of("k"));
        task.with_traits(Traits { collapse, ..Traits::default() }.came(Timestamp(0), n.into()))
    }

    /// The process that a message begins: it gives names that nobody else has.
    pub(super) fn begin(&self, state: &State, message: &Message) -> Arc<Process> {
        let (from, to) = match &*message.body {
            Body::Register(_) | Body::Rest(..) if self.setting.express > 0 => EXPRESS_NAMES,
            Body::Register(_) | Body::Rest(..) | Body::Elect(_) | Body::Sweep => (0, 0),
            Body::Handle(_) if self.setting.express > 0 => (1, EXPRESS_NAMES.0),
            Body::Handle(_) => (0, 16),
            Body::Group(_) => (16, 32),
        };
        let used = state.names();
        let name = (from..to).find(|n| used & (1 << n) == 0);
        debug_assert!(from == to || name.is_some(), "the fresh names are used up");
        let name = name.unwrap_or(from);
        self.steps.start(Origin { body: message.body.clone(), redelivered: message.redelivered, at: 0, name })
    }

    /// The process that acts; a message begins its own.
    pub(super) fn actor(&self, state: &State, who: Who) -> Option<Running> {
        match who {
            Who::Message(n) => {
                let message = state.messages.get(usize::from(n))?.clone();
                let process = self.begin(state, &message);
                Some(Running::new(message, process))
            }
            Who::Running(n) => state.running.get(usize::from(n)).cloned(),
        }
    }
}

impl Checked for Groupage {
    type Run = Setting;
    type Rule = Rule;
    type Promise = Promise;

    const QUICK: &'static [Setting] = &setting::QUICK;
    const LONG: &'static [Setting] = &setting::LONG;
    const LARGEST: &'static [Setting] = &setting::LARGEST;

    fn of(setting: Setting, removed: Option<Rule>) -> Self {
        let routes = Routes::parse(&setting.routes()).unwrap_or_else(|why| unreachable!("{why}"));
        let target = Target::of(&RouteName::new("r"), "a");
        Self { setting, removed, target, steps: Known::new(Steps::new(routes, setting.one_batch_each, setting.aware)) }
    }

    fn title(setting: &Setting) -> String {
        setting.name.to_owned()
    }

    fn broken(state: &State) -> Option<Promise> {
        state.world.broken
    }

    fn tell(&self, state: &State, action: Action) -> String {
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
            | Action::LeaseOver(_)
            | Action::SessionOver(_)
            | Action::WaitOver(_) => format!("{action:?}"),
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
        let tables = Tables {
            tasks,
            locks: vec![Led::default(); usize::from(setting.shards)],
            batches: Vec::new(),
            sessions: Sessions::default(),
        };
        let world = World { tables, calls: Vec::new(), broken: None };
        let mut state = State {
            world,
            messages: Vec::new(),
            running: Vec::new(),
            left: setting.mishaps,
            passes: 0,
            orphaned: false,
            burnt: 0,
        };
        for workflow in 0..setting.workflows {
            let own = (0..setting.tasks).filter(|task| task % setting.workflows == workflow);
            let tasks = own.map(|task| self.task(task).candidate()).collect();
            let name = WorkflowId::new(format!("w{workflow}"));
            let election = Election {
                workflow: name,
                target: self.shard(workflow),
                tasks,
                since: Timestamp(0),
                attempt: 0,
                signalled: None,
                copies: Copies::NONE,
            };
            state.put(Message::new(Body::Elect(Elect::Waiting(election))));
        }
        for task in 0..setting.repeats {
            state.put(Message::new(Body::Register(vec![task])));
        }
        if setting.express > 0 {
            let arrive = setting.tasks..setting.tasks + setting.express;
            state.put(Message::new(Body::Register(arrive.collect())));
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.choices(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.after(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Promise::properties()
    }
}
