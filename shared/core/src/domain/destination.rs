//! Where messages go, and which of them keep an order.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::id::{LaneId, Target, digest};

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// The intake: register-task's queue.
    Tasks,
    /// The intake in order: register-task's FIFO queue, with this lane as the message group. SQS delays none of its
    /// messages.
    InOrder(LaneId),
    /// The same FIFO queue, with this shard of a Target as the message group: the event that has some of its messages
    /// in hand is the only one.
    Gather(Target),
    /// elect-leader's queue.
    Elect,
    /// group-batch's queue.
    Group,
    /// batch-handler's queue.
    Handle,
    /// The queue of the batch-handler that makes long calls.
    LongHandle,
    /// The queue of messages that can never be registered.
    Rejected,
    /// A queue that the routes file names for notifications.
    Notification(NotificationQueue),
}

impl Destination {
    /// The lane whose order the message keeps.
    pub const fn lane(&self) -> Option<&LaneId> {
        if let Self::InOrder(lane) = self { Some(lane) } else { None }
    }

    /// The message group, if it goes to a FIFO queue. SQS takes no names of over 128 characters, and not all
    /// characters.
    pub fn group(&self) -> Option<String> {
        match self {
            Self::InOrder(lane) => Some(digest(&["lane", lane.as_str()])),
            Self::Gather(target) => Some(digest(&["gather", target.as_str()])),
            Self::Tasks
            | Self::Elect
            | Self::Group
            | Self::Handle
            | Self::LongHandle
            | Self::Rejected
            | Self::Notification(_) => None,
        }
    }
}

/// A queue for notifications: `default` (the stack's own), `none`, or an SQS queue URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum NotificationQueue {
    /// The stack's own.
    #[display("default")]
    Default,
    /// Nobody is told.
    #[display("none")]
    None,
    /// This queue.
    Url(String),
}

impl NotificationQueue {
    /// Reads `default`, `none` or a URL.
    ///
    /// # Errors
    /// Says what is allowed.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "default" => Ok(Self::Default),
            "none" => Ok(Self::None),
            url if url.starts_with("https://") || url.starts_with("http://") => Ok(Self::Url(text.to_owned())),
            _ => Err("must be `default`, `none` or the URL of an SQS queue"),
        }
    }
}

impl<'de> Deserialize<'de> for NotificationQueue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Serialize for NotificationQueue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for NotificationQueue {
    fn schema_name() -> Cow<'static, str> {
        "NotificationQueue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(default|none|https?://.+)$" })
    }
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;

    use super::*;
    use crate::domain::id::RouteName;

    #[test]
    fn only_fifo_queues_have_groups_and_only_lanes_keep_an_order() {
        let (route, queue) = (RouteName::new("r"), NotificationQueue::Default);
        let lane = LaneId::of(&route, &"k".repeat(500));
        let in_order = Destination::InOrder(lane.clone());
        let gather = [Target::of(&route, "a"), Target::of(&route, "b")].map(Destination::Gather);
        assert_eq!(in_order.lane(), Some(&lane));
        let groups = [&in_order, &gather[0], &gather[1]].map(|to| to.group().unwrap());
        assert!(groups.iter().all(|group| (1..=128).contains(&group.len())), "{groups:?}");
        assert!(groups[0] != groups[1] && groups[1] != groups[2]);
        assert_eq!(gather[0].lane(), None);
        let [tasks, elect, group] = [Destination::Tasks, Destination::Elect, Destination::Group];
        let [handle, long] = [Destination::Handle, Destination::LongHandle];
        let [rejected, notices] = [Destination::Rejected, Destination::Notification(queue)];
        for to in [tasks, elect, group, handle, long, rejected, notices] {
            assert_eq!((to.lane(), to.group()), (None, None), "{to:?}");
        }
    }

    #[test]
    fn a_notification_queue_is_read_from_what_it_is_shown_and_stored_as() {
        let url = |text: &str| NotificationQueue::Url(text.to_owned());
        for (text, queue) in [
            ("default", NotificationQueue::Default),
            ("none", NotificationQueue::None),
            ("https://queue", url("https://queue")),
            ("http://queue", url("http://queue")),
        ] {
            assert_eq!(NotificationQueue::parse(text).as_ref(), Ok(&queue));
            assert_eq!(queue.to_string(), text);
            let stored = serde_json::to_string(&queue).unwrap();
            assert_eq!(stored, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<NotificationQueue>(&stored).unwrap(), queue);
        }
        for text in ["", "Default", "queue", "ftp://queue"] {
            assert!(NotificationQueue::parse(text).is_err(), "{text}");
            assert!(serde_json::from_str::<NotificationQueue>(&format!("\"{text}\"")).is_err(), "{text}");
        }
    }

    #[test]
    fn the_published_schema_names_the_words_and_takes_urls() {
        let schema = serde_json::to_value(schema_for!(NotificationQueue)).unwrap();
        assert_eq!(schema["title"], "NotificationQueue");
        assert_eq!(schema["pattern"], "^(default|none|https?://.+)$");
    }
}
