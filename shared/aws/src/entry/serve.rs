//! What processes that run the steps begin with: logging, and the connection to AWS.

use std::sync::Arc;

use aws_config::SdkConfig;
use tracing::Level;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::routes::RouteSource;
use super::steps::Stack;
use crate::spans::Spans;
use crate::{Connection, Dynamo, Meter, Sqs, System, config};

/// Structured logs on standard output, one JSON object a line, from `GROUPAGE_LOG` (a tracing filter) or `info` up.
pub fn init_logging() {
    let asked = EnvFilter::try_from_env("GROUPAGE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // Lambda stamps each line itself.
    let lines = tracing_subscriber::fmt::layer().json().without_time();
    tracing_subscriber::registry().with(lines.with_filter(without_payloads(asked))).init();
}

/// What was asked for, except lines that hold payloads or secrets, whatever was asked for.
pub fn without_payloads(asked: EnvFilter) -> impl Filter<Registry> {
    asked.and(filter_fn(|line| may_print(line.target(), *line.level())))
}

/// Whether a line of this module may be printed. Below `info` other crates print whole requests and events, payloads
/// and secrets included; ours do not at any level.
fn may_print(module: &str, level: Level) -> bool {
    let name = module.split("::").next().unwrap_or_default();
    level <= Level::INFO || name.starts_with("groupage") || matches!(name, "api" | "embedded")
}

/// The stack on AWS, or on whatever the SDK's environment variables point at.
pub type AwsStack = Stack<Dynamo, Sqs, System>;

/// Connects to the stack that the environment describes. Sends no request yet.
///
/// # Errors
/// [`config::Error`] names the variable that is missing or wrong.
pub async fn connect() -> Result<(AwsStack, SdkConfig), config::Error> {
    let connection = Connection::from_env().await?;
    let meter = Arc::new(Meter::new());
    let routes = RouteSource::table(connection.routes(&meter));
    Ok((AwsStack::on(&connection, routes, &meter, worker_name())?, connection.config))
}

impl AwsStack {
    /// What the steps work with on these tables and queues; what they consume goes to `meter`.
    ///
    /// # Errors
    /// [`config::Error`] if one of the variables that say how the steps work makes no sense.
    pub fn on(
        connection: &Connection,
        routes: RouteSource,
        meter: &Arc<Meter>,
        worker: String,
    ) -> Result<Self, config::Error> {
        Ok(Self {
            store: connection.store(config::retention_ms_from_env()?, meter),
            queues: connection.sqs(meter),
            env: System,
            routes,
            timing: config::timing_from_env()?,
            lifetimes: config::lifetimes_from_env()?,
            worker,
            senders: config::senders_from_env(),
            rations: Arc::default(),
            asked: Arc::default(),
            logs_targets: config::logs_targets_from_env(),
            spans: Spans::from_env(),
        })
    }
}

/// Who this process is, for people: the function's log stream on Lambda, else the process's number.
pub fn worker_name() -> String {
    std::env::var("AWS_LAMBDA_LOG_STREAM_NAME").unwrap_or_else(|_| format!("process {}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_info_only_our_own_lines_are_printed() {
        for module in ["aws_smithy_runtime::client::orchestrator", "lambda_runtime", "hyper::proto", "api_other::x", ""]
        {
            assert!(may_print(module, Level::INFO) && may_print(module, Level::ERROR), "{module}");
            assert!(!may_print(module, Level::DEBUG) && !may_print(module, Level::TRACE), "{module}");
        }
        for module in ["groupage_core::steps::elect", "groupage_aws", "groupage", "api::routes"] {
            assert!(may_print(module, Level::TRACE), "{module}");
        }
    }
}
