//! Where the embedded servers say that they are.

/// Their region.
pub(crate) const REGION: &str = "us-east-1";

/// The ARN of the embedded queue with this URL.
///
/// A URL is `http://<host>/<account>/<name>`; missing parts of anything else stay empty in the ARN.
pub(crate) fn arn(queue_url: &str) -> String {
    let mut parts = queue_url.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let account = parts.next().unwrap_or_default();
    format!("arn:aws:sqs:{REGION}:{account}:{name}")
}
