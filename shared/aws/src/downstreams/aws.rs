//! What only AWS has, or an emulator of it: functions, buses, state machines, and managed secrets.

use std::time::Duration;

use aws_config::SdkConfig;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{Answer, Call, NoAnswer};
use groupage_core::routes::Downstream;
use tokio::sync::OnceCell;

use super::sdk::Lazy;
use super::{eventbridge, lambda, step_functions};
use crate::fault::failed;

/// Its clients.
#[derive(Debug)]
pub(super) struct Aws {
    lambda: Lazy<aws_sdk_lambda::Client>,
    eventbridge: Lazy<aws_sdk_eventbridge::Client>,
    step_functions: Lazy<aws_sdk_sfn::Client>,
}

impl Aws {
    pub(super) fn new(config: &SdkConfig) -> Self {
        let (lambda, eventbridge) = (Lazy::new(config), Lazy::new(config));
        Self { lambda, eventbridge, step_functions: Lazy::new(config) }
    }

    pub(super) async fn call(&self, call: &Call<'_>, timeout: Duration) -> Result<Answer, NoAnswer> {
        match call.downstream {
            Downstream::Lambda(function) => lambda::call(&self.lambda, function, call, timeout).await,
            Downstream::EventBridge(bus) => eventbridge::call(&self.eventbridge, bus, call, timeout).await,
            Downstream::StepFunctions(machine) => {
                step_functions::call(&self.step_functions, machine, call, timeout).await
            }
            Downstream::Http(_) | Downstream::Sqs(_) | Downstream::Pull => {
                Err(NoAnswer::Misconfigured(Reason::new("needs_no_aws")))
            }
        }
    }
}

/// Secrets Manager.
#[derive(Debug)]
pub(super) struct Manager {
    config: SdkConfig,
    client: OnceCell<aws_sdk_secretsmanager::Client>,
}

impl Manager {
    pub(super) fn new(config: SdkConfig) -> Self {
        Self { config, client: OnceCell::new() }
    }

    /// Reads a secret that is text.
    pub(super) async fn secret(&self, name: &str) -> Result<String, String> {
        let client = self.client.get_or_init(async || aws_sdk_secretsmanager::Client::new(&self.config)).await;
        let answer = client.get_secret_value().secret_id(name).send().await;
        let secret = answer.map_err(|error| failed("read a secret", error).to_string())?.secret_string;
        secret.ok_or_else(|| "it is binary".to_owned())
    }
}
