//! The Lambda function sweep: finds, by schedule, what lost its message or its worker, and sends it on. Wiring only.

use groupage_aws::entry::{self, mapping::SWEEP_EVERY_MS};
use groupage_aws::runtime::{Threads, run};
use lambda_runtime::Error;

fn main() -> Result<(), Error> {
    run(Threads::One, serve)?
}

async fn serve() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    entry::serve_schedule(|| entry::sweep(&stack, SWEEP_EVERY_MS)).await
}
