//! Which tasks the table knows. SQS cannot say that, and the sender wants to know.

use std::collections::HashMap;

use shared::domain::id::TaskId;
use shared::domain::task::Task;
use shared::domain::task_message::TaskMessage;
use shared::ports::{Freshness, Result, Tasks};

/// What the table says of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is not registered.
    Not,
    /// It is registered. Sending it again drives it on, should its message have been lost.
    Unsettled,
    /// It is settled: there is nothing left to do.
    Settled,
    /// Its id is registered with another payload.
    Otherwise,
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
        Some(task) if task.digest != message.digest() => Known::Otherwise,
        Some(task) if task.status.is_settled() => Known::Settled,
        Some(_) => Known::Unsettled,
    };
    Ok(tasks
        .into_iter()
        .map(|(line, message)| {
            let known = known(&message);
            (line, message, known)
        })
        .collect())
}
