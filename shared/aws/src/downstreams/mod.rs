//! The downstream batch APIs: a call goes where its route says, one file for each kind.
//!
//! One call here is one call there: nothing on the way repeats it. What to repeat, and when, is the route's retry
//! policy.

mod auth;
#[cfg_attr(not(feature = "full"), path = "no_aws.rs")]
mod aws;
mod broken;
mod client;
mod compression;
#[cfg(feature = "full")]
mod eventbridge;
mod fresh;
mod http;
#[cfg(feature = "full")]
mod lambda;
mod lookup;
mod pacing;
mod recorded;
#[cfg_attr(not(feature = "full"), allow(dead_code, reason = "what only AWS has needs it"))]
mod sdk;
mod secrets;
mod sqs;
#[cfg(feature = "full")]
mod step_functions;

use std::time::Duration;

use aws_config::SdkConfig;
use futures::FutureExt;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{Answer, Call, Downstream, NoAnswer};
use groupage_core::routes::{self, Allowed};
use tracing::warn;

pub use self::auth::judged;
use self::aws::Aws;
#[cfg(feature = "full")]
pub(crate) use self::client::tls;
use self::http::HttpCaller;
pub use self::recorded::recorded_answer;
use self::sdk::Lazy;

/// A look at a job takes no longer: a pass may make two, each once more with newer secrets, in a function's time.
const LOOK_TIMEOUT: Duration = Duration::from_secs(15);

/// The port `Downstream`. Nothing is connected, or even loaded, before the first call that needs it.
#[derive(Debug)]
#[must_use]
pub struct Downstreams {
    http: HttpCaller,
    sqs: Lazy<aws_sdk_sqs::Client>,
    aws: Aws,
    /// Whether there is an AWS, or an emulator of it.
    has_aws: bool,
}

impl Downstreams {
    /// Downstreams whose secrets, functions, queues, buses and state machines are reached with this configuration. No
    /// other call is made over HTTP, and no other secret sent, than is `allowed`.
    pub fn new(config: &SdkConfig, allowed: Allowed) -> Self {
        Self { http: HttpCaller::new(config, allowed), sqs: Lazy::new(config), aws: Aws::new(config), has_aws: true }
    }

    /// The same with queues that are reached with another configuration: a laptop's own.
    pub fn with_queues(self, config: &SdkConfig) -> Self {
        Self { sqs: Lazy::new(config), ..self }
    }

    /// The same where there is no AWS: what only AWS has is not called, and its batches wait.
    pub fn without_aws(self) -> Self {
        Self { has_aws: false, ..self }
    }
}

impl Downstream for Downstreams {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        let timeout = Duration::from_millis(call.downstream.timeout_ms().unwrap_or_default());
        let timeout = if call.look.is_some() { timeout.min(LOOK_TIMEOUT) } else { timeout };
        if !self.has_aws && call.downstream.needs_aws() {
            let (what, which) = call.downstream.named();
            warn!(what, which, "this needs AWS or an emulator of it: set AWS_REGION and credentials, and start again");
            return Err(NoAnswer::Misconfigured(Reason::new("needs_aws")));
        }
        // Each kind is a future of many kilobytes, and every caller up to the worker's thread would hold it by value.
        match call.downstream {
            routes::Downstream::Http(http) => self.http.call(http, call, timeout).boxed().await,
            routes::Downstream::Sqs(queue) => sqs::call(&self.sqs, queue, call, timeout).boxed().await,
            routes::Downstream::Lambda(_)
            | routes::Downstream::EventBridge(_)
            | routes::Downstream::StepFunctions(_) => self.aws.call(call, timeout).boxed().await,
            // Nobody hands such a batch on; its workers have a downstream of their own.
            routes::Downstream::Pull => Err(NoAnswer::Misconfigured(Reason::new("route_is_pulled"))),
        }
    }
}
