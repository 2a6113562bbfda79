//! Where the tables and queues are: a deployed stack's outputs, or the environment.

use std::collections::HashMap;

use aws_config::SdkConfig;
use aws_sdk_cloudformation::error::DisplayErrorContext;
use groupage_aws::Connection;
use groupage_aws::config::{self, Queues, Tables};

/// There is nothing to work on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No `--stack`, and not all variables are set.
    #[error("{0}. Name a deployed stack with --stack, or set the variables that `groupage local` prints")]
    Environment(#[from] config::Error),
    /// CloudFormation did not answer, or knows no such stack.
    #[error("cannot read the outputs of stack {stack}: {why}")]
    Outputs {
        /// Its name.
        stack: String,
        /// What CloudFormation said.
        why: String,
    },
    /// The stack is not one of Groupage.
    #[error("stack {stack} has no output {output}: is it a stack of Groupage?")]
    NoOutput {
        /// Its name.
        stack: String,
        /// The output.
        output: &'static str,
    },
}

/// Finds the tables and queues of a deployed stack, or those that the environment names.
///
/// # Errors
/// They are not to be found; the error says what to do.
pub async fn open(stack: Option<&str>) -> Result<Connection, Error> {
    let Some(stack) = stack else { return Ok(Connection::from_env().await?) };
    let config = groupage_aws::load_config().await;
    let (tables, queues) = from_outputs(stack, &outputs(&config, stack).await?)?;
    Ok(Connection { config, tables, queues })
}

async fn outputs(config: &SdkConfig, stack: &str) -> Result<HashMap<String, String>, Error> {
    let failed = |why: String| Error::Outputs { stack: stack.to_owned(), why };
    let client = aws_sdk_cloudformation::Client::new(config);
    let answer = client.describe_stacks().stack_name(stack).send().await;
    let answer = answer.map_err(|error| failed(DisplayErrorContext(error).to_string()))?;
    let found = answer.stacks.unwrap_or_default().into_iter().next();
    let outputs = found.ok_or_else(|| failed("it is not there".to_owned()))?.outputs.unwrap_or_default();
    Ok(outputs.into_iter().filter_map(|output| Some((output.output_key?, output.output_value?))).collect())
}

fn from_outputs(stack: &str, outputs: &HashMap<String, String>) -> Result<(Tables, Queues), Error> {
    let get = |output: &'static str| {
        outputs.get(output).cloned().ok_or_else(|| Error::NoOutput { stack: stack.to_owned(), output })
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
