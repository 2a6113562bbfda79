//! The Lambda function register-task: writes each new task down, then asks for a leader once per Target. Wiring only.

use groupage_aws::entry;
use groupage_aws::runtime::{Threads, run};
use lambda_runtime::Error;

fn main() -> Result<(), Error> {
    run(Threads::One, serve)?
}

async fn serve() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    entry::serve(&stack.spans, |event| entry::register_task(&stack, event)).await
}
