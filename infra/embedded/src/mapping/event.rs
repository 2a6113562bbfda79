//! SQS messages as the records of a Lambda event.

use aws_lambda_events::encodings::Base64Data;
use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use aws_sdk_sqs::types::{Message, MessageAttributeValue};

use crate::place::REGION;

/// Turns a received message into a record, as Lambda does.
pub(super) fn record(message: Message, queue_arn: &str) -> SqsMessage {
    let mut record = SqsMessage::default();
    record.message_id = message.message_id;
    record.receipt_handle = message.receipt_handle;
    record.body = message.body;
    record.md5_of_body = message.md5_of_body;
    record.md5_of_message_attributes = message.md5_of_message_attributes;
    record.attributes =
        message.attributes.unwrap_or_default().into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    record.message_attributes = message
        .message_attributes
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name, attribute(value)))
        .collect();
    record.event_source_arn = Some(queue_arn.to_owned());
    record.event_source = Some("aws:sqs".to_owned());
    record.aws_region = Some(REGION.to_owned());
    record
}

fn attribute(value: MessageAttributeValue) -> SqsMessageAttribute {
    let mut attribute = SqsMessageAttribute::default();
    attribute.data_type = Some(value.data_type);
    attribute.string_value = value.string_value;
    attribute.binary_value = value.binary_value.map(|blob| {
        let mut data = Base64Data::default();
        data.0 = blob.into_inner();
        data
    });
    attribute
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::MessageSystemAttributeName;
    use serde_json::json;

    use super::*;
    use crate::place::arn;

    #[test]
    fn a_record_reads_as_lambda_writes_it() {
        let kind = MessageAttributeValue::builder().data_type("String").string_value("express").build().unwrap();
        let message = Message::builder()
            .message_id("m1")
            .receipt_handle("r1")
            .body("{}")
            .attributes(MessageSystemAttributeName::ApproximateReceiveCount, "2")
            .message_attributes("kind", kind)
            .build();
        let record =
            serde_json::to_value(record(message, &arn("http://127.0.0.1:9/000000000000/groupage-task"))).unwrap();
        assert_eq!(record["messageId"], "m1");
        assert_eq!(record["receiptHandle"], "r1");
        assert_eq!(record["attributes"], json!({ "ApproximateReceiveCount": "2" }));
        assert_eq!(record["messageAttributes"]["kind"]["stringValue"], "express");
        assert_eq!(record["eventSourceARN"], "arn:aws:sqs:us-east-1:000000000000:groupage-task");
        assert_eq!(record["eventSource"], "aws:sqs");
    }
}
