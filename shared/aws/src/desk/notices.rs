//! The notices that wait in a queue: reading them, and taking them off.
//!
//! SQS shows a message only by handing it out: it is hidden from all others for some seconds, and its receive count
//! goes up. A look gives it back at once. Notices that are taken are deleted after they were read: a death in between
//! leaves them in the queue, to be read again.

use aws_sdk_sqs::types::Message;

use super::ended::{LOOK_S, SEND_S};
use super::{Desk, Error, NOTIFICATIONS, Queue};

/// Notices that were handed out, as they were sent.
#[derive(Debug, Default)]
pub struct Notices(Vec<Message>);

impl Notices {
    /// The body of each.
    pub fn bodies(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|message| message.body.as_deref().unwrap_or_default())
    }

    /// How many they are.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Desk {
    /// The queue with this URL, or the stack's own.
    pub fn notice_queue(&self, url: Option<&str>) -> Queue {
        let url = url.unwrap_or(&self.queues.notifications).to_owned();
        Queue { name: NOTIFICATIONS.to_owned(), url, source: None }
    }

    /// Up to `most` of the notices that wait now. They stay in the queue, and others get them again.
    pub async fn look_at_notices(&self, queue: &Queue, most: u64) -> Result<Notices, Error> {
        let messages = self.some(queue, most, LOOK_S).await?;
        let receipts = messages.iter().filter_map(|message| message.receipt_handle.clone());
        self.show_again(queue, receipts.collect()).await;
        Ok(Notices(messages))
    }

    /// Some of the notices that wait, at most ten, hidden from others until [`delete_notices`](Self::delete_notices).
    /// If that never comes, they are back after a minute.
    pub async fn hand_out_notices(&self, queue: &Queue, most: u64) -> Result<Notices, Error> {
        Ok(Notices(self.receive(queue, most, SEND_S).await?))
    }

    /// Deletes them for good.
    ///
    /// # Errors
    /// SQS did not answer: some may be deleted.
    pub async fn delete_notices(&self, queue: &Queue, notices: Notices) -> Result<(), Error> {
        for message in &notices.0 {
            self.delete(queue, message).await?;
        }
        Ok(())
    }
}
