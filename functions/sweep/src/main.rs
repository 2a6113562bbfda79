//! The Lambda function sweep: finds, by schedule, what lost its message or its worker, and sends it on. Wiring only.

use groupage_aws::entry::{self, mapping::SWEEP_EVERY_MS};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    entry::serve_schedule(|| entry::sweep(&stack, SWEEP_EVERY_MS)).await
}
