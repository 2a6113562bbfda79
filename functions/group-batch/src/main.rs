//! The Lambda function group-batch: the leader fills batches while tasks wait. Wiring only.

use groupage_aws::entry;
use groupage_aws::runtime::{Threads, run};
use lambda_runtime::Error;

fn main() -> Result<(), Error> {
    run(Threads::One, serve)?
}

async fn serve() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    entry::serve(&stack.spans, |event| entry::group_batch(&stack, event)).await
}
