//! The Lambda function elect-leader: makes one workflow the leader of its Target. Wiring only.

use groupage_aws::entry;
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    entry::serve(&stack.spans, |event| entry::elect_leader(&stack, event)).await
}
