//! The queues that steps read, and what ended.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName as Name;
use futures::FutureExt;
use futures::future::join_all;
use groupage_aws::Connection;
use groupage_aws::desk::REJECTED;
use groupage_aws::entry::mapping::{ELECT, GROUP, HANDLE, IN_ORDER, LONG_HANDLE, TASKS};

use super::answers::{name_in, unread};
use crate::seen::{Queue, QueueSettings, Read, Step, Unread};

/// The queues, and how much lies in those where things end.
pub(super) async fn read(connection: &Connection) -> (Vec<Queue>, Vec<(String, Read<u64>)>) {
    let client = &Client::new(&connection.config);
    let of = &connection.queues;
    let steps = [
        ("tasks", &of.tasks, Step::RegisterTask, TASKS),
        ("in-order", &of.in_order, Step::RegisterTask, IN_ORDER),
        ("elect", &of.elect, Step::ElectLeader, ELECT),
        ("group", &of.group, Step::GroupBatch, GROUP),
        ("handle", &of.handle, Step::BatchHandler, HANDLE),
        ("long-handle", &of.long_handle, Step::LongBatchHandler, LONG_HANDLE),
    ];
    let queues = join_all(steps.map(|(name, url, reader, mapping)| async move {
        Queue {
            name,
            id: name_in(url),
            reader,
            handled_within_s: mapping.timeout_s,
            settings: settings(client, url).await,
            oldest_s: Ok(None),
        }
    }));
    let queues = queues.await;
    let dead = queues.iter().filter_map(|queue| {
        let name = format!("{}-dlq", queue.name);
        match &queue.settings {
            // One without is found by another check.
            Ok(settings) => settings.redrive.as_ref().map(|(id, _)| (name, Ok(id.clone()))),
            Err(unread) => Some((name, Err(unread.clone()))),
        }
    });
    let dead = join_all(dead.map(|(name, id)| async move {
        let messages = match id {
            Ok(id) => messages_named(client, &id).await,
            Err(unread) => Err(unread),
        };
        (name, messages)
    }));
    let rejected = settings(client, &of.rejected).await.map(|settings| settings.messages);
    let ended = std::iter::once((REJECTED.to_owned(), rejected)).chain(dead.await).collect();
    (queues, ended)
}

async fn messages_named(client: &Client, id: &str) -> Read<u64> {
    let url = client.get_queue_url().queue_name(id).send().boxed().await.map_err(unread)?.queue_url;
    Ok(settings(client, &url.unwrap_or_default()).await?.messages)
}

async fn settings(client: &Client, url: &str) -> Read<QueueSettings> {
    let answer = client.get_queue_attributes().queue_url(url).attribute_names(Name::All).send().boxed().await;
    settings_in(&answer.map_err(unread)?.attributes.unwrap_or_default())
}

fn settings_in(attributes: &HashMap<Name, String>) -> Read<QueueSettings> {
    let number = |name: Name| match attributes.get(&name).map(|text| text.parse()) {
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) | None => Err(Unread(format!("the answer has no {}", name.as_str()))),
    };
    let policy = attributes.get(&Name::RedrivePolicy).map_or("", String::as_str);
    let policy: serde_json::Value = serde_json::from_str(policy).unwrap_or_default();
    // AWS gives a number; some engines give it back as the text that they were given.
    let receives = policy["maxReceiveCount"].as_u64();
    let receives = receives.or_else(|| policy["maxReceiveCount"].as_str()?.parse().ok());
    Ok(QueueSettings {
        visibility_s: number(Name::VisibilityTimeout)?,
        redrive: policy["deadLetterTargetArn"].as_str().map(name_in).zip(receives),
        messages: number(Name::ApproximateNumberOfMessages)?
            + number(Name::ApproximateNumberOfMessagesNotVisible)?
            + number(Name::ApproximateNumberOfMessagesDelayed)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_a_redrive_policy_has_none_and_one_that_says_nothing_is_not_read() {
        let said = |more: &[(Name, &str)]| -> HashMap<Name, String> {
            let counts = [
                (Name::VisibilityTimeout, "90"),
                (Name::ApproximateNumberOfMessages, "2"),
                (Name::ApproximateNumberOfMessagesNotVisible, "1"),
                (Name::ApproximateNumberOfMessagesDelayed, "0"),
            ];
            counts.iter().chain(more).map(|(name, text)| (name.clone(), (*text).to_owned())).collect()
        };
        let plain = settings_in(&said(&[])).unwrap();
        assert_eq!(plain, QueueSettings { visibility_s: 90, redrive: None, messages: 3 });
        for count in ["10", "\"10\""] {
            let policy =
                format!(r#"{{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:1:s-dead","maxReceiveCount":{count}}}"#);
            let settings = settings_in(&said(&[(Name::RedrivePolicy, &policy)])).unwrap();
            assert_eq!(settings.redrive, Some(("s-dead".to_owned(), 10)));
        }
        assert!(settings_in(&HashMap::new()).is_err());
    }
}
