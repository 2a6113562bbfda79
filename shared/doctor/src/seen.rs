//! What was read of a stack, without a type of the SDK.

use std::collections::BTreeMap;

use groupage_core::domain::{RouteName, Timestamp};
use groupage_core::routes::{Allowed, Secret};

/// Something that was asked for, or why it could not be read.
pub type Read<T> = Result<T, Unread>;

/// Why something could not be read: no permission, no such call, no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread(pub String);

/// Everything.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When the reading began, by the clock of this machine.
    pub now: Timestamp,
    /// The version of the command that asks.
    pub own_version: String,
    /// The version of the stack, if it says one.
    pub version: Option<String>,
    /// The routes in force, if any were pushed.
    pub routes: Read<Option<Pushed>>,
    /// What the stack allows its routes.
    pub allowed: Allowed,
    /// The secrets that routes name.
    pub secrets: Vec<KeptSecret>,
    /// The queues that steps read.
    pub queues: Vec<Queue>,
    /// What ended, by the names of its queues.
    pub ended: Vec<(String, Read<u64>)>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Tasks that have waited for long.
    pub waiting: Read<Option<LongWait>>,
    /// Locks that somebody holds, by Target, with the ends of their leases.
    pub locks: Read<Vec<Lease>>,
    /// Sessions of workers, with their ends.
    pub sessions: Read<Vec<Lease>>,
    /// This machine's clock beside that of the service.
    pub clock: Read<Clock>,
    /// What only a deployed stack has.
    pub cloud: Option<Cloud>,
}

/// What only a deployed stack has.
#[derive(Clone, Debug)]
pub struct Cloud {
    /// The functions.
    pub functions: Vec<Function>,
    /// The account's limits.
    pub account: Read<Account>,
    /// The stack's alarms.
    pub alarms: Read<Vec<Alarm>>,
}

/// A routes file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Its number.
    pub version: u64,
    /// Its text.
    pub yaml: String,
    /// Routes of former files that it does not have, with the tasks that wait for them; and whether these are all.
    pub unrouted: Read<(BTreeMap<RouteName, usize>, bool)>,
}

/// A secret that a route names.
#[derive(Clone, Debug)]
pub struct KeptSecret {
    /// The route.
    pub route: String,
    /// Where it is kept.
    pub secret: Secret,
    /// Whether it is there.
    pub is_there: Read<bool>,
}

/// The functions of the stack, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Registers tasks.
    RegisterTask,
    /// Elects leaders.
    ElectLeader,
    /// Makes batches.
    GroupBatch,
    /// Calls downstreams.
    BatchHandler,
    /// Makes the long ones of their calls.
    LongBatchHandler,
    /// Sends on what was lost.
    Sweep,
    /// Answers over HTTP.
    Api,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::RegisterTask,
        Self::ElectLeader,
        Self::GroupBatch,
        Self::BatchHandler,
        Self::LongBatchHandler,
        Self::Sweep,
        Self::Api,
    ];

    /// Its name, as people say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RegisterTask => "register-task",
            Self::ElectLeader => "elect-leader",
            Self::GroupBatch => "group-batch",
            Self::BatchHandler => "batch-handler",
            Self::LongBatchHandler => "batch-handler (long calls)",
            Self::Sweep => "sweep",
            Self::Api => "api",
        }
    }

    /// The stack's output that names its function.
    pub const fn output(self) -> &'static str {
        match self {
            Self::RegisterTask => "RegisterTaskFunctionName",
            Self::ElectLeader => "ElectLeaderFunctionName",
            Self::GroupBatch => "GroupBatchFunctionName",
            Self::BatchHandler => "BatchHandlerFunctionName",
            Self::LongBatchHandler => "LongBatchHandlerFunctionName",
            Self::Sweep => "SweepFunctionName",
            Self::Api => "ApiFunctionName",
        }
    }

    /// Whether a message may come back to it: it reads a queue to which what it sends may lead.
    pub const fn is_on_a_cycle(self) -> bool {
        match self {
            Self::RegisterTask | Self::ElectLeader | Self::GroupBatch | Self::BatchHandler | Self::LongBatchHandler => {
                true
            }
            Self::Sweep | Self::Api => false,
        }
    }
}

/// A queue that a step reads.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its name, as people say it: `tasks`, `elect`, …
    pub name: &'static str,
    /// Its name in SQS.
    pub id: String,
    /// Who reads it.
    pub reader: Step,
    /// How long its function may take where the steps are processes, in seconds.
    pub handled_within_s: u64,
    /// What SQS says of it.
    pub settings: Read<QueueSettings>,
    /// The age of its oldest message in seconds, if it holds one; only CloudWatch knows.
    pub oldest_s: Read<Option<f64>>,
}

/// What SQS says of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// How long a received message is hidden, in seconds.
    pub visibility_s: u64,
    /// The name in SQS of where messages go that nobody could handle, and after how many receives.
    pub redrive: Option<(String, u64)>,
    /// All its messages.
    pub messages: u64,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name, as people say it: `tasks`, `locks`, …
    pub name: &'static str,
    /// Whether its items are to expire.
    pub expires: bool,
    /// The attribute by which they do.
    pub expires_by: Read<Option<String>>,
    /// Whether it can be restored to any second; `None` where nobody keeps that.
    pub is_recoverable: Option<Read<bool>>,
}

/// Tasks that have waited for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// How many were seen.
    pub tasks: usize,
    /// Since when the oldest of them has waited.
    pub since: Timestamp,
    /// Its Target.
    pub target: String,
}

/// Something that is held for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What, or by whom.
    pub of: String,
    /// Until when.
    pub until: Timestamp,
}

/// This machine's clock beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// How far this one is ahead, in milliseconds; below zero it is behind.
    pub ahead_ms: i64,
    /// How exact that is, in milliseconds: the answer took its time, and a date has whole seconds.
    pub give_or_take_ms: i64,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Which.
    pub step: Step,
    /// How it is set.
    pub settings: Read<FunctionSettings>,
    /// Whether AWS lets messages come back to it.
    pub may_loop: Read<bool>,
    /// Its reserved concurrency, if it has one.
    pub reserved: Read<Option<u64>>,
    /// What calls it.
    pub mappings: Read<Vec<Mapping>>,
}

/// How a function is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSettings {
    /// How long an invocation may take, in seconds.
    pub timeout_s: u64,
    /// Why it cannot be invoked, or was not updated; `None` if all is well.
    pub trouble: Option<String>,
    /// The names of its variables. Their values are nobody's business.
    pub variables: Vec<String>,
}

/// An event source mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The name in SQS of the queue that it reads.
    pub queue: String,
    /// Its state, as Lambda says it.
    pub state: String,
    /// Whether a record that failed comes again alone.
    pub reports_failures: bool,
    /// The most invocations at once, if it has a cap.
    pub max_concurrency: Option<u64>,
}

/// The account's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// How many functions may run at once.
    pub concurrency: u64,
    /// How many of them no function has reserved.
    pub unreserved: u64,
}

/// An alarm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// What it watches.
    pub metric: String,
    /// Of what: a queue, a function, a table.
    pub of: String,
    /// Whether it tells somebody.
    pub tells: bool,
    /// Whether it is off now.
    pub is_off: bool,
}
