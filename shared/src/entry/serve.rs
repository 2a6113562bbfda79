//! The Lambda side: logging, and the loop that hands events to a step.

use std::future::Future;

use aws_lambda_events::event::sqs::SqsEvent;
use lambda_runtime::{LambdaEvent, service_fn};
use tracing_subscriber::EnvFilter;

use super::steps::Handled;
use crate::aws::System;
use crate::ports::Env;

/// Structured logs on standard output, one JSON object a line, from `GROUPAGE_LOG` (a tracing filter) or `info` up.
pub fn init_logging() {
    let filter = EnvFilter::try_from_env("GROUPAGE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // Lambda stamps each line itself.
    tracing_subscriber::fmt().json().with_env_filter(filter).without_time().init();
}

/// Serves a Lambda function: every event goes to `step`, and what it counted to CloudWatch.
///
/// # Errors
/// The runtime API went away.
pub async fn serve<F>(function: &str, step: impl Fn(SqsEvent) -> F) -> Result<(), lambda_runtime::Error>
where
    F: Future<Output = Handled>,
{
    let step = &step;
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsEvent>| async move {
        let Handled { response, counts } = step(event.payload).await;
        if let Some(line) = counts.to_emf(function, System.now()) {
            println!("{line}");
        }
        Ok::<_, lambda_runtime::Error>(response)
    }))
    .await
}
