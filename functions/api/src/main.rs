//! The Lambda function api: the HTTP API behind API Gateway. Wiring only.

use std::sync::Arc;

use groupage_aws::entry;
use groupage_aws::runtime::{Threads, run};
use lambda_http::Error;

fn main() -> Result<(), Error> {
    run(Threads::One, serve)?
}

async fn serve() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    lambda_http::run(api::router(Arc::new(stack))).await
}
