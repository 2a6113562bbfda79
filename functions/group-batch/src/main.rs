//! The Lambda function group-batch: the leader fills batches while tasks wait. Wiring only.

use groupage_aws::entry;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    entry::serve(&stack.spans, |event| entry::group_batch(&stack, event)).await
}
