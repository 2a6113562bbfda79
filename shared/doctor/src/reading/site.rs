//! Where to look.

use std::collections::HashMap;

use groupage_aws::Connection;
use groupage_core::routes::Allowed;

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
}
