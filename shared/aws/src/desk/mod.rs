//! The queues of a stack as operators see them: how many messages each holds, what ended in the rejected and
//! dead-letter queues, sending that again, and the notices that wait.
//!
//! Nothing here belongs to a step. Commands and the console are at this desk side by side, and every call may be
//! repeated.

mod about;
mod again;
mod ended;
mod notices;

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use futures::FutureExt;
use futures::future::try_join_all;
use serde::Serialize;
use tokio::sync::OnceCell;

use crate::chain;
use crate::config::Queues;

pub use about::About;
pub use again::Unsendable;
pub use ended::{Dropped, Ended, Left, Sent};
pub use notices::Notices;

/// SQS did not answer, or there is no such queue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQS did not answer, or refused.
    #[error("{what} {queue}: {why}")]
    Sqs {
        /// What was tried.
        what: &'static str,
        /// With which queue.
        queue: String,
        /// What the SDK says.
        why: String,
    },
    /// No queue has this name.
    #[error("no queue is named `{name}`; there are {known}")]
    NoQueue {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
}

impl Error {
    /// An error about one queue, from whatever the SDK said.
    fn of(what: &'static str, queue: &str, error: impl std::error::Error) -> Self {
        Self::Sqs { what, queue: queue.to_owned(), why: chain(&error) }
    }
}

/// A queue by the name people use for it.
#[derive(Clone, Debug)]
pub struct Queue {
    /// `tasks`, `elect`, …, `rejected`, `tasks-dlq`, …
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Where its messages came from and can be sent again; none for a queue that a step or a person reads.
    pub source: Option<String>,
}

/// How many messages a queue holds, as SQS estimates it.
#[derive(Clone, Debug, Serialize)]
pub struct Depth {
    /// Its name.
    pub queue: String,
    /// Ready to be received.
    pub ready: u64,
    /// Received and not yet deleted.
    pub in_flight: u64,
    /// Not to be received yet.
    pub delayed: u64,
}

impl Depth {
    /// All its messages.
    pub const fn all(&self) -> u64 {
        self.ready + self.in_flight + self.delayed
    }
}

/// The queue of what can never be registered, by name.
pub const REJECTED: &str = "rejected";
/// The stack's own queue of notices, by name.
pub const NOTIFICATIONS: &str = "notifications";

/// The queues, as operators see them. Its clones know what it has found out.
#[derive(Clone, Debug)]
pub struct Desk {
    client: Client,
    queues: Queues,
    /// Where dead letters lie does not change while a process lives.
    ended: Arc<OnceCell<Vec<Queue>>>,
}

impl Desk {
    /// Of the queues at these URLs.
    pub fn new(config: &SdkConfig, queues: Queues) -> Self {
        Self { client: Client::new(config), queues, ended: Arc::default() }
    }

    /// The queues that the steps read.
    fn steps(&self) -> [Queue; 6] {
        let Queues { tasks, in_order, elect, group, handle, long_handle, .. } = &self.queues;
        let named = [
            ("tasks", tasks),
            ("in-order", in_order),
            ("elect", elect),
            ("group", group),
            ("handle", handle),
            ("long-handle", long_handle),
        ];
        named.map(|(name, url)| Queue { name: name.to_owned(), url: url.clone(), source: None })
    }

    /// The queues whose messages need a person: the rejected queue and each step's dead-letter queue.
    ///
    /// # Errors
    /// SQS did not answer, or a step's queue has no dead-letter queue.
    pub async fn ended(&self) -> Result<&[Queue], Error> {
        let find = || async {
            let steps = self.steps();
            let dead_letters = try_join_all(steps.iter().map(|queue| self.dead_letter_queue(&queue.url))).await?;
            let rejected = Queue {
                name: REJECTED.to_owned(),
                url: self.queues.rejected.clone(),
                source: Some(self.queues.tasks.clone()),
            };
            let of_step =
                |(Queue { name, url, .. }, dlq)| Queue { name: format!("{name}-dlq"), url: dlq, source: Some(url) };
            Ok([rejected].into_iter().chain(steps.into_iter().zip(dead_letters).map(of_step)).collect())
        };
        Ok(self.ended.get_or_try_init(find).await?)
    }

    /// The queue of this name, among those whose messages need a person.
    ///
    /// # Errors
    /// There is none, or SQS did not answer.
    pub async fn find(&self, name: &str) -> Result<&Queue, Error> {
        let ended = self.ended().await?;
        let known = || ended.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = ended.iter().find(|queue| queue.name == name);
        found.ok_or_else(|| Error::NoQueue { name: name.to_owned(), known: known() })
    }

    /// How full every queue is: those of the steps first, then those that need a person, then the notices.
    pub async fn depths(&self) -> Result<Vec<Depth>, Error> {
        let notifications =
            Queue { name: NOTIFICATIONS.to_owned(), url: self.queues.notifications.clone(), source: None };
        let all = self.steps().into_iter().chain(self.ended().await?.iter().cloned()).chain([notifications]);
        self.depths_of(&all.collect::<Vec<_>>()).await
    }

    /// How full these queues are.
    pub async fn depths_of(&self, queues: &[Queue]) -> Result<Vec<Depth>, Error> {
        try_join_all(queues.iter().map(|queue| self.depth(queue))).await
    }

    async fn depth(&self, queue: &Queue) -> Result<Depth, Error> {
        let wanted = [
            Attribute::ApproximateNumberOfMessages,
            Attribute::ApproximateNumberOfMessagesNotVisible,
            Attribute::ApproximateNumberOfMessagesDelayed,
        ];
        let request = self.client.get_queue_attributes().queue_url(&queue.url);
        let answer = request.set_attribute_names(Some(wanted.to_vec())).send().boxed().await;
        let answer = answer.map_err(|error| Error::of("counting", &queue.name, error))?;
        let attributes = answer.attributes.unwrap_or_default();
        let number = |attribute| attributes.get(&attribute).and_then(|text| text.parse().ok()).unwrap_or_default();
        let [ready, in_flight, delayed] = wanted.map(number);
        Ok(Depth { queue: queue.name.clone(), ready, in_flight, delayed })
    }

    /// The most bytes that a queue takes in one message.
    async fn max_bytes(&self, name: &str, url: &str) -> Result<usize, Error> {
        const WHAT: &str = "asking for the largest message of";
        let request = self.client.get_queue_attributes().queue_url(url).attribute_names(Attribute::MaximumMessageSize);
        let answer = request.send().boxed().await.map_err(|error| Error::of(WHAT, name, error))?;
        let attributes = answer.attributes.unwrap_or_default();
        let says = attributes.get(&Attribute::MaximumMessageSize).map_or("", String::as_str);
        says.parse().map_err(|error: std::num::ParseIntError| Error::of(WHAT, name, error))
    }

    async fn dead_letter_queue(&self, url: &str) -> Result<String, Error> {
        let what = "finding the dead-letter queue of";
        let request = self.client.get_queue_attributes().queue_url(url).attribute_names(Attribute::RedrivePolicy);
        let answer = request.send().boxed().await.map_err(|error| Error::of(what, url, error))?;
        let attributes = answer.attributes.unwrap_or_default();
        let policy = attributes.get(&Attribute::RedrivePolicy).map_or("", String::as_str);
        let policy: serde_json::Value = serde_json::from_str(policy).unwrap_or_default();
        let arn = policy["deadLetterTargetArn"].as_str().unwrap_or_default();
        let name = arn.rsplit(':').next().unwrap_or_default();
        let answer = self.client.get_queue_url().queue_name(name).send().boxed().await;
        Ok(answer.map_err(|error| Error::of(what, url, error))?.queue_url.unwrap_or_default())
    }
}
