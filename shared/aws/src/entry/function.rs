//! The loop that hands a Lambda function's events to a step.

use std::future::Future;

use aws_lambda_events::event::sqs::SqsEvent;
use groupage_core::ports::Env;
use lambda_runtime::{LambdaEvent, service_fn};
use serde::de::IgnoredAny;

use super::metrics::Counts;
use super::steps::{Handled, SweepFailed};
use crate::System;
use crate::spans::Spans;

/// Serves a Lambda function that a schedule calls: what the event says does not matter.
///
/// # Errors
/// The runtime API went away.
pub async fn serve_schedule<F>(step: impl Fn() -> F) -> Result<(), lambda_runtime::Error>
where
    F: Future<Output = (Counts, Result<(), SweepFailed>)>,
{
    let step = &step;
    lambda_runtime::run(service_fn(|event: LambdaEvent<IgnoredAny>| async move {
        let (counts, done) = Box::pin(step()).await;
        publish(&counts, &event.context.env_config.function_name);
        Ok::<_, lambda_runtime::Error>(done?)
    }))
    .await
}

fn publish(counts: &Counts, function: &str) {
    if let Some(line) = counts.to_emf(function, System.now()) {
        println!("{line}");
    }
}

/// Serves a Lambda function: every event goes to `step`, what it counted to CloudWatch, and its spans to the collector.
/// They go before the answer, since the environment may stand still after it; the step has sent its own messages by
/// then.
///
/// # Errors
/// The runtime API went away.
pub async fn serve<F>(spans: &Spans, step: impl Fn(SqsEvent) -> F) -> Result<(), lambda_runtime::Error>
where
    F: Future<Output = Handled>,
{
    let step = &step;
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsEvent>| async move {
        // The deployed name: two stacks in one account must not add up.
        let function = event.context.env_config.function_name.clone();
        // Boxed: the whole protocol would otherwise be one type, too deep for the compiler.
        let Handled { response, counts } = Box::pin(step(event.payload)).await;
        publish(&counts, &function);
        spans.flush().await;
        Ok::<_, lambda_runtime::Error>(response)
    }))
    .await
}
