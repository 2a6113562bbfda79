//! Where to look.

use std::collections::HashMap;

use groupage_aws::Connection;
use groupage_core::routes::Allowed;

use super::answers::name_in;
use crate::seen::{Read, Step, Unread};

/// The stack to look at.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The way to it.
    pub connection: &'a Connection,
    /// What it allows its routes.
    pub allowed: Allowed,
    /// What CloudFormation says of it; `None` of one that the environment names.
    pub deployed: Option<Deployed>,
    /// The version of the command that asks.
    pub own_version: &'a str,
}

/// A stack that CloudFormation knows.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// Its name.
    pub name: String,
    /// Its outputs.
    pub outputs: HashMap<String, String>,
    /// What its tables' names end with, beyond the names that CloudFormation gave them: they were restored.
    pub table_suffix: String,
}

impl Deployed {
    /// The name of a function.
    pub(super) fn function(&self, step: Step) -> Read<&str> {
        let output = step.output();
        let missing = || Unread(format!("the stack has no output {output}"));
        self.outputs.get(output).map(String::as_str).ok_or_else(missing)
    }
    /// Whether a queue, a function, a table or an API of this name is the stack's: its outputs name each of them, by
    /// a name, a URL or an ARN.
    pub(super) fn has(&self, name: &str) -> bool {
        let door = format!("https://{name}.execute-api.");
        let is_named = |output: &String| name_in(output) == name || output.starts_with(&door);
        !name.is_empty() && self.outputs.values().any(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_stack_is_not_told_by_how_its_name_begins() {
        let outputs = [
            ("ElectQueueUrl", "https://sqs.eu-west-1.amazonaws.com/1/groupage-ElectQueue-A"),
            ("SweepFunctionName", "groupage-SweepFunction-B"),
            ("TaskQueueArn", "arn:aws:sqs:eu-west-1:1:groupage-TaskQueue-C"),
            ("ApiUrl", "https://a1b2.execute-api.eu-west-1.amazonaws.com/"),
        ];
        let outputs = outputs.map(|(output, value)| (output.to_owned(), value.to_owned())).into();
        let deployed = Deployed { name: "groupage".to_owned(), outputs, table_suffix: String::new() };
        for own in ["groupage-ElectQueue-A", "groupage-SweepFunction-B", "groupage-TaskQueue-C", "a1b2"] {
            assert!(deployed.has(own), "{own}");
        }
        for other in ["groupage-test-ElectQueue-A", "groupage-ElectQueue", "sqs", ""] {
            assert!(!deployed.has(other), "{other:?}");
        }
    }
}
