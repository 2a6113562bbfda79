//! The ports on AWS: DynamoDB, SQS, HTTP and Lambda downstreams, Secrets Manager, the machine's clock.
//!
//! SDK types stay in here. Every conditional write asks for the old item with its failure, decides from that without a
//! further read, and recognises its own success when the SDK repeated a write whose answer was lost.
//!
//! - `dynamo` is how the tables are spoken to: keys, expressions, transactions, ranges. `tables` has one file per
//!   table.
//! - `sqs` and `downstreams` are the queues and the calls.
//! - [`backups`] restores tables to an earlier moment.
//! - [`desk`] is the queues as operators see them: how full, what ended there, and sending it again.
//! - [`Meter`] counts what a call costs where it is made; [`price`] says what it would cost, and [`dollars`] what AWS
//!   asks.
//! - [`spans`] tells a collector of traces what the steps did.
//! - [`entry`] turns an SQS event into step calls and a partial batch response, record by record.
//!
//! Nothing is loaded before it is needed: a function must poll for its first event within milliseconds, so root
//! certificates, and the clients that few functions use, wait for the first request that wants them.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod backups;
pub mod config;
mod connection;
pub mod desk;
pub mod dollars;
mod downstreams;
mod dynamo;
pub mod entry;
mod fault;
mod meter;
pub mod price;
mod rights;
pub mod runtime;
pub mod spans;
mod sqs;
mod system;
mod tables;

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::config::{HttpClient, SharedHttpClient, StalledStreamProtectionConfig};
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::http_client_fn;

pub use connection::Connection;
pub use downstreams::{Downstreams, judged, recorded_answer};
pub use dynamo::Dynamo;
pub use fault::chain;
pub use meter::{Capacity, Meter, Place, Requests, SqsRequest, Units, Usage};
pub use rights::{Denied, Right, Rights};
pub use sqs::{REQUESTS_IN_FLIGHT, Sqs};
pub use system::System;
pub use tables::{Cursor, Publication, RouteTable, StoredRoutes};

/// A connection inside one region stands in milliseconds or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// DynamoDB and SQS answer in milliseconds; an attempt that takes longer than this has lost its answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// All attempts together: less than the shortest function's timeout, so that a step can still say what failed.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(12);
/// Attempts of one request. One more than the SDK's three: the repeat of a message costs more than the repeat of a
/// request.
pub const ATTEMPTS: u32 = 4;
/// The longest pause before the second attempt; it doubles with each, and the real one is a random part of it.
pub const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// The longest pause before any attempt.
pub const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// The configuration of every AWS client, from the environment.
///
/// Honours whatever the AWS SDKs do, `AWS_ENDPOINT_URL` and `AWS_ENDPOINT_URL_<SERVICE>` among it. An attempt ends
/// after five seconds: who polls a queue for longer overrides that.
pub async fn load_config() -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    // Not adaptive: it would hold back a whole function's requests because one hot partition throttles a few.
    let retries = RetryConfig::standard()
        .with_max_attempts(ATTEMPTS)
        .with_initial_backoff(INITIAL_BACKOFF)
        .with_max_backoff(MAX_BACKOFF);
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client())
        .timeout_config(timeouts)
        .retry_config(retries)
        // The attempt's timeout covers the body too; a Lambda environment that was frozen would look like a stall.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await
}

/// The HTTP client of every AWS client: one connection pool, rustls with ring.
///
/// Making it costs nothing. The SDK would have it load root certificates as soon as a client is made; this one does so
/// at the first request.
pub fn http_client() -> SharedHttpClient {
    let eager =
        aws_smithy_http_client::Builder::new().tls_provider(tls::Provider::Rustls(CryptoMode::Ring)).build_https();
    http_client_fn(move |settings, components| eager.http_connector(settings, components))
}
