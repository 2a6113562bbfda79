//! SQS queues: a batch becomes one message, which is accepted or not.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::MessageAttributeValue;
use groupage_core::domain::id::digest;
use groupage_core::domain::outcome::Reason;
use groupage_core::domain::trace::TRACEPARENT;
use groupage_core::ports::{Answer, Call, NoAnswer};
use groupage_core::routes::downstream::Sqs;

use super::sdk::{Lazy, accepted, within};

const STRING: &str = "String";
const NUMBER: &str = "Number";

/// Sends one message. A FIFO queue drops what comes again within five minutes; any other queue has the batch's id
/// beside each copy.
pub(crate) async fn call(
    client: &Lazy<Client>,
    sqs: &Sqs,
    call: &Call<'_>,
    timeout: Duration,
) -> Result<Answer, NoAnswer> {
    let mut message = client.get(Client::new).send_message().queue_url(&sqs.queue).message_body(&call.body);
    let attributes = [
        ("Idempotency-Key", STRING, call.batch.to_string()),
        ("Groupage-Fence", NUMBER, call.fence.0.to_string()),
        ("Groupage-Attempt", NUMBER, call.attempt.to_string()),
    ];
    let trace = call.trace.as_ref().map(|trace| (TRACEPARENT, STRING, trace.context.to_string()));
    for (name, kind, value) in attributes.into_iter().chain(trace) {
        let value = MessageAttributeValue::builder().data_type(kind).string_value(value).build();
        message = message.message_attributes(name, value.map_err(|_| NoAnswer::Other(Reason::new("invoke_failed")))?);
    }
    if sqs.is_fifo() {
        // A Target may be longer than a group's name may be, and hold other characters.
        let group = digest(&[call.target.whole().as_str()]);
        message = message.message_group_id(group).message_deduplication_id(call.batch.as_str());
    }
    within(timeout, message.send(), |_| Ok(accepted()), |_| None).await
}
