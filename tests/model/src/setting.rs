//! How large a run is, and what may go wrong in it.

use crate::state::Mishaps;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is about.
    pub name: &'static str,
    /// Election messages to begin with.
    pub workflows: u8,
    /// Tasks, dealt out to the workflows; all of one Target.
    pub tasks: u8,
    /// Tasks that arrive in one event, beside those that wait, and fill batches by themselves; all of the same Target.
    pub express: u8,
    /// Registrations that are repeated at any time, from the first task on.
    pub repeats: u8,
    /// What may go wrong.
    pub mishaps: Mishaps,
    /// How many shards the Target has; a workflow's tasks lie in one of them.
    pub shards: u8,
    /// How many tasks one call takes.
    pub max_items: u8,
    /// Whether a batch that is not full waits for more.
    pub window: bool,
    /// Whether calls begin only when grouping has come to rest, but for processes that sleep. Much smaller.
    pub calls_last: bool,
    /// Whether the first election messages come in the order of their workflows, which are all alike.
    pub in_order: bool,
    /// Whether a leader goes on by another message after each batch, instead of at once.
    pub one_batch_each: bool,
}

impl Setting {
    /// Nothing goes wrong.
    pub const CALM: Self = Self {
        name: "calm",
        workflows: 3,
        tasks: 3,
        express: 0,
        repeats: 0,
        mishaps: Mishaps { crashes: 0, copies: 0, sleeps: 0, lags: 0, failures: 0, outages: 0, beats: 0 },
        shards: 1,
        max_items: 2,
        window: false,
        calls_last: true,
        in_order: true,
        one_batch_each: true,
    };

    /// The routes file of this setting.
    #[must_use]
    pub fn routes(&self) -> String {
        let Self { max_items, shards, .. } = self;
        let express = self.express > 0;
        let wait_ms = if self.window { 60_000 } else { 0 };
        format!(
            r#"
version: 1
routes:
  - name: r
    target: k
    shards: {shards}
    batch: {{ max_items: {max_items}, wait_ms: {wait_ms}, express: {express} }}
    downstream: {{ http: {{ url: "http://downstream.invalid/" }} }}
    retry: {{ attempts: 3 }}
    notify: {{ success: none, failure: none }}
"#
        )
    }
}

const NONE: Mishaps = Setting::CALM.mishaps;

/// Few workflows with one or two mishaps each, and three with a crash: 13 million states, four minutes on two cores.
const SMALL: [Setting; 19] = [
    Setting::CALM,
    Setting { name: "calm, with a window", window: true, ..Setting::CALM },
    Setting { name: "calm, calls at any time", calls_last: false, in_order: false, ..pair(NONE) },
    Setting { name: "a crash", tasks: 3, in_order: false, ..pair(Mishaps { crashes: 1, ..NONE }) },
    Setting { name: "a message twice", ..pair(Mishaps { copies: 1, ..NONE }) },
    Setting { name: "a crash, and a lagging read", ..pair(Mishaps { crashes: 1, lags: 1, ..NONE }) },
    Setting { name: "a crash, and a member that returns", ..pair(Mishaps { crashes: 1, failures: 1, ..NONE }) },
    Setting { name: "a crash, and a call that fails", ..pair(Mishaps { crashes: 1, outages: 1, ..NONE }) },
    Setting { name: "a sleeper, and a member that returns", ..pair(Mishaps { sleeps: 1, failures: 1, ..NONE }) },
    Setting {
        name: "a sleeper, and leaders that stay",
        max_items: 1,
        one_batch_each: false,
        ..pair(Mishaps { sleeps: 1, ..NONE })
    },
    Setting { name: "a repeated registration", repeats: 1, in_order: false, ..pair(NONE) },
    Setting {
        name: "a worker that sleeps, beside another",
        workflows: 1,
        tasks: 1,
        ..pair(Mishaps { copies: 1, sleeps: 1, beats: 1, ..NONE })
    },
    Setting { name: "express, a crash", ..express(2, Mishaps { crashes: 1, ..NONE }) },
    Setting { name: "express, with a rest, and a crash", ..express(3, Mishaps { crashes: 1, ..NONE }) },
    Setting { name: "express, with a rest that waits for others", window: true, ..express(3, NONE) },
    Setting { name: "express, an event twice", ..express(2, Mishaps { copies: 1, ..NONE }) },
    Setting {
        name: "express, a crash, beside a leader",
        workflows: 1,
        tasks: 1,
        ..express(2, Mishaps { crashes: 1, ..NONE })
    },
    Setting { name: "three and a crash", mishaps: Mishaps { crashes: 1, ..NONE }, ..Setting::CALM },
    Setting { name: "two shards", ..shards(NONE) },
];

/// Larger ones. But for the first they had 126 million states in all, the largest 36 million, before elections looked at the
/// lock first, which makes several times as many; they have not been run to their end since. What is asked of three
/// workflows with three tasks is here in parts: each mishap but two crashes is met by three workflows, and two crashes, or a crash beside a copy or a
/// sleeper, by two. Three with two crashes is not among them: no run of that has come to its end.
const FULL: [Setting; 13] = [
    Setting { name: "express, two crashes", ..express(2, Mishaps { crashes: 2, ..NONE }) },
    Setting {
        name: "express, with a rest that waits for others, and a crash",
        window: true,
        ..express(3, Mishaps { crashes: 1, ..NONE })
    },
    Setting { name: "express, a crash and an event twice", ..express(2, Mishaps { crashes: 1, copies: 1, ..NONE }) },
    Setting { name: "express, a sleeper and an event twice", ..express(2, Mishaps { sleeps: 1, copies: 1, ..NONE }) },
    Setting { name: "three, calls at any time", calls_last: false, in_order: false, ..Setting::CALM },
    Setting { name: "three and a sleeper", mishaps: Mishaps { sleeps: 1, ..NONE }, ..Setting::CALM },
    Setting { name: "three and a message twice", mishaps: Mishaps { copies: 1, ..NONE }, ..Setting::CALM },
    Setting {
        name: "three, a crash and a lagging read",
        mishaps: Mishaps { crashes: 1, lags: 1, ..NONE },
        ..Setting::CALM
    },
    Setting {
        name: "a crash, calls at any time",
        calls_last: false,
        in_order: false,
        ..pair(Mishaps { crashes: 1, ..NONE })
    },
    Setting { name: "two crashes", ..pair(Mishaps { crashes: 2, ..NONE }) },
    Setting { name: "a crash and a sleeper", ..pair(Mishaps { crashes: 1, sleeps: 1, ..NONE }) },
    Setting { name: "a crash and a message twice", ..pair(Mishaps { crashes: 1, copies: 1, ..NONE }) },
    Setting { name: "a message twice and a sleeper", ..pair(Mishaps { copies: 1, sleeps: 1, ..NONE }) },
];

const fn pair(mishaps: Mishaps) -> Setting {
    Setting { workflows: 2, tasks: 2, mishaps, ..Setting::CALM }
}

/// Nobody waits; so many tasks arrive in one event.
const fn express(tasks: u8, mishaps: Mishaps) -> Setting {
    Setting { workflows: 0, tasks: 0, express: tasks, mishaps, ..Setting::CALM }
}

/// A home with two tasks and a shard with one, in calls of one: once home's leader has come to the third, the shard gets a
/// leader, and both reach for the same task.
const fn shards(mishaps: Mishaps) -> Setting {
    Setting { shards: 2, tasks: 3, max_items: 1, ..pair(mishaps) }
}

/// The settings to check: `GROUPAGE_MODEL=full` adds the large ones.
#[must_use]
pub fn chosen() -> Vec<Setting> {
    let full = std::env::var("GROUPAGE_MODEL").is_ok_and(|value| value == "full");
    SMALL.into_iter().chain(FULL.into_iter().filter(|_| full)).collect()
}
