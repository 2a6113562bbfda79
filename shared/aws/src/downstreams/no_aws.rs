//! In place of what only AWS has, where the feature `full` is off.

use std::time::Duration;

use aws_config::SdkConfig;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{Answer, Call, NoAnswer};

#[derive(Debug)]
pub(super) struct Aws;

impl Aws {
    pub(super) fn new(_: &SdkConfig) -> Self {
        Self
    }

    pub(super) async fn call(&self, _: &Call<'_>, _: Duration) -> Result<Answer, NoAnswer> {
        Err(NoAnswer::Misconfigured(Reason::new("needs_aws")))
    }
}

#[derive(Debug)]
pub(super) struct Manager;

impl Manager {
    pub(super) fn new(_: SdkConfig) -> Self {
        Self
    }

    pub(super) async fn secret(&self, _: &str) -> Result<String, String> {
        Err("this binary knows of no AWS".to_owned())
    }
}
