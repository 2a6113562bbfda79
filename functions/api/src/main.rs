//! The Lambda function api: the HTTP API behind API Gateway. Wiring only.

use std::sync::Arc;

use groupage_aws::entry;
use lambda_http::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    entry::init_logging();
    let (stack, _) = entry::connect().await?;
    lambda_http::run(api::router(Arc::new(stack))).await
}
