//! What a message of a step's queue is about, in the words of people: tasks, a batch, Targets. Never its payload.

use groupage_core::domain::Rest;
use groupage_core::domain::message::{Elect, Group, Handle};
use serde::{Deserialize, Serialize};

/// Of which tasks, batch and Targets a message tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct About {
    /// The ids of its tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Its batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Its Targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// The one field of a task message that is looked at.
#[derive(Deserialize)]
struct WithId {
    id: Option<String>,
}

impl About {
    /// What the message with this body is about, if it came in the queue of this name. `original` is its first id, by
    /// which a task is known that brought none.
    pub(super) fn of(queue: &str, body: &str, original: Option<&str>) -> Self {
        let parsed = match queue.trim_end_matches("-dlq") {
            "elect" => serde_json::from_str(body).ok().map(|elect: Elect| Self::of_elections(elect)),
            "group" => serde_json::from_str(body).ok().map(|group: Group| {
                let tasks = match &group {
                    Group::Lead(lead) => lead.tasks.iter().map(|task| task.id.to_string()).collect(),
                    Group::Finish(_) => Vec::new(),
                };
                let batch = match &group {
                    Group::Lead(_) => None,
                    Group::Finish(finish) => Some(finish.batch.to_string()),
                };
                Self { tasks, batch, targets: vec![group.target().whole().to_string()] }
            }),
            "handle" | "long-handle" => serde_json::from_str(body).ok().map(|handle: Handle| Self {
                batch: Some(handle.batch.to_string()),
                targets: vec![handle.target.whole().to_string()],
                ..Self::default()
            }),
            _ => None,
        };
        parsed.unwrap_or_else(|| match Rest::parse(body) {
            Some(rest) => Self { tasks: rest.tasks().filter_map(id_of).collect(), ..Self::default() },
            None => {
                let id = id_of(body).or_else(|| original.map(str::to_owned));
                Self { tasks: id.into_iter().collect(), ..Self::default() }
            }
        })
    }

    /// What people know it by: its batch, and its tasks or else its Targets, of these at most this number.
    pub fn names(&self, most: usize) -> Vec<String> {
        let of = if self.tasks.is_empty() { &self.targets } else { &self.tasks };
        let mut names: Vec<String> = self.batch.iter().map(|batch| format!("batch {batch}")).collect();
        names.extend(of.iter().take(most).cloned());
        if of.len() > most {
            names.push(format!("and {} more", of.len() - most));
        }
        names
    }

    fn of_elections(elect: Elect) -> Self {
        let elections = match elect {
            Elect::Waiting(election) => vec![election],
            Elect::Several(elections) => elections,
            Elect::Due(due) => {
                let tasks = due.tasks.iter().map(|task| task.id.to_string()).collect();
                return Self { tasks, batch: None, targets: vec![due.target.whole().to_string()] };
            }
            Elect::Returning(back) => {
                let tasks = back.tasks.iter().map(|returning| returning.task.id.to_string()).collect();
                let targets = vec![back.target.whole().to_string()];
                return Self { tasks, batch: Some(back.batch.to_string()), targets };
            }
        };
        Self {
            tasks: elections.iter().flat_map(|election| &election.tasks).map(|task| task.id.to_string()).collect(),
            batch: None,
            targets: elections.iter().map(|election| election.target.whole().to_string()).collect(),
        }
    }
}

fn id_of(body: &str) -> Option<String> {
    serde_json::from_str::<WithId>(body).ok()?.id
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::message::Election;
    use groupage_core::domain::rest::Stage;
    use groupage_core::domain::{BatchId, Candidate, Copies, Round, Shard, Target, TaskId, Timestamp, WorkflowId};

    use super::*;
    use groupage_core::domain::Traits;

    #[test]
    fn a_message_is_named_by_its_batch_or_its_first_tasks() {
        let tasks: Vec<String> = (0..4).map(|n| format!("t{n}")).collect();
        let about = About { tasks, ..About::default() };
        assert_eq!(about.names(3), ["t0", "t1", "t2", "and 1 more"]);
        let about = About { batch: Some("b".to_owned()), targets: vec!["r:t".to_owned()], ..About::default() };
        assert_eq!(about.names(3), ["batch b", "r:t"]);
    }

    fn tasks(queue: &str, body: &str) -> Vec<String> {
        About::of(queue, body, Some("m-1")).tasks
    }

    #[test]
    fn a_task_is_known_by_its_id_or_by_its_messages() {
        assert_eq!(tasks("rejected", r#"{"id":"a","payload":{}}"#), ["a"]);
        assert_eq!(tasks("tasks-dlq", r#"{"payload":{"id":"secret"}}"#), ["m-1"]);
        assert_eq!(tasks("rejected", "no json"), ["m-1"]);
        let rest = Rest::body(&[r#"{"id":"a","payload":{}}"#.to_owned()], Stage::Failed, Shard::HOME);
        assert_eq!(tasks("in-order-dlq", &rest), ["a"]);
    }

    #[test]
    fn an_election_names_its_tasks_and_targets_and_a_handled_message_its_batch() {
        let election = Election {
            workflow: WorkflowId::new("w"),
            target: Target::new("r/3:t"),
            tasks: vec![Candidate { id: TaskId::new("a"), round: Round(0), bytes: 1, traits: Traits::default() }],
            since: Timestamp(1),
            attempt: 0,
            signalled: None,
            copies: Copies::NONE,
        };
        let body = serde_json::to_string(&Elect::Waiting(election)).unwrap();
        let about = About::of("elect-dlq", &body, Some("m-1"));
        assert_eq!((about.tasks, about.targets), (vec!["a".to_owned()], vec!["r:t".to_owned()]));
        let (batch, target) = (BatchId::new("b"), Target::new("r:t"));
        let handle = Handle { batch, target, waits: 0, nudge: 0, ticket: None, copies: Copies::NONE };
        let body = serde_json::to_string(&handle).unwrap();
        for queue in ["handle-dlq", "long-handle-dlq"] {
            assert_eq!(About::of(queue, &body, None).batch.as_deref(), Some("b"), "{queue}");
        }
        assert_eq!(tasks("handle-dlq", "broken"), ["m-1"]);
    }
}
