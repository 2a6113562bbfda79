//! What is left of an event when its full batches are carved, on its way to what is left of other events.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::id::Shard;
use super::task_message::MAX_MESSAGE_BYTES;
use super::time::Timestamp;

/// To register-task: task messages of one Target that fill no batch.
#[derive(Debug, Deserialize)]
pub struct Rest {
    rest: Vec<Box<RawValue>>,
    stage: Stage,
    shard: Shard,
}

/// How far the tasks of a rest have come; who has come furthest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It failed among others, and is alone since. It does not gather again.
    Failed,
    /// Its Target's partition of the index was throttled, for this many times in a row: it waits on the queue.
    Yielded(u8),
    /// An event left the first of them then.
    Left(Timestamp),
}

/// How every such message begins, and no task message does.
const BEGINNING: &str = r#"{"rest":["#;
/// More than surrounds the task messages, in bytes.
const FRAME_BYTES: usize = 64;
/// No batch has more members, so a rest has fewer: one message must not become more work than an invocation does.
const MAX_TASKS: usize = 1_000;

impl Rest {
    /// Whether one message takes this many task messages of this many bytes together.
    pub const fn holds(tasks: usize, bytes: usize) -> bool {
        // A comma for each.
        tasks <= MAX_TASKS && bytes + tasks + FRAME_BYTES <= MAX_MESSAGE_BYTES
    }

    /// The message with these task messages, of this shard of their Target.
    pub fn body(tasks: &[String], stage: Stage, shard: Shard) -> String {
        let stage = match stage {
            Stage::Failed => r#""failed""#.to_owned(),
            Stage::Yielded(times) => format!(r#"{{"yielded":{times}}}"#),
            Stage::Left(Timestamp(since)) => format!(r#"{{"left":{since}}}"#),
        };
        format!(r#"{BEGINNING}{}],"stage":{stage},"shard":{shard}}}"#, tasks.join(","))
    }

    /// Reads a message, unless it is a task's own. What is malformed is left to be refused as a task.
    pub fn parse(body: &str) -> Option<Self> {
        let rest: Self = body.starts_with(BEGINNING).then(|| serde_json::from_str(body).ok()).flatten()?;
        (rest.rest.len() <= MAX_TASKS).then_some(rest)
    }

    /// How far its tasks have come.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// The shard that its tasks were drawn into.
    pub const fn shard(&self) -> Shard {
        self.shard
    }

    /// Its task messages.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        self.rest.iter().map(|task| task.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_messages_come_out_as_they_went_in() {
        let tasks = [r#"{"id":"a","payload":{"n":1.00}}"#, r#"{"id":"b","payload":{"s":"\u0000é"}}"#];
        for stage in [Stage::Failed, Stage::Yielded(3), Stage::Left(Timestamp(1_700_000_000_000))] {
            let rest = Rest::parse(&Rest::body(&tasks.map(str::to_owned), stage, Shard(63))).unwrap();
            assert_eq!((rest.stage(), rest.shard()), (stage, Shard(63)));
            assert_eq!(rest.tasks().collect::<Vec<_>>(), tasks);
        }
    }

    #[test]
    fn a_message_holds_what_it_says_it_holds() {
        let task = format!(r#"{{"id":"a","payload":{{"x":"{}"}}}}"#, "x".repeat(995));
        let count = (1..).take_while(|count| Rest::holds(*count, count * task.len())).count();
        assert!(count > 200);
        assert!(
            Rest::body(&vec![task; count], Stage::Left(Timestamp(u64::MAX)), Shard(u8::MAX)).len() <= MAX_MESSAGE_BYTES
        );
    }

    #[test]
    fn a_message_is_full_by_its_bytes_or_by_its_tasks() {
        assert!(Rest::holds(MAX_TASKS, 2 * MAX_TASKS) && !Rest::holds(MAX_TASKS + 1, 2 * (MAX_TASKS + 1)));
        for tasks in [1, 2, 500] {
            let most = MAX_MESSAGE_BYTES - FRAME_BYTES - tasks;
            assert!(Rest::holds(tasks, most) && !Rest::holds(tasks, most + 1), "{tasks}");
        }
        let largest = Rest::body(&vec!["{}".to_owned(); MAX_TASKS], Stage::Failed, Shard::HOME);
        assert_eq!(Rest::parse(&largest).unwrap().tasks().count(), MAX_TASKS);
    }

    #[test]
    fn a_task_or_nonsense_is_no_rest() {
        let too_many = Rest::body(&vec!["{}".to_owned(); MAX_TASKS + 1], Stage::Failed, Shard::HOME);
        let nonsense = r#"{"rest":[nonsense],"stage":"failed","shard":0}"#;
        for body in [r#"{"id":"a","payload":{}}"#, r#"{"rest":[{}]}"#, nonsense, "", &too_many] {
            assert!(Rest::parse(body).is_none(), "{body}");
        }
    }
}
