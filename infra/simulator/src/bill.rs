//! What a run would cost, at AWS's prices.

use groupage_aws::entry::mapping::MEMORY_MB;
use groupage_aws::{Place, dollars};
use groupage_core::domain::id::Part;
use serde::Serialize;

use crate::queues::Step;
use crate::report::{Invocations, Outcome, billed_ms};

/// What a stack without tasks costs in a month of thirty days.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Idle {
    /// Empty receives of the mappings.
    pub receives: u64,
    /// Their dollars.
    pub receives_dollars: f64,
    /// sweep's read units.
    pub sweep_read_units: f64,
    /// What one of sweep's invocations takes, in milliseconds.
    pub sweep_ms: f64,
    /// Dollars for sweep: its reads, invocations and time.
    pub sweep_dollars: f64,
}

impl Idle {
    /// With this many routes, none of which is pulled. How long sweep takes is seen in a run in which nothing was sent;
    /// the tables of trackers, lists and streams take no time there, a few milliseconds a page.
    pub fn of(outcome: &Outcome, routes: u64) -> Self {
        const MINUTES: u64 = 60 * 24 * 30;
        // Five pollers of each queue, three long polls a minute.
        const RECEIVES: u64 = 5 * 3 * MINUTES;
        const STANDARD_QUEUES: u64 = 4;
        // Pools of sessions, segments of the waiting index, parts of trackers, lists and streams; of each route the
        // unfinished batches and those that were to be pulled. A page that is empty takes half a unit.
        const PARTS: u64 = Part::COUNT as u64;
        let pages = 5 * PARTS + routes * 2 * PARTS;
        let sweep_read_units = pages as f64 / 2.0 * MINUTES as f64;
        let sweep_ms = billed_ms(&outcome.sweeps) as f64 / outcome.sweeps.len().max(1) as f64;
        let sweep_gb_seconds = sweep_ms / 1_000.0 * MINUTES as f64 * f64::from(MEMORY_MB) / 1_024.0;
        let millions = 1_000_000.0;
        Self {
            receives: (STANDARD_QUEUES + 1) * RECEIVES,
            receives_dollars: (STANDARD_QUEUES as f64 * dollars::SQS + dollars::SQS_FIFO) * RECEIVES as f64 / millions,
            sweep_read_units,
            sweep_ms,
            sweep_dollars: (sweep_read_units * dollars::READ
                + MINUTES as f64 * dollars::INVOCATION
                + sweep_gb_seconds * dollars::GB_SECOND)
                / millions,
        }
    }
}

/// Dollars for a million tasks.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Dollars {
    /// Write units.
    pub writes: f64,
    /// Read units.
    pub reads: f64,
    /// SQS requests, those of the senders included.
    pub sqs: f64,
    /// Lambda invocations.
    pub invocations: f64,
    /// Lambda's time.
    pub time: f64,
    /// All of it.
    pub total: f64,
}

/// What a task costs.
#[derive(Clone, Debug, Serialize)]
pub struct Bill {
    /// Write units a task.
    pub write_units: f64,
    /// Read units a task.
    pub read_units: f64,
    /// Writes a task whose condition failed; they are in the units.
    pub refused_writes: f64,
    /// SQS requests a task.
    pub sqs_requests: f64,
    /// Lambda invocations a task.
    pub invocations: f64,
    /// Billed milliseconds a task.
    pub lambda_ms: f64,
    /// Dollars for a million tasks.
    pub dollars: Dollars,
    /// Where units are consumed.
    pub places: Vec<AtPlace>,
}

/// Units a task consumes in one place.
#[derive(Clone, Debug, Serialize)]
pub struct AtPlace {
    /// The table or index.
    pub place: &'static str,
    /// Write units a task.
    pub write_units: f64,
    /// Read units a task.
    pub read_units: f64,
}

impl Bill {
    /// The bill of a run, by the task.
    pub fn of(outcome: &Outcome) -> Self {
        let tasks = outcome.tasks as f64;
        let usage = &outcome.usage;
        let (write, read) = (usage.capacity().write.count() / tasks, usage.capacity().read.count() / tasks);
        let (sqs, fifo) = (usage.sqs.total() as f64 / tasks, outcome.fifo_requests as f64 / tasks);
        let all = |of: fn(&Invocations) -> u64| outcome.functions.values().map(of).sum::<u64>() as f64 / tasks;
        let (invocations, lambda_ms) = (all(|function| function.count), all(Invocations::billed_ms));
        let mb_ms = |(step, function): (&Step, &Invocations)| {
            function.billed_ms() as f64 * f64::from(step.settings().memory_mb)
        };
        let gb_seconds = outcome.functions.iter().map(mb_ms).sum::<f64>() / 1_024.0 / 1_000.0 / tasks;
        let mut dollars = Dollars {
            writes: write * dollars::WRITE,
            reads: read * dollars::READ,
            sqs: (sqs - fifo) * dollars::SQS + fifo * dollars::SQS_FIFO,
            invocations: invocations * dollars::INVOCATION,
            time: gb_seconds * dollars::GB_SECOND,
            total: 0.0,
        };
        dollars.total = dollars.writes + dollars.reads + dollars.sqs + dollars.invocations + dollars.time;
        let at = |place: Place| AtPlace {
            place: place.name(),
            write_units: usage.at(place).write.count() / tasks,
            read_units: usage.at(place).read.count() / tasks,
        };
        Self {
            write_units: write,
            read_units: read,
            refused_writes: usage.refused_writes as f64 / tasks,
            sqs_requests: sqs,
            invocations,
            lambda_ms,
            dollars,
            places: Place::ON_THE_WAY.map(at).into(),
        }
    }
}
