//! The Lambda function batch-handler: makes a batch's one call and records its outcome. Wiring only.

use groupage_aws::runtime::{Threads, run};
use groupage_aws::spans::Traced;
use groupage_aws::{Downstreams, config, entry};
use groupage_core::routes::Allowed;
use lambda_runtime::Error;

fn main() -> Result<(), Error> {
    run(Threads::One, serve)?
}

async fn serve() -> Result<(), Error> {
    entry::init_logging();
    let (stack, sdk) = entry::connect().await?;
    let downstreams = Downstreams::new(&sdk, config::allowed_from_env(Allowed::nothing())?);
    let downstreams = Traced::new(downstreams, stack.spans.clone());
    let reads = config::handles_from_env();
    entry::serve(&stack.spans, |event| entry::batch_handler(&stack, &reads, &downstreams, event)).await
}
