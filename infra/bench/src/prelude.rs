//! Names that most benchmarks use: the stacks that they run on, their options, and their output.

pub(crate) use embedded::{Ports, Stack, Storage};
pub(crate) use groupage_aws::{Dynamo, Meter, Sqs, System};
pub(crate) use groupage_core::ports::{Destination, Env, Outbox, Outgoing};
pub(crate) use serde::Serialize;
pub(crate) use simulator::limits::Limits;
pub(crate) use simulator::load::Load;
pub(crate) use simulator::{Setting, Steps};

pub(crate) use crate::plot::{Labels, by_name};
pub(crate) use crate::print::{Output, bar, tables};
pub(crate) use crate::ranges::{MOST_SECONDS, some_tasks, some_workers};
pub(crate) use crate::simulated::{self, Common};
