//! The stack that a command works on: a deployed one, whose outputs say where its tables and queues are, or the one
//! that the environment names.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use aws_config::SdkConfig;
use aws_sdk_cloudformation::types::Stack;
use groupage_aws::config::{self, Queues, Tables};
use groupage_aws::entry::{AwsStack, RouteSource};
use groupage_aws::{Connection, Dynamo, Meter, Sqs, System};
use groupage_core::domain::task::RETENTION_DAYS;
use groupage_core::routes::{Allowed, Route, Routes};
use groupage_core::steps::cancel::Cancelling;
use groupage_core::steps::erase::Erasing;
use groupage_core::steps::failed::Failing;
use groupage_core::steps::hold::Holding;
use groupage_core::steps::lane::Ordering;
use groupage_core::steps::list::Listing;
use groupage_core::steps::look::Looking;
use groupage_core::steps::stream::Streaming;
use groupage_core::steps::track::Tracking;
use groupage_core::steps::wake::Waker;
use groupage_doctor::Deployed;

use crate::reach::{self, HOW_TO_NAME_IT};

/// A stack with all that is known of it.
pub struct Opened {
    /// The way to it.
    pub connection: Connection,
    /// What it allows its routes.
    pub allowed: Allowed,
    /// What CloudFormation says of it, if it is a deployed one.
    pub deployed: Option<Deployed>,
}

/// Finds the tables and queues of a deployed stack, or those that the environment names. An error says what to do.
pub async fn open(stack: Option<&str>) -> Result<Connection> {
    let Some(stack) = stack else {
        reach::answers()?;
        return Connection::from_env().await.map_err(|error| match error {
            config::Error::Missing(name) => anyhow!("no stack is chosen ({name} is not set): {HOW_TO_NAME_IT}"),
            wrong @ config::Error::Invalid { .. } => wrong.into(),
        });
    };
    Ok(deployed(stack).await?.connection)
}

/// The same with what its tables' names end with, beyond the names that CloudFormation gave them.
pub async fn open_with_suffix(stack: Option<&str>) -> Result<(Connection, String)> {
    let Some(stack) = stack else { return Ok((open(None).await?, String::new())) };
    let Opened { connection, deployed, .. } = deployed(stack).await?;
    Ok((connection, deployed.map(|deployed| deployed.table_suffix).unwrap_or_default()))
}

/// The same with the names of its functions; the environment names none.
pub async fn open_with_functions(stack: Option<&str>) -> Result<(Connection, Vec<String>)> {
    let Some(stack) = stack else { return Ok((open(None).await?, Vec::new())) };
    let Opened { connection, deployed, .. } = deployed(stack).await?;
    let outputs = deployed.map(|deployed| deployed.outputs).unwrap_or_default();
    let functions = outputs.into_iter().filter(|(key, _)| key.ends_with("FunctionName"));
    let functions = functions.map(|(_, name)| name).collect();
    Ok((connection, functions))
}

/// The same with what the stack allows its routes.
pub async fn open_with_allowed(stack: Option<&str>) -> Result<(Connection, Allowed)> {
    let Opened { connection, allowed, .. } = open_wholly(stack).await?;
    Ok((connection, allowed))
}

/// The same with all that is known of the stack.
pub async fn open_wholly(stack: Option<&str>) -> Result<Opened> {
    match stack {
        Some(stack) => deployed(stack).await,
        None => {
            let connection = open(None).await?;
            // Who runs a stack on this machine may have set the variables here, too.
            let allowed = config::allowed_from_env(Allowed::by_some_stack())?;
            Ok(Opened { connection, allowed, deployed: None })
        }
    }
}

async fn deployed(stack: &str) -> Result<Opened> {
    let config = groupage_aws::load_config().await;
    reach::has_credentials(&config).await?;
    let described = describe(&config, stack).await?;
    let outputs = described.outputs().iter();
    let outputs = outputs.filter_map(|output| Some((output.output_key.clone()?, output.output_value.clone()?)));
    let outputs = outputs.collect();
    let (tables, queues) = from_outputs(stack, &outputs)?;
    Ok(Opened {
        connection: Connection { config, tables, queues },
        allowed: allowed_by(&described)?,
        deployed: Some(Deployed {
            name: stack.to_owned(),
            outputs,
            table_suffix: parameter(&described, "TableSuffix").unwrap_or_default().to_owned(),
        }),
    })
}

/// A parameter that the stack was deployed with.
fn parameter<'a>(stack: &'a Stack, name: &str) -> Option<&'a str> {
    stack.parameters().iter().find(|of| of.parameter_key() == Some(name))?.parameter_value()
}

/// What a stack's parameters allow; a stack from before there were such parameters says nothing.
fn allowed_by(stack: &Stack) -> Result<Allowed> {
    let mut allowed = Allowed::by_some_stack();
    if let Some(list) = parameter(stack, "SecretHosts") {
        let no_pair = |entry| anyhow!("the parameter SecretHosts holds `{entry}`, which is not HOST=SECRET");
        allowed = allowed.with_secrets(list).map_err(no_pair)?;
    }
    allowed = allowed.with_long_calls(parameter(stack, "LongCalls") == Some("true"));
    Ok(match parameter(stack, "PrivateHosts") {
        Some(list) => allowed.with_hosts(list),
        None => allowed,
    })
}

/// Tables and queues for reading and sending beside the steps, without counting as theirs.
#[derive(Debug)]
pub struct Access {
    /// The tables.
    pub store: Dynamo,
    /// The queues.
    pub outbox: Sqs,
}

impl Access {
    /// To the stack that [`open`] finds.
    pub async fn open(stack: Option<&str>) -> Result<Self> {
        Ok(Self::to(&open(stack).await?))
    }

    /// To these tables and queues. For how long the stack keeps what is settled does not matter to a reader.
    pub fn to(connection: &Connection) -> Self {
        let retention_ms = RETENTION_DAYS * 24 * 60 * 60 * 1000;
        Self { store: connection.store(retention_ms, &Arc::default()), outbox: connection.sqs(&Arc::default()) }
    }

    /// The trackers in them.
    pub const fn tracking(&self) -> Tracking<'_, Dynamo, Sqs, System> {
        Tracking { store: &self.store, outbox: &self.outbox, env: &System }
    }

    pub const fn listing(&self) -> Listing<'_, Dynamo, Sqs, System> {
        Listing { store: &self.store, outbox: &self.outbox, env: &System }
    }

    /// The lanes in them.
    pub const fn ordering(&self) -> Ordering<'_, Dynamo, Sqs, System> {
        Ordering { store: &self.store, outbox: &self.outbox, env: &System }
    }

    /// The tasks in them that wait.
    pub const fn cancelling(&self) -> Cancelling<'_, Dynamo, Sqs, System> {
        Cancelling { store: &self.store, outbox: &self.outbox, env: &System }
    }

    /// The tasks in them, to be erased.
    pub const fn erasing(&self) -> Erasing<'_, Dynamo, Sqs, System> {
        Erasing { store: &self.store, outbox: &self.outbox, env: &System }
    }

    /// The failed tasks in them.
    pub const fn failing(&self) -> Failing<'_, Dynamo, Sqs, System> {
        Failing { store: &self.store, outbox: &self.outbox, env: &System }
    }

    /// Calls held back by hand.
    pub const fn holding(&self) -> Holding<'_, Dynamo, System> {
        Holding { store: &self.store, env: &System }
    }

    /// Wakes the batches of a route.
    pub fn waker<'a>(&'a self, route: &'a Route) -> Waker<'a, Dynamo, Sqs, System> {
        Waker::new(&self.store, &self.outbox, &System, route)
    }

    /// Looks at what stands where.
    pub const fn looking<'a>(&'a self, routes: Option<&'a Routes>) -> Looking<'a, Dynamo, System> {
        Looking { store: &self.store, env: &System, routes }
    }

    /// The clock that goes with them.
    pub const fn env(&self) -> &System {
        &System
    }

    pub const fn streaming(&self) -> Streaming<'_, Dynamo, Sqs, System> {
        Streaming { store: &self.store, outbox: &self.outbox, env: &System }
    }
}

/// The routes in force, if any are pushed yet.
pub async fn routes(connection: &Connection) -> Result<Option<Routes>> {
    let stored = connection.routes(&Arc::default()).load().await?;
    stored.map(|stored| stored.parse()).transpose().context("the stored routes file is wrong")
}

/// What the steps work with; what they consume goes to `meter`.
///
/// # Errors
/// [`config::Error`] if one of the variables that say how they work makes no sense.
pub fn steps(connection: &Connection, routes: RouteSource, meter: &Arc<Meter>) -> Result<Arc<AwsStack>, config::Error> {
    Ok(Arc::new(AwsStack::on(connection, routes, meter, worker_name())?))
}

/// What the steps work with on a stack that runs elsewhere.
pub fn remote_steps(connection: &Connection) -> Result<Arc<AwsStack>, config::Error> {
    let meter = Arc::default();
    steps(connection, RouteSource::table(connection.routes(&meter)), &meter)
}

/// Who this process is, for people: host and process.
fn worker_name() -> String {
    format!("{}/{}", host(), std::process::id())
}

/// The person at this machine, as the operating system knows one.
pub fn person() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    format!("{}@{}", user.as_deref().unwrap_or("unknown"), host())
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

async fn describe(config: &SdkConfig, stack: &str) -> Result<Stack> {
    let failed = |why: String| anyhow!("cannot read the outputs of stack {stack}: {why}");
    let client = aws_sdk_cloudformation::Client::new(config);
    let answer = client.describe_stacks().stack_name(stack).send().await;
    let answer = answer.map_err(|error| failed(groupage_aws::chain(&error)))?;
    let found = answer.stacks.unwrap_or_default().into_iter().next();
    found.ok_or_else(|| failed("it is not there".to_owned()))
}

fn from_outputs(stack: &str, outputs: &HashMap<String, String>) -> Result<(Tables, Queues)> {
    let get = |output: &str| {
        let found = outputs.get(output).cloned();
        found.with_context(|| format!("stack {stack} has no output {output}: is it a stack of Groupage?"))
    };
    let tables = Tables {
        tasks: get("TaskTableName")?,
        locks: get("BatchLockTableName")?,
        batches: get("BatchTableName")?,
        sessions: get("SessionTableName")?,
        trackers: get("TrackerTableName")?,
        lists: get("ListTableName")?,
        lanes: get("LaneTableName")?,
        streams: get("StreamTableName")?,
        routes: get("RouteTableName")?,
    };
    let queues = Queues {
        tasks: get("TaskQueueUrl")?,
        in_order: get("InOrderQueueUrl")?,
        elect: get("ElectQueueUrl")?,
        group: get("GroupQueueUrl")?,
        handle: get("HandleQueueUrl")?,
        long_handle: get("LongHandleQueueUrl")?,
        rejected: get("RejectedQueueUrl")?,
        notifications: get("NotificationQueueUrl")?,
    };
    Ok((tables, queues))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../template.yaml");

    fn template_outputs() -> HashMap<String, String> {
        let (_, outputs) = TEMPLATE.split_once("\nOutputs:\n").unwrap();
        outputs
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
            .filter(|name| !name.starts_with(' '))
            .map(|name| (name.to_owned(), format!("value of {name}")))
            .collect()
    }

    #[test]
    fn the_template_has_every_output_that_is_read() {
        let (tables, queues) = from_outputs("s", &template_outputs()).unwrap();
        assert_eq!(tables.locks, "value of BatchLockTableName");
        assert_eq!(queues.rejected, "value of RejectedQueueUrl");
    }

    #[test]
    fn a_stack_without_the_outputs_is_told_apart() {
        let mut outputs = template_outputs();
        outputs.remove("TaskTableName");
        let error = from_outputs("other", &outputs).unwrap_err();
        assert_eq!(error.to_string(), "stack other has no output TaskTableName: is it a stack of Groupage?");
    }
}
