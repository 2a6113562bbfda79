//! Which tasks the table knows. SQS cannot say that, and the sender wants to know.

use std::collections::HashMap;

use groupage_core::domain::task::{Status, Task};
use groupage_core::domain::{Reason, TaskId, TaskMessage};
use groupage_core::ports::{Freshness, Result, Tasks};

/// What the table says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is not registered.
    Not,
    /// It is registered. Sending it again drives it on, should its message have been lost.
    Unsettled,
    /// It has succeeded: there is nothing left to do.
    Succeeded,
    /// It has failed: only a retry runs it again.
    Failed(Reason),
    /// Its id is registered with another payload or item.
    Otherwise {
        /// Whether the registered task is for this message's item, and will ack it.
        acks_item: bool,
    },
}

/// Looks up tasks by their ids, which must differ. An eventually consistent read is enough: a task that was registered
/// a moment ago counts as new at worst, and is sent again.
pub async fn look_up<S: Tasks>(store: &S, tasks: Vec<(u64, TaskMessage)>) -> Result<Vec<(u64, TaskMessage, Known)>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<TaskId> = tasks.iter().map(|(_, message)| message.id.clone()).collect();
    let found = store.read(&ids, Freshness::Eventual).await?;
    let found: HashMap<&TaskId, &Task> = found.iter().map(|task| (&task.id, task)).collect();
    let known = |message: &TaskMessage| match found.get(&message.id) {
        None => Known::Not,
        Some(task) if !task.is_repeated_by(&message.digest()) => {
            Known::Otherwise { acks_item: task.item == message.item }
        }
        Some(task) => match &task.status {
            Status::Scheduled { .. } | Status::Queued | Status::Created { .. } | Status::Batched { .. } => {
                Known::Unsettled
            }
            Status::Succeeded { .. } => Known::Succeeded,
            Status::Failed { reason, .. } => Known::Failed(reason.clone()),
        },
    };
    Ok(tasks
        .into_iter()
        .map(|(line, message)| {
            let known = known(&message);
            (line, message, known)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::task_message::parse;
    use groupage_core::domain::{Target, Timestamp};
    use groupage_core::memory::MemoryStore;

    use super::*;

    fn message(payload: &str, item: &str) -> TaskMessage {
        parse(&format!(r#"{{"id":"a","payload":{payload},"item":"{item}"}}"#), "m").unwrap()
    }

    #[tokio::test]
    async fn a_task_in_flight_keeps_its_item_whatever_is_sent_under_its_id() {
        let store = MemoryStore::new();
        let sent = message("{}", "t:0:1");
        let task = Task::new(sent.id.clone(), Target::new("r:x"), sent.payload.clone(), sent.digest(), Timestamp(0));
        store.register(&task.with_item(sent.item.clone())).await.unwrap();
        for (message, known) in [
            (sent, Known::Unsettled),
            (message(r#"{"n":1}"#, "t:0:1"), Known::Otherwise { acks_item: true }),
            (message("{}", "t:0:2"), Known::Otherwise { acks_item: false }),
            (message("{}", "u:0:1"), Known::Otherwise { acks_item: false }),
        ] {
            assert_eq!(look_up(&store, vec![(1, message)]).await.unwrap()[0].2, known);
        }
    }
}
