//! The Lambda function batch-handler: makes a batch's one call and records its outcome. Wiring only.

use groupage_aws::{Downstreams, entry};
use lambda_runtime::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    entry::init_logging();
    let (stack, sdk) = entry::connect().await?;
    let downstreams = Downstreams::new(&sdk);
    entry::serve(|event| entry::batch_handler(&stack, &downstreams, event)).await
}
