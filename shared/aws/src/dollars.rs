//! What AWS asks: dollars per million, in us-east-1, on demand (the services' pricing pages; DynamoDB's since November
//! 2024).

/// DynamoDB write units.
pub const WRITE: f64 = 0.625;
/// DynamoDB read units.
pub const READ: f64 = 0.125;
/// Requests to standard SQS queues.
pub const SQS: f64 = 0.40;
/// Requests to FIFO queues.
pub const SQS_FIFO: f64 = 0.50;
/// Lambda invocations.
pub const INVOCATION: f64 = 0.20;
/// Lambda's gigabyte seconds on arm64.
pub const GB_SECOND: f64 = 13.3334;
/// Metrics that CloudWatch gives.
pub const METRIC: f64 = 10.0;

/// A number with its thousands apart: `12,345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
