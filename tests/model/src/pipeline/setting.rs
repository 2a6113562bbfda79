//! How large a run is, and what may go wrong in it.

/// How often each thing may still go wrong.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Mishaps {
    /// Processes that die, after an I/O and before the next.
    pub crashes: u8,
    /// Messages that come twice.
    pub copies: u8,
    /// Leases and sessions that are over while their holder only sleeps.
    pub sleeps: u8,
    /// Reads that show the state before a task's latest write.
    pub lags: u8,
    /// Calls whose first member fails for now.
    pub failures: u8,
    /// Calls that fail for now.
    pub outages: u8,
    /// Heartbeats of a session while it works.
    pub beats: u8,
}

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
    /// Whether the processes that register know that somebody may lead: then they tell a leader themselves.
    pub aware: bool,
    /// What may go wrong.
    pub mishaps: Mishaps,
    /// How many shards the Target has; a workflow's tasks lie in one of them.
    pub shards: u8,
    /// How many tasks one call takes.
    pub max_items: u8,
    /// Whether a batch that is not full waits for more.
    pub window: bool,
    /// Whether calls begin only when grouping has come to rest, except for processes that sleep. Much smaller.
    pub calls_last: bool,
    /// Whether the first election messages come in the order of their workflows, which are all alike.
    pub in_order: bool,
    /// Whether a leader goes on by another message after each batch, instead of at once.
    pub one_batch_each: bool,
    /// How often a batch may be called.
    pub attempts: u8,
    /// Whether a batch that lost its workers is taken apart.
    pub bisects: bool,
    /// Whether all tasks have one collapse key.
    pub collapses: bool,
}

impl Setting {
    /// Nothing goes wrong.
    pub const CALM: Self = Self {
        name: "calm",
        workflows: 3,
        tasks: 3,
        express: 0,
        repeats: 0,
        aware: false,
        mishaps: Mishaps { crashes: 0, copies: 0, sleeps: 0, lags: 0, failures: 0, outages: 0, beats: 0 },
        shards: 1,
        max_items: 2,
        window: false,
        calls_last: true,
        in_order: true,
        one_batch_each: true,
        attempts: 3,
        bisects: false,
        collapses: false,
    };

    /// The routes file of this setting.
    pub fn routes(&self) -> String {
        let Self { max_items, attempts, shards, .. } = self;
        let on_reject = if self.bisects { "bisect" } else { "fail" };
        let express = self.express > 0;
        let collapse = if self.collapses { "    collapse: k\n" } else { "" };
        let wait_ms = if self.window { 60_000 } else { 0 };
        format!(
            r#"
version: 1
routes:
  - name: r
    target: k
{collapse}    shards: {shards}
    batch: {{ max_items: {max_items}, wait_ms: {wait_ms}, express: {express} }}
    downstream: {{ http: {{ url: "http://downstream.invalid/" }} }}
    on_reject: {on_reject}
    retry: {{ attempts: {attempts} }}
    notify: {{ success: none, failure: none, outage: none }}
"#
        )
    }
}

pub(super) const NONE: Mishaps = Setting::CALM.mishaps;
pub(super) const CRASH: Mishaps = Mishaps { crashes: 1, ..NONE };
pub(super) const COPY: Mishaps = Mishaps { copies: 1, ..NONE };
pub(super) const SLEEP: Mishaps = Mishaps { sleeps: 1, ..NONE };

/// Few workflows with one mishap, or two that make few states.
pub(super) const QUICK: [Setting; 21] = [
    Setting::CALM,
    Setting { name: "calm, with a window", window: true, ..Setting::CALM },
    Setting { name: "calm, calls at any time", calls_last: false, in_order: false, ..pair(NONE) },
    Setting { name: "a crash", in_order: false, ..pair(CRASH) },
    Setting { name: "a message twice", ..pair(COPY) },
    Setting { name: "a crash, and a call that fails", ..pair(Mishaps { crashes: 1, outages: 1, ..NONE }) },
    Setting { name: "a sleeper, and leaders that stay", max_items: 1, one_batch_each: false, ..pair(SLEEP) },
    Setting { name: "a repeated registration", repeats: 1, in_order: false, ..pair(NONE) },
    Setting { name: "a registration that tells a leader", aware: true, repeats: 1, ..pair(NONE) },
    Setting { name: "a registration that tells a leader, and a crash", aware: true, repeats: 1, ..one(CRASH) },
    Setting { name: "express, a crash", ..express(2, CRASH) },
    Setting { name: "express, with a rest, and a crash", ..express(3, CRASH) },
    Setting { name: "express, with a rest that waits for others", window: true, ..express(3, NONE) },
    Setting { name: "express, an event twice", ..express(2, COPY) },
    Setting { name: "express, a crash, beside a leader", workflows: 1, tasks: 1, ..express(2, CRASH) },
    Setting { name: "a rest whose leader is told", aware: true, workflows: 1, tasks: 1, ..express(3, NONE) },
    Setting { name: "one collapse key, and a crash", collapses: true, ..pair(CRASH) },
    Setting { name: "one collapse key, and a message twice", collapses: true, max_items: 1, ..pair(COPY) },
    Setting { name: "two shards", ..shards(NONE) },
    Setting { name: "a batch's only worker dies", ..only(CRASH) },
    Setting { name: "a batch's only worker sleeps", ..only(Mishaps { sleeps: 1, copies: 1, ..NONE }) },
];

/// Few workflows with two mishaps, and three with a crash.
pub(super) const LONG: [Setting; 9] = [
    Setting { name: "a crash, and a task more than a call takes", tasks: 3, in_order: false, ..pair(CRASH) },
    Setting { name: "a crash, and a lagging read", ..pair(Mishaps { crashes: 1, lags: 1, ..NONE }) },
    Setting { name: "a crash, and a member that returns", ..pair(Mishaps { crashes: 1, failures: 1, ..NONE }) },
    Setting { name: "a sleeper, and a member that returns", ..pair(Mishaps { sleeps: 1, failures: 1, ..NONE }) },
    Setting { name: "a worker that sleeps, beside another", ..one(Mishaps { copies: 1, sleeps: 1, beats: 1, ..NONE }) },
    Setting { name: "a registration that tells one of two leaders", aware: true, repeats: 1, ..pair(CRASH) },
    Setting { name: "three and a crash", mishaps: CRASH, ..Setting::CALM },
    Setting { name: "express, two crashes", ..express(2, Mishaps { crashes: 2, ..NONE }) },
    Setting { name: "a batch's only worker dies, beside another", ..only(Mishaps { crashes: 1, copies: 1, ..NONE }) },
];

/// Larger ones. They had 126 million states in all, the largest 36 million, before elections looked at the lock first,
/// which makes several times as many; they have not been run to their end since. What is asked of three workflows with
/// three tasks is here in parts: each mishap but two crashes is met by three workflows, and two crashes, or a crash
/// beside a copy or a sleeper, by two. Three with two crashes is not among them: no run of that has come to its end.
pub(super) const LARGEST: [Setting; 13] = [
    Setting { name: "express, with a rest that waits for others, and a crash", window: true, ..express(3, CRASH) },
    Setting { name: "express, a crash and an event twice", ..express(2, Mishaps { crashes: 1, copies: 1, ..NONE }) },
    Setting { name: "express, a sleeper and an event twice", ..express(2, Mishaps { sleeps: 1, copies: 1, ..NONE }) },
    Setting { name: "three, calls at any time", calls_last: false, in_order: false, ..Setting::CALM },
    Setting { name: "three and a sleeper", mishaps: SLEEP, ..Setting::CALM },
    Setting { name: "three and a message twice", mishaps: COPY, ..Setting::CALM },
    Setting {
        name: "three, a crash and a lagging read",
        mishaps: Mishaps { crashes: 1, lags: 1, ..NONE },
        ..Setting::CALM
    },
    Setting { name: "a crash, calls at any time", calls_last: false, in_order: false, ..pair(CRASH) },
    Setting { name: "a batch that is taken apart, two crashes", ..apart(Mishaps { crashes: 2, ..NONE }) },
    Setting { name: "two crashes", ..pair(Mishaps { crashes: 2, ..NONE }) },
    Setting { name: "a crash and a sleeper", ..pair(Mishaps { crashes: 1, sleeps: 1, ..NONE }) },
    Setting { name: "a crash and a message twice", ..pair(Mishaps { crashes: 1, copies: 1, ..NONE }) },
    Setting { name: "a message twice and a sleeper", ..pair(Mishaps { copies: 1, sleeps: 1, ..NONE }) },
];

/// One workflow with one task.
pub(super) const fn one(mishaps: Mishaps) -> Setting {
    Setting { workflows: 1, tasks: 1, mishaps, ..Setting::CALM }
}

/// One workflow with one task, whose batch may be called once.
pub(super) const fn only(mishaps: Mishaps) -> Setting {
    Setting { attempts: 1, ..one(mishaps) }
}

/// One workflow with two tasks, whose batch may be called once, and is taken apart after that.
pub(super) const fn apart(mishaps: Mishaps) -> Setting {
    Setting { tasks: 2, bisects: true, ..only(mishaps) }
}

/// Two workflows with one task each.
pub(super) const fn pair(mishaps: Mishaps) -> Setting {
    Setting { workflows: 2, tasks: 2, mishaps, ..Setting::CALM }
}

/// Nobody waits; this many tasks arrive in one event.
pub(super) const fn express(tasks: u8, mishaps: Mishaps) -> Setting {
    Setting { workflows: 0, tasks: 0, express: tasks, mishaps, ..Setting::CALM }
}

/// A home with two tasks and a shard with one, in calls of one: once home's leader has come to the third, the shard
/// gets a leader, and both reach for the same task.
const fn shards(mishaps: Mishaps) -> Setting {
    Setting { shards: 2, tasks: 3, max_items: 1, ..pair(mishaps) }
}
