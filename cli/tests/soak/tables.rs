//! What the tables and the notification queue say, read beside the stack.

use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use groupage_aws::{Dynamo, Meter, config};
use groupage_core::domain::{Part, RouteName, Task, TaskId, Timestamp};
use groupage_core::ports::{Batches, Census, Freshness, Look, Tasks};
use serde::Deserialize;

use super::stand::Stand;

pub struct Tables {
    store: Dynamo,
    sqs: aws_sdk_sqs::Client,
    notifications: String,
}

/// A notification, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Notice {
    /// The same for every repeat.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// The task.
    pub subject: String,
}

impl Tables {
    pub fn of(stand: &Stand) -> Self {
        let variable = |name: &str| stand.variable(name).to_owned();
        let tables = config::Tables {
            tasks: variable("GROUPAGE_TASK_TABLE"),
            locks: variable("GROUPAGE_LOCK_TABLE"),
            batches: variable("GROUPAGE_BATCH_TABLE"),
            sessions: variable("GROUPAGE_SESSION_TABLE"),
            trackers: variable("GROUPAGE_TRACKER_TABLE"),
            lists: variable("GROUPAGE_LIST_TABLE"),
            lanes: variable("GROUPAGE_LANE_TABLE"),
            streams: variable("GROUPAGE_STREAM_TABLE"),
            routes: variable("GROUPAGE_ROUTE_TABLE"),
        };
        let dynamo = sdk_config(stand, "AWS_ENDPOINT_URL_DYNAMODB");
        Self {
            store: Dynamo::new(&dynamo, tables, 1, Arc::new(Meter::new())),
            sqs: aws_sdk_sqs::Client::new(&sdk_config(stand, "AWS_ENDPOINT_URL_SQS")),
            notifications: variable("GROUPAGE_NOTIFICATION_QUEUE"),
        }
    }

    /// How much is not at rest: tasks that are not registered or not settled, batches with work left, held locks.
    pub async fn left(&self, ids: &[String]) -> usize {
        let unsettled = self.store.unsettled_tasks().await.unwrap().len();
        let unfinished = self.unfinished().await;
        let held = self.store.held_locks().await.unwrap().len();
        if unsettled + unfinished + held > 0 {
            return unsettled + unfinished + held;
        }
        // Nothing is under way; perhaps since nothing has arrived.
        ids.len() - self.read(ids).await.len()
    }

    async fn unfinished(&self) -> usize {
        let mut count = 0;
        for route in ["pulled", "called"].map(RouteName::new) {
            for part in Part::all() {
                let look = Look::at(part, Timestamp(u64::MAX >> 12), 100);
                count += self.store.unfinished(&route, look).await.unwrap().found.len();
            }
        }
        count
    }

    pub async fn read(&self, ids: &[String]) -> Vec<Task> {
        let ids: Vec<TaskId> = ids.iter().map(TaskId::new).collect();
        self.store.read(&ids, Freshness::Latest).await.unwrap()
    }

    /// Takes all notifications out of their queue.
    pub async fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        loop {
            let receive = self.sqs.receive_message().queue_url(&self.notifications).max_number_of_messages(10);
            let messages = receive.send().await.unwrap().messages.unwrap_or_default();
            if messages.is_empty() {
                return notices;
            }
            for message in messages {
                notices.push(serde_json::from_str(message.body().unwrap()).unwrap());
                let delete = self.sqs.delete_message().queue_url(&self.notifications);
                delete.receipt_handle(message.receipt_handle.unwrap()).send().await.unwrap();
            }
        }
    }
}

fn sdk_config(stand: &Stand, endpoint: &str) -> SdkConfig {
    let key = |name| stand.variable(name).to_owned();
    let credentials = Credentials::new(key("AWS_ACCESS_KEY_ID"), key("AWS_SECRET_ACCESS_KEY"), None, None, "soak");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(groupage_aws::http_client())
        .endpoint_url(stand.variable(endpoint))
        .build()
}
