//! State machines of Step Functions: a batch becomes one execution.
//!
//! The execution is named by the batch, or by the part of it that is called. No other execution of a standard state
//! machine has that name for 90 days. So one that is there already was begun by an earlier attempt, with the members of
//! this one, and counts as begun.

use std::time::Duration;

use aws_sdk_sfn::Client;
use aws_sdk_sfn::operation::start_execution::StartExecutionError;
use groupage_core::ports::{Answer, Call, NoAnswer};
use groupage_core::routes::downstream::StepFunctions;

use super::sdk::{Lazy, accepted, within};

/// Begins one execution.
pub(crate) async fn call(
    client: &Lazy<Client>,
    machine: &StepFunctions,
    call: &Call<'_>,
    timeout: Duration,
) -> Result<Answer, NoAnswer> {
    let execution = client.get(Client::new).start_execution();
    let execution = execution.state_machine_arn(&machine.state_machine).name(call.batch.as_str()).input(&call.body);
    let begun = |error: &StartExecutionError| error.is_execution_already_exists().then(accepted);
    within(timeout, execution.send(), |_| Ok(accepted()), begun).await
}
