//! The Lambda function register-task: writes each new task down, then asks for a leader once per Target. Wiring only.

use groupage_aws::entry;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    entry::serve(&stack.spans, |event| entry::register_task(&stack, event)).await
}
