use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName, SendMessageBatchRequestEntry};
use embedded::{Ports, Stack, Storage};

/// A queue of its own on a stack of its own, for one test.
pub struct Queue {
    /// It ends with its owner.
    _stack: Stack,
    pub client: Client,
    pub url: String,
}

impl Queue {
    /// Messages come back this many seconds after they were received.
    pub async fn start(visibility_s: u32) -> Self {
        let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
        let client = Client::new(stack.sdk_config());
        let created = client
            .create_queue()
            .queue_name("test")
            .attributes(QueueAttributeName::VisibilityTimeout, visibility_s.to_string());
        let url = created.send().await.unwrap().queue_url.unwrap();
        Self { _stack: stack, client, url }
    }

    /// Sends `0`, `1`, … in tens.
    pub async fn send(&self, number: usize) {
        let bodies: Vec<String> = (0..number).map(|number| number.to_string()).collect();
        for ten in bodies.chunks(10) {
            let entry = |body: &String| SendMessageBatchRequestEntry::builder().id(body).message_body(body).build();
            let entries = ten.iter().map(|body| entry(body).unwrap()).collect();
            let sent = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send().await;
            assert_eq!(sent.unwrap().successful.len(), ten.len());
        }
    }

    /// Messages that wait, and messages that are out with a receiver.
    pub async fn left(&self) -> (usize, usize) {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let request = self.client.get_queue_attributes().queue_url(&self.url).set_attribute_names(Some(names.to_vec()));
        let found = request.send().await.unwrap().attributes.unwrap();
        let [waiting, out] = names.map(|name| found[&name].parse().unwrap());
        (waiting, out)
    }
}

#[tokio::test]
async fn a_message_past_its_last_receive_moves_to_the_dead_letter_queue() {
    let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
    let client = Client::new(stack.sdk_config());
    let elect = &stack.queues().elect;
    client.send_message().queue_url(elect).message_body("poison").send().await.unwrap();
    for receive in 1..=10 {
        let request = client.receive_message().queue_url(elect).visibility_timeout(0).wait_time_seconds(20);
        let request = request.message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        let message = request.send().await.unwrap().messages.unwrap().remove(0);
        let count = &message.attributes.unwrap()[&MessageSystemAttributeName::ApproximateReceiveCount];
        assert_eq!(*count, receive.to_string());
    }
    assert!(client.receive_message().queue_url(elect).send().await.unwrap().messages.is_none());

    let dead = format!("{elect}-dead");
    let moved = client.receive_message().queue_url(dead).wait_time_seconds(20).send().await.unwrap().messages.unwrap();
    assert_eq!(moved[0].body.as_deref(), Some("poison"));
    stack.shutdown().await;
}
